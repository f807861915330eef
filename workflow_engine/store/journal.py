"""The table ``wf_journal``: entries, and the index by step name that they are.

Entries are inserted under the lock of their instance's row, which hands out positions.
Nothing is ever deleted here. All that changes later is ``live``, from true to false.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any

import attrs
from sqlalchemy import (
    Insert,
    Integer,
    Row,
    Select,
    Text,
    Update,
    bindparam,
    false,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError

from workflow_engine.core import ids
from workflow_engine.core.journal import FORMAT, WAKE_KINDS, Draft, Entry, Kind
from workflow_engine.core.rows import Key
from workflow_engine.store.now import now_in
from workflow_engine.store.tables import Tables
from workflow_engine.store.unit_of_work import UnitOfWork

# In the words of the partial indexes, by which SQLite recognises them.
_LIVE = text("live")
_HISTORY = text("NOT live")


class NameTaken(Exception):
    """A live entry has the name already. The transaction is lost."""


@attrs.frozen
class Stream:
    """One generation's journal."""

    key: Key
    instance: int
    generation: int


class Journal:
    """The statements of ``wf_journal``."""

    def __init__(self, tables: Tables, dialect: str) -> None:
        self._table = tables.journal
        self._c = tables.journal.c
        self._now = now_in(dialect)

    # --- writing ---

    def insert(
        self, work: UnitOfWork, stream: Stream, after: int, drafts: Sequence[Draft]
    ) -> None:
        """Insert ``drafts`` at the positions following ``after``, in one statement.

        Raises:
            NameTaken: nothing was inserted, and the transaction must be given up.
        """
        if drafts:
            rows = [
                _row(stream, position, draft, draft.kind.value, draft.superseded)
                for position, draft in enumerate(drafts, after + 1)
            ]
            try:
                work.run_many(self._insert, rows)
            except IntegrityError as error:
                raise NameTaken from error

    def carry(
        self, work: UnitOfWork, stream: Stream, after: int, entries: Sequence[Entry]
    ) -> None:
        """Insert copies of another generation's ``entries`` into a fresh one."""
        if entries:
            rows = [
                _row(stream, position, entry, entry.kind) | {"format": entry.format}
                for position, entry in enumerate(entries, after + 1)
            ]
            work.run_many(self._insert, rows)

    @cached_property
    def _insert(self) -> Insert:
        given = {
            column.name: bindparam(column.name, type_=column.type)
            for column in self._c
            if column.name != "recorded_at"
        }
        return insert(self._table).values(given | {"recorded_at": self._now})

    def supersede(
        self, work: UnitOfWork, stream: Stream, positions: Collection[int]
    ) -> None:
        """Turn the entries at ``positions`` into history that keeps its names."""
        work.run(
            self._supersede,
            instance_is=stream.instance,
            generation_is=stream.generation,
            positions_are=list(positions),
        )

    @cached_property
    def _supersede(self) -> Update:
        positions = bindparam("positions_are", type_=Integer, expanding=True)
        return (
            update(self._table)
            .where(*self._stream, self._c.position.in_(positions))
            .values(live=false())
        )

    # --- reading ---

    def find_absent(
        self, work: UnitOfWork, stream: Stream, drafts: Sequence[Draft]
    ) -> list[Draft]:
        """The drafts whose names are not taken, with ``superseded`` as it is now."""
        names = {draft.name for draft in drafts if draft.name is not None}
        if not names:
            return list(drafts)
        asked = {"names_are": sorted(names)}
        taken = self._rows(work, self._taken, stream, **asked)
        gone = {row.step_name for row in taken}
        history = self._rows(work, self._superseded, stream, **asked)
        counts = {row.step_name: row.superseded for row in history}
        absent = []
        for draft in drafts:
            if draft.name is None:
                absent.append(draft)
            elif draft.name not in gone:
                count = counts.get(draft.name, 0)
                absent.append(attrs.evolve(draft, superseded=count))
                gone.add(draft.name)
        return absent

    @cached_property
    def _taken(self) -> Select[Any]:
        names = bindparam("names_are", type_=Text, expanding=True)
        return select(self._c.step_name).where(
            *self._stream, _LIVE, self._c.step_name.in_(names)
        )

    @cached_property
    def _superseded(self) -> Select[Any]:
        names = bindparam("names_are", type_=Text, expanding=True)
        return (
            select(self._c.step_name, func.count().label("superseded"))
            .where(*self._stream, _HISTORY, self._c.step_name.in_(names))
            .group_by(self._c.step_name)
        )

    def read(
        self,
        work: UnitOfWork,
        instance: int,
        generation: int,
        after: int,
        *,
        page_size: int | None = None,
    ) -> Iterator[Entry]:
        """Every entry after a position, in order.

        With ``page_size`` no more rows than that are fetched at a time.
        """
        parameters = {
            "instance_is": instance,
            "generation_is": generation,
            "after_is": after,
        }
        options = {} if page_size is None else {"yield_per": page_size}
        rows = work.connection.execute(
            self._tail, parameters, execution_options=options
        )
        return (_entry(row) for row in rows)

    @cached_property
    def _tail(self) -> Select[Any]:
        return (
            select(*self._entry)
            .where(*self._stream, self._c.position > bindparam("after_is"))
            .order_by(self._c.position)
        )

    def page(
        self, work: UnitOfWork, instance: int, generation: int, after: int, limit: int
    ) -> list[tuple[Entry, int, str]]:
        """Up to ``limit`` entries after a position, with time and entry id."""
        rows = work.run(
            self._page,
            instance_is=instance,
            generation_is=generation,
            after_is=after,
            limit_is=limit,
        )
        return [(_entry(row[:-2]), row.recorded_at, row.entry_id) for row in rows]

    @cached_property
    def _page(self) -> Select[Any]:
        return self._tail.add_columns(self._c.recorded_at, self._c.entry_id).limit(
            bindparam("limit_is")
        )

    def wakes(self, work: UnitOfWork, stream: Stream) -> list[Entry]:
        """The live wakes, in order."""
        return [_entry(row) for row in self._rows(work, self._wakes, stream)]

    @cached_property
    def _wakes(self) -> Select[Any]:
        kinds = sorted(kind.value for kind in WAKE_KINDS)
        return (
            select(*self._entry)
            .where(*self._stream, _LIVE, self._c.kind.in_(kinds))
            .order_by(self._c.position)
        )

    def find_live_wake(
        self, work: UnitOfWork, stream: Stream, position: int
    ) -> Entry | None:
        """The live wake at a position, if there is one."""
        statement = self._wake_at
        for row in self._rows(work, statement, stream, position_is=position):
            return _entry(row)
        return None

    @cached_property
    def _wake_at(self) -> Select[Any]:
        return self._wakes.where(self._c.position == bindparam("position_is"))

    def live(self, work: UnitOfWork, stream: Stream) -> list[Entry]:
        """The live entries in order, without their payloads."""
        return [_entry(row) for row in self._rows(work, self._standing, stream)]

    @cached_property
    def _standing(self) -> Select[Any]:
        bare = [text("NULL") if c is self._c.payload else c for c in self._entry]
        return select(*bare).where(*self._stream, _LIVE).order_by(self._c.position)

    def find_last_failure(self, work: UnitOfWork, stream: Stream) -> Entry | None:
        """The latest failed marker, if the generation has one."""
        for row in self._rows(work, self._last_failure, stream):
            return _entry(row)
        return None

    @cached_property
    def _last_failure(self) -> Select[Any]:
        return (
            select(*self._entry)
            .where(*self._stream, _HISTORY, self._c.kind == Kind.FAILED.value)
            .order_by(self._c.position.desc())
            .limit(1)
        )

    # --- what statements are made of ---

    @cached_property
    def _stream(self) -> tuple[Any, ...]:
        return (
            self._c.instance_id == bindparam("instance_is"),
            self._c.generation == bindparam("generation_is"),
        )

    @cached_property
    def _entry(self) -> tuple[Any, ...]:
        """The columns of an `Entry`, in the order of its attributes."""
        c = self._c
        return (c.position, c.kind, c.step_name, c.payload, c.live, c.format)

    @staticmethod
    def _rows(
        work: UnitOfWork, statement: Select[Any], stream: Stream, **parameters: Any
    ) -> list[Row[Any]]:
        parameters["instance_is"] = stream.instance
        parameters["generation_is"] = stream.generation
        return list(work.run(statement, **parameters).all())


def _entry(row: Any) -> Entry:
    return Entry(*row)


def _row(
    stream: Stream,
    position: int,
    source: Draft | Entry,
    kind: str,
    superseded: int = 0,
) -> dict[str, Any]:
    name = source.name
    key = f"#{position}" if name is None else name
    workflow, id = stream.key.workflow, stream.key.id
    return {
        "instance_id": stream.instance,
        "generation": stream.generation,
        "position": position,
        "kind": kind,
        "step_name": name,
        "live": name is not None,
        "format": FORMAT,
        "payload": source.payload,
        "entry_id": ids.entry_id(workflow, id, stream.generation, key, superseded),
    }
