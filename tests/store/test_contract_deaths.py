"""A process that dies between two statements leaves nothing half made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Key, Lease
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from .actors import (
    KEY,
    consistent,
    failed,
    lease_on,
    new,
    ok,
    sql,
)
from .sessions import (
    dies_before,
)

OPERATIONS: dict[str, Callable[[SqlStore, Lease], Any]] = {
    "claim": lambda store, _: store.claim(Key("order", "2"), "a", 1, (), new()),
    "append": lambda store, lease: store.append(lease, [ok("b"), ok("c")], 2, None),
    "append late": lambda store, lease: store.append(lease, [ok("b")], 0, None),
    "park": lambda store, lease: store.park(lease, [ok("b")], 2, False),
    "finish": lambda store, lease: store.finish(lease, Status.COMPLETED, "1", ()),
    "fail": lambda store, lease: store.fail(lease, "{}", 2),
    "crash": lambda store, lease: store.crash(lease, "{}", 2, 5),
    "last crash": lambda store, lease: store.crash(lease, "{}", 2, 1),
    "rotate": lambda store, lease: store.rotate(lease, "1", (), (), [ok("b")]),
    "resolve": lambda store, _: store.resolve(KEY, "v", "7", None),
    "cancel": lambda store, _: store.cancel(KEY),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_process_that_dies_between_two_statements_leaves_nothing_half_made(
    store: SqlStore, database: Database, name: str
) -> None:
    operation = OPERATIONS[name]
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    store.resolve(KEY, "w", "7", None)
    before = dump(database)
    number = 0
    while dies_before(database, number, lambda: operation(store, lease)):
        assert dump(database) == before, f"killed before statement {number}"
        number += 1
    assert number > 0
    assert dump(database) != before
    consistent(store, lease)


def test_a_resurrection_that_dies_leaves_nothing_half_made(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    store.append(lease, [failed("a")], 0, None)
    store.snapshot(lease, store.load(lease.instance, 0, 10))
    store.fail(lease, '{"entry":"a"}', 1)
    before = dump(database)
    number = 0
    while dies_before(database, number, lambda: store.resurrect(KEY, None)):
        assert dump(database) == before, f"killed before statement {number}"
        number += 1
    assert number > 4
    consistent(store, lease)


def dump(database: Database) -> list[Any]:
    """Everything that is stored."""
    tables = ("wf_instances", "wf_journal", "wf_snapshots")
    return [sorted(map(str, sql(database, f"SELECT * FROM {each}"))) for each in tables]
