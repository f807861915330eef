"""What a store promises about timers, awakeables and children, under two sessions.

One session is stopped after its first write and before its commit, while the other
starts: whoever came first commits first, the other finds what is there then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import attrs
import pytest

from workflow_engine.core.journal import Draft, Entry, Kind, NewAwakeable
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.requests import Appended
from workflow_engine.core.rows import (
    AwakeableStatus,
    Claim,
    Done,
    Fired,
    Instance,
    Key,
    Lease,
    Missing,
    Timer,
)
from workflow_engine.errors import StoreRefused
from workflow_engine.store import schema
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from .actors import (
    CHILD,
    KEY,
    MINUTE,
    SECOND,
    BoundClock,
    claim,
    end,
    history,
    kinds,
    lease_on,
    new,
    ok,
    spawn,
    sql,
    statements,
)
from .sessions import dies_before, in_thread, paused_after_writing

PARENT = Key("parent", "p")
NAP = Timer("sleep:nap", delay=10 * SECOND)
ID = "0123456789abcdef" * 2
RESOLVED, REJECTED = AwakeableStatus.RESOLVED, AwakeableStatus.REJECTED
CANCELLED = AwakeableStatus.CANCELLED


@attrs.frozen
class Session:
    """A store with connections of its own, as another process has them."""

    database: Database
    store: SqlStore


@pytest.fixture
def sessions(database_url: str, clock: BoundClock) -> Iterator[tuple[Session, Session]]:
    with Database.open(database_url) as mine, Database.open(database_url) as others:
        schema.ensure(mine)
        yield (
            Session(mine, SqlStore(mine, clock)),
            Session(others, SqlStore(others, clock)),
        )


def one_after_the_other(
    first: tuple[Session, Callable[[], Any]], second: Callable[[], Any]
) -> tuple[Any, Any]:
    """Both answers; the first has written, not committed, when the second starts."""
    session, call = first
    with paused_after_writing(session.database) as pause, in_thread(call) as winner:
        pause.wait_reached()
        with in_thread(second) as loser:
            wait_until_blocked_or_done(session.database, loser)
            pause.go_on()
            return winner.result(), loser.result()


def wait_until_blocked_or_done(database: Database, call: Future[Any]) -> None:
    """Wait until a call needs what the stopped session has, or has ended without."""
    while not call.done():
        if database.dialect == "sqlite":
            return  # it shows nobody who waits; the other was first, at any rate
        with database.read() as connection:
            (blocked,) = connection.exec_driver_sql(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = "
                "current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
            ).one()
        if blocked:
            return


def due_times(store: SqlStore, lease: Lease) -> dict[str, int]:
    return {
        timer.name: timer.due_at
        for timer in store.timers(lease.instance, lease.generation)
    }


def park(
    store: SqlStore, lease: Lease, *timers: Timer, expect: int = 0
) -> Done | Appended | Any:
    return store.park(lease, (), expect, False, [t.name for t in timers], timers)


def row_of(store: SqlStore, key: Key = KEY) -> Instance:
    row = store.find(key)
    assert row is not None
    return row


# --- timers ---------------------------------------------------------------------------


def test_a_park_starts_what_is_new_keeps_what_runs_and_drops_the_rest(
    store: SqlStore, clock: BoundClock
) -> None:
    lease = lease_on(store)
    start = clock.now
    late = Timer("sleep:late", due=start + MINUTE)
    assert park(store, lease, NAP, late) == Done()
    assert due_times(store, lease) == {
        "sleep:nap": start + 10 * SECOND,
        "sleep:late": start + MINUTE,
    }
    assert row_of(store).wake_after == start + 10 * SECOND
    clock.advance(5 * SECOND)
    again = claim(store).lease
    third = Timer("sleep:third", delay=MINUTE)
    moved = Timer("sleep:late", due=start + 5 * MINUTE)
    assert park(store, again, moved, third) == Done()
    assert due_times(store, lease) == {
        "sleep:late": start + MINUTE,
        "sleep:third": start + 5 * SECOND + MINUTE,
    }
    assert row_of(store).wake_after == start + MINUTE
    assert park(store, claim(store).lease) == Done()
    assert due_times(store, lease) == {}
    assert row_of(store).wake_after is None


def test_a_park_that_does_not_happen_starts_nothing(
    store: SqlStore, clock: BoundClock
) -> None:
    lease = lease_on(store)
    store.resolve(KEY, "w", "1", None)
    answer = park(store, lease, NAP)
    assert isinstance(answer, Appended)
    assert [each.name for each in answer.entries] == ["w"]
    assert due_times(store, lease) == {}


def test_a_park_fires_what_is_due_and_answers_with_it(
    store: SqlStore, clock: BoundClock
) -> None:
    lease = lease_on(store)
    park(store, lease, NAP)
    clock.advance(10 * SECOND)
    again = claim(store).lease
    late = Timer("sleep:late", delay=MINUTE)
    answer = park(store, again, NAP, late)
    expected = Entry(1, "wake", "sleep:nap", "null", live=True)
    assert answer == Appended((expected,), 1)
    assert set(due_times(store, lease)) == {"sleep:late"}
    assert park(store, again, late, expect=1) == Done()


def test_a_repeated_park_is_done_and_starts_nothing_twice(
    store: SqlStore, clock: BoundClock
) -> None:
    lease = lease_on(store)
    assert park(store, lease, NAP) == Done()
    before = due_times(store, lease)
    clock.advance(SECOND)
    assert park(store, lease, NAP) == Done()
    assert due_times(store, lease) == before


def test_arming_starts_timers_and_says_in_the_row_when_the_first_is_due(
    store: SqlStore, clock: BoundClock
) -> None:
    lease = lease_on(store)
    assert store.arm(lease, [NAP, Timer("sleep:late", delay=MINUTE)], 0) == Appended(
        (), 0
    )
    row = row_of(store)
    assert row.wake_after == clock.now + 10 * SECOND
    assert (row.status, row.lease_owner) == (Status.RUNNING, "a")
    answer = store.arm(lease, [Timer("sleep:over", due=clock.now)], 0)
    assert isinstance(answer, Appended)
    assert [each.name for each in answer.entries] == ["sleep:over"]


def test_arming_wakes_workers_which_may_be_waiting_for_longer(
    store: SqlStore,
) -> None:
    heard: list[str] = []
    lease = lease_on(store)
    listening = store.hints.listen(lambda: heard.append("hint"))
    try:
        heard.clear()
        store.arm(lease, [NAP], 0)
        assert heard
    finally:
        listening.close()


def test_firing_takes_the_longest_due_first_and_no_more_than_asked(
    store: SqlStore, clock: BoundClock
) -> None:
    keys = [Key("order", str(number)) for number in range(5)]
    for number, key in enumerate(keys):
        lease = lease_on(store, key)
        park(store, lease, Timer("sleep:nap", delay=(5 - number) * SECOND))
    clock.advance(MINUTE)
    assert store.fire_due(2).count == 2
    fired = [key.id for key in keys if row_of(store, key).position]
    assert fired == ["3", "4"]
    assert store.fire_due(10).count == 3
    assert store.fire_due(10).count == 0


@pytest.mark.postgres
def test_a_locked_row_holds_up_no_other_timer(
    postgres_url: str, clock: BoundClock
) -> None:
    first, second = Key("order", "1"), Key("order", "2")
    with Database.open(postgres_url) as mine, Database.open(postgres_url) as others:
        store, other = SqlStore(mine, clock), SqlStore(others, clock)
        for key in (first, second):
            park(store, lease_on(store, key), NAP)
        clock.advance(MINUTE)
        with paused_after_writing(others) as pause:
            with in_thread(lambda: other.cancel(first)) as cancelled:
                pause.wait_reached()
                assert store.fire_due(10).count == 1
                assert row_of(store, second).position == 1
                pause.go_on()
            assert isinstance(cancelled.result(), Instance)
        assert store.fire_due(10).count == 0


def test_a_broken_instance_keeps_its_timers_and_holds_up_no_others(
    store: SqlStore, database: Database, clock: BoundClock
) -> None:
    leases = [lease_on(store, Key("order", str(number))) for number in range(3)]
    for lease in leases:
        assert isinstance(store.append(lease, [ok("a")], 0, None), Appended)
        assert park(store, lease, NAP, expect=1) == Done()
    broken = leases[1].instance
    sql(database, f"UPDATE wf_instances SET position = 0 WHERE id = {broken}")
    clock.advance(MINUTE)
    problem = f"the journal of instance {broken} holds entries that its row does not"
    for fired in (2, 0):
        found = store.fire_due(10)
        assert (found.count, list(found.broken)) == (fired, [broken])
        assert problem in found.broken[broken]
    assert store.fire_due(10, {broken}) == Fired(0)
    assert len(store.timers(broken, 0)) == 1
    sql(database, f"UPDATE wf_instances SET position = 1 WHERE id = {broken}")
    assert store.fire_due(10) == Fired(1)


def test_a_database_that_refuses_to_be_written_is_not_a_broken_instance(
    sqlite_url: str, tmp_path: Path, clock: BoundClock
) -> None:
    with Database.open(sqlite_url) as database:
        schema.ensure(database)
        store = SqlStore(database, clock)
        park(store, lease_on(store), NAP)
    clock.advance(MINUTE)
    shut = f"sqlite:///file:{tmp_path}/test.db?mode=ro&uri=true"
    with (
        Database.open(shut) as database,
        pytest.raises(StoreRefused, match="readonly"),
    ):
        SqlStore(database, clock).fire_due(10)


def test_an_idle_look_for_timers_is_one_statement(
    store: SqlStore, database: Database
) -> None:
    for number in range(50):
        park(store, lease_on(store, Key("order", str(number))), NAP)
    with statements(database) as seen:
        assert store.fire_due(100).count == 0
    assert len(seen) == 1


@pytest.mark.parametrize("claimed", [0, 1])
def test_a_claim_that_leaves_room_says_when_to_look_again(
    store: SqlStore, claimed: int
) -> None:
    park(store, lease_on(store, Key("order", "asleep")), NAP)
    for number in range(claimed):
        store.start(Key("order", str(number)), new())
    batch = store.claim_due("w", MINUTE, (), {"order"}, claimed + 1, 20)
    assert len(batch.claims) == claimed
    assert batch.pause == 10 * SECOND


def test_two_workers_fire_a_timer_once(
    sessions: tuple[Session, Session], clock: BoundClock
) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    park(mine.store, lease, NAP)
    clock.advance(MINUTE)
    fired = one_after_the_other(
        (mine, lambda: mine.store.fire_due(10)), lambda: other.store.fire_due(10)
    )
    assert fired == (Fired(1), Fired(0))
    assert kinds(history(mine.store, lease)) == ["wake"]


# --- awakeables -----------------------------------------------------------------------


def open_awakeable(store: SqlStore, key: Key = KEY) -> Lease:
    lease = lease_on(store, key)
    deed = NewAwakeable("word", ID)
    draft = Draft(Kind.STEP_OK, "awkid:word", f'"{ID}"', deed=deed)
    assert isinstance(store.append(lease, [draft], 0, None), Appended)
    return lease


Settling = tuple[AwakeableStatus, str]
SETTLINGS: list[Settling] = [
    (RESOLVED, '"yes"'),
    (REJECTED, '{"type":"R"}'),
    (CANCELLED, '{"type":"C"}'),
]


@pytest.mark.parametrize("winner", SETTLINGS, ids=lambda s: str(s[0]))
@pytest.mark.parametrize("loser", SETTLINGS, ids=lambda s: str(s[0]))
def test_of_two_that_settle_an_awakeable_the_first_to_write_wins(
    sessions: tuple[Session, Session], winner: Settling, loser: Settling
) -> None:
    mine, other = sessions
    lease = open_awakeable(mine.store)
    first, second = one_after_the_other(
        (other, lambda: other.store.settle(ID, *winner)),
        lambda: mine.store.settle(ID, *loser),
    )
    assert (first, second) == (True, False)
    row = mine.store.find_awakeable(ID)
    assert row is not None
    assert (row.status, row.payload) == winner
    *_, wake = history(mine.store, lease)
    kind = Kind.WAKE if winner[0] == RESOLVED else Kind.WAKE_FAILED
    assert (wake.kind, wake.name, wake.payload) == (kind, "awk:word", winner[1])


def test_opening_is_not_repeated_when_its_answer_was_lost(store: SqlStore) -> None:
    lease = open_awakeable(store)
    other = Draft(Kind.STEP_OK, "awkid:word", '"x"', deed=NewAwakeable("word", "x"))
    answer = store.append(lease, [other], 0, None)
    assert isinstance(answer, Appended)
    assert answer.entries[0].payload == f'"{ID}"'
    assert len(store.awakeables(lease.instance, 0)) == 1


Act = Callable[[SqlStore, Lease], Any]
BOUNDARIES: dict[str, Act] = {
    "rotation": lambda store, lease: store.rotate(lease, "1", (), (), ()),
    "completion": lambda store, lease: store.finish(lease, Status.COMPLETED, "1", ()),
    "failure": lambda store, lease: store.fail(lease, "{}", 1),
    "cancellation": lambda store, lease: store.cancel(lease.key),
    "park": lambda store, lease: store.park(lease, (), 1, False, ("awk:word",)),
    "step": lambda store, lease: store.append(
        lease, [Draft(Kind.STEP_OK, "s", "1")], 1, None
    ),
}


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_signal_that_comes_second_finds_what_the_run_has_done(
    sessions: tuple[Session, Session], boundary: str
) -> None:
    mine, other = sessions
    lease = open_awakeable(mine.store)
    _, signalled = one_after_the_other(
        (other, lambda: BOUNDARIES[boundary](other.store, lease)),
        lambda: mine.store.settle(ID, RESOLVED, "1"),
    )
    assert signalled == (boundary not in ("rotation", "completion"))
    delivered = boundary in ("park", "step")
    assert ("wake" in kinds(history(mine.store, lease))) == delivered
    if boundary == "park":
        assert [c.lease.key for c in due(mine.store)] == [KEY]


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_run_that_comes_second_finds_the_signal(
    sessions: tuple[Session, Session], boundary: str
) -> None:
    mine, other = sessions
    lease = open_awakeable(mine.store)
    signalled, answer = one_after_the_other(
        (other, lambda: other.store.settle(ID, RESOLVED, "1")),
        lambda: BOUNDARIES[boundary](mine.store, lease),
    )
    assert signalled is True
    wake = Entry(2, "wake", "awk:word", "1", live=True)
    assert history(mine.store, lease)[1] == wake
    if boundary in ("park", "step"):
        assert isinstance(answer, Appended)
        assert wake in answer.entries
    if boundary == "park":
        assert row_of(mine.store).status == Status.RUNNING


def due(store: SqlStore) -> Sequence[Claim]:
    names = {"order", "parent", "child"}
    return store.claim_due("w", MINUTE, (), names, 10, 20).claims


def test_an_awakeable_of_an_instance_that_is_gone_is_missing(
    store: SqlStore, database: Database
) -> None:
    open_awakeable(store)
    assert store.settle("x" * 32, RESOLVED, "1") == Missing()
    sql(database, "DELETE FROM wf_instances")
    assert store.settle(ID, RESOLVED, "1") == Missing()


# --- children -------------------------------------------------------------------------


def told(store: SqlStore, lease: Lease) -> list[str]:
    """What the parent's journal says of ends of children."""
    return [each.kind for each in history(store, lease) if "wake" in each.kind]


ENDS: dict[str, Act] = {
    "completes": lambda store, lease: store.finish(lease, Status.COMPLETED, "7", ()),
    "fails": lambda store, lease: store.fail(lease, "{}", 0),
    "crashes": lambda store, lease: store.crash(lease, "{}", 0, 1),
    "is cancelled": lambda store, lease: store.cancel(lease.key),
}


@pytest.mark.parametrize("child_is", ["older", "younger"])
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("first", ["attaching", "ending"])
def test_a_child_that_ends_as_a_parent_attaches_is_told_of_once(
    sessions: tuple[Session, Session], child_is: str, how: str, first: str
) -> None:
    mine, other = sessions
    keys = [CHILD, PARENT] if child_is == "older" else [PARENT, CHILD]
    leases = {key: lease_on(mine.store, key) for key in keys}

    def attaching() -> Any:
        return mine.store.append(leases[PARENT], [spawn()], 0, None)

    def ending() -> Any:
        return ENDS[how](other.store, leases[CHILD])

    if first == "attaching":
        one_after_the_other((mine, attaching), ending)
    else:
        one_after_the_other((other, ending), attaching)
    assert row_of(mine.store, CHILD).status.is_ended
    expected = "wake" if how == "completes" else "wake_failed"
    assert told(mine.store, leases[PARENT]) == [expected]


@pytest.mark.parametrize("child_is", ["older", "younger"])
@pytest.mark.parametrize("first", ["resurrection", "ending"])
def test_a_child_that_ends_as_its_parent_is_resurrected_is_told_of_once(
    sessions: tuple[Session, Session], child_is: str, first: str
) -> None:
    mine, other = sessions
    keys = [CHILD, PARENT] if child_is == "older" else [PARENT, CHILD]
    leases = {key: lease_on(mine.store, key) for key in keys}
    mine.store.append(leases[PARENT], [spawn()], 0, None)
    mine.store.fail(leases[PARENT], "{}", 1)

    def resurrection() -> Any:
        return mine.store.resurrect(PARENT, ())

    def ending() -> Any:
        return other.store.finish(leases[CHILD], Status.COMPLETED, "7", ())

    if first == "resurrection":
        one_after_the_other((mine, resurrection), ending)
    else:
        one_after_the_other((other, ending), resurrection)
    assert told(mine.store, leases[PARENT]) == ["wake"]


@pytest.mark.parametrize("child_is", ["older", "younger"])
def test_a_transaction_about_a_family_may_die_anywhere(
    store: SqlStore, database: Database, child_is: str
) -> None:
    def calls(lease: Lease, child: Lease | None) -> list[Callable[[], Any]]:
        key = Key("child", lease.key.id)
        attach = lambda: store.append(lease, [spawn(key)], 0, None)  # noqa: E731
        finish = lambda: store.cancel(key)  # noqa: E731
        return [attach, finish]

    for number in range(100):
        key, child_key = Key("parent", str(number)), Key("child", str(number))
        child = lease_on(store, child_key) if child_is == "older" else None
        lease = lease_on(store, key)
        deaths = 0
        for call in calls(lease, child):
            deaths += dies_before(database, number, call)
            assert row_of(store, key).position == len(history(store, lease))
            call()
            assert row_of(store, key).position == len(history(store, lease))
        assert told(store, lease) == ["wake_failed"]
        if not deaths:
            assert number > 8
            return
    raise AssertionError("it never came to an end")


def test_what_two_parents_attach_to_has_one_of_them(
    sessions: tuple[Session, Session],
) -> None:
    mine, other = sessions
    first, second = (
        lease_on(mine.store, Key("parent", id)) for id in ("first", "second")
    )
    one_after_the_other(
        (mine, lambda: mine.store.append(first, [spawn()], 0, None)),
        lambda: other.store.append(second, [spawn()], 0, None),
    )
    assert kinds(history(mine.store, first)) == ["step_ok"]
    assert kinds(history(mine.store, second)) == ["step_failed"]
    child = lease_on(mine.store, CHILD)
    mine.store.finish(child, Status.COMPLETED, "7", ())
    assert told(mine.store, first) == ["wake"]
    assert told(mine.store, second) == []


def test_a_parent_may_end_several_children_in_one_commit(store: SqlStore) -> None:
    children = [Key("child", id) for id in ("a", "b", "c")]
    store.start(children[2], new())
    lease = lease_on(store, PARENT)
    store.append(lease, [spawn(key) for key in children], 0, None)
    answer = store.append(lease, [end(key) for key in children], 3, None)
    assert isinstance(answer, Appended)
    assert [each.kind for each in answer.entries] == ["step_ok"] * 3 + [
        "wake_failed"
    ] * 3
    assert {row_of(store, key).status for key in children} == {Status.CANCELLED}
