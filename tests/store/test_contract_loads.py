"""Loading a journal, from a snapshot or whole; and what time it is."""

from __future__ import annotations

import json

import attrs
import pytest
from sqlalchemy import event

from workflow_engine.core.journal import FORMAT, Draft, Entry, Kind, Prefix
from workflow_engine.core.lifecycle import Status
from workflow_engine.errors import StoreUnavailable
from workflow_engine.store import snapshots
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from .actors import (
    KEY,
    MINUTE,
    SECOND,
    claim,
    entry,
    failed,
    lease_on,
    new,
    ok,
    sql,
    statements,
)

# --- load ---


@pytest.mark.parametrize("page_size", [1, 2, 3, 100])
def test_a_load_brings_all_live_entries_in_order(
    store: SqlStore, page_size: int
) -> None:
    lease = lease_on(store)
    drafts = [ok("a"), Draft(Kind.PATCH, "patch:p", "true"), failed("b"), ok("c")]
    store.append(lease, drafts, 0, None)
    store.resolve(KEY, "w", "7", None)
    wake = entry(5, Draft(Kind.WAKE, "w", "7"))
    live = (*(entry(n, draft) for n, draft in enumerate(drafts, 1)), wake)
    assert store.load(lease.instance, 0, page_size) == Prefix(live, 5, {})


def test_a_load_counts_history_and_leaves_it_out(store: SqlStore) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a"), failed("b"), ok("c")], 0, None)
    store.fail(lease, '{"entry":"b"}', 3)
    store.resurrect(KEY, ("c",))
    lease = lease_on(store)
    store.append(lease, [Draft(Kind.STEP_FAILED, "b", "{}", 1)], 5, None)
    store.fail(lease, '{"entry":"b"}', 6)
    store.resurrect(KEY, None)
    prefix = store.load(lease.instance, 0, 100)
    assert prefix == Prefix((entry(1, ok("a")),), 8, {"b": 2, "c": 1})


def test_entries_of_a_later_version_are_loaded_as_they_are(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a"), ok("b"), ok("c")], 0, None)
    sql(database, "UPDATE wf_journal SET kind = 'novel' WHERE position = 1")
    sql(
        database,
        "UPDATE wf_journal SET kind = 'novel', live = false, step_name = NULL "
        "WHERE position = 2",
    )
    sql(database, "UPDATE wf_journal SET format = 2 WHERE position = 3")
    assert store.load(lease.instance, 0, 100).entries == (
        Entry(1, "novel", "a", "1", True),
        Entry(2, "novel", None, "1", False),
        Entry(3, "step_ok", "c", "1", True, 2),
    )


def test_an_older_generation_can_be_loaded(store: SqlStore) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a"), ok("b")], 0, None)
    store.rotate(lease, "1", (), (), ())
    old = store.load(lease.instance, 0, 1)
    assert ([each.name for each in old.entries], old.position) == (["a", "b"], 3)
    assert store.load(lease.instance, 2, 1) == Prefix((), 0, {})


def test_a_load_takes_at_most_three_statements(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok(str(number)) for number in range(20)], 0, None)
    with statements(database) as seen:
        store.load(lease.instance, 0, 3)
    assert len(seen) <= 3


@pytest.mark.parametrize("lost", [2, 3])
def test_a_journal_that_comes_back_short_is_an_outage_not_a_prefix(
    store: SqlStore, database: Database, lost: int
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a"), ok("b"), ok("c")], 0, None)
    sql(database, f"UPDATE wf_journal SET generation = 9 WHERE position = {lost}")
    with statements(database) as seen, pytest.raises(StoreUnavailable, match="short"):
        store.load(lease.instance, 0, 100)
    assert len(seen) > 3
    sql(database, "UPDATE wf_journal SET generation = 0")
    assert store.load(lease.instance, 0, 100).position == 3


def test_a_short_read_is_read_again(store: SqlStore, database: Database) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a"), ok("b")], 0, None)
    sql(database, "UPDATE wf_journal SET generation = 9 WHERE position = 2")
    looks = []

    def catch_up(*_: object) -> None:
        looks.append(1)
        if len(looks) == 3:  # the second read's first statement
            other = Database.open(database.engine.url)
            sql(other, "UPDATE wf_journal SET generation = 0")
            other.close()

    event.listen(database.engine, "before_cursor_execute", catch_up)
    prefix = store.load(lease.instance, 0, 100)
    event.remove(database.engine, "before_cursor_execute", catch_up)
    assert prefix.position == 2


# --- snapshots ---


def test_a_load_begins_at_the_snapshot(store: SqlStore, database: Database) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a"), ok("b")], 0, None)
    before = store.load(lease.instance, 0, 100)
    store.snapshot(lease, before)
    store.append(lease, [ok("c")], 2, None)
    # Whatever the snapshot covers is not read again.
    sql(database, "UPDATE wf_journal SET payload = '9' WHERE position = 1")
    after = store.load(lease.instance, 0, 100)
    assert after == Prefix((*before.entries, entry(3, ok("c"))), 3, {})


def test_a_snapshot_keeps_what_superseded_entries_count(store: SqlStore) -> None:
    lease = lease_on(store)
    store.append(lease, [failed("a"), ok("b")], 0, None)
    store.fail(lease, '{"entry":"a"}', 2)
    store.resurrect(KEY, ())
    lease = lease_on(store)
    prefix = store.load(lease.instance, 0, 100)
    store.snapshot(lease, prefix)
    assert prefix.superseded == {"a": 1}
    assert store.load(lease.instance, 0, 100) == prefix


def test_a_later_snapshot_replaces_an_earlier_one_and_not_the_reverse(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    first = store.load(lease.instance, 0, 100)
    store.append(lease, [ok("b")], 1, None)
    second = store.load(lease.instance, 0, 100)
    for prefix, kept in [(first, 1), (second, 2), (first, 2)]:
        store.snapshot(lease, prefix)
        assert sql(database, "SELECT position FROM wf_snapshots") == [(kept,)]


@pytest.mark.parametrize(
    "damage",
    [
        "discriminator = 'other'",
        "entries = 'no JSON'",
        "entries = '{}'",
        "entries = '[]'",
        "entries = replace(entries, '\"superseded\"', '\"other\"')",
        "entries = replace(entries, '\"step_ok\"', '7')",
        "entries = replace(entries, 'true', '1')",
        "entries = replace(entries, '[1,', '[2,')",
        "entries = replace(entries, '[2,', '[9,')",
        "position = 1",
        "position = 99",
    ],
)
def test_a_snapshot_that_cannot_be_used_is_ignored(
    store: SqlStore, database: Database, damage: str
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a"), ok("b")], 0, None)
    prefix = store.load(lease.instance, 0, 100)
    store.snapshot(lease, prefix)
    sql(database, f"UPDATE wf_snapshots SET {damage}")
    assert store.load(lease.instance, 0, 100) == prefix


def test_a_snapshot_that_is_ahead_of_its_row_is_ignored(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a"), ok("b")], 0, None)
    prefix = store.load(lease.instance, 0, 100)
    store.snapshot(lease, prefix)
    sql(database, "UPDATE wf_instances SET position = 1")
    sql(database, "UPDATE wf_journal SET payload = '9' WHERE position = 1")
    assert store.load(lease.instance, 0, 100) == Prefix(
        (entry(1, ok("a", "9")), entry(2, ok("b"))), 2, {}
    )


def test_a_snapshot_of_other_code_is_replaced(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a"), ok("b")], 0, None)
    store.snapshot(lease, store.load(lease.instance, 0, 100))
    sql(database, "UPDATE wf_snapshots SET discriminator = 'x', position = 9")
    store.snapshot(lease, store.load(lease.instance, 0, 100))
    (row,) = sql(database, "SELECT discriminator, position FROM wf_snapshots")
    assert tuple(row) == (snapshots.SHAPE, 2)


def test_what_a_snapshot_holds_depends_on_what_the_code_understands() -> None:
    assert f"format/{FORMAT}" in snapshots.SHAPE
    assert all(kind.value in snapshots.SHAPE for kind in Kind)


def test_a_snapshot_may_follow_the_run_that_took_it(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    prefix = store.load(lease.instance, 0, 100)
    store.finish(lease, Status.COMPLETED, "1", ())
    store.snapshot(lease, prefix)
    assert sql(database, "SELECT position FROM wf_snapshots") == [(1,)]
    # The marker after it is history.
    assert store.load(lease.instance, 0, 100) == Prefix(prefix.entries, 2, {})


def test_a_zombie_cannot_bring_back_what_was_superseded(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    store.append(lease, [failed("a")], 0, None)
    prefix = store.load(lease.instance, 0, 100)
    store.fail(lease, '{"entry":"a"}', 1)
    store.resurrect(KEY, None)
    store.snapshot(lease, prefix)
    assert sql(database, "SELECT position FROM wf_snapshots") == []
    assert store.load(lease.instance, 0, 100) == Prefix((), 3, {"a": 1})


def test_a_snapshot_of_more_than_there_is_is_not_kept(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    for prefix in [Prefix((entry(1, ok("a")),), 2, {}), Prefix((), 0, {})]:
        store.snapshot(lease, prefix)
    store.snapshot(attrs.evolve(lease, generation=1), Prefix((), 1, {}))
    store.snapshot(attrs.evolve(lease, instance=99), Prefix((), 1, {}))
    assert sql(database, "SELECT position FROM wf_snapshots") == []


def test_a_snapshot_is_ascii_json(store: SqlStore, database: Database) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("é\u2028", '"\\u0000"')], 0, None)
    prefix = store.load(lease.instance, 0, 100)
    store.snapshot(lease, prefix)
    ((document,),) = sql(database, "SELECT entries FROM wf_snapshots")
    assert document.isascii()
    json.loads(document)
    assert store.load(lease.instance, 0, 100) == prefix


# --- time ---


def test_without_a_clock_the_database_says_what_time_it_is(
    database: Database,
) -> None:
    store = SqlStore(database)
    before = store.start(KEY, new())[0].created_at
    lease = claim(store).lease
    store.append(lease, [ok("a")], 0, None)
    ((_, recorded_at, _),) = store.journal(lease.instance, 0, 0, 10)
    found = store.find(KEY)
    assert found is not None
    assert before <= found.updated_at <= recorded_at < before + MINUTE
    assert found.lease_until is not None
    assert 0 <= found.lease_until - before - MINUTE < MINUTE
    if database.dialect == "postgresql":
        ((real,),) = sql(database, "SELECT extract(epoch from now())")
    else:
        ((real,),) = sql(database, "SELECT strftime('%s', 'now')")
    assert abs(int(real) * SECOND - before) < MINUTE
