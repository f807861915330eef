"""The table ``wf_awakeables``: who may complete what, and how it was settled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import (
    Delete,
    Insert,
    Row,
    Select,
    Update,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from workflow_engine.core.journal import NewAwakeable
from workflow_engine.core.rows import AwakeableRow, AwakeableStatus
from workflow_engine.store.journal import Stream
from workflow_engine.store.now import now_in
from workflow_engine.store.tables import Tables
from workflow_engine.store.unit_of_work import UnitOfWork

_PENDING = AwakeableStatus.PENDING.value


class Awakeables:
    """Statements of ``wf_awakeables``. Those that write want the instance locked."""

    def __init__(self, tables: Tables, dialect: str) -> None:
        self._table = tables.awakeables
        self._c = tables.awakeables.c
        self._now = now_in(dialect)

    def register(
        self, work: UnitOfWork, stream: Stream, deeds: Sequence[NewAwakeable]
    ) -> None:
        """Add awakeables of a generation, pending."""
        rows = [
            {
                "id": deed.id,
                "instance_id": stream.instance,
                "generation": stream.generation,
                "label": deed.label,
                "status": _PENDING,
            }
            for deed in deeds
        ]
        work.run_many(self._register, rows)

    @cached_property
    def _register(self) -> Insert:
        names = ("id", "instance_id", "generation", "label", "status")
        given: dict[str, Any] = {
            name: bindparam(name, type_=self._c[name].type) for name in names
        }
        return insert(self._table).values(given | {"created_at": self._now})

    def find(self, work: UnitOfWork, id: str) -> AwakeableRow | None:
        """An awakeable by its id, without a lock."""
        row = work.run(self._find, awakeable_is=id).one_or_none()
        return None if row is None else _read(row)

    @cached_property
    def _find(self) -> Select[Any]:
        return select(*self._c).where(self._c.id == bindparam("awakeable_is"))

    def settle(
        self, work: UnitOfWork, id: str, status: AwakeableStatus, payload: str | None
    ) -> bool:
        """Settle a pending one; False if it is settled."""
        settled = work.run(
            self._settle, awakeable_is=id, status_is=status.value, payload_is=payload
        )
        return settled.rowcount == 1

    @cached_property
    def _settle(self) -> Update:
        return (
            update(self._table)
            .where(self._c.id == bindparam("awakeable_is"), self._c.status == _PENDING)
            .values(
                status=bindparam("status_is", type_=self._c.status.type),
                payload=bindparam("payload_is", type_=self._c.payload.type),
                settled_at=self._now,
            )
        )

    def reopen(self, work: UnitOfWork, stream: Stream, labels: Sequence[str]) -> None:
        """Make awakeables of a generation pending again."""
        if labels:
            work.run(
                self._reopen,
                instance_is=stream.instance,
                generation_is=stream.generation,
                labels_are=list(labels),
            )

    @cached_property
    def _reopen(self) -> Update:
        labels = bindparam("labels_are", type_=self._c.label.type, expanding=True)
        return (
            update(self._table)
            .where(*self._stream, self._c.label.in_(labels))
            .values(status=_PENDING, payload=None, settled_at=None)
        )

    def forget(self, work: UnitOfWork, stream: Stream, labels: Sequence[str]) -> None:
        """Delete awakeables of a generation."""
        if labels:
            work.run(
                self._forget,
                instance_is=stream.instance,
                generation_is=stream.generation,
                labels_are=list(labels),
            )

    @cached_property
    def _forget(self) -> Delete:
        labels = bindparam("labels_are", type_=self._c.label.type, expanding=True)
        return delete(self._table).where(*self._stream, self._c.label.in_(labels))

    def list(self, work: UnitOfWork, stream: Stream) -> list[AwakeableRow]:
        """Those of a generation, oldest first."""
        rows = work.run(
            self._list, instance_is=stream.instance, generation_is=stream.generation
        )
        return [_read(row) for row in rows]

    @cached_property
    def _list(self) -> Select[Any]:
        c = self._c
        return select(*c).where(*self._stream).order_by(c.created_at, c.label)

    @cached_property
    def _stream(self) -> tuple[Any, ...]:
        return (
            self._c.instance_id == bindparam("instance_is"),
            self._c.generation == bindparam("generation_is"),
        )


def _read(row: Row[Any]) -> AwakeableRow:
    return AwakeableRow(
        id=row.id,
        instance=row.instance_id,
        generation=row.generation,
        label=row.label,
        status=AwakeableStatus(row.status),
        payload=row.payload,
        created_at=row.created_at,
        settled_at=row.settled_at,
    )
