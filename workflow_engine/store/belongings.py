"""Ended instances and what belongs to them, in all tables: finding and deleting it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import attrs
from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Delete,
    Integer,
    Select,
    bindparam,
    delete,
    or_,
    select,
)

from workflow_engine.core.collecting import Place
from workflow_engine.core.lifecycle import Status
from workflow_engine.store.ledger import Ledger, Locked, read
from workflow_engine.store.tables import Tables
from workflow_engine.store.unit_of_work import UnitOfWork

FIRST = Place(-1, 0)
"""Before everything."""


@attrs.frozen
class Old:
    """An instance that ended long enough ago."""

    instance: int
    workflow: str
    status: Status
    ended_at: int


@attrs.frozen
class Terms:
    """What may be collected: ended ``older_than`` microseconds ago or longer, and of
    these ``names``; None for all."""

    older_than: int
    names: frozenset[str] | None = None

    def allow(self, workflow: str) -> bool:
        """Whether instances of this name may be collected."""
        return self.names is None or workflow in self.names


class Belongings:
    """Statements of a collection."""

    def __init__(self, tables: Tables, ledger: Ledger) -> None:
        self._ledger, self._c = ledger, ledger.c
        self._instances, self._children = tables.instances, tables.children
        # A table that is yet to come is among them, if it says whose its rows are.
        self._of_instances = [
            table
            for table in tables.metadata.sorted_tables
            if "instance_id" in table.c and table is not tables.instances
        ]

    # --- looking ---

    def old(
        self, work: UnitOfWork, terms: Terms, after: Place, limit: int
    ) -> list[Old]:
        """The next ``limit`` that are old enough, of whatever name, first ended first.

        Names are not asked for: whoever collects a few of them would wait for a
        statement that goes through all the others.
        """
        rows = work.run(
            self._old,
            older_is=terms.older_than,
            after_at_is=after.ended_at,
            after_is=after.instance,
            limit_is=limit,
        )
        return [
            Old(row.id, row.workflow_name, Status(row.status), row.ended_at)
            for row in rows
        ]

    @cached_property
    def _old(self) -> Select[Any]:
        c = self._c
        after = bindparam("after_at_is", type_=BigInteger)
        return (
            select(c.id, c.workflow_name, c.status, c.ended_at)
            .where(c.ended_at >= after, self._is_old)
            .where(or_(c.ended_at > after, c.id > bindparam("after_is")))
            .order_by(c.ended_at, c.id)
            .limit(bindparam("limit_is", type_=Integer))
        )

    def holders(
        self, work: UnitOfWork, instances: Collection[int]
    ) -> dict[int, set[int]]:
        """Those of the instances that are held, with the parents who hold them."""
        found: dict[int, set[int]] = {}
        for row in work.run(self._holders, instances_are=list(instances)):
            found.setdefault(row.child_id, set()).add(row.parent_id)
        return found

    @cached_property
    def _holders(self) -> Select[Any]:
        link, parent = self._children.c, self._c
        return (
            select(link.child_id, link.parent_id)
            .join_from(self._children, self._instances, parent.id == link.parent_id)
            .where(_among(link.child_id))
            .where(parent.status != Status.COMPLETED.value)
        )

    # --- deleting, under the locks of the rows ---

    def lock(
        self, work: UnitOfWork, terms: Terms, instances: Sequence[int]
    ) -> list[Locked]:
        """Lock those that may still be collected unless held, and nobody has locked."""
        rows = work.run(
            self._lock, older_is=terms.older_than, instances_are=list(instances)
        )
        locked = [read(row) for row in rows]
        return [row for row in locked if terms.allow(row.instance.key.workflow)]

    @cached_property
    def _lock(self) -> Select[Any]:
        return (
            select(*self._ledger.row)
            .where(_among(self._c.id), self._is_old)
            .order_by(self._c.id)
            .with_for_update(skip_locked=True)
        )

    def delete(
        self, work: UnitOfWork, instances: Collection[int]
    ) -> list[tuple[int, int]]:
        """Delete the rows of instances and all that belongs to them.

        Returns:
            The links there were to them and from them, as parent and child.
        """
        numbers = list(instances)
        # In one order: a link belongs to two instances, which two sessions may delete.
        links = work.run(self._lock_links, instances_are=numbers).all()
        for statement in self._deletes:
            work.run(statement, instances_are=numbers)
        return [(row.parent_id, row.child_id) for row in links]

    @cached_property
    def _lock_links(self) -> Select[Any]:
        c = self._children.c
        return (
            select(c.child_id, c.parent_id)
            .where(self._is_link)
            .order_by(c.parent_id, c.generation, c.step_name)
            .with_for_update()
        )

    @cached_property
    def _deletes(self) -> list[Delete]:
        return [
            *(
                delete(each).where(_among(each.c.instance_id))
                for each in self._of_instances
            ),
            delete(self._children).where(self._is_link),
            delete(self._instances).where(_among(self._c.id)),
        ]

    # --- conditions ---

    @cached_property
    def _is_old(self) -> ColumnElement[bool]:
        older = bindparam("older_is", type_=BigInteger)
        return self._c.ended_at <= self._ledger.now - older

    @cached_property
    def _is_link(self) -> ColumnElement[bool]:
        c = self._children.c
        return or_(_among(c.parent_id), _among(c.child_id))


def _among(column: ColumnElement[int]) -> ColumnElement[bool]:
    numbers: BindParameter[Any] = bindparam(
        "instances_are", type_=BigInteger, expanding=True
    )
    return column.in_(numbers)
