"""What is due, who gets it, and how long they keep it."""

from __future__ import annotations

import json

import attrs
import pytest

from workflow_engine.core.journal import Kind
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Batch, Claim, Fenced, Key, Missing
from workflow_engine.store.claims import share_out
from workflow_engine.store.database import Database
from workflow_engine.store.discovery import Due
from workflow_engine.store.sql_store import SqlStore

from .actors import (
    KEY,
    MINUTE,
    SECOND,
    BoundClock,
    claim,
    history,
    lease_on,
    new,
    ok,
    sql,
)


def claim_due(store: SqlStore, owner: str = "w", **changes: object) -> Batch:
    asked: dict[str, object] = {
        "names": ["order"],
        "limit": 10,
        "max_takeovers": 20,
        "exclude": (),
    }
    asked |= changes
    return store.claim_due(owner, MINUTE, (), **asked)  # type: ignore[arg-type]


def claimed_ids(batch: Batch) -> list[str]:
    return [each.instance.key.id for each in batch.claims]


# --- what is due ---


def test_a_due_claim_brings_what_a_run_needs(
    store: SqlStore, clock: BoundClock
) -> None:
    store.start(KEY, new('{"n":1}'))
    batch = store.claim_due("w", MINUTE, ("p",), ["order"], 10, 20)
    (got,) = batch.claims
    assert got.instance.input == '{"n":1}'
    assert got.instance.patches == frozenset({"p"})
    assert got.instance.status is Status.RUNNING
    assert (got.instance.lease_owner, got.instance.lease_until) == (
        "w",
        clock.now + MINUTE,
    )
    assert (got.lease.key, got.lease.owner, got.created) == (KEY, "w", False)
    assert store.append(got.lease, [ok("a")], 0, None) != Fenced()


def test_what_is_leased_parked_paced_or_ended_is_not_due(
    store: SqlStore, clock: BoundClock
) -> None:
    claim(store, Key("order", "leased"))
    store.park(lease_on(store, Key("order", "parked")), (), 0, False)
    store.crash(lease_on(store, Key("order", "crashed")), "{}", 0, 5)
    store.block(lease_on(store, Key("order", "blocked")), "{}", 0, 3 * SECOND)
    store.start(Key("order", "delayed"), new(delay=4 * SECOND))
    done = lease_on(store, Key("order", "done"))
    store.finish(done, Status.COMPLETED, "1", ())
    store.cancel(claim(store, Key("order", "cancelled")).lease.key)
    assert attrs.evolve(claim_due(store), pause=None) == Batch((), (), {})
    seen = []
    for _ in range(61):
        clock.advance(SECOND)
        seen += claimed_ids(claim_due(store))
    assert seen == ["crashed", "blocked", "delayed", "leased"]


def test_a_wake_makes_a_parked_instance_due(store: SqlStore) -> None:
    store.park(lease_on(store), (), 0, False)
    assert not claim_due(store).claims
    store.resolve(KEY, "w", "1", None)
    assert claimed_ids(claim_due(store)) == ["1"]


def test_a_released_instance_is_due_at_once(store: SqlStore) -> None:
    lease = lease_on(store)
    assert store.release(lease)
    assert claimed_ids(claim_due(store)) == ["1"]


def test_a_pass_takes_no_more_than_its_limit(store: SqlStore) -> None:
    for number in range(5):
        store.start(Key("order", str(number)), new())
    sizes = [len(claim_due(store, limit=2).claims) for _ in range(4)]
    assert sizes == [2, 2, 1, 0]
    assert not claim_due(store, limit=0).claims


def test_the_longest_due_comes_first(store: SqlStore, clock: BoundClock) -> None:
    for id in "cab":
        store.start(Key("order", id), new())
        clock.advance(SECOND)
    assert claimed_ids(claim_due(store, limit=2)) == ["c", "a"]
    assert claimed_ids(claim_due(store, limit=2)) == ["b"]


def test_being_woken_again_costs_no_place_in_the_queue(
    store: SqlStore, clock: BoundClock
) -> None:
    for id in "ab":
        store.start(Key("order", id), new())
        clock.advance(SECOND)
    store.park(lease_on(store, Key("order", "a")), (), 0, False)
    store.release(lease_on(store, Key("order", "b")))
    store.resolve(Key("order", "a"), "w1", "1", None)
    clock.advance(SECOND)
    for id in "ab":
        store.resolve(Key("order", id), "w2", "1", None)
        clock.advance(SECOND)
    assert claimed_ids(claim_due(store)) == ["a", "b"]


def test_a_backlog_of_one_name_leaves_room_for_another(
    store: SqlStore, clock: BoundClock
) -> None:
    for number in range(30):
        store.start(Key("busy", str(number)), new())
    clock.advance(SECOND)
    for number in range(3):
        store.start(Key("rare", str(number)), new())
    batch = claim_due(store, names=["rare", "busy"], limit=4)
    names = [each.instance.key.workflow for each in batch.claims]
    assert sorted(names) == ["busy", "busy", "rare", "rare"]


def test_with_one_free_slot_each_name_has_its_turn(
    store: SqlStore, clock: BoundClock
) -> None:
    for number in range(10):
        store.start(Key("busy", str(number)), new())
        clock.advance(SECOND)
    store.start(Key("rare", "1"), new())
    seen = {
        each.instance.key.workflow
        for _ in range(2)
        for each in claim_due(store, names=["rare", "busy"], limit=1).claims
    }
    assert seen == {"rare", "busy"}


def test_excluded_instances_are_left_alone(store: SqlStore) -> None:
    numbers = [store.start(Key("order", id), new())[0].instance for id in "abc"]
    batch = claim_due(store, limit=1, exclude=numbers[:2])
    assert claimed_ids(batch) == ["c"]
    assert not claim_due(store, exclude=numbers).claims


def test_due_instances_of_other_names_are_counted_not_taken(
    store: SqlStore, clock: BoundClock
) -> None:
    for workflow, count in [("a", 1), ("b", 2), ("c", 3)]:
        for number in range(count):
            store.start(Key(workflow, str(number)), new())
    store.start(Key("later", "1"), new(delay=SECOND))
    store.park(lease_on(store, Key("parked", "1")), (), 0, False)
    batch = claim_due(store, names=["b", "none"])
    assert len(batch.claims) == 2
    assert batch.unregistered == {"a": 1, "c": 3}
    assert claim_due(store, names=[]).unregistered == {"a": 1, "c": 3}


def test_hundreds_of_names_are_asked_for(store: SqlStore) -> None:
    names = [f"w{number:03}" for number in range(250)]
    for name in names:
        store.start(Key(name, "1"), new())
    assert len(claim_due(store, names=names, limit=300).claims) == 250


@pytest.mark.parametrize(
    ("limit", "turn", "chosen"),
    [
        (9, 0, [1, 4, 2, 5, 3]),
        (9, 1, [4, 1, 5, 2, 3]),
        (9, 2, [1, 4, 2, 5, 3]),
        (3, 0, [1, 4, 2]),
        (1, 1, [4]),
    ],
)
def test_names_are_served_one_after_the_other(
    limit: int, turn: int, chosen: list[int]
) -> None:
    found = {
        "a": [Due(1, 1), Due(2, 2), Due(3, 3)],
        "b": [Due(9, 4), Due(9, 5)],
        "empty": [],
    }
    assert share_out(found, limit, turn) == chosen
    assert share_out({"empty": []}, limit, turn) == []


def test_nothing_due_takes_no_lock(store: SqlStore, database: Database) -> None:
    lease_on(store)
    with database.write():
        # SQLite's one lock is taken; a second writer would wait in vain.
        assert attrs.evolve(claim_due(store), pause=None) == Batch((), (), {})


# --- takeovers ---


def test_another_owners_lease_that_ran_out_is_a_takeover(
    store: SqlStore, clock: BoundClock
) -> None:
    claim(store, owner="a")
    clock.advance(MINUTE)
    (got,) = claim_due(store, "b").claims
    assert got.instance.takeovers == 1
    clock.advance(MINUTE)
    (got,) = claim_due(store, "b").claims
    assert got.instance.takeovers == 1


def test_a_lease_given_back_is_no_takeover(store: SqlStore) -> None:
    store.release(lease_on(store, owner="a"))
    (got,) = claim_due(store, "b").claims
    assert got.instance.takeovers == 0


def test_the_takeover_that_is_one_too_many_fails_the_instance(
    store: SqlStore, clock: BoundClock
) -> None:
    lease = lease_on(store, owner="0")
    for number in (1, 2):
        clock.advance(MINUTE)
        (got,) = claim_due(store, str(number), max_takeovers=3).claims
        assert got.instance.takeovers == number
    clock.advance(MINUTE)
    batch = claim_due(store, "3", max_takeovers=3)
    assert not batch.claims
    (failed,) = batch.failed
    assert (failed.status, failed.takeovers) == (Status.FAILED, 3)
    assert (failed.lease_owner, failed.ended_at) == (None, clock.now)
    record = json.loads(failed.last_error or "")
    assert record["reason"] == "taken over 3 times without progress"
    assert (record["type"], record["entry"]) == ("TakeoverLimit", None)
    (marker,) = history(store, lease)
    assert (marker.kind, marker.payload) == (Kind.FAILED, failed.last_error)
    assert not claim_due(store).claims


def test_progress_forgets_takeovers_and_attempts(
    store: SqlStore, clock: BoundClock
) -> None:
    store.crash(lease_on(store, owner="0"), "{}", 0, 5)
    claim(store, owner="0")
    clock.advance(MINUTE)
    (got,) = claim_due(store, "1").claims
    assert (got.instance.attempts, got.instance.takeovers) == (1, 1)
    store.append(got.lease, [ok("a")], 1, None)
    found = store.find(KEY)
    assert found is not None
    assert (found.attempts, found.takeovers, found.last_error) == (0, 0, None)


# --- keeping and giving up ---


def test_a_renewed_lease_lasts_longer(store: SqlStore, clock: BoundClock) -> None:
    got = claim(store, owner="a")
    clock.advance(MINUTE - 1)
    assert store.renew("a", MINUTE, [got.lease]) == {got.instance.instance}
    clock.advance(MINUTE - 1)
    assert not claim_due(store, "b").claims
    clock.advance(1)
    assert len(claim_due(store, "b").claims) == 1


def test_renewing_tells_which_leases_are_still_good(
    store: SqlStore, clock: BoundClock
) -> None:
    leases = [lease_on(store, Key("order", id)) for id in "abc"]
    store.force_release(Key("order", "a"))
    clock.advance(MINUTE)
    store.claim(Key("order", "b"), "z", MINUTE, ())
    assert store.renew("a", MINUTE, leases) == {leases[2].instance}
    assert store.renew("z", MINUTE, leases) == set()
    assert store.renew("a", MINUTE, []) == set()
    # An epoch that is not the row's is not good, whoever asks.
    assert store.renew("z", MINUTE, [leases[1]]) == set()


def test_a_release_is_good_once(store: SqlStore) -> None:
    lease = lease_on(store)
    assert store.release(lease)
    assert not store.release(lease)
    assert store.append(lease, [ok("a")], 0, None) == Fenced()


def test_owners_of_leases_that_last_are_known(
    store: SqlStore, clock: BoundClock
) -> None:
    assert store.owners() == frozenset()
    claim(store, Key("order", "1"), "a")
    claim(store, Key("order", "2"), "a")
    clock.advance(SECOND)
    claim(store, Key("order", "3"), "b")
    assert store.owners() == {"a", "b"}
    clock.advance(MINUTE - SECOND)
    assert store.owners() == {"b"}


def test_expired_owners_lose_their_leases_at_once(
    store: SqlStore, clock: BoundClock
) -> None:
    lease = claim(store, Key("order", "1"), "a").lease
    claim(store, Key("order", "2"), "b")
    assert store.expire([]) == 0
    assert store.expire(["a", "nobody"]) == 1
    assert store.expire(["a"]) == 0
    assert store.owners() == {"b"}
    # Until somebody takes it over, it is only late.
    assert store.append(lease, [ok("s")], 0, None) != Fenced()
    (got,) = claim_due(store, "c").claims
    assert (got.instance.key.id, got.instance.takeovers) == ("1", 1)
    assert store.append(lease, [ok("t")], 1, None) == Fenced()


def test_a_lease_can_be_taken_away(store: SqlStore) -> None:
    assert store.force_release(KEY) == Missing()
    lease = lease_on(store)
    assert store.force_release(KEY) is True
    assert store.force_release(KEY) is False
    assert store.append(lease, [ok("a")], 0, None) == Fenced()
    assert isinstance(store.claim(KEY, "b", MINUTE, ()), Claim)


def test_the_row_says_when_a_run_is_due(
    store: SqlStore, clock: BoundClock, database: Database
) -> None:
    due = RunnableIn(database, clock)
    store.start(KEY, new(delay=5 * SECOND))
    assert due() == 5 * SECOND
    lease = lease_on(store)
    assert due() == MINUTE
    store.append(lease, [ok("a")], 0, None)
    store.resolve(KEY, "w1", "1", None)
    assert due() == MINUTE
    store.renew("a", 2 * MINUTE, [lease])
    assert due() == 2 * MINUTE
    store.park(lease, (), 2, False)
    assert due() is None
    store.resolve(KEY, "w2", "1", None)
    assert due() == 0
    store.expire([lease_on(store).owner])
    assert due() == 0


def test_the_row_says_when_trouble_is_over(
    store: SqlStore, clock: BoundClock, database: Database
) -> None:
    due = RunnableIn(database, clock)
    store.crash(lease_on(store), "{}", 0, 5)
    assert due() == 2 * SECOND
    store.resolve(KEY, "w1", "1", None)
    assert due() == 2 * SECOND
    store.block(lease_on(store), "{}", 2, 3 * SECOND)
    store.resolve(KEY, "w2", "1", None)
    assert due() == 3 * SECOND
    store.release(lease_on(store))
    assert due() == 0
    store.rotate(lease_on(store), "1", (), (), ())
    assert due() == 0
    store.fail(lease_on(store), "{}", 3)
    assert due() is None
    store.resurrect(KEY, None)
    assert due() == 0
    store.cancel(KEY)
    assert due() is None


@attrs.frozen
class RunnableIn:
    """Microseconds until the only instance is due; None for never."""

    database: Database
    clock: BoundClock

    def __call__(self) -> int | None:
        ((instant,),) = sql(self.database, "SELECT runnable_at FROM wf_instances")
        return None if instant is None else int(instant - self.clock.now)
