"""The table ``wf_timers``: when a sleep of a generation is over.

A row lives from the commit that arms the sleep until its wake is delivered, or until a
park no longer lists it. Its due time is set once. ``wake_after`` in the instance row is
the earliest of them, so discovery never looks here; firing does. A timer that falls due
when its instance has failed is *settled*: a resurrection delivers it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import attrs
from sqlalchemy import (
    BigInteger,
    Delete,
    Insert,
    Select,
    Text,
    Update,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
    update,
)

from workflow_engine.core.rows import Timer, TimerRow
from workflow_engine.store.journal import Stream
from workflow_engine.store.now import now_in
from workflow_engine.store.tables import Tables
from workflow_engine.store.unit_of_work import UnitOfWork

_PENDING = text("settled_at IS NULL")


@attrs.frozen
class Due:
    """A timer whose time has come."""

    instance: int
    generation: int
    name: str


class Timers:
    """Statements of ``wf_timers``. All but `due` want the instance's row locked."""

    def __init__(self, tables: Tables, dialect: str) -> None:
        self._table = tables.timers
        self._c = tables.timers.c
        self._now = now_in(dialect)

    def keep_only(
        self, work: UnitOfWork, stream: Stream, timers: Sequence[Timer]
    ) -> None:
        """Make the generation's timers these: drop others, start those that are new."""
        names = [timer.name for timer in timers]
        work.run(self._drop_others, **_at(stream), names_are=names)
        self.start(work, stream, timers)

    @cached_property
    def _drop_others(self) -> Delete:
        names = bindparam("names_are", type_=Text, expanding=True)
        return delete(self._table).where(*self._stream, self._c.step_name.not_in(names))

    def start(self, work: UnitOfWork, stream: Stream, timers: Sequence[Timer]) -> None:
        """Start the timers that are not running; those that are keep their due time."""
        if not timers:
            return
        names = [timer.name for timer in timers]
        running = set(work.run(self._running, **_at(stream), names_are=names).scalars())
        new = [timer for timer in timers if timer.name not in running]
        if new:
            rows = [
                {
                    "instance_id": stream.instance,
                    "generation": stream.generation,
                    "step_name": timer.name,
                    "delay_is": timer.delay,
                    "due_is": timer.due,
                }
                for timer in new
            ]
            work.run_many(self._start, rows)

    @cached_property
    def _running(self) -> Select[Any]:
        names = bindparam("names_are", type_=Text, expanding=True)
        return select(self._c.step_name).where(
            *self._stream, self._c.step_name.in_(names)
        )

    @cached_property
    def _start(self) -> Insert:
        delay = bindparam("delay_is", type_=BigInteger)
        due = bindparam("due_is", type_=BigInteger)
        return insert(self._table).values(
            instance_id=bindparam("instance_id"),
            generation=bindparam("generation"),
            step_name=bindparam("step_name"),
            due_at=func.coalesce(due, self._now + delay),
            created_at=self._now,
        )

    def next_due(self, work: UnitOfWork, stream: Stream) -> int | None:
        """When the first of the generation's timers is due; None if it has none."""
        due: int | None = work.run(self._next_due, **_at(stream)).scalar_one()
        return due

    @cached_property
    def _next_due(self) -> Select[Any]:
        return select(func.min(self._c.due_at)).where(*self._stream)

    def are_due(self, work: UnitOfWork, stream: Stream) -> bool:
        """Whether a timer of the generation is due."""
        return work.run(self._due_of.limit(1), **_at(stream)).first() is not None

    def take_due(self, work: UnitOfWork, stream: Stream) -> Sequence[str]:
        """Remove the generation's timers that are due; their names, first due first."""
        names = list(work.run(self._due_of, **_at(stream)).scalars())
        self.drop(work, stream, names)
        return names

    @cached_property
    def _due_of(self) -> Select[Any]:
        return (
            select(self._c.step_name)
            .where(*self._stream, self._c.due_at <= self._now)
            .order_by(self._c.due_at, self._c.step_name)
        )

    def drop(self, work: UnitOfWork, stream: Stream, names: Collection[str]) -> None:
        """Remove timers by name."""
        if names:
            work.run(self._drop, **_at(stream), names_are=list(names))

    @cached_property
    def _drop(self) -> Delete:
        names = bindparam("names_are", type_=Text, expanding=True)
        return delete(self._table).where(*self._stream, self._c.step_name.in_(names))

    def settle(self, work: UnitOfWork, stream: Stream) -> None:
        """Fire those that are due into an instance that has ended: nobody is told."""
        work.run(self._settle, **_at(stream))

    @cached_property
    def _settle(self) -> Update:
        return (
            update(self._table)
            .where(*self._stream, self._c.due_at <= self._now, _PENDING)
            .values(settled_at=self._now)
        )

    def take_settled(self, work: UnitOfWork, stream: Stream) -> Sequence[str]:
        """Remove what was settled; the names."""
        names = list(work.run(self._settled, **_at(stream)).scalars())
        self.drop(work, stream, names)
        return names

    @cached_property
    def _settled(self) -> Select[Any]:
        return (
            select(self._c.step_name)
            .where(*self._stream, self._c.settled_at.is_not(None))
            .order_by(self._c.due_at, self._c.step_name)
        )

    def list(self, work: UnitOfWork, stream: Stream) -> list[TimerRow]:
        """Those of a generation, the first due first."""
        return [
            TimerRow(
                instance=row.instance_id,
                generation=row.generation,
                name=row.step_name,
                due_at=row.due_at,
                created_at=row.created_at,
            )
            for row in work.run(self._list, **_at(stream))
        ]

    @cached_property
    def _list(self) -> Select[Any]:
        c = self._c
        return select(*c).where(*self._stream).order_by(c.due_at, c.step_name)

    def due(
        self, work: UnitOfWork, limit: int, exclude: Collection[int] = ()
    ) -> Sequence[Due]:
        """The timers of all other instances that are due, the first due first."""
        statement = self._due
        if exclude:
            statement = statement.where(self._c.instance_id.not_in(exclude))
        rows = work.run(statement, limit_is=limit)
        return [Due(row.instance_id, row.generation, row.step_name) for row in rows]

    @cached_property
    def _due(self) -> Select[Any]:
        return (
            select(self._c.instance_id, self._c.generation, self._c.step_name)
            .where(self._c.due_at <= self._now, _PENDING)
            .order_by(self._c.due_at)
            .limit(bindparam("limit_is"))
        )

    @cached_property
    def _stream(self) -> tuple[Any, ...]:
        return (
            self._c.instance_id == bindparam("instance_is"),
            self._c.generation == bindparam("generation_is"),
        )


def _at(stream: Stream) -> dict[str, Any]:
    return {"instance_is": stream.instance, "generation_is": stream.generation}
