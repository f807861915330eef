"""The steps of one run: one alone is performed here and now, several side by side."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from workflow_engine.core import requests
from workflow_engine.core.commands import Step
from workflow_engine.core.context import Context
from workflow_engine.core.ids import idempotency_key
from workflow_engine.core.outcome import Outcome
from workflow_engine.core.retry import RetryPolicy
from workflow_engine.core.rows import Instance
from workflow_engine.core.transaction import Transaction
from workflow_engine.runtime.current import CurrentStep
from workflow_engine.runtime.equipment import Equipment
from workflow_engine.runtime.flights import Flight, Flights
from workflow_engine.runtime.lease import HeldLease
from workflow_engine.runtime.performing import failed, perform, timed_out
from workflow_engine.runtime.transacting import Transacting
from workflow_engine.telemetry.events import StepStarted

GRACE = 5.0
"""Seconds an async step has to end in, once it was cancelled for its timeout."""


class Steps:
    """Performs steps, and keeps outcomes that no interpreter has taken.

    It outlives the interpreters of a run: one that went stale may have left steps in
    flight, and the next one will ask for them again.

    Args:
        stop: when set, no step is begun.
    """

    def __init__(
        self,
        equipment: Equipment,
        instance: Instance,
        held: HeldLease,
        stop: threading.Event,
    ) -> None:
        self._equipment = equipment
        self._instance = instance
        self._held = held
        self._stop = stop
        self._flights = Flights(equipment.options.steps_in_flight)
        self._outcomes: dict[str, Outcome] = {}
        self._asked: set[str] = set()
        self._answers: list[requests.Performed] = []
        self._queue: dict[str, requests.Perform] = {}
        self._transactions: dict[str, requests.Perform] = {}
        self._flying: set[str] = set()

    @property
    def are_in_flight(self) -> bool:
        """Whether any step is being performed."""
        return bool(self._flights)

    def forget_asker(self, held: dict[str, Outcome]) -> None:
        """Another interpreter takes over; these outcomes are not recorded yet."""
        self._asked.clear()
        self._queue.clear()
        self._transactions.clear()
        self._outcomes.update((each.name, each.outcome) for each in self._answers)
        self._answers.clear()
        self._outcomes.update(held)

    def close(self) -> None:
        """The run is over. Steps still in flight count for nothing."""
        self._flights.close()

    # --- beginning ---

    def ask(self, request: requests.Perform) -> None:
        """Queue a step, unless it is in flight or has been performed."""
        name = request.name
        self._asked.add(name)
        if name in self._outcomes:
            outcome = self._outcomes.pop(name)
            self._answers.append(requests.Performed(name, outcome))
        elif name not in self._flying:  # else an earlier interpreter has begun it
            is_transaction = isinstance(request.step, Transaction)
            queue = self._transactions if is_transaction else self._queue
            queue[name] = request

    def abandon(self, name: str) -> requests.NotBegun | None:
        """Nobody waits for a step any more; the answer, if it has not been begun."""
        for queue in (self._queue, self._transactions):
            if name in queue:
                return requests.NotBegun(queue.pop(name))
        self._flights.cancel(name)
        return None

    def perform(
        self, context: Context, *, called_off: bool, watched: bool
    ) -> list[requests.Answer]:
        """Begin steps that are queued; the answers that are there already.

        Transactions are left for `take_transaction`: no thread performs one.

        Args:
            called_off: begin none, and say so.
            watched: perform none in this thread, which has something to look after.
        """
        answers: list[requests.Answer] = [*self._answers]
        self._answers.clear()
        if called_off:
            left = (*self._queue.values(), *self._transactions.values())
            answers += [requests.NotBegun(request) for request in left]
        if called_off or self._stop.is_set():
            self._queue.clear()
            self._transactions.clear()
        busy = watched or bool(self._transactions or self._flights)
        alone = len(self._queue) == 1 and not (answers or busy)
        if alone and self._first.step.limit is None:
            request = self._queue.pop(self._first.name)
            return [requests.Performed(request.name, self._call(request, context))]
        while self._queue and self._flights.room:
            self._fly(self._queue.pop(self._first.name), context)
        return answers

    @property
    def _first(self) -> requests.Perform:
        return next(iter(self._queue.values()))

    def take_transaction(self, context: Context) -> Transacting | None:
        """The next transaction to perform, in the run's own thread."""
        if not self._transactions:
            return None
        request = self._transactions.pop(next(iter(self._transactions)))
        return Transacting(
            request,
            self._current(request, context),
            context,
            self._policy(request.step),
            self._equipment,
            self._held,
        )

    def land(self, seconds: float) -> list[requests.Answer]:
        """What has been performed, waiting for the first at most so long.

        Raises:
            BaseException: what broke the run, such as a lost lease.
        """
        answers: list[requests.Answer] = []
        for landed in self._flights.wait(seconds):
            self._flying.discard(landed.name)
            if landed.error is not None:
                raise landed.error
            assert landed.outcome is not None
            if landed.name in self._asked:
                answers.append(requests.Performed(landed.name, landed.outcome))
            else:
                self._outcomes[landed.name] = landed.outcome
        return answers

    # --- performing ---

    def _fly(self, request: requests.Perform, context: Context) -> None:
        step, current = request.step, self._current(request, context)
        self._flying.add(request.name)
        self._flights.begin(
            Flight(
                request.name,
                current,
                partial(self._do, request, current, context),
                self._seconds(step),
                partial(
                    failed,
                    step,
                    timed_out(step),
                    current,
                    self._policy(step),
                    request.attempt,
                ),
            )
        )

    def _call(self, request: requests.Perform, context: Context) -> Outcome:
        return self._do(request, self._current(request, context), context)

    def _do(
        self, request: requests.Perform, current: CurrentStep, context: Context
    ) -> Outcome:
        equipment, step = self._equipment, request.step
        equipment.heartbeat.check(self._held)
        equipment.points.reach("before_step", request.name)
        equipment.tell(
            StepStarted(current.workflow, current.id, current.generation, request.name)
        )
        outcome = perform(step, current, context, self._policy(step), request.attempt)
        equipment.points.reach("after_step", request.name)
        return outcome

    def _current(self, request: requests.Perform, context: Context) -> CurrentStep:
        key = idempotency_key(
            self._instance.incarnation,
            context.generation,
            request.name,
            request.superseded,
        )
        attempt = self._instance.attempts + request.attempt
        return CurrentStep(
            context.workflow,
            context.id,
            context.generation,
            request.name,
            attempt,
            key,
        )

    def _policy(self, step: Step[Any]) -> RetryPolicy | None:
        return step.policy or self._equipment.options.retry

    @staticmethod
    def _seconds(step: Step[Any]) -> float | None:
        if step.limit is None:
            return None
        seconds = step.limit / 1e6
        # An async step ends itself, and may need a moment for its cleanup.
        return seconds + GRACE if step.is_async else seconds
