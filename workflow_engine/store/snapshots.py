"""The table ``wf_snapshots``: the prefix of a generation's journal, in one value.

Advisory: a snapshot that is missing, of another shape or damaged costs a longer read,
nothing else. It is deleted when an entry that it holds stops being live.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

from sqlalchemy import (
    Delete,
    Insert,
    Select,
    and_,
    bindparam,
    delete,
    select,
)

from workflow_engine.core import records
from workflow_engine.core.journal import FORMAT, KNOWN, Prefix
from workflow_engine.errors import ValueProblem
from workflow_engine.store.journal import Stream
from workflow_engine.store.now import now_in
from workflow_engine.store.tables import Tables
from workflow_engine.store.unit_of_work import UnitOfWork
from workflow_engine.store.upsert import insert_into

SHAPE = f"prefix/2 format/{FORMAT} kinds/{','.join(sorted(KNOWN))}"
"""The discriminator of the documents that this code writes, and all that it reads.

A changed document takes a new number. What this code can interpret is in it as well:
a snapshot must hold what a full load by the same code would have found.
"""


class Snapshots:
    """Statements of ``wf_snapshots``."""

    def __init__(self, tables: Tables, dialect: str) -> None:
        self._table = tables.snapshots
        self._c = tables.snapshots.c
        self._instances = tables.instances.c
        self._dialect = dialect
        self._now = now_in(dialect)

    def keep(self, work: UnitOfWork, stream: Stream, prefix: Prefix) -> None:
        """Keep a prefix, unless a longer one is there."""
        work.run(
            self._keep,
            instance_id=stream.instance,
            generation=stream.generation,
            position=prefix.position,
            discriminator=SHAPE,
            entries=records.write(prefix),
        )

    @cached_property
    def _keep(self) -> Insert:
        given = {
            column.name: bindparam(column.name, type_=column.type)
            for column in self._c
            if column.name != "written_at"
        }
        statement = insert_into(self._table, self._dialect).values(
            given | {"written_at": self._now}
        )
        new = statement.excluded
        upsert: Insert = statement.on_conflict_do_update(
            index_elements=["instance_id", "generation"],
            set_={
                "position": new.position,
                "discriminator": new.discriminator,
                "entries": new.entries,
                "written_at": new.written_at,
            },
            where=(self._c.position < new.position)
            | (self._c.discriminator != new.discriminator),
        )
        return upsert

    def drop(self, work: UnitOfWork, stream: Stream) -> None:
        """Delete the snapshot of a generation."""
        work.connection.execute(
            self._drop,
            {"instance_is": stream.instance, "generation_is": stream.generation},
        )

    @cached_property
    def _drop(self) -> Delete:
        return delete(self._table).where(
            self._c.instance_id == bindparam("instance_is"),
            self._c.generation == bindparam("generation_is"),
        )

    def find(
        self, work: UnitOfWork, instance: int, generation: int
    ) -> tuple[int | None, Prefix | None]:
        """The position of a generation as its row has it, and a usable snapshot.

        Both in one look. No position if there is no such instance, or the generation is
        not its current one.
        """
        row = work.run(
            self._find, instance_is=instance, generation_is=generation
        ).one_or_none()
        if row is None:
            return None, None
        current = row.generation == generation
        position = row.position if current else None
        prefix = None
        if row.discriminator == SHAPE:
            prefix = read(row.entries, row.snapshot_position)
        return position, prefix

    @cached_property
    def _find(self) -> Select[Any]:
        here = and_(
            self._c.instance_id == self._instances.id,
            self._c.generation == bindparam("generation_is"),
        )
        return (
            select(
                self._instances.position,
                self._instances.generation,
                self._c.position.label("snapshot_position"),
                self._c.discriminator,
                self._c.entries,
            )
            .select_from(self._instances.id.table.outerjoin(self._table, here))
            .where(self._instances.id == bindparam("instance_is"))
        )


def read(document: str, position: int) -> Prefix | None:
    """The prefix of a document of shape `SHAPE`; None if it is damaged."""
    try:
        prefix = records.read(document, Prefix)
    except ValueProblem:
        return None
    positions = [0, *(entry.position for entry in prefix.entries)]
    in_order = all(low < high for low, high in pairwise(positions))
    whole = positions[-1] <= prefix.position == position
    return prefix if in_order and whole else None
