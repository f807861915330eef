"""A look for what is wrong reads as much as the page it is about, on both databases."""

from __future__ import annotations

import pytest

from workflow_engine.core.lifecycle import LIVE, Status
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from .actors import EPOCH, sql
from .test_plans import plans, scans

PAGE = 10


@pytest.fixture
def full(store: SqlStore, database: Database) -> SqlStore:
    """A store with 6,000 instances and what belongs to them."""
    if database.dialect == "sqlite":
        numbers = (
            "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n "
            "WHERE n < 6000) SELECT n FROM n"
        )
    else:
        numbers = "SELECT n FROM generate_series(1, 6000) AS g(n)"
    rows = {
        "wf_instances (workflow_name, workflow_id, incarnation, status, input, "
        "created_at, updated_at, position, waits_on, lease_owner, lease_until, "
        "deadline_at)": (
            "'w' || (n % 3), 'id-' || n, '', CASE WHEN n % 50 = 0 THEN 'running' "
            "WHEN n % 51 = 0 THEN 'blocked' WHEN n % 4 = 0 THEN 'completed' "
            "ELSE 'suspended' END, '{}', 0, 0, 1, '[\"awk:a\"]', "
            "CASE WHEN n % 500 = 0 THEN 'owner' END, "
            f"CASE WHEN n % 500 = 0 THEN {EPOCH} END, "
            f"CASE WHEN n % 70 = 0 THEN {EPOCH} + n END"
        ),
        "wf_journal (instance_id, generation, position, kind, step_name, live, "
        "payload, recorded_at, entry_id)": (
            "n, 0, 1, 'step_ok', 'step', n > 0, '1', 0, ''"
        ),
        "wf_timers (instance_id, generation, step_name, due_at, created_at)": (
            f"n, 0, 'sleep:1', {EPOCH} + n, 0"
        ),
        "wf_awakeables (id, instance_id, generation, label, status, created_at)": (
            "'id-' || n, n, 0, 'a', 'pending', 0"
        ),
        "wf_children (parent_id, generation, step_name, child_id, created_at)": (
            "n, 0, 'child:w:1', 1 + (7 * n) % 6000, 0"
        ),
        "wf_messages (instance_id, message_key, topic, sent_at)": "n, 'k', 't', 0",
    }
    for table, values in rows.items():
        sql(
            database, f"INSERT INTO {table} SELECT {values} FROM ({numbers}) AS numbers"
        )
    sql(database, "ANALYZE")
    return store


def test_a_page_reads_no_table_from_end_to_end(
    full: SqlStore, database: Database
) -> None:
    looks = {Status.RUNNING: 7, Status.SUSPENDED: 9, Status.BLOCKED: 7}
    assert set(looks) == LIVE
    looks[Status.COMPLETED] = 2
    for status, statements in looks.items():
        explained = plans(
            database,
            lambda status=status: full.examine(status, 3000, PAGE, 1),  # type: ignore[misc]
        )
        assert len(explained) == statements
        for plan in explained:
            assert scans(plan) == [], (status, plan)


def test_a_look_at_large_goes_through_an_index(
    full: SqlStore, database: Database
) -> None:
    explained = plans(database, lambda: full.examine_at_large(PAGE, 1))
    indexes = (
        "ix_wf_instances_status_id",
        "ix_wf_instances_workflow_name_runnable_at",
        "ix_wf_timers_due_at",
        "ix_wf_instances_deadline_at",
    )
    for plan, index in zip(explained, indexes, strict=True):
        assert index in plan
        assert scans(plan) == [], plan
