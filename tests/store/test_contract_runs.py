"""The commits by which a run lets go: park, finish, fail, crash, block, rotate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from workflow_engine.core.identity import SEED
from workflow_engine.core.journal import Draft, Entry, Kind
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.requests import Appended, Moved
from workflow_engine.core.rows import (
    Crashed,
    Done,
    Fenced,
    Held,
    Instance,
    Key,
    Lease,
    Refused,
)
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

FAILURE = '{"entry":null,"reason":"E"}'


def wake(name: str, payload: str = "7") -> Draft:
    return Draft(Kind.WAKE, name, payload)


def row(store: SqlStore) -> Instance:
    found = store.find(KEY, payloads=True)
    assert found is not None
    return found


LETTING_GO: dict[str, Callable[[SqlStore, Lease], Any]] = {
    "park": lambda store, lease: store.park(lease, (), 0, False),
    "complete": lambda store, lease: store.finish(lease, Status.COMPLETED, "1", ()),
    "cancel": lambda store, lease: store.finish(lease, Status.CANCELLED, None, ()),
    "fail": lambda store, lease: store.fail(lease, FAILURE, 0),
    "crash": lambda store, lease: store.crash(lease, FAILURE, 0, 5),
    "block": lambda store, lease: store.block(lease, FAILURE, 0, SECOND),
    "rotate": lambda store, lease: store.rotate(lease, "1", (), (), ()),
}


@pytest.fixture(params=sorted(LETTING_GO))
def let_go(request: pytest.FixtureRequest) -> Callable[[SqlStore, Lease], Any]:
    return LETTING_GO[request.param]


# --- what all of them promise ---


def test_letting_go_releases_the_lease_in_the_same_commit(
    store: SqlStore, let_go: Callable[[SqlStore, Lease], Any]
) -> None:
    lease = lease_on(store)
    assert isinstance(let_go(store, lease), Done | Crashed)
    assert (row(store).lease_owner, row(store).lease_until) == (None, None)
    assert not isinstance(store.claim(KEY, "b", MINUTE, ()), Held)
    assert not isinstance(store.append(lease, [ok("a")], 0, None), Appended)


def test_a_fenced_owner_cannot_let_go(
    store: SqlStore,
    clock: BoundClock,
    let_go: Callable[[SqlStore, Lease], Any],
) -> None:
    lease = lease_on(store, owner="a")
    clock.advance(MINUTE)
    later = claim(store, owner="b")
    assert let_go(store, lease) == Fenced()
    assert row(store) == later.instance
    assert history(store, lease) == []


def test_an_ended_instance_shows_its_end_to_whoever_lets_go(
    store: SqlStore, let_go: Callable[[SqlStore, Lease], Any]
) -> None:
    lease = lease_on(store)
    store.cancel(KEY)
    assert let_go(store, lease) == Refused(row(store))
    assert kinds(history(store, lease)) == ["cancelled"]


@pytest.mark.parametrize("name", ["fail", "crash", "block"])
def test_trouble_is_not_recorded_when_the_journal_has_moved(
    store: SqlStore, name: str
) -> None:
    lease = lease_on(store)
    store.resolve(KEY, "w", "7", None)
    before = row(store)
    assert LETTING_GO[name](store, lease) == Moved()
    assert row(store) == before
    assert len(history(store, lease)) == 1


# --- park ---


def test_a_park_suspends_and_forgets_what_was_tried(store: SqlStore) -> None:
    store.crash(lease_on(store), FAILURE, 0, 5)
    lease = lease_on(store)
    assert store.park(lease, [ok("a")], 1, False) == Done()
    assert row(store).status is Status.SUSPENDED
    assert row(store).wake_after is None
    assert (row(store).attempts, row(store).last_error) == (0, None)
    assert history(store, lease)[1:] == [entry(2, ok("a"))]


def test_a_park_gets_the_tail_when_the_journal_has_moved(store: SqlStore) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    store.resolve(KEY, "w", "7", None)
    answer = store.park(lease, [ok("b")], 1, False)
    assert answer == Appended((entry(2, wake("w")),), 2)
    assert row(store).status is Status.RUNNING
    assert len(history(store, lease)) == 2
    assert store.park(lease, [ok("b")], 2, False) == Done()


def test_a_park_does_not_overlook_a_request_to_cancel(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    sql(database, "UPDATE wf_instances SET cancel_requested = true")
    answer = store.park(lease, [ok("a")], 0, False)
    assert answer == Appended((), 0, cancel_requested=True)
    assert history(store, lease) == []
    assert store.park(lease, [ok("a")], 0, True) == Done()


def test_a_park_whose_acknowledgement_was_lost_can_be_repeated(
    store: SqlStore,
) -> None:
    lease = lease_on(store)
    for _ in range(2):
        assert store.park(lease, [ok("a")], 0, False) == Done()
    store.resolve(KEY, "w", "7", None)
    assert store.park(lease, [ok("a")], 0, False) == Done()
    assert len(history(store, lease)) == 2
    later = lease_on(store)
    assert store.park(lease, [ok("a")], 0, False) == Fenced()
    assert store.park(later, [], 2, False) == Done()
    assert store.park(lease, [ok("a")], 0, False) == Fenced()


def test_a_park_adopts_names_that_are_taken(store: SqlStore) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a", "1")], 0, None)
    assert store.park(lease, [ok("a", "2"), ok("b")], 1, False) == Done()
    assert history(store, lease) == [entry(1, ok("a", "1")), entry(2, ok("b"))]


def test_a_wake_is_never_lost_to_a_park(store: SqlStore) -> None:
    lease = lease_on(store)
    store.park(lease, (), 0, False)
    store.resolve(KEY, "w", "7", None)
    (got,) = store.claim_due("b", MINUTE, (), ["order"], 1, 9).claims
    assert store.load(lease.instance, 0, 10).entries == (entry(1, wake("w")),)
    # Taken into account, it does not wake a second time.
    assert store.park(got.lease, (), 1, False) == Done()
    assert not store.claim_due("b", MINUTE, (), ["order"], 1, 9).claims


# --- ending ---


def test_a_finish_records_drafts_marker_and_result(
    store: SqlStore, clock: BoundClock
) -> None:
    store.crash(lease_on(store), FAILURE, 0, 5)
    lease = lease_on(store)
    clock.advance(SECOND)
    store.resolve(KEY, "w", "7", None)
    assert store.finish(lease, Status.COMPLETED, "42", [ok("a")]) == Done()
    assert row(store).status is Status.COMPLETED
    assert row(store).result == "42"
    assert row(store).ended_at == clock.now
    assert row(store).last_error is None
    assert history(store, lease)[1:] == [
        entry(2, wake("w")),
        entry(3, ok("a")),
        Entry(4, "completed", None, "42", False),
    ]


def test_a_finish_adopts_names_that_are_taken(store: SqlStore) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a", "1")], 0, None)
    assert store.finish(lease, Status.COMPLETED, "42", [ok("a", "2")]) == Done()
    assert kinds(history(store, lease)) == ["step_ok", "completed"]


def test_a_finish_may_be_a_cancellation(store: SqlStore) -> None:
    lease = lease_on(store)
    assert store.finish(lease, Status.CANCELLED, None, [ok("a")]) == Done()
    assert (row(store).status, row(store).result) == (Status.CANCELLED, None)
    assert kinds(history(store, lease)) == ["step_ok", "cancelled"]


def test_a_repeated_finish_shows_the_end(store: SqlStore) -> None:
    lease = lease_on(store)
    store.finish(lease, Status.COMPLETED, "42", ())
    assert store.finish(lease, Status.COMPLETED, "42", ()) == Refused(row(store))
    assert len(history(store, lease)) == 1


def test_a_failure_is_recorded_with_its_reason(
    store: SqlStore, clock: BoundClock
) -> None:
    lease = lease_on(store)
    store.append(lease, [failed("a")], 0, None)
    assert store.fail(lease, FAILURE, 1, [ok("b")]) == Done()
    assert row(store).status is Status.FAILED
    assert (row(store).last_error, row(store).result) == (FAILURE, None)
    assert row(store).ended_at == clock.now
    assert history(store, lease) == [
        entry(1, failed("a")),
        entry(2, ok("b")),
        Entry(3, "failed", None, FAILURE, False),
    ]


# --- crash and block ---


def test_crashes_are_history_and_pause_ever_longer(
    store: SqlStore, clock: BoundClock
) -> None:
    pauses = []
    lease = lease_on(store)
    store.release(lease)
    for attempt in range(1, 9):
        lease = lease_on(store)
        answer = store.crash(lease, FAILURE, attempt - 1, 9)
        assert isinstance(answer, Crashed)
        assert (answer.failed, answer.attempts) == (False, attempt)
        assert answer.retry_at == row(store).next_attempt_at
        assert answer.retry_at is not None
        pauses.append((answer.retry_at - clock.now) // SECOND)
        assert (row(store).attempts, row(store).last_error) == (attempt, FAILURE)
        assert row(store).status is Status.RUNNING
    assert pauses == [2, 4, 8, 16, 32, 64, 64, 64]
    assert history(store, lease) == [
        Entry(number, "attempt", None, FAILURE, False) for number in range(1, 9)
    ]


def test_the_crash_at_the_ceiling_fails_the_instance(store: SqlStore) -> None:
    store.crash(lease_on(store), FAILURE, 0, 2)
    lease = lease_on(store)
    assert store.crash(lease, FAILURE, 1, 2) == Crashed(True, 2, None)
    assert (row(store).status, row(store).attempts) == (Status.FAILED, 2)
    assert row(store).last_error == FAILURE
    assert kinds(history(store, lease)) == ["attempt", "failed"]
    assert store.crash(lease, FAILURE, 2, 2) == Refused(row(store))


def test_a_repeated_crash_is_counted_once(store: SqlStore) -> None:
    lease = lease_on(store)
    store.crash(lease, FAILURE, 0, 5)
    assert store.crash(lease, FAILURE, 0, 5) == Fenced()
    assert row(store).attempts == 1


def test_a_blocked_instance_waits_without_an_entry_or_an_attempt(
    store: SqlStore, clock: BoundClock
) -> None:
    lease = lease_on(store)
    assert store.block(lease, FAILURE, 0, MINUTE) == Done()
    assert row(store).status is Status.BLOCKED
    assert row(store).last_error == FAILURE
    assert row(store).next_attempt_at == clock.now + MINUTE
    assert row(store).attempts == 0
    assert history(store, lease) == []
    clock.advance(MINUTE)
    (got,) = store.claim_due("b", MINUTE, (), ["order"], 1, 9).claims
    assert got.instance.status is Status.RUNNING
    assert store.block(got.lease, FAILURE, 0, MINUTE) == Done()


# --- rotate ---


def test_a_rotation_opens_the_next_generation_and_ends_the_old(
    store: SqlStore,
) -> None:
    lease = claim(store, patches=("p1",)).lease
    store.append(lease, [ok("a")], 0, None)
    assert store.rotate(lease, '"seed"', ("p2",), (), [ok("b")]) == Done()
    assert (row(store).generation, row(store).position) == (1, 1)
    assert row(store).status is Status.RUNNING
    assert row(store).patches == frozenset({"p2"})
    assert history(store, lease, 0) == [
        entry(1, ok("a")),
        entry(2, ok("b")),
        Entry(3, "continued_as_new", None, "1", False),
    ]
    assert history(store, lease, 1) == [entry(1, ok(SEED, '"seed"'))]
    (got,) = store.claim_due("b", MINUTE, ("p3",), ["order"], 1, 9).claims
    assert got.lease.generation == 1
    assert got.instance.patches == frozenset({"p2"})


def test_wakes_that_nobody_took_move_along_in_order(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    for number, name in enumerate(["w3", "taken", "w1", "awk:x", "sleep:y"]):
        store.resolve(KEY, name, str(number), None)
    later = Draft(Kind.WAKE_FAILED, "w2", "5")
    sql(database, "UPDATE wf_journal SET format = 2 WHERE step_name = 'w3'")
    store.append(lease, [ok("a"), later], 5, None)
    assert store.rotate(lease, "1", (), ("taken", "a"), ()) == Done()
    assert history(store, lease, 1)[1:] == [
        Entry(2, "wake", "w3", "0", True, 2),
        Entry(3, "wake", "w1", "2", True),
        Entry(4, "wake_failed", "w2", "5", True),
    ]
    assert row(store).position == 4
    # They stay where they were, too, and are live there.
    assert [each.live for each in history(store, lease, 0)] == [True] * 7 + [False]
    assert store.load(lease.instance, 1, 10).position == 4
    entry_ids = [each[2] for each in store.journal(lease.instance, 1, 0, 10)]
    entry_ids += [each[2] for each in store.journal(lease.instance, 0, 0, 10)]
    assert len(set(entry_ids)) == len(entry_ids)


def test_a_rotation_is_a_fresh_start(store: SqlStore, clock: BoundClock) -> None:
    store.crash(lease_on(store), FAILURE, 0, 5)
    lease_on(store, owner="a")
    clock.advance(MINUTE)
    (got,) = store.claim_due("b", MINUTE, (), ["order"], 1, 9).claims
    assert (got.instance.attempts, got.instance.takeovers) == (1, 1)
    store.rotate(got.lease, "1", (), (), ())
    assert (row(store).attempts, row(store).takeovers) == (0, 0)
    assert row(store).last_error is None


def test_a_repeated_rotation_is_refused_and_shows_the_generation(
    store: SqlStore,
) -> None:
    lease = lease_on(store)
    store.rotate(lease, "1", (), (), ())
    assert store.rotate(lease, "1", (), (), ()) == Refused(row(store))
    assert row(store).generation == 1


def test_names_are_free_again_in_the_next_generation(store: SqlStore) -> None:
    lease = lease_on(store, Key("order", "1"))
    store.append(lease, [ok("a", "1")], 0, None)
    store.rotate(lease, "1", (), (), ())
    later = lease_on(store)
    assert store.append(later, [ok("a", "2")], 1, None) == Appended(
        (entry(2, ok("a", "2")),), 2
    )
