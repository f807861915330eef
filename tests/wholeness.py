"""What must be so in every database at every moment between two transactions."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from workflow_engine import Engine, FaultKind
from workflow_engine.core.durations import to_datetime
from workflow_engine.core.journal import MARKERS, Kind
from workflow_engine.core.lifecycle import ENDED, Status
from workflow_engine.store.database import Database
from workflow_engine.testing import TestClock

from .pools import source_of

_MARKER_OF = {
    Status.COMPLETED: Kind.COMPLETED,
    Status.FAILED: Kind.FAILED,
    Status.CANCELLED: Kind.CANCELLED,
}


def check_whole(url: str) -> None:
    """See that no row was half made and that nothing is lost from sight.

    Raises:
        AssertionError: naming the row.
    """
    with Database.open(source_of(url)) as database, database.read() as connection:
        instances = connection.execute(select(database.tables.instances)).all()
        journal = database.tables.journal
        order = (journal.c.instance_id, journal.c.generation, journal.c.position)
        entries = connection.execute(select(journal).order_by(*order)).all()
        _check_owners(database, connection, {row.id for row in instances})
    _ask_the_doctor(url, max((row.updated_at for row in instances), default=0))
    streams: dict[tuple[int, int], list[Row[Any]]] = defaultdict(list)
    for entry in entries:
        streams[entry.instance_id, entry.generation].append(entry)
    for row in instances:
        _check_row(row)
        for generation in range(row.generation + 1):
            is_current = generation == row.generation
            _check_stream(row, streams.pop((row.id, generation), []), is_current)
    assert not streams, f"entries without an instance: {list(streams)}"


def _check_owners(
    database: Database, connection: Connection, instances: set[int]
) -> None:
    """See that nothing is left of an instance that is not there."""
    for table in database.tables.metadata.sorted_tables:
        for column in table.c:
            if column.name in ("instance_id", "parent_id", "child_id"):
                owners = set(connection.execute(select(column)).scalars())
                assert owners <= instances, f"{column} names {owners - instances}"


def _ask_the_doctor(url: str, latest: int) -> None:
    """See that it finds nothing, at the moment of the latest change."""
    with Engine(source_of(url), clock=TestClock(to_datetime(latest))) as engine:
        found = engine.doctor(patience=timedelta(days=365))
    faults = [each for each in found if each.kind is not FaultKind.BLOCKED]
    assert not faults, faults


def _check_row(row: Row[Any]) -> None:
    leased = (row.lease_owner is None, row.lease_until is None)
    assert leased in ((True, True), (False, False)), f"half a lease: {row}"
    if Status(row.status) in ENDED:
        assert row.lease_owner is None, f"ended and leased: {row}"
        assert row.ended_at is not None, f"ended at no time: {row}"
        assert row.runnable_at is None, f"ended and runnable: {row}"
    else:
        assert row.ended_at is None, f"not ended, at a time: {row}"
    # What runs or is blocked is in sight of every worker, now or at a known time.
    if row.status in (Status.RUNNING, Status.BLOCKED):
        assert row.runnable_at is not None, f"nobody will ever look at it: {row}"


def _check_stream(row: Row[Any], entries: list[Row[Any]], is_current: bool) -> None:
    positions = [entry.position for entry in entries]
    assert positions == list(range(1, len(positions) + 1)), f"{positions} of {row}"
    names = [entry.step_name for entry in entries if entry.live]
    assert len(names) == len(set(names)), f"{names} of {row}"
    kinds = [entry.kind for entry in entries]
    if not is_current:
        assert kinds[-1] == Kind.CONTINUED_AS_NEW, f"{kinds} of {row}"
        assert Kind.CONTINUED_AS_NEW not in kinds[:-1], f"{kinds} of {row}"
        return
    assert row.position == len(entries), f"{len(entries)} entries of {row}"
    marker = _MARKER_OF.get(Status(row.status))
    if marker is not None:
        assert kinds[-1] == marker, f"{kinds} of {row}"
    elif kinds:
        assert kinds[-1] not in MARKERS, f"{kinds} of {row}"
