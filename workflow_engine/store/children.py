"""The table ``wf_children``: which generation of which parent waits for which child."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
from sqlalchemy import BigInteger, Insert, Select, bindparam, select

from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import ChildRow, Key
from workflow_engine.store.journal import Stream
from workflow_engine.store.now import now_in
from workflow_engine.store.tables import Tables
from workflow_engine.store.unit_of_work import UnitOfWork
from workflow_engine.store.upsert import insert_into

_AT_ONCE = 500
"""Instances asked about in one statement."""


@attrs.frozen
class Link:
    """A parent's generation that attached to a child."""

    parent: int
    generation: int
    name: str
    child: int


class Children:
    """Statements of ``wf_children``."""

    def __init__(self, tables: Tables, dialect: str) -> None:
        self._table = tables.children
        self._c = tables.children.c
        self._instances = tables.instances.c
        self._dialect = dialect
        self._now = now_in(dialect)

    def attach(self, work: UnitOfWork, parent: Stream, name: str, child: int) -> None:
        """Link a child to a generation, unless it is linked."""
        work.run(
            self._attach,
            parent_id=parent.instance,
            generation=parent.generation,
            step_name=name,
            child_id=child,
        )

    @cached_property
    def _attach(self) -> Insert:
        given: dict[str, Any] = {
            column.name: bindparam(column.name, type_=column.type)
            for column in self._c
            if column.name != "created_at"
        }
        statement: Insert = (
            insert_into(self._table, self._dialect)
            .values(given | {"created_at": self._now})
            .on_conflict_do_nothing()
        )
        return statement

    def links_to(self, work: UnitOfWork, child: int) -> list[Link]:
        """Who has attached to a child, by ascending parent."""
        rows = work.run(self._links_to, child_is=child)
        return [_read(row) for row in rows]

    @cached_property
    def _links_to(self) -> Select[Any]:
        child = self._c.child_id == bindparam("child_is", type_=BigInteger)
        return select(*self._c).where(child).order_by(self._c.parent_id)

    def descendants(self, work: UnitOfWork, root: int) -> list[int]:
        """What its generations have attached to, and theirs; parents come first."""
        found, below = [root], [root]
        while below:
            rows = self._beyond(work, self._c.parent_id, self._c.child_id, below)
            below = sorted(rows.difference(found))
            found += below
        return found[1:]

    def parents(self, work: UnitOfWork, children: Sequence[int]) -> set[int]:
        """Who has attached to any of these."""
        return self._beyond(work, self._c.child_id, self._c.parent_id, children)

    def _beyond(
        self, work: UnitOfWork, near: Any, far: Any, instances: Sequence[int]
    ) -> set[int]:
        found: set[int] = set()
        for start in range(0, len(instances), _AT_ONCE):
            some = instances[start : start + _AT_ONCE]
            rows = work.connection.execute(select(far).where(near.in_(some)))
            found.update(rows.scalars())
        return found

    def links_of(self, work: UnitOfWork, parent: Stream) -> list[Link]:
        """What a generation has attached to."""
        rows = work.run(
            self._links_of,
            parent_is=parent.instance,
            generation_is=parent.generation,
        )
        return [_read(row) for row in rows]

    @cached_property
    def _links_of(self) -> Select[Any]:
        return select(*self._c).where(
            self._c.parent_id == bindparam("parent_is"),
            self._c.generation == bindparam("generation_is"),
        )

    def list(self, work: UnitOfWork, parent: Stream) -> list[ChildRow]:
        """What a generation has attached to, with how it stands."""
        rows = work.run(
            self._list, parent_is=parent.instance, generation_is=parent.generation
        )
        return [
            ChildRow(
                name=row.step_name,
                key=Key(row.workflow_name, row.workflow_id),
                status=Status(row.status),
                created_at=row.created_at,
            )
            for row in rows
        ]

    @cached_property
    def _list(self) -> Select[Any]:
        child = self._instances
        return (
            self._links_of.with_only_columns(
                self._c.step_name,
                child.workflow_name,
                child.workflow_id,
                child.status,
                self._c.created_at,
            )
            .where(child.id == self._c.child_id)
            .order_by(self._c.created_at, self._c.step_name)
        )


def _read(row: Any) -> Link:
    return Link(row.parent_id, row.generation, row.step_name, row.child_id)
