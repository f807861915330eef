"""A worker: finds what can move, claims it, runs it.

A *pass* claims no more than there are free slots, runs what it claimed in threads, and
says what came of it. One poison instance, name or row does not stop the others. Workers
on any number of machines may share a database: the claim decides.
"""

from __future__ import annotations

import logging
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType

import attrs

from workflow_engine.core.rows import Batch, Claim
from workflow_engine.errors import StoreUnavailable
from workflow_engine.runtime.endings import log_ending
from workflow_engine.runtime.equipment import Equipment
from workflow_engine.runtime.execution import execute
from workflow_engine.runtime.persistence import FIRST_PAUSE, LONGEST_PAUSE
from workflow_engine.runtime.points import ProcessDied
from workflow_engine.runtime.retention import Retention
from workflow_engine.runtime.shunned import Shunned
from workflow_engine.runtime.summary import PassSummary, count
from workflow_engine.runtime.upkeep import Upkeep
from workflow_engine.runtime.worker_options import WorkerOptions

logger = logging.getLogger("workflow_engine")

LEAST_PAUSE = 10_000
"""Microseconds between passes: what is due may be locked by somebody else."""

_NOTHING = Batch((), (), {})
"""What is claimed when there is no room."""


class Worker:
    """Runs instances until it is stopped, for good. Made by `Engine.worker`."""

    def __init__(self, equip: Callable[[], Equipment], options: WorkerOptions) -> None:
        self._equip = equip
        self._options = options
        self._stop = threading.Event()
        self._settle_in(equip())

    def _settle_in(self, equipment: Equipment) -> None:
        self._equipment = equipment
        self._settled = threading.Event()
        self._shunned = Shunned(equipment.clock, self._options.shun / 1e6)
        self._upkeep = Upkeep(equipment, self._shunned)
        self._running: dict[int, threading.Thread] = {}
        self._done: queue.SimpleQueue[PassSummary] = queue.SimpleQueue()
        self._died: ProcessDied | None = None
        self._retention = Retention(self._options.retention)

    def _begin_work(self) -> None:
        """See whose worker this is: after a fork, its runs are the parent's."""
        equipment = self._equip()
        if equipment is not self._equipment:
            self._settle_in(equipment)

    # --- the face ---

    def run_once(self, limit: int | None = None) -> PassSummary:
        """One pass: run what can move now, each instance at most once; wait for it.

        Args:
            limit: how many instances at most; all that are due by default.
        """
        self._begin_work()
        seen: set[int] = set()
        total = PassSummary()
        first = True
        while not self._stop.is_set():
            room = self._options.concurrency - len(self._running)
            if limit is not None:
                room = min(room, limit - len(seen))
            batch = self._claim(room, seen) if room > 0 else _NOTHING
            if batch is None:
                total += PassSummary(transient_errors=1)
                break
            total += self._told(batch, first)
            first = first and batch is _NOTHING
            seen.update(claim.lease.instance for claim in batch.claims)
            self._begin_all(batch)
            if not (batch.claims or batch.failed or batch.broken or self._running):
                if room > 0:
                    self._retain()
                break
            if len(batch.claims) in (0, room):
                total += self._await_one()
        while self._running:
            total += self._await_one()
        return total + self._finish()

    def drain(self) -> PassSummary:
        """Repeat passes while something advances; the sum of them."""
        total = PassSummary()
        while True:
            summary = self.run_once()
            total += summary
            moved = summary.advanced or summary.collected
            if not moved or self._stop.is_set():
                return total

    def run(self) -> PassSummary:
        """Work until stopped; then finish what is running, within the grace period.

        In the main thread, SIGTERM and SIGINT stop the worker: nothing new is claimed,
        steps that are running end and are recorded, leases are released. A second
        signal gives up at once. In another thread no handler is installed.
        """
        self._begin_work()
        total = PassSummary()
        pause = FIRST_PAUSE
        listening = self._equipment.store.listen(
            self._settled.set, others=self._options.listen
        )
        with self._signals(), closing(listening):
            while not self._stop.is_set():
                room = self._options.concurrency - len(self._running)
                batch = self._claim(room, set())
                if batch is None:
                    total += PassSummary(transient_errors=1)
                    self._wait(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                    continue
                pause = FIRST_PAUSE
                total += self._told(batch, True)
                self._begin_all(batch)
                if room < 1 or len(batch.claims) < room:
                    # Only with room to spare: what can move comes first.
                    more = room > 0 and (self._retain() or bool(batch.broken))
                    self._wait(0 if more else self._pause_after(batch))
                total += self._sum_up()
            self._wind_down()
        return total + self._finish()

    def stop(self) -> None:
        """Ask the worker to stop, and return at once. Safe anywhere."""
        self._stop.set()
        self._settled.set()

    def _pause_after(self, batch: Batch) -> float:
        """Seconds to wait for a hint before looking again without one."""
        poll = self._options.poll
        # What is broken stays due, and hides when the next thing is.
        pause = None if self._shunned.broken() else batch.pause
        return (poll if pause is None else min(poll, max(pause, LEAST_PAUSE))) / 1e6

    def _retain(self) -> bool:
        """Delete some of what need not be kept; whether there may be more of it."""
        deleted = self._retention.take_turn(self._equipment)
        self._done.put(PassSummary(collected=deleted))
        return self._retention.is_under_way

    # --- claiming ---

    def _claim(self, room: int, seen: set[int]) -> Batch | None:
        """See to what is due, and claim up to ``room``; None when the database is away.

        An instance whose lease was lost while its step runs here still is for others.
        """
        equipment, options = self._equipment, self._options
        since, batch = equipment.clock.monotonic(), _NOTHING
        try:
            done = self._upkeep.see_to_it()
            if room > 0:
                batch = equipment.store.claim_due(
                    equipment.owner,
                    options.lease,
                    equipment.options.active_patches,
                    equipment.registry.names,
                    room,
                    options.max_takeovers,
                    seen | self._shunned.now() | set(self._running),
                )
        except StoreUnavailable as error:
            logger.warning("nothing was claimed, trying again: %s", error)
            return None
        self._since = since
        self._done.put(done)
        return attrs.evolve(batch, pause=0) if self._upkeep.is_behind else batch

    def _told(self, batch: Batch, count_unregistered: bool) -> PassSummary:
        summary = PassSummary(
            discovered=len(batch.claims) + len(batch.failed),
            failed=len(batch.failed),
            advanced=len(batch.failed),
        )
        self._upkeep.leave_broken(batch.broken, "claimed")
        for instance in batch.failed:
            logger.error(
                "workflow %r, instance %r failed: taken over too often",
                instance.key.workflow,
                instance.key.id,
            )
        if not count_unregistered:
            return summary
        unknown = sum(batch.unregistered.values())
        return summary + PassSummary(
            discovered=unknown,
            unknown_name=unknown,
            unregistered_names=frozenset(batch.unregistered),
        )

    # --- running ---

    def _begin_all(self, batch: Batch) -> None:
        for claim in batch.claims:
            unknown = self._equipment.options.unknown_patches(claim.instance.patches)
            if unknown:
                self._shun(claim, unknown)
            elif self._stop.is_set():  # it was told so amid the claim
                self._give_back(claim)
            else:
                self._begin(claim)

    def _shun(self, claim: Claim, unknown: frozenset[str]) -> None:
        key = claim.lease.key
        logger.warning(
            "workflow %r, instance %r is left for other code: its patches %s are "
            "neither active nor retired here",
            key.workflow,
            key.id,
            ", ".join(sorted(unknown)),
        )
        self._shunned.add(claim.lease.instance)
        self._done.put(PassSummary(unknown_name=1))
        self._give_back(claim)

    def _give_back(self, claim: Claim) -> None:
        key = claim.lease.key
        try:
            self._equipment.store.release(claim.lease)
        except StoreUnavailable as error:  # the lease runs out by itself
            logger.warning("%r, %r was not released: %s", key.workflow, key.id, error)

    def _begin(self, claim: Claim) -> None:
        thread = threading.Thread(
            target=self._work,
            args=(claim, self._since),
            name=f"workflow-engine-{claim.lease.instance}",
            daemon=True,
        )
        self._running[claim.lease.instance] = thread
        thread.start()

    def _work(self, claim: Claim, since: float) -> None:
        summary = PassSummary(resumed=1)
        try:
            summary += self._execute(claim, since)
        except ProcessDied as died:
            self._died = died
            self._stop.set()
        finally:
            # In this order: who sees that nothing is running finds every summary.
            self._done.put(summary)
            self._running.pop(claim.lease.instance, None)
            self._settled.set()

    def _execute(self, claim: Claim, since: float) -> PassSummary:
        key = claim.lease.key
        try:
            ending, moved = execute(
                self._equipment,
                claim,
                self._options.lease,
                since,
                max_attempts=self._options.max_attempts,
                stop=self._stop,
            )
        except StoreUnavailable as error:
            logger.warning("%r, %r was given up: %s", key.workflow, key.id, error)
            return PassSummary(transient_errors=1)
        except ProcessDied:
            raise
        except BaseException:
            logger.exception("%r, %r: the run broke off", key.workflow, key.id)
            # Its lease is given back and nothing paces it: else it would be next again.
            self._shunned.add(claim.lease.instance)
            return PassSummary(transient_errors=1)
        log_ending(key.workflow, key.id, ending)
        return count(ending) + PassSummary(advanced=int(moved))

    def _await_one(self) -> PassSummary:
        """Wait until a run has ended, if there is any."""
        if self._running:
            self._settled.wait()
        self._settled.clear()
        return self._sum_up()

    def _finish(self) -> PassSummary:
        if self._died is not None:
            raise self._died
        return self._sum_up()

    def _sum_up(self) -> PassSummary:
        total = PassSummary()
        while True:
            try:
                total += self._done.get_nowait()
            except queue.Empty:
                return total

    # --- waiting and stopping ---

    def _wait(self, seconds: float) -> None:
        """Wait for a run to end, for a stop, or for the time to look again."""
        self._equipment.clock.wait(self._settled, seconds)
        self._settled.clear()

    def _wind_down(self) -> None:
        deadline = self._equipment.clock.monotonic() + self._options.grace / 1e6
        while self._running and self._equipment.clock.monotonic() < deadline:
            self._wait(min(1.0, deadline - self._equipment.clock.monotonic()))
        for instance in list(self._running):
            logger.warning("instance %d is still in a step; leaving it", instance)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, action in before.items():
                signal.signal(number, action)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._stop.is_set():
            raise SystemExit(128 + number)
        self.stop()
        logger.info("stopping: steps that are running may end")
