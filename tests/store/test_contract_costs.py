"""How many statements and transactions things cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event

from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Key
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from .actors import (
    lease_on,
    new,
    ok,
    statements,
)


def verb(statement: str) -> str:
    return "NOTIFY" if "pg_notify" in statement else statement.split()[0]


@pytest.mark.parametrize(
    ("call", "verbs"),
    [
        (lambda s, lease: s.append(lease, [ok("a")], 0, None), "UPDATE INSERT"),
        (lambda s, lease: s.append(lease, [ok("a"), ok("b")], 0, 0), "UPDATE INSERT"),
        (lambda s, lease: s.park(lease, (), 0, False), "UPDATE"),
        (lambda s, lease: s.park(lease, [ok("a")], 0, False), "UPDATE INSERT"),
        # The last statement of an ending asks who waits for it.
        (
            lambda s, lease: s.finish(lease, Status.COMPLETED, "1", ()),
            "UPDATE INSERT SELECT",
        ),
        (lambda s, lease: s.fail(lease, "{}", 0), "UPDATE INSERT SELECT"),
        (lambda s, lease: s.block(lease, "{}", 0, 1), "UPDATE"),
        (lambda s, lease: s.release(lease), "UPDATE NOTIFY"),
        (lambda s, lease: s.renew("a", 1, [lease]), "UPDATE"),
        (lambda s, lease: s.load(lease.instance, 0, 10), "SELECT SELECT"),
        (lambda s, _: s.claim(Key("order", "2"), "a", 1, (), new()), "INSERT"),
        # The last one asks how long an idle worker may wait.
        (lambda s, _: s.claim_due("b", 1, (), ["none"], 1, 9), "SELECT WITH SELECT"),
    ],
)
def test_what_a_transaction_costs(
    store: SqlStore, database: Database, call: Callable[..., Any], verbs: str
) -> None:
    lease = lease_on(store)
    commits: list[int] = []

    def count(_: object) -> None:
        commits.append(1)

    event.listen(database.engine, "commit", count)
    with statements(database) as seen:
        call(store, lease)
    event.remove(database.engine, "commit", count)
    if database.dialect == "sqlite":
        verbs = verbs.removesuffix(" NOTIFY")
    assert " ".join(map(verb, seen)) == verbs
    reads_only = verbs.startswith("SELECT")
    assert len(commits) == (0 if reads_only else 1)


def test_a_step_touches_no_indexed_column_of_its_row(
    store: SqlStore, database: Database
) -> None:
    table = database.tables.instances
    indexed = {column.name for index in table.indexes for column in index.columns}
    lease = lease_on(store)
    with statements(database) as seen:
        store.append(lease, [ok("a")], 0, None)
    changes = re.search(r"SET (.*) WHERE", seen[0])
    assert changes is not None
    changed = set(re.findall(r"(\w+)=", changes[1]))
    assert {"position", "attempts"} <= changed
    assert not changed & indexed


def test_no_transaction_stays_open(store: SqlStore, database: Database) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    store.load(lease.instance, 0, 1)
    assert database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
