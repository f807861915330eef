"""Deadlines: an instance that has not ended by then fails, whoever runs it."""

from __future__ import annotations

from collections.abc import Collection

from workflow_engine.core.failure import Reason
from workflow_engine.core.journal import Draft, Kind
from workflow_engine.core.rows import Instance, Overdue
from workflow_engine.store.family import Family
from workflow_engine.store.ledger import Locked
from workflow_engine.store.unit_of_work import UnitOfWork
from workflow_engine.store.waiting import BROKEN, see_whose


class Deadlines(Family):
    """The part of the store that ends what goes on for too long."""

    def fail_overdue(self, limit: int, exclude: Collection[int] = ()) -> Overdue:
        """See `Store.fail_overdue`."""
        with self._read() as work:
            overdue = self._discovery.overdue(work, limit, exclude)
        failed: list[Instance] = []
        broken: dict[int, str] = {}
        for instance in overdue:
            try:
                ended = self._in_order(lambda first: self._fail_one(first, instance))  # noqa: B023
            except BROKEN as error:
                see_whose(error)
                broken[instance] = f"{type(error).__name__}: {error}"
            else:
                failed += [] if ended is None else [ended]
        return Overdue(tuple(failed), broken)

    def _fail_one(self, first: frozenset[int], instance: int) -> Instance | None:
        with self._write(first) as work:
            row = self._discovery.lock_overdue(work, instance)
            return None if row is None else self._miss_deadline(work, row)

    def _miss_deadline(self, work: UnitOfWork, row: Locked) -> Instance:
        """Fail an instance, whose row is locked, by its deadline."""
        error = Reason.of_deadline(row.instance.deadline_at or 0).encode()
        marker = Draft(Kind.FAILED, None, error)
        self._insert(work, row.stream, row.instance.position, [marker])
        failed = self._instances.fail(work, row, error).instance
        self._tell_parents(work, failed.instance)
        return failed

    def _fail_if_overdue(self, work: UnitOfWork, row: Locked) -> Instance | None:
        """The same, if its deadline has passed."""
        if row.instance.deadline_at is None:
            return None
        overdue = self._discovery.lock_overdue(work, row.instance.instance)
        return None if overdue is None else self._miss_deadline(work, overdue)
