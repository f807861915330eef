"""What repairs rows of instances that `Findings` found to be wrong."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sqlalchemy import Select, Update, bindparam, case, func, select, update

from workflow_engine.core.lifecycle import Status
from workflow_engine.store.ledger import Ledger
from workflow_engine.store.tables import Tables
from workflow_engine.store.unit_of_work import UnitOfWork


class Repairs:
    """Statements that want the instance's row locked."""

    def __init__(self, tables: Tables, ledger: Ledger) -> None:
        self._tables = tables
        self._ledger = ledger
        self._c = ledger.c

    def bring_to_sight(self, work: UnitOfWork, instance: int) -> None:
        """Let workers find the row when the rest of it says."""
        work.run(self._bring_to_sight, instance_is=instance)

    @cached_property
    def _bring_to_sight(self) -> Update:
        this = self._c.id == bindparam("instance_is")
        return update(self._ledger.table).where(this).values(self._ledger.paced())

    def wake_by_timers(self, work: UnitOfWork, instance: int) -> None:
        """Let a suspended instance wake when its earliest timer is due."""
        work.run(self._wake_by_timers, instance_is=instance)

    @cached_property
    def _wake_by_timers(self) -> Update:
        c, t = self._c, self._tables.timers.c
        due = (
            select(func.min(t.due_at))
            .where(t.instance_id == c.id, t.generation == c.generation)
            .where(t.settled_at.is_(None))
            .scalar_subquery()
        )
        earliest = case((c.wake_after < due, c.wake_after), else_=due)
        return (
            update(self._ledger.table)
            .where(c.id == bindparam("instance_is"))
            .where(c.status == Status.SUSPENDED.value, due.is_not(None))
            .values(self._ledger.paced(wake_after=earliest))
        )

    def generations_overdue(self, work: UnitOfWork, instance: int) -> list[int]:
        """The generations of an instance that have timers which are due."""
        return list(work.run(self._generations_due, instance_is=instance).scalars())

    @cached_property
    def _generations_due(self) -> Select[Any]:
        t = self._tables.timers.c
        return (
            select(t.generation)
            .distinct()
            .where(t.instance_id == bindparam("instance_is"))
            .where(t.due_at <= self._ledger.now, t.settled_at.is_(None))
        )
