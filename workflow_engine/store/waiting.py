"""Waiting for the time and for other parties: timers and awakeables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby

from workflow_engine.core.identity import AWAKEABLE_PREFIX
from workflow_engine.core.journal import Draft, Entry, Kind
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.requests import Appended
from workflow_engine.core.rows import (
    AwakeableRow,
    AwakeableStatus,
    ChildRow,
    Done,
    Fired,
    Key,
    Lease,
    Missing,
    Refusal,
    Timer,
    TimerRow,
)
from workflow_engine.errors import StoreRefused
from workflow_engine.store.family import message_draft
from workflow_engine.store.journal import NameTaken, Stream
from workflow_engine.store.ledger import Locked
from workflow_engine.store.protocol import Protocol, check
from workflow_engine.store.timers import Due
from workflow_engine.store.unit_of_work import UnitOfWork

BROKEN = (StoreRefused, ValueError, TypeError)
"""What one instance may raise: its row contradicts its journal, or cannot be read."""

RECOVERABLE = frozenset({Status.FAILED, Status.CANCELLED})
"""Endings after which an instance may go on, and is owed the timers that fell due."""


class Waiting(Protocol):
    """The part of the store that keeps timers."""

    def _park_on_timers(
        self,
        lease: Lease,
        drafts: Sequence[Draft],
        expect: int,
        cancel_seen: bool,
        waits_on: Sequence[str],
        timers: Sequence[Timer],
    ) -> Done | Appended | Refusal:
        """Park a run that sleeps, or slept before: its timers become ``timers``."""
        with self._write() as work:
            row = self._instances.lock_by_id(work, lease.instance)
            if row is not None and _is_parked(row, lease):
                return Done()
            held = check(lease, row)
            if not isinstance(held, Locked):
                return held
            unseen = held.instance.cancel_requested and not cancel_seen
            if held.instance.position != expect or unseen:
                return self._news(work, lease, held, expect)
            self._timers.keep_only(work, held.stream, timers)
            if self._fire(work, held):
                woken = self._again(work, lease.instance)
                return self._news(work, lease, woken, expect)
            absent = self._journal.find_absent(work, held.stream, drafts)
            self._progress.park(
                work,
                lease,
                expect,
                len(absent),
                cancel_seen=cancel_seen,
                waits_on=waits_on,
                wake_after=self._timers.next_due(work, held.stream),
            )
            self._insert(work, held.stream, expect, absent)
            return Done()

    def watch(self, lease: Lease, known: int) -> Appended | Refusal:
        """See `Store.watch`."""
        with self._read() as work:
            found = self._instances.find_by_id(work, lease.instance)
            held = check(lease, found)
            if not isinstance(held, Locked):
                return held
            if not self._timers.are_due(work, held.stream):
                moved = held.instance.position > known
                tail = self._tail(work, lease, known) if moved else ()
                requested = held.instance.cancel_requested
                return Appended(tail, held.instance.position, requested)
        return self.arm(lease, (), known)

    def arm(
        self, lease: Lease, timers: Sequence[Timer], known: int
    ) -> Appended | Refusal:
        """See `Store.arm`."""
        with self._write() as work:
            held = self._hold(work, lease)
            if not isinstance(held, Locked):
                return held
            self._timers.start(work, held.stream, timers)
            self._fire(work, held)
            row = self._note_timers(work, held)
            return self._news(work, lease, row, known)

    def fire_due(self, limit: int, exclude: Collection[int] = ()) -> Fired:
        """See `Store.fire_due`."""
        with self._read() as work:
            due = self._timers.due(work, limit, exclude)
        if not due:
            return Fired(0)
        by_instance = {
            instance: list(group)
            for instance, group in groupby(
                sorted(due, key=lambda each: each.instance),
                key=lambda each: each.instance,
            )
        }
        try:
            return Fired(self._fire_all(by_instance))
        except BROKEN as error:
            see_whose(error)
        # Which one it is shows when each has a transaction of its own.
        count, broken = 0, {}
        for instance, timers in by_instance.items():
            try:
                count += self._fire_all({instance: timers})
            except BROKEN as error:
                see_whose(error)
                broken[instance] = f"{type(error).__name__}: {error}"
        return Fired(count, broken)

    def _fire_all(self, due: Mapping[int, Sequence[Due]]) -> int:
        """Deliver the timers of these instances, in one transaction."""
        fired = 0
        with self._write() as work:
            for row in self._instances.lock_free(work, sorted(due)):
                fired += self._fire(work, row)
                self._put_away(work, row, due[row.instance.instance])
        return fired

    def _fire(self, work: UnitOfWork, row: Locked) -> int:
        """Deliver what is due in the current generation of a live instance."""
        if row.instance.status.is_ended:
            return 0
        names = self._timers.take_due(work, row.stream)
        wakes = [Draft(Kind.WAKE, name, "null") for name in names]
        return self._add(work, row, wakes).instance.position - row.instance.position

    def _note_timers(self, work: UnitOfWork, row: Locked) -> Locked:
        """Write the first due time into the instance's row, which is the ledger.

        A run that begins with a row without one knows that there are no timers, and
        parks without looking for any.
        """
        due = self._timers.next_due(work, row.stream)
        return self._instances.wake_at(work, row, due)

    def _put_away(self, work: UnitOfWork, row: Locked, due: Sequence[Due]) -> None:
        """See to it that timers nobody is waiting for are not found again."""
        instance = row.instance
        if instance.status in RECOVERABLE:
            self._timers.settle(work, row.stream)
        for generation in {each.generation for each in due}:
            ended = instance.status is Status.COMPLETED
            if ended or generation != instance.generation:
                stream = Stream(instance.key, instance.instance, generation)
                self._timers.take_due(work, stream)

    # --- awakeables ---

    def settle(
        self, id: str, status: AwakeableStatus, payload: str | None
    ) -> bool | Missing:
        """See `Store.settle`."""
        with self._write() as work:
            found = self._awakeables.find(work, id)
            if found is None:
                return Missing()
            row = self._instances.lock_by_id(work, found.instance)
            if row is None:
                return Missing()
            instance = row.instance
            if found.generation != instance.generation:
                return False  # superseded: the generation that opened it is over
            if instance.status is Status.COMPLETED:
                return False
            if not self._awakeables.settle(work, id, status, payload):
                return False
            if not instance.status.is_ended:
                self._deliver_settled(work, row, [(found.label, status, payload)])
            return True

    def find_awakeable(self, id: str) -> AwakeableRow | None:
        """See `Store.find_awakeable`."""
        with self._read() as work:
            return self._awakeables.find(work, id)

    def awakeables(self, instance: int, generation: int) -> Sequence[AwakeableRow]:
        """See `Store.awakeables`."""
        with self._read() as work:
            return self._awakeables.list(work, _stream(instance, generation))

    def timers(self, instance: int, generation: int) -> Sequence[TimerRow]:
        """See `Store.timers`."""
        with self._read() as work:
            return self._timers.list(work, _stream(instance, generation))

    def children(self, instance: int, generation: int) -> Sequence[ChildRow]:
        """See `Store.children`."""
        with self._read() as work:
            return self._children.list(work, _stream(instance, generation))

    def _deliver_settled(
        self,
        work: UnitOfWork,
        row: Locked,
        settled: Sequence[tuple[str, AwakeableStatus, str | None]],
    ) -> None:
        drafts = [
            Draft(
                Kind.WAKE if status is AwakeableStatus.RESOLVED else Kind.WAKE_FAILED,
                AWAKEABLE_PREFIX + label,
                payload,
            )
            for label, status, payload in settled
        ]
        self._add(work, row, drafts)

    def _deliver_owed(self, work: UnitOfWork, row: Locked) -> None:
        """Deliver what was settled while the instance had ended."""
        due = [
            Draft(Kind.WAKE, name, "null")
            for name in self._timers.take_settled(work, row.stream)
        ]
        owed = self._messages.take_owed(work, row.instance.instance)
        row = self._add(work, row, [*due, *map(message_draft, owed)])
        settled = [
            (each.label, each.status, each.payload)
            for each in self._awakeables.list(work, row.stream)
            if each.status is not AwakeableStatus.PENDING
        ]
        self._deliver_settled(work, row, settled)
        self._tell_of_children(work, self._again(work, row.instance.instance))
        self._note_timers(work, row)

    def _reopen(self, work: UnitOfWork, stream: Stream, entries: list[Entry]) -> None:
        """Make the sources of wakes that became history pending again."""
        labels = [
            entry.name.removeprefix(AWAKEABLE_PREFIX)
            for entry in entries
            if entry.name and entry.name.startswith(AWAKEABLE_PREFIX)
        ]
        self._awakeables.reopen(work, stream, labels)

    # --- small things ---

    def _again(self, work: UnitOfWork, instance: int) -> Locked:
        row = self._instances.lock_by_id(work, instance)
        assert row is not None  # it is locked
        return row

    def _news(
        self, work: UnitOfWork, lease: Lease, row: Locked, known: int
    ) -> Appended:
        tail = self._tail(work, lease, known)
        instance = row.instance
        return Appended(tail, instance.position, instance.cancel_requested)


def see_whose(error: Exception) -> None:
    """Raise an error that is not of one instance, but of the whole database."""
    of_one = isinstance(error.__cause__, NameTaken | ValueError | TypeError)
    if isinstance(error, StoreRefused) and not of_one:
        raise error


def _stream(instance: int, generation: int) -> Stream:
    return Stream(Key("", ""), instance, generation)


def _is_parked(row: Locked, lease: Lease) -> bool:
    # Nobody but the holder of the lease can have suspended it in this epoch.
    same = row.instance.generation == lease.generation
    released = same and row.epoch == lease.epoch + 1
    return released and row.instance.status is Status.SUSPENDED
