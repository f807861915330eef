"""How the databases execute what is executed often: through an index.

Statements are caught as they are executed, with their parameters, and explained on a
database that holds some thousands of rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event

from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Key, Timer
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from .actors import EPOCH, MINUTE, lease_on, new, ok, sql

DISCOVERY = "ix_wf_instances_workflow_name_runnable_at"
KEYS = "uq_wf_instances_workflow_name_workflow_id|sqlite_autoindex_wf_instances_1"
NUMBERS = "pk_wf_instances|INTEGER PRIMARY KEY|ix_wf_instances_status_id"
POSITIONS = "pk_wf_journal|PRIMARY KEY"
NAMES = "ix_wf_journal_instance_id_generation_step_name"
OWNED = f"{NUMBERS}|ix_wf_instances_lease_owner"

MANY = Key("w0", "id-303")
"""One of the many of its name."""

HISTORY = "ix_wf_journal_history"

TIMERS = "ix_wf_timers_due_at"


@pytest.fixture
def full(store: SqlStore, database: Database) -> SqlStore:
    """A store with 6,000 instances, most of them parked, and 20,000 entries."""
    if database.dialect == "sqlite":
        numbers = (
            "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n "
            "WHERE n < {}) SELECT n FROM n"
        )
    else:
        numbers = "SELECT n FROM generate_series(1, {}) AS g(n)"
    sql(
        database,
        "INSERT INTO wf_instances (workflow_name, workflow_id, incarnation, status, "
        "input, created_at, updated_at, runnable_at, lease_owner, lease_until) "
        "SELECT 'w' || (n % 3), 'id-' || n, '', "
        "CASE WHEN n % 50 = 0 THEN 'running' ELSE 'suspended' END, '{}', 0, 0, "
        f"CASE WHEN n % 50 = 0 THEN {EPOCH} - n END, "
        "CASE WHEN n % 500 = 0 THEN 'owner' END, "
        f"CASE WHEN n % 500 = 0 THEN {EPOCH + MINUTE} END "
        f"FROM ({numbers.format(6000)}) AS numbers",
    )
    sql(
        database,
        "INSERT INTO wf_journal (instance_id, generation, position, kind, step_name, "
        "live, payload, recorded_at, entry_id) SELECT 1 + n % 20, 0, 1 + (n - 1) / 20, "
        "'step_ok', 'step-' || n, n % 100 > 0, '1', 0, '' "
        f"FROM ({numbers.format(20000)}) AS numbers",
    )
    sql(
        database,
        "INSERT INTO wf_snapshots (instance_id, generation, position, discriminator, "
        "entries, written_at) SELECT n, 0, 0, '', '', 0 "
        f"FROM ({numbers.format(2000)}) AS numbers",
    )
    lease = lease_on(store)
    store.append(lease, [ok(f"a{number}") for number in range(100)], 0, None)
    later = [Timer(f"sleep:{number}", delay=10**9) for number in range(2000)]
    store.arm(lease, later, 100)
    store.release(lease)
    sql(database, "ANALYZE")
    return store


def plans(database: Database, call: Callable[[], object]) -> list[str]:
    """The plans of the statements that a call executes."""
    caught: list[tuple[str, Any]] = []

    def catch(*given: Any) -> None:
        caught.append((given[2], given[3]))

    event.listen(database.engine, "before_cursor_execute", catch)
    try:
        call()
    finally:
        event.remove(database.engine, "before_cursor_execute", catch)
    explain = "EXPLAIN QUERY PLAN" if database.dialect == "sqlite" else "EXPLAIN"
    found = []
    for statement, parameters in caught:
        if "pg_notify" in statement:
            continue
        # One connection, and never committed: an explained write must do nothing.
        with database.engine.connect() as connection:
            rows = connection.exec_driver_sql(f"{explain} {statement}", parameters)
            found.append("\n".join(str(row[-1]) for row in rows))
    return found


def scans(plan: str) -> list[str]:
    """The steps of a plan that read a whole table."""
    found = []
    for line in plan.splitlines():
        step = line.strip()
        if re.search(r"Seq Scan on wf_", step) or (
            re.match(r"SCAN (wf_|.* AS wf_)", step) and "INDEX" not in step
        ):
            found.append(step)
    return found


CALLS: dict[str, tuple[Callable[[SqlStore, Any], object], list[str]]] = {
    "discovery": (
        lambda store, _: store.claim_due("a", 1, (), ["w0", "w1", "none"], 5, 9),
        [DISCOVERY, DISCOVERY, NUMBERS, NUMBERS],
    ),
    "discovery of nothing": (
        lambda store, _: store.claim_due("a", 1, (), ["none"], 5, 9),
        [DISCOVERY, DISCOVERY, f"{DISCOVERY}[^^]*{TIMERS}"],
    ),
    "timers": (lambda store, _: store.fire_due(5), [TIMERS]),
    "claim": (
        lambda store, _: store.claim(MANY, "a", 1, (), new()),
        ["", KEYS],
    ),
    "find": (lambda store, _: store.find(MANY), [KEYS]),
    "page": (
        lambda store, _: listed(store, after=3000),
        [NUMBERS],
    ),
    "page of a workflow": (
        lambda store, _: listed(store, workflow="w1", after=3000),
        [f"{NUMBERS}|ix_wf_instances_workflow_name_id"],
    ),
    "page of a status": (
        lambda store, _: listed(store, statuses=[Status.FAILED]),
        ["ix_wf_instances_status_id"],
    ),
    "prefix": (
        lambda store, _: listed(store, workflow="w1", prefix="id-577"),
        [KEYS],
    ),
    "step": (
        lambda store, lease: store.append(lease, [ok("fresh")], 100, None),
        [NUMBERS, ""],
    ),
    "late step": (
        lambda store, lease: store.append(lease, [ok("late")], 50, None),
        [NUMBERS, NUMBERS, NAMES, HISTORY, NUMBERS, "", POSITIONS],
    ),
    "load": (
        lambda store, lease: store.load(lease.instance, 0, 1000),
        [NUMBERS, POSITIONS],
    ),
    "load of an older generation": (
        lambda store, _: store.load(1, 1, 100),
        [NUMBERS, POSITIONS],
    ),
    "resolve": (
        lambda store, _: store.resolve(MANY, "w", "1", None),
        [KEYS, NAMES, HISTORY, "", NUMBERS],
    ),
    "renew": (lambda store, lease: store.renew("a", 1, [lease]), [OWNED]),
    "owners": (lambda store, _: store.owners(), ["ix_wf_instances_lease_owner"]),
    "expire": (
        lambda store, _: store.expire(["owner"]),
        ["ix_wf_instances_lease_owner"],
    ),
}


def listed(store: SqlStore, **changes: Any) -> object:
    asked: dict[str, Any] = {
        "statuses": None,
        "workflow": None,
        "prefix": None,
        "tags": {},
        "after": None,
        "limit": 10,
    }
    return store.list(**(asked | changes))


def test_what_runs_often_reads_no_table_from_end_to_end(
    full: SqlStore, database: Database
) -> None:
    lease = lease_on(full)
    for name, (call, indexes) in CALLS.items():
        explained = plans(database, lambda call=call: call(full, lease))  # type: ignore[misc]
        assert len(explained) == len(indexes), (name, explained)
        for plan, index in zip(explained, indexes, strict=True):
            assert re.search(index, plan), (name, plan)
            assert scans(plan) == [], (name, plan)
