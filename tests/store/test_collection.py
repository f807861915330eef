"""Collecting what has ended: all of it or nothing, and never what may be needed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from workflow_engine.core.collecting import CollectedBatch, Place
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.requests import Appended
from workflow_engine.core.rows import (
    Claim,
    Done,
    Key,
    Lease,
    Message,
    Sent,
    Timer,
)
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from .actors import (
    KEY,
    MINUTE,
    BoundClock,
    claim,
    lease_on,
    new,
    ok,
    spawn,
    sql,
    statements,
)
from .sessions import (
    dies_before,
    in_thread,
    paused_after_writing,
    wait_until_blocked,
)
from .test_plans import plans, scans

CHILD = Key("child", "c")
TABLES = (
    "wf_instances",
    "wf_journal",
    "wf_snapshots",
    "wf_timers",
    "wf_awakeables",
    "wf_messages",
    "wf_children",
)

DELETED = r"DELETE FROM \S*wf_instances"


def finish(store: SqlStore, lease: Lease, status: Status = Status.COMPLETED) -> None:
    """End an instance so."""
    if status is Status.CANCELLED:
        store.cancel(lease.key)
    elif status is Status.FAILED:
        row = store.find(lease.key)
        assert row is not None
        assert store.fail(lease, "{}", row.position) == Done()
    else:
        assert store.finish(lease, status, "7", ()) == Done()


def an_ended(
    store: SqlStore, key: Key = KEY, status: Status = Status.COMPLETED
) -> Lease:
    """An instance that has just ended."""
    lease = lease_on(store, key)
    finish(store, lease, status)
    return lease


def a_family(
    store: SqlStore, status: Status, parent: Key = KEY, child: Key = CHILD
) -> None:
    """A parent that ended so, after its child had completed."""
    lease = lease_on(store, parent)
    store.append(lease, [spawn(child)], 0, None)
    an_ended(store, child)
    finish(store, lease, status)


def rich(store: SqlStore, database: Database, key: Key = KEY) -> Lease:
    """An ended instance with something in every table."""
    lease = lease_on(store, key)
    store.append(lease, [ok("a")], 0, None)
    store.snapshot(lease, store.load(lease.instance, 0, 10))
    store.arm(lease, [Timer("sleep:s", delay=MINUTE)], 1)
    numbers = f"{lease.instance}, 0"
    sql(
        database,
        "INSERT INTO wf_awakeables (instance_id, generation, id, label, status, "
        f"created_at) VALUES ({numbers}, 'id-{lease.instance}', 'l', 'pending', 0)",
    )
    sql(
        database,
        "INSERT INTO wf_messages (instance_id, message_key, topic, sent_at) "
        f"VALUES ({lease.instance}, 'k', 't', 0)",
    )
    child = an_ended(store, Key("child", f"of {key.id}"))
    sql(
        database,
        "INSERT INTO wf_children (parent_id, generation, step_name, child_id, "
        f"created_at) VALUES ({numbers}, 's', {child.instance}, 0)",
    )
    finish(store, lease, Status.FAILED)
    return lease


def everything(database: Database) -> dict[str, list[str]]:
    """All rows of instances, by table."""
    return {
        table: sorted(map(str, sql(database, f"SELECT * FROM {table}")))
        for table in TABLES
    }


def collect_all(
    store: SqlStore, older_than: int = 0, limit: int = 2, *names: str
) -> int:
    """Collect until nothing is left; how many were deleted."""
    total, place = 0, None
    for _ in range(1000):
        answer = store.collect(older_than, limit, names or None, place)
        assert answer.deleted <= limit
        assert answer.failed == ()
        total, place = total + answer.deleted, answer.place
        if place is None:
            return total
    raise AssertionError("it goes on for ever")


def left(store: SqlStore) -> list[str]:
    """The instances that are there, by name and id."""
    rows = store.list(
        statuses=None, workflow=None, prefix=None, tags={}, after=None, limit=10_000
    )
    return [f"{row.key.workflow} {row.key.id}" for row in rows]


# --- what goes, and what stays --------------------------------------------------------


def test_all_that_belongs_to_an_instance_goes_with_it(
    store: SqlStore, database: Database
) -> None:
    known = {table.name for table in database.tables.metadata.sorted_tables}
    assert known == {*TABLES, "wf_schema_compat"}, "what becomes of a new table?"
    rich(store, database)
    assert all(everything(database).values())
    assert collect_all(store) == 2
    assert not any(everything(database).values())


def test_only_what_ended_long_enough_ago_is_collected(
    store: SqlStore, clock: BoundClock
) -> None:
    for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED):
        an_ended(store, Key("a", status), status)
    running, parked = lease_on(store, Key("a", "runs")), lease_on(store, Key("a", "p"))
    blocked = lease_on(store, Key("a", "b"))
    store.park(parked, [], 0, False, ["w"])
    store.block(blocked, "{}", 0, MINUTE)
    store.start(Key("a", "waits"), new())
    clock.advance(MINUTE - 1)
    an_ended(store, Key("a", "late"))
    assert collect_all(store, MINUTE) == 0
    clock.advance(1)
    an_ended(store, Key("b", "other"))
    assert collect_all(store, MINUTE) == 3
    assert collect_all(store, 0, 2, "b", "c") == 1
    assert left(store) == ["a runs", "a p", "a b", "a waits", "a late"]
    assert isinstance(store.append(running, [ok("x")], 0, None), Appended)


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
def test_a_child_stays_while_its_parent_may_attach_again(
    store: SqlStore, clock: BoundClock, status: Status
) -> None:
    lease = lease_on(store)
    store.append(lease, [spawn(CHILD)], 0, None)
    an_ended(store, CHILD)
    clock.advance(MINUTE)
    assert collect_all(store, MINUTE) == 0  # the parent runs
    finish(store, lease, status)
    assert collect_all(store, MINUTE) == 0
    clock.advance(MINUTE)
    # Its parent ended later, so that the child is passed over first.
    assert collect_all(store, MINUTE) == 2
    assert left(store) == []


def test_a_child_outlives_no_parent_that_completed(
    store: SqlStore, clock: BoundClock, database: Database
) -> None:
    lease = lease_on(store)
    store.append(lease, [spawn(CHILD)], 0, None)
    an_ended(store, CHILD)
    clock.advance(MINUTE)
    finish(store, lease)
    assert collect_all(store, MINUTE) == 1
    assert left(store) == ["order 1"]
    assert sql(database, "SELECT * FROM wf_children") == []


def test_what_would_be_deleted_is_what_is_deleted(
    store: SqlStore, clock: BoundClock
) -> None:
    # A forest of forty, whose instances end in another order than they began.
    leases = [lease_on(store, Key(f"w{n % 3}", str(n))) for n in range(40)]
    for number, lease in enumerate(leases[1:], 1):
        if number % 5:
            parent = leases[number * 7919 % number // 2 or number * 31 % number]
            known = store.load(parent.instance, 0, 100).position
            store.append(parent, [spawn(lease.key)], known, None)
    endings = [Status.COMPLETED, Status.FAILED, Status.FAILED, Status.CANCELLED]
    for number in sorted(range(40), key=lambda each: each * 23 % 41):
        clock.advance(1)
        if number % 7:
            finish(store, leases[number], endings[number * 3 % 4])
    for names in (["w0", "w1"], None):
        expected = store.collectable(10, names)
        before, total = left(store), sum(each.count for each in expected)
        assert 0 < total < len(before)
        assert collect_all(store, 10, 3, *(names or ())) == total
        gone = {name.split()[0] for name in set(before) - set(left(store))}
        assert gone == {each.workflow for each in expected}
        assert store.collectable(10, names) == []


def test_what_others_keep_is_gone_through_in_looks_that_are_bounded(
    store: SqlStore, database: Database
) -> None:
    rows = ", ".join(
        f"('kept', '{n}', '', 'completed', '{{}}', 0, 0, {n})" for n in range(1100)
    )
    sql(
        database,
        "INSERT INTO wf_instances (workflow_name, workflow_id, incarnation, status, "
        f"input, created_at, updated_at, ended_at) VALUES {rows}",
    )
    an_ended(store, Key("a", "1"))
    place, looks = None, 0
    while (answer := store.collect(0, 10, ["a"], place)).place is not None:
        assert answer.deleted == 0
        place, looks = answer.place, looks + 1
    assert (answer.deleted, looks) == (1, 2)
    assert len(left(store)) == 1100


def test_many_held_children_hide_nothing_and_are_looked_at_once(
    store: SqlStore, clock: BoundClock, database: Database
) -> None:
    parent = lease_on(store, Key("parent", "1"))
    rows = ", ".join(
        f"('child', 'c{n}', '', 'completed', '{{}}', 0, 0, {n // 100})"
        for n in range(1200)
    )
    sql(
        database,
        "INSERT INTO wf_instances (workflow_name, workflow_id, incarnation, status, "
        f"input, created_at, updated_at, ended_at) VALUES {rows}",
    )
    sql(
        database,
        "INSERT INTO wf_children (parent_id, generation, step_name, child_id, "
        f"created_at) SELECT {parent.instance}, 0, workflow_id, id, 0 "
        "FROM wf_instances WHERE workflow_name = 'child'",
    )
    an_ended(store, Key("young", "1"))
    with statements(database) as seen:
        assert collect_all(store) == 1
    assert len(seen) < 25
    assert len(left(store)) == 1201
    # And when they are free, they go in batches.
    finish(store, parent, Status.FAILED)
    assert collect_all(store, limit=500) == 1201
    assert left(store) == []


# --- deaths ---------------------------------------------------------------------------


def test_a_collection_killed_at_any_statement_leaves_nothing_half_deleted(
    store: SqlStore, database: Database
) -> None:
    lease = rich(store, database)
    batch = lambda: store.collect(0, 10, None, None)  # noqa: E731
    whole, number = everything(database), 0
    while dies_before(database, number, batch):
        assert everything(database) == whole, f"killed before statement {number}"
        number += 1
    assert number > 8
    assert store.find(KEY) is None
    assert store.find(Key("child", "of 1")) is not None  # it was the next batch's
    assert collect_all(store) == 1
    # The identity is free for another, which begins with nothing.
    again = claim(store, KEY)
    assert again.created
    assert again.lease.instance > lease.instance
    assert store.load(again.lease.instance, 0, 10).entries == ()


def test_what_a_killed_collection_has_done_is_done_and_the_same_call_goes_on(
    store: SqlStore, database: Database
) -> None:
    for number in range(6):
        a_family(store, Status.FAILED, Key("p", f"{number}"), Key("c", f"{number}"))
    rest, killed = 12, 0
    while dies_before(database, 30, lambda: collect_all(store, 0, 2)):
        killed += 1
        now = len(left(store))
        assert now < rest
        rest = now
    assert killed >= 2
    assert not any(everything(database).values())


def test_ten_thousand_go_in_batches_and_what_runs_or_waits_stays(
    store: SqlStore, database: Database
) -> None:
    sql(
        database,
        "INSERT INTO wf_instances (workflow_name, workflow_id, incarnation, status, "
        "input, created_at, updated_at, ended_at) WITH RECURSIVE n(n) AS (SELECT 1 "
        "UNION ALL SELECT n + 1 FROM n WHERE n < 10000) "
        "SELECT 'a', n, '', 'failed', '{}', 0, 0, n FROM n",
    )
    parked = lease_on(store, Key("b", "parked"))
    store.park(parked, [], 0, False, ["w"])
    lease_on(store, Key("b", "running"))
    assert dies_before(database, 100, lambda: collect_all(store, 0, 500))
    (count,) = sql(database, "SELECT count(*) FROM wf_instances WHERE ended_at > 0")
    assert 4000 < count[0] < 8000
    assert count[0] % 500 == 0
    assert collect_all(store, 0, 500) == count[0]
    assert left(store) == ["b parked", "b running"]


def test_an_instance_that_cannot_be_deleted_stands_in_nobodys_way(
    store: SqlStore, database: Database
) -> None:
    for number in range(5):
        an_ended(store, Key("a", str(number)))
    keep_2(database)
    answer = store.collect(0, 3, None, None)
    assert answer.deleted == 2
    (stuck,) = answer.failed
    assert stuck.key == Key("a", "2")
    assert "it is kept" in stuck.problem
    assert answer.place is not None
    rest = store.collect(0, 3, None, answer.place)
    assert rest == CollectedBatch(2, (), None)
    assert left(store) == ["a 2"]


def keep_2(database: Database) -> None:
    """Let the database refuse to delete the instances whose id is 2."""
    if database.dialect == "sqlite":
        act = "BEGIN SELECT RAISE(ABORT, 'it is kept'); END"
        before = "BEFORE DELETE ON wf_instances WHEN OLD.workflow_id = '2'"
        sql(database, f"CREATE TRIGGER keep {before} {act}")
        return
    body = "BEGIN RAISE EXCEPTION 'it is kept'; END"
    sql(
        database,
        f"CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS '{body}'".replace(
            "'it is kept'", "''it is kept''"
        ),
    )
    sql(
        database,
        "CREATE TRIGGER keep BEFORE DELETE ON wf_instances FOR EACH ROW "
        "WHEN (OLD.workflow_id = '2') EXECUTE FUNCTION keep()",
    )


# --- others, at the same time ---------------------------------------------------------


@pytest.fixture
def other(database: Database, clock: BoundClock) -> Iterator[SqlStore]:
    """A store with connections of its own."""
    url = database.engine.url
    with Database.open(url) as mine:
        yield SqlStore(mine, clock)


def test_what_is_being_resurrected_is_passed_over(
    store: SqlStore, database: Database, other: SqlStore
) -> None:
    an_ended(store, KEY, Status.FAILED)
    with (
        paused_after_writing(database) as pause,
        in_thread(lambda: store.resurrect(KEY, ())) as resurrected,
    ):
        pause.wait_reached()
        if database.dialect == "sqlite":
            pause.go_on()  # one writes at a time: whoever is second looks again
        assert collect_all(other) == 0
        pause.go_on()
        assert resurrected.result() == Done()
    assert isinstance(other.claim(KEY, "b", 1, ()), Claim)


def test_a_parent_that_attaches_in_time_keeps_the_child(
    store: SqlStore, database: Database, other: SqlStore
) -> None:
    parent = lease_on(store)
    an_ended(store, CHILD)
    attach = partial(store.append, parent, [spawn(CHILD)], 0, None)
    with paused_after_writing(database) as pause, in_thread(attach) as attached:
        pause.wait_reached()
        if database.dialect == "sqlite":
            pause.go_on()
        assert collect_all(other) == 0
        pause.go_on()
        appended = attached.result()
    assert isinstance(appended, Appended)
    assert [each.kind for each in appended.entries] == ["step_ok", "wake"]


def test_a_parent_that_attaches_too_late_spawns_the_child_anew(
    store: SqlStore, database: Database, other: SqlStore
) -> None:
    parent = lease_on(store)
    old = an_ended(store, CHILD)
    attach = partial(other.append, parent, [spawn(CHILD)], 0, None)
    with (
        paused_after_writing(database) as pause,
        in_thread(lambda: collect_all(store)) as collected,
    ):
        pause.wait_reached()
        with in_thread(attach) as attached:
            wait_until_blocked(database)
            pause.go_on()
            assert isinstance(attached.result(), Appended)
        assert collected.result() == 1
    child = store.find(CHILD)
    assert child is not None
    assert (child.status, child.instance > old.instance) == (Status.RUNNING, True)


def test_two_collections_share_the_work_and_do_not_wait_for_each_other(
    store: SqlStore, database: Database, other: SqlStore
) -> None:
    for number in range(4):
        a_family(store, Status.FAILED, Key("p", f"{number}"), Key("c", f"{number}"))
    with (
        paused_after_writing(database) as pause,
        in_thread(lambda: collect_all(store)) as collected,
    ):
        pause.wait_reached()
        if database.dialect == "sqlite":
            pause.go_on()
        mine = collect_all(other)
        pause.go_on()
        theirs = collected.result()
    assert mine + theirs == 8
    assert left(store) == []


# --- afresh ---------------------------------------------------------------------------


def test_an_ended_instance_is_started_afresh_or_left_whole(
    store: SqlStore, database: Database
) -> None:
    old = rich(store, database)
    fresh = new('{"x":2}', incarnation="f" * 32, tags={"a": "b"}, delay=MINUTE)
    whole, number = everything(database), 0
    while dies_before(database, number, lambda: store.restart(KEY, fresh)):
        assert everything(database) == whole, f"killed before statement {number}"
        number += 1
    assert number > 10
    row = store.find(KEY, payloads=True)
    assert row is not None
    assert row.instance > old.instance
    assert (row.generation, row.position, row.status) == (0, 0, Status.RUNNING)
    assert (row.incarnation, row.input, row.tags) == (
        "f" * 32,
        '{"x":2}',
        {"a": "b"},
    )
    assert row.next_attempt_at is not None
    rows = everything(database)
    belongings = ("wf_snapshots", "wf_timers", "wf_awakeables", "wf_messages")
    assert not any(rows[table] for table in (*belongings, "wf_children"))
    # The child is an instance of its own.
    assert store.find(Key("child", "of 1")) is not None
    assert store.restart(KEY, new()) == (row, False)


@pytest.mark.parametrize("status", [None, Status.FAILED, Status.COMPLETED])
def test_a_child_is_started_afresh_when_its_parent_has_completed(
    store: SqlStore, status: Status | None
) -> None:
    lease = lease_on(store)
    store.append(lease, [spawn(CHILD)], 0, None)
    old = an_ended(store, CHILD)
    if status is not None:
        finish(store, lease, status)
    row, created = store.restart(CHILD, new())
    assert created == (status is Status.COMPLETED)
    assert (row.instance == old.instance) == (not created)
    assert row.status is (Status.RUNNING if created else Status.COMPLETED)


def test_two_who_start_it_afresh_at_once_get_one_new_instance(
    store: SqlStore, database: Database, other: SqlStore
) -> None:
    old = an_ended(store)
    with (
        paused_after_writing(database, DELETED) as pause,
        in_thread(partial(store.restart, KEY, new("1"))) as one,
    ):
        pause.wait_reached()
        with in_thread(partial(other.restart, KEY, new("2"))) as two:
            wait_until_blocked(database)
            pause.go_on()
            (first, created), (second, again) = one.result(), two.result()
    assert (created, again) == (True, False)
    assert first.instance == second.instance > old.instance
    assert first.input == second.input == "1"


def test_a_start_against_a_collection_gets_a_fresh_instance(
    store: SqlStore, database: Database, other: SqlStore
) -> None:
    for start in (other.start, other.restart):
        old = an_ended(store)
        with (
            paused_after_writing(database, DELETED) as pause,
            in_thread(partial(collect_all, store)) as collected,
        ):
            pause.wait_reached()
            with in_thread(partial(start, KEY, new())) as started:
                wait_until_blocked(database)
                pause.go_on()
                row, created = started.result()
            assert collected.result() == 1
        assert created
        assert row.instance > old.instance
        store.cancel(KEY)
        assert collect_all(store) == 1


def test_what_is_collected_under_a_sender_that_may_start_it_is_started_afresh(
    store: SqlStore, database: Database, other: SqlStore
) -> None:
    if database.dialect == "sqlite":
        return  # one writes at a time: nothing is collected under another's hands
    old = an_ended(store)
    message = Message("t", "1", "k", is_keyed=False)
    with (
        paused_after_writing(database, r"INSERT INTO \S*wf_instances") as pause,
        in_thread(partial(store.send, KEY, message, new())) as sent,
    ):
        pause.wait_reached()
        assert collect_all(other) == 1
        pause.go_on()
        answer = sent.result()
    assert isinstance(answer, Sent)
    assert answer.delivered
    assert answer.instance.instance > old.instance


# --- plans ----------------------------------------------------------------------------


def test_a_collection_goes_through_indexes(store: SqlStore, database: Database) -> None:
    payload = "x" * 1800
    numbers = (
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n "
        "WHERE n < 6000) SELECT {} FROM n"
    )
    inserts = {
        "wf_instances (workflow_name, workflow_id, incarnation, status, input, "
        "created_at, updated_at, ended_at)": (
            "'w' || (n % 3), 'id-' || n, '', CASE WHEN n % 2 = 0 THEN 'completed' "
            f"ELSE 'running' END, '{payload}', 0, 0, CASE WHEN n % 2 = 0 THEN n END"
        ),
        "wf_journal (instance_id, generation, position, kind, live, recorded_at, "
        "entry_id)": "n, 0, 1, 'step_ok', TRUE, 0, ''",
        "wf_snapshots (instance_id, generation, position, discriminator, entries, "
        "written_at)": "n, 0, 0, '', '', 0",
        "wf_timers (instance_id, generation, step_name, due_at, created_at)": (
            "n, 0, 's', 0, 0"
        ),
        "wf_awakeables (id, instance_id, generation, label, status, created_at)": (
            "'a' || n, n, 0, 'l', 'pending', 0"
        ),
        "wf_messages (instance_id, message_key, topic, sent_at)": "n, 'k', 't', 0",
        "wf_children (parent_id, generation, step_name, child_id, created_at)": (
            "n, 0, 's', n + 6000, 0"
        ),
    }
    for into, values in inserts.items():
        sql(database, f"INSERT INTO {into} " + numbers.format(values))
    sql(database, "ANALYZE")
    ended = "ix_wf_instances_ended_at"
    for names in (None, ["w0", "w2"]):
        batch = partial(store.collect, 0, 5, names, Place(5500, 1))
        explained = plans(database, batch)
        assert len(explained) == 12
        assert ended in explained[0], explained[0]
        for plan in explained:
            assert scans(plan) == [], plan
    counting = plans(database, lambda: store.collectable(0))
    assert ended in counting[0]
