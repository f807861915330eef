"""The steps of one run that are in flight, each in a thread.

Threads are daemons and belong to the run: a step that does not end keeps neither the
run nor the process from ending, and a fork has nothing to inherit. They are reused, and
there are no more than a run may have steps in flight.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextvars import copy_context

import attrs

from workflow_engine.core.outcome import Outcome
from workflow_engine.runtime.current import CurrentStep


@attrs.define(eq=False)
class Flight:
    """A step to perform.

    Attributes:
        call: performs it.
        limit: seconds it may take, or None.
        give_up: the outcome when it took longer.
        deadline: monotonic seconds, once it has begun and if it is limited.
        is_abandoned: it took too long, and what comes of it counts for nothing.
    """

    name: str
    current: CurrentStep
    call: Callable[[], Outcome]
    limit: float | None
    give_up: Callable[[], Outcome]
    deadline: float | None = None
    is_abandoned: bool = False


@attrs.frozen(eq=False)
class Landed:
    """A step that ended: its outcome, or what broke the run."""

    name: str
    outcome: Outcome | None
    error: BaseException | None = None


class Flights:
    """Performs steps side by side, at most ``most`` at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: dict[Flight, None] = {}
        self._jobs: queue.SimpleQueue[Flight | None] = queue.SimpleQueue()
        self._landed: queue.SimpleQueue[tuple[Flight, Landed]] = queue.SimpleQueue()
        self._free = 0
        self._threads = 0

    def __len__(self) -> int:
        return len(self._begun)

    @property
    def room(self) -> int:
        """How many more may be begun."""
        return self._most - len(self._begun)

    def begin(self, flight: Flight) -> None:
        """Perform it in a thread. There must be room."""
        if flight.limit is not None:
            flight.deadline = time.monotonic() + flight.limit
        self._begun[flight] = None
        if self._free:
            self._free -= 1
        else:
            self._add_thread()
        self._jobs.put(flight)

    def cancel(self, name: str) -> None:
        """Nobody waits for a step any more: tell it so. It still lands."""
        for flight in self._begun:
            if flight.name == name:
                flight.current.cancel()

    def close(self) -> None:
        """Tell all that nobody waits, and let the threads end when they can."""
        for flight in self._begun:
            flight.current.cancel()
        for _ in range(self._threads):
            self._jobs.put(None)

    def wait(self, seconds: float) -> list[Landed]:
        """What has landed, waiting for the first at most so long."""
        came: list[tuple[Flight, Landed]] = []
        try:
            came.append(self._landed.get(timeout=self._patience(seconds)))
            while True:
                came.append(self._landed.get_nowait())
        except queue.Empty:
            pass
        landed = [each for flight, each in came if not flight.is_abandoned]
        for flight, _ in came:
            self._begun.pop(flight, None)
            self._free += 1
        return landed + self._overdue()

    def _add_thread(self) -> None:
        self._threads += 1
        threading.Thread(
            target=copy_context().run,
            args=(self._work,),
            name="workflow-engine-step",
            daemon=True,
        ).start()

    def _work(self) -> None:
        while (flight := self._jobs.get()) is not None:
            try:
                landed = Landed(flight.name, flight.call())
            except BaseException as error:  # noqa: BLE001 - raised again by the run
                landed = Landed(flight.name, None, error)
            self._landed.put((flight, landed))

    # --- time ---

    def _patience(self, seconds: float) -> float:
        now = time.monotonic()
        left = [each.deadline - now for each in self._begun if each.deadline]
        return max(0.0, min([seconds, *left]))

    def _overdue(self) -> list[Landed]:
        now = time.monotonic()
        late = [each for each in self._begun if each.deadline and each.deadline <= now]
        for flight in late:
            # Its thread is lost until it ends; another one takes its place.
            del self._begun[flight]
            flight.is_abandoned = True
            flight.current.cancel()
        return [Landed(flight.name, flight.give_up()) for flight in late]
