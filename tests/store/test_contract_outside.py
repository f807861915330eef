"""What others than its run do to an instance: resolve, cancel, resurrect, discard."""

from __future__ import annotations

import json

import pytest

from workflow_engine.core import ids
from workflow_engine.core.identity import SEED
from workflow_engine.core.journal import Draft, Entry, Kind
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import (
    Ambiguous,
    Done,
    Fenced,
    Instance,
    Lease,
    Missing,
    Refused,
    Resolved,
)
from workflow_engine.errors import EntryNotFound
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from .actors import (
    KEY,
    MINUTE,
    SECOND,
    BoundClock,
    claim,
    entry,
    failed,
    history,
    kinds,
    lease_on,
    ok,
    sql,
)


def row(store: SqlStore) -> Instance:
    found = store.find(KEY)
    assert found is not None
    return found


def fail_after(store: SqlStore, drafts: list[Draft], blamed: str | None) -> Lease:
    """Record drafts, and fail with the error of one of them, or with another."""
    lease = lease_on(store)
    store.append(lease, drafts, 0, None)
    record = json.dumps({"reason": "E", "entry": blamed})
    assert store.fail(lease, record, len(drafts)) == Done()
    return lease


# --- resolve ---


def test_a_resolved_wake_is_recorded_once(store: SqlStore, clock: BoundClock) -> None:
    lease = lease_on(store)
    store.park(lease, (), 0, False)
    clock.advance(SECOND)
    answer = store.resolve(KEY, "w", "7", None)
    assert isinstance(answer, Resolved)
    assert answer.delivered
    assert (answer.instance.position, answer.instance.wake_after) == (1, clock.now)
    assert answer.instance.status is Status.SUSPENDED
    clock.advance(SECOND)
    assert store.resolve(KEY, "w", "8", None) == Resolved(False, row(store))
    assert history(store, lease) == [entry(1, Draft(Kind.WAKE, "w", "7"))]


def test_a_wake_for_a_running_instance_changes_only_its_journal(
    store: SqlStore, clock: BoundClock
) -> None:
    before = claim(store).instance
    clock.advance(SECOND)
    answer = store.resolve(KEY, "w", "7", 0)
    assert isinstance(answer, Resolved)
    after = answer.instance
    assert (after.position, after.updated_at) == (1, clock.now)
    assert (after.wake_after, after.lease_until) == (None, before.lease_until)


def test_a_wake_for_a_blocked_instance_leaves_its_pace(store: SqlStore) -> None:
    store.block(lease_on(store), "{}", 0, MINUTE)
    paced = row(store).next_attempt_at
    assert store.resolve(KEY, "w", "7", None) == Resolved(True, row(store))
    assert (row(store).status, row(store).next_attempt_at) == (Status.BLOCKED, paced)


def test_a_wake_is_delivered_to_the_current_generation_alone(store: SqlStore) -> None:
    lease = lease_on(store)
    store.rotate(lease, "1", (), (), ())
    assert store.resolve(KEY, "w", "7", 0) == Resolved(False, row(store))
    assert store.resolve(KEY, "w", "7", 1) == Resolved(True, row(store))
    assert kinds(history(store, lease, 0)) == ["continued_as_new"]


def test_a_wake_for_an_ended_or_missing_instance_changes_nothing(
    store: SqlStore,
) -> None:
    assert store.resolve(KEY, "w", "7", None) == Missing()
    lease = lease_on(store)
    store.finish(lease, Status.COMPLETED, "1", ())
    assert store.resolve(KEY, "w", "7", None) == Resolved(False, row(store))
    assert kinds(history(store, lease)) == ["completed"]


def test_a_name_that_a_step_has_is_taken_for_wakes_too(store: SqlStore) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    assert store.resolve(KEY, "a", "7", None) == Resolved(False, row(store))


# --- cancel ---


def test_a_cancelled_instance_ends_whoever_runs_it(
    store: SqlStore, clock: BoundClock
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    answer = store.cancel(KEY)
    assert isinstance(answer, Instance)
    assert (answer.status, answer.ended_at) == (Status.CANCELLED, clock.now)
    assert (answer.lease_owner, answer.position) == (None, 2)
    assert kinds(history(store, lease)) == ["step_ok", "cancelled"]
    assert isinstance(store.append(lease, [ok("b")], 1, None), Refused)
    assert not store.release(lease)
    assert store.renew("a", MINUTE, [lease]) == set()


def test_a_cancel_never_rewrites_an_end(store: SqlStore) -> None:
    assert store.cancel(KEY) == Missing()
    lease = lease_on(store)
    store.finish(lease, Status.COMPLETED, "1", ())
    before = row(store)
    assert store.cancel(KEY) == before
    assert row(store) == before
    assert kinds(history(store, lease)) == ["completed"]


@pytest.mark.parametrize("how", ["suspended", "blocked", "crashed"])
def test_an_instance_that_waits_can_be_cancelled(store: SqlStore, how: str) -> None:
    lease = lease_on(store)
    match how:
        case "suspended":
            store.park(lease, (), 0, False)
        case "blocked":
            store.block(lease, "{}", 0, MINUTE)
        case "crashed":
            store.crash(lease, "{}", 0, 5)
    store.cancel(KEY)
    assert (row(store).status, row(store).next_attempt_at) == (Status.CANCELLED, None)
    assert not store.claim_due("w", MINUTE, (), ["order"], 9, 9).claims


# --- resurrect ---


def test_a_resurrection_supersedes_the_failure_that_left_the_body(
    store: SqlStore,
) -> None:
    lease = fail_after(store, [ok("a"), failed("b")], "b")
    assert store.resurrect(KEY, None) == Done()
    assert row(store).status is Status.RUNNING
    assert (row(store).last_error, row(store).ended_at) == (None, None)
    prefix = store.load(lease.instance, 0, 10)
    assert prefix.entries == (entry(1, ok("a")),)
    assert (prefix.position, prefix.superseded) == (4, {"b": 1})
    rows = history(store, lease)
    assert kinds(rows) == ["step_ok", "step_failed", "failed", "resurrected"]
    assert rows[1] == Entry(2, "step_failed", "b", failed("b").payload, live=False)
    assert json.loads(rows[3].payload or "") == {"superseded": ["b"]}
    (got,) = store.claim_due("w", MINUTE, (), ["order"], 9, 9).claims
    again = [Draft(Kind.STEP_OK, "b", "2", superseded=1)]
    store.append(got.lease, again, 4, None)
    entry_ids = [each[2] for each in store.journal(lease.instance, 0, 0, 10)]
    assert entry_ids[4] == ids.entry_id("order", "1", 0, "b", 1)
    assert len(set(entry_ids)) == 5


def test_a_crashed_instance_is_resurrected_with_its_journal(store: SqlStore) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    store.crash(lease, '{"entry":null}', 1, 1)
    assert row(store).attempts == 1
    assert store.resurrect(KEY, None) == Done()
    assert row(store).attempts == 0
    assert store.load(lease.instance, 0, 10).entries == (entry(1, ok("a")),)
    rows = history(store, lease)
    assert json.loads(rows[-1].payload or "") == {"superseded": []}


def test_a_blocked_instance_is_resurrected(store: SqlStore) -> None:
    lease = lease_on(store)
    store.append(lease, [failed("a")], 0, None)
    store.block(lease, "{}", 1, MINUTE)
    assert store.resurrect(KEY, None) == Done()
    assert (row(store).status, row(store).next_attempt_at) == (Status.RUNNING, None)
    assert store.load(lease.instance, 0, 10).entries == (entry(1, failed("a")),)


def test_steps_after_the_failure_must_be_spoken_for(store: SqlStore) -> None:
    drafts = [ok("a"), failed("b"), ok("undo"), failed("tell")]
    lease = fail_after(store, drafts, "b")
    before = row(store)
    assert store.resurrect(KEY, None) == Ambiguous(("undo", "tell"))
    assert row(store) == before
    assert len(history(store, lease)) == 5


def test_rerun_of_nothing_keeps_the_later_steps(store: SqlStore) -> None:
    lease = fail_after(store, [failed("b"), ok("undo")], "b")
    assert store.resurrect(KEY, ()) == Done()
    assert store.load(lease.instance, 0, 10).entries == (entry(2, ok("undo")),)


def test_rerun_supersedes_the_steps_it_names(store: SqlStore) -> None:
    lease = fail_after(store, [failed("b"), ok("undo"), ok("c")], "b")
    assert store.resurrect(KEY, ["undo"]) == Done()
    prefix = store.load(lease.instance, 0, 10)
    assert prefix.entries == (entry(3, ok("c")),)
    assert prefix.superseded == {"b": 1, "undo": 1}
    record = json.loads(history(store, lease)[-1].payload or "")
    assert record == {"superseded": ["b", "undo"]}


@pytest.mark.parametrize("name", ["a", "w", "b", "nowhere", SEED])
def test_rerun_names_only_steps_recorded_after_the_failure(
    store: SqlStore, name: str
) -> None:
    lease = fail_after(
        store, [ok(SEED), ok("a"), failed("b"), Draft(Kind.WAKE, "w", "1")], "b"
    )
    before = row(store)
    with pytest.raises(EntryNotFound, match=name):
        store.resurrect(KEY, [name])
    assert row(store) == before
    assert len(history(store, lease)) == 5


def test_without_a_journaled_failure_any_step_may_run_again(store: SqlStore) -> None:
    lease = fail_after(store, [ok(SEED), ok("a"), ok("b")], None)
    assert store.resurrect(KEY, ["a"]) == Done()
    prefix = store.load(lease.instance, 0, 10)
    assert [each.name for each in prefix.entries] == [SEED, "b"]
    store.fail(lease_on(store), '{"entry":null}', 5)
    with pytest.raises(EntryNotFound):
        store.resurrect(KEY, [SEED])


def test_the_latest_failure_is_the_one_superseded(store: SqlStore) -> None:
    lease = fail_after(store, [failed("a")], "a")
    store.resurrect(KEY, None)
    lease = lease_on(store)
    drafts = [Draft(Kind.STEP_OK, "a", "1", 1), failed("b")]
    store.append(lease, drafts, 3, None)
    store.fail(lease, '{"entry":"b"}', 5)
    assert store.resurrect(KEY, None) == Done()
    prefix = store.load(lease.instance, 0, 10)
    assert [each.name for each in prefix.entries] == ["a"]
    assert prefix.superseded == {"a": 1, "b": 1}


def test_a_failed_wake_that_left_the_body_is_superseded_too(store: SqlStore) -> None:
    lease = fail_after(store, [Draft(Kind.WAKE_FAILED, "w", "{}")], "w")
    assert store.resurrect(KEY, None) == Done()
    assert store.load(lease.instance, 0, 10).entries == ()
    assert store.resolve(KEY, "w", "7", None) == Resolved(True, row(store))
    last = store.journal(lease.instance, 0, 0, 10)[-1]
    assert last[2] == ids.entry_id("order", "1", 0, "w", 1)


@pytest.mark.parametrize("payload", ["no JSON", "[]", '{"entry": 5}', "{}"])
def test_a_failure_whose_record_blames_nobody_supersedes_nothing(
    store: SqlStore, payload: str
) -> None:
    lease = lease_on(store)
    store.append(lease, [failed("a")], 0, None)
    store.fail(lease, payload, 1)
    assert store.resurrect(KEY, None) == Done()
    assert store.load(lease.instance, 0, 10).entries == (entry(1, failed("a")),)


def test_a_row_that_was_failed_by_hand_is_resurrected(
    store: SqlStore, database: Database
) -> None:
    store.release(lease_on(store))
    sql(database, "UPDATE wf_instances SET status = 'failed', runnable_at = NULL")
    assert store.resurrect(KEY, None) == Done()
    assert len(store.claim_due("w", MINUTE, (), ["order"], 9, 9).claims) == 1


def test_a_resurrection_drops_the_snapshot(store: SqlStore) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a"), failed("b")], 0, None)
    store.snapshot(lease, store.load(lease.instance, 0, 10))
    store.fail(lease, '{"entry":"b"}', 2)
    store.resurrect(KEY, None)
    assert store.load(lease.instance, 0, 10).entries == (entry(1, ok("a")),)


def test_a_resurrection_drops_a_cancel_request_unless_it_was_delivered(
    store: SqlStore, database: Database
) -> None:
    request = "UPDATE wf_instances SET cancel_requested = true"
    fail_after(store, [ok("a")], None)
    sql(database, request)
    store.resurrect(KEY, None)
    assert not row(store).cancel_requested
    lease = lease_on(store)
    cancel = Draft(Kind.CANCEL, "__workflow_cancel_requested__", None)
    store.append(lease, [cancel], 3, None)
    sql(database, request)
    store.fail(lease, "{}", 4)
    store.resurrect(KEY, None)
    assert row(store).cancel_requested


def test_only_failed_and_blocked_instances_are_resurrected(store: SqlStore) -> None:
    assert store.resurrect(KEY, None) == Missing()
    lease = lease_on(store)
    assert store.resurrect(KEY, None) == row(store)
    store.park(lease, (), 0, False)
    assert store.resurrect(KEY, None) == row(store)
    store.cancel(KEY)
    assert store.resurrect(KEY, ()) == row(store)
    assert kinds(history(store, lease)) == ["cancelled"]
    assert store.resurrect(KEY, (), forget_cancel=True) == Done()


def test_an_old_owner_cannot_write_after_a_resurrection(store: SqlStore) -> None:
    lease = fail_after(store, [ok("a")], None)
    store.resurrect(KEY, None)
    assert store.append(lease, [ok("b")], 3, None) == Fenced()


def test_a_repeated_resurrection_answers_the_row(store: SqlStore) -> None:
    lease = fail_after(store, [ok("a")], None)
    store.resurrect(KEY, None)
    assert store.resurrect(KEY, None) == row(store)
    assert kinds(history(store, lease)).count("resurrected") == 1


# --- discard ---


def test_a_discarded_wake_is_history_and_its_name_is_free(store: SqlStore) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    store.resolve(KEY, "w", "bad", None)
    store.snapshot(lease, store.load(lease.instance, 0, 10))
    store.block(lease, "{}", 2, MINUTE)
    assert store.discard(KEY, 2) == Done()
    assert store.discard(KEY, 2) == row(store)
    prefix = store.load(lease.instance, 0, 10)
    assert (prefix.entries, prefix.superseded) == ((entry(1, ok("a")),), {"w": 1})
    assert row(store).status is Status.BLOCKED
    assert store.resolve(KEY, "w", "7", None) == Resolved(True, row(store))
    (*_, last) = store.journal(lease.instance, 0, 0, 10)
    assert last[2] == ids.entry_id("order", "1", 0, "w", 1)


def test_only_a_live_wake_of_a_blocked_instance_is_discarded(store: SqlStore) -> None:
    assert store.discard(KEY, 1) == Missing()
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    store.resolve(KEY, "w", "7", None)
    assert store.discard(KEY, 2) == row(store)
    store.block(lease, "{}", 2, MINUTE)
    for position in (0, 1, 3):
        assert store.discard(KEY, position) == row(store)
    assert all(each.live for each in history(store, lease))


def test_a_snapshot_taken_before_a_discard_does_not_come_back(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    store.resolve(KEY, "w", "bad", None)
    prefix = store.load(lease.instance, 0, 10)
    store.block(lease, "{}", 1, MINUTE)
    store.discard(KEY, 1)
    store.snapshot(lease, prefix)
    assert sql(database, "SELECT position FROM wf_snapshots") == []
