"""What is due in ``wf_instances``, found through the index on name and time.

Each name is asked for by itself, and for no more than one pass can take: a long backlog
of one name neither costs anything nor hides another.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import attrs
from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    CompoundSelect,
    Integer,
    Select,
    bindparam,
    func,
    select,
    union_all,
)

from workflow_engine.store.ledger import Ledger, Locked, read, read_each
from workflow_engine.store.unit_of_work import UnitOfWork

_NAMES_AT_ONCE = 100
"""Workflow names in one statement; SQLite takes at most 500 parts of a union."""


@attrs.frozen(order=True)
class Due:
    """An instance that may be claimed since ``runnable_at``."""

    runnable_at: int
    instance: int


class Discovery:
    """Statements that find and lock what is due."""

    def __init__(self, ledger: Ledger, dialect: str) -> None:
        self._ledger = ledger
        self._table, self._c = ledger.table, ledger.c
        self._dialect = dialect

    def look(
        self,
        work: UnitOfWork,
        names: Sequence[str],
        limit: int,
        exclude: Collection[int],
    ) -> dict[str, list[Due]]:
        """Of each name at most ``limit`` that are due, the longest due first."""
        found: dict[str, list[Due]] = {name: [] for name in names}
        for start in range(0, len(names), _NAMES_AT_ONCE):
            some = names[start : start + _NAMES_AT_ONCE]
            parameters: dict[str, Any] = {
                f"name_{number}_is": name for number, name in enumerate(some)
            }
            if exclude:
                parameters["excluded_are"] = list(exclude)
            statement = self._look(len(some), bool(exclude))
            for row in work.run(statement, limit_is=limit, **parameters):
                found[row.workflow_name].append(Due(row.runnable_at, row.id))
        for each in found.values():
            each.sort()
        return found

    @functools.cache  # noqa: B019 - as many as there are numbers of names
    def _look(self, names: int, exclude: bool) -> CompoundSelect[Any]:
        return union_all(
            *(
                select(self._look_for(f"name_{number}_is", exclude).subquery())
                for number in range(names)
            )
        )

    def _look_for(self, parameter: str, exclude: bool) -> Select[Any]:
        c = self._c
        due = (
            select(c.id, c.workflow_name, c.runnable_at)
            .where(c.workflow_name == bindparam(parameter))
            .where(c.runnable_at <= self._ledger.now, self._ledger.is_in_time)
            .order_by(c.runnable_at)
            .limit(bindparam("limit_is", type_=Integer))
        )
        if exclude:
            excluded = bindparam("excluded_are", type_=BigInteger, expanding=True)
            due = due.where(c.id.not_in(excluded))
        return due

    def next_due(self, work: UnitOfWork, names: Collection[str]) -> int | None:
        """Microseconds until an instance of these names, any timer or any deadline is
        due."""
        row = work.run(self._next_due, names_are=list(names)).one()
        pauses = [pause for pause in row if pause is not None]
        return max(0, min(pauses)) if pauses else None

    @cached_property
    def _next_due(self) -> Select[Any]:
        c, now = self._c, self._ledger.now
        names: BindParameter[Any] = bindparam("names_are", expanding=True)
        instance = select(func.min(c.runnable_at)).where(
            c.workflow_name.in_(names), c.runnable_at > now
        )
        timers = self._ledger.timers
        pending = timers.c.settled_at.is_(None)
        timer = select(func.min(timers.c.due_at)).where(pending)
        deadline = select(func.min(c.deadline_at)).where(
            c.deadline_at > now, c.ended_at.is_(None)
        )
        firsts = (instance, timer, deadline)
        return select(*(first.scalar_subquery() - now for first in firsts))

    # --- deadlines ---

    def overdue(
        self, work: UnitOfWork, limit: int, exclude: Collection[int]
    ) -> list[int]:
        """Up to ``limit`` instances whose deadline has passed, the first one first."""
        excluded = list(exclude)
        rows = work.run(self._overdue, limit_is=limit, excluded_are=excluded)
        return list(rows.scalars())

    @cached_property
    def _overdue(self) -> Select[Any]:
        excluded = bindparam("excluded_are", type_=BigInteger, expanding=True)
        return (
            select(self._c.id)
            .where(self._ledger.is_overdue, self._c.id.not_in(excluded))
            .order_by(self._c.deadline_at)
            .limit(bindparam("limit_is", type_=Integer))
        )

    def lock_overdue(self, work: UnitOfWork, instance: int) -> Locked | None:
        """Lock an instance, if it is overdue and nobody else has locked it."""
        row = work.run(self._lock_overdue, instance_is=instance).one_or_none()
        return None if row is None else read(row)

    @cached_property
    def _lock_overdue(self) -> Select[Any]:
        this = self._c.id == bindparam("instance_is", type_=BigInteger)
        return (
            select(*self._ledger.row)
            .where(this, self._ledger.is_overdue)
            .with_for_update(skip_locked=True)
        )

    def lock(
        self, work: UnitOfWork, instances: Sequence[int], limit: int
    ) -> tuple[list[Locked], dict[int, str]]:
        """Lock up to ``limit`` of the instances, in the order given.

        Passes over those that are not due any more, or locked by somebody else. Also
        the rows among them that cannot be read, with why.
        """
        if self._dialect == "sqlite":
            # The whole database is ours; nothing would be passed over for a lock.
            instances = instances[:limit]
        rows = work.run(self._lock, instances_are=list(instances), limit_is=limit)
        order = {instance: place for place, instance in enumerate(instances)}
        locked, broken = read_each(rows)
        locked.sort(key=lambda each: order[each.instance.instance])
        return locked, broken

    @cached_property
    def _lock(self) -> Select[Any]:
        c = self._c
        due = select(*self._ledger.row).where(
            c.runnable_at <= self._ledger.now, self._ledger.is_in_time
        )
        if self._dialect == "sqlite":
            return due.where(c.id.in_(bindparam("instances_are", expanding=True)))
        wanted = bindparam("instances_are", type_=ARRAY(BigInteger))
        return (
            due.where(c.id == func.any(wanted))
            .order_by(func.array_position(wanted, c.id))
            .limit(bindparam("limit_is", type_=Integer))
            .with_for_update(skip_locked=True)
        )

    def count_others(self, work: UnitOfWork, names: Collection[str]) -> dict[str, int]:
        """How many are due of each name that is not in ``names``.

        Goes from one name to the next, not from row to row.
        """
        rows = work.run(self._count_others, names_are=list(names))
        return {row.workflow_name: row.due for row in rows if row.due}

    @cached_property
    def _count_others(self) -> Select[Any]:
        c = self._c

        def next_name(*after: Any) -> Any:
            return (
                select(c.workflow_name)
                .where(c.runnable_at.is_not(None), *after)
                .order_by(c.workflow_name)
                .limit(1)
                .scalar_subquery()
            )

        found = select(next_name().label("name")).cte("names", recursive=True)
        following = next_name(c.workflow_name > found.c.name)
        found = found.union_all(select(following).where(found.c.name.is_not(None)))
        due = (
            select(func.count())
            .select_from(self._table)
            .where(c.workflow_name == found.c.name, c.runnable_at <= self._ledger.now)
            .scalar_subquery()
        )
        others = found.c.name.not_in(bindparam("names_are", expanding=True))
        return select(found.c.name.label("workflow_name"), due.label("due")).where(
            found.c.name.is_not(None), others
        )
