"""The append protocol under another session, at every point, in both orders.

One session is stopped after its first write and before its commit, while the other
starts. Whoever came first commits first; the other finds what is there then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import attrs
import pytest
from sqlalchemy import event

from workflow_engine.core.journal import Draft, Entry, Kind
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.requests import Appended, Moved
from workflow_engine.core.rows import (
    Claim,
    Done,
    Fenced,
    Held,
    Instance,
    Key,
    Lease,
    Refused,
    Resolved,
)
from workflow_engine.store import schema
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from ..postgres import Server
from .actors import (
    KEY,
    MINUTE,
    BoundClock,
    claim,
    entry,
    failed,
    history,
    kinds,
    lease_on,
    new,
    ok,
    sql,
    statements,
)
from .sessions import (
    dies_before,
    in_thread,
    paused_after_writing,
    wait_until_blocked,
)

WAKE = Draft(Kind.WAKE, "w", "7")


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.postgres),
        pytest.param("serializable", marks=pytest.mark.postgres),
    ]
)
def url(request: pytest.FixtureRequest) -> str:
    """Each database; PostgreSQL once more with a default that we do not follow."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_url"))
    url: str = request.getfixturevalue("postgres_url")
    if request.param == "serializable":
        server: Server = request.getfixturevalue("postgres_server")
        with Database.open(url) as database:
            name = database.engine.url.database
        server.execute(
            f"ALTER DATABASE {name} SET default_transaction_isolation = serializable"
        )
    return url


@attrs.frozen
class Session:
    """A store with connections of its own, as another process has them."""

    database: Database
    store: SqlStore


@pytest.fixture
def sessions(url: str, clock: BoundClock) -> Iterator[tuple[Session, Session]]:
    with Database.open(url) as mine, Database.open(url) as others:
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
            wait_until_blocked(session.database)
            pause.go_on()
            return winner.result(), loser.result()


def consistent(store: SqlStore, lease: Lease) -> list[Entry]:
    """The current journal, and proof that row and journal agree."""
    row = store.find(lease.key)
    assert row is not None
    entries = history(store, lease, row.generation)
    assert row.position == len(entries)
    names = [each.name for each in entries if each.live]
    assert len(set(names)) == len(names)
    return entries


# --- a step against whatever else may happen ---


def append(session: Session, lease: Lease, name: str = "a", value: str = "1") -> Any:
    return session.store.append(lease, [ok(name, value)], 0, None)


def test_a_step_after_a_cancel_is_refused(sessions: tuple[Session, Session]) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    cancelled, answer = one_after_the_other(
        (other, lambda: other.store.cancel(KEY)), lambda: append(mine, lease)
    )
    assert isinstance(cancelled, Instance)
    assert answer == Refused(attrs.evolve(cancelled, input="{}"))
    assert kinds(consistent(mine.store, lease)) == ["cancelled"]


def test_a_cancel_after_a_step_keeps_the_step(
    sessions: tuple[Session, Session],
) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    answer, cancelled = one_after_the_other(
        (mine, lambda: append(mine, lease)), lambda: other.store.cancel(KEY)
    )
    assert answer == Appended((entry(1, ok("a")),), 1)
    assert cancelled.position == 2
    assert kinds(consistent(mine.store, lease)) == ["step_ok", "cancelled"]


def test_a_step_after_a_takeover_is_fenced(
    sessions: tuple[Session, Session], clock: BoundClock
) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    clock.advance(MINUTE)
    claimed, answer = one_after_the_other(
        (other, lambda: other.store.claim(KEY, "b", MINUTE, ())),
        lambda: append(mine, lease),
    )
    assert isinstance(claimed, Claim)
    assert answer == Fenced()
    assert consistent(mine.store, lease) == []


def test_a_takeover_after_a_step_knows_the_step(
    sessions: tuple[Session, Session], clock: BoundClock
) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    clock.advance(MINUTE)
    answer, claimed = one_after_the_other(
        (mine, lambda: append(mine, lease)),
        lambda: other.store.claim(KEY, "b", MINUTE, ()),
    )
    assert answer == Appended((entry(1, ok("a")),), 1)
    assert isinstance(claimed, Claim)
    assert claimed.instance.position == 1
    assert append(mine, lease, "b") == Fenced()


def test_a_step_after_a_wake_learns_of_it(sessions: tuple[Session, Session]) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    resolved, answer = one_after_the_other(
        (other, lambda: other.store.resolve(KEY, "w", "7", None)),
        lambda: append(mine, lease),
    )
    assert isinstance(resolved, Resolved)
    assert resolved.delivered
    assert answer == Appended((entry(1, WAKE), entry(2, ok("a"))), 2)
    consistent(mine.store, lease)


def test_a_wake_after_a_step_follows_it(sessions: tuple[Session, Session]) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    answer, resolved = one_after_the_other(
        (mine, lambda: append(mine, lease)),
        lambda: other.store.resolve(KEY, "w", "7", None),
    )
    assert answer == Appended((entry(1, ok("a")),), 1)
    assert resolved.delivered
    assert consistent(mine.store, lease) == [entry(1, ok("a")), entry(2, WAKE)]


def test_of_two_runners_of_one_step_the_second_gets_the_firsts_value(
    sessions: tuple[Session, Session],
) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    winner, loser = one_after_the_other(
        (other, lambda: append(other, lease, "a", '"theirs"')),
        lambda: append(mine, lease, "a", '"mine"'),
    )
    assert winner == loser == Appended((entry(1, ok("a", '"theirs"')),), 1)
    consistent(mine.store, lease)


def test_two_runners_of_different_steps_learn_of_each_other(
    sessions: tuple[Session, Session],
) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    _, loser = one_after_the_other(
        (other, lambda: append(other, lease, "b")), lambda: append(mine, lease, "a")
    )
    assert loser == Appended((entry(1, ok("b")), entry(2, ok("a"))), 2)
    consistent(mine.store, lease)


def test_a_conditional_step_after_another_is_not_recorded(
    sessions: tuple[Session, Session],
) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    _, loser = one_after_the_other(
        (other, lambda: append(other, lease, "b")),
        lambda: mine.store.append(lease, [failed("a")], 0, 0),
    )
    assert loser == Moved()
    assert consistent(mine.store, lease) == [entry(1, ok("b"))]


def test_a_step_after_a_rotation_is_refused(sessions: tuple[Session, Session]) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    done, answer = one_after_the_other(
        (other, lambda: other.store.rotate(lease, "1", (), (), ())),
        lambda: append(mine, lease),
    )
    assert done == Done()
    assert isinstance(answer, Refused)
    assert answer.instance.generation == 1
    assert kinds(history(mine.store, lease, 0)) == ["continued_as_new"]
    consistent(mine.store, lease)


def test_a_rotation_after_a_wake_carries_it(sessions: tuple[Session, Session]) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    _, done = one_after_the_other(
        (other, lambda: other.store.resolve(KEY, "w", "7", None)),
        lambda: mine.store.rotate(lease, "1", (), (), ()),
    )
    assert done == Done()
    assert consistent(mine.store, lease)[1:] == [entry(2, WAKE)]


def test_a_wake_after_a_rotation_reaches_the_new_generation(
    sessions: tuple[Session, Session],
) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    done, resolved = one_after_the_other(
        (mine, lambda: mine.store.rotate(lease, "1", (), (), ())),
        lambda: other.store.resolve(KEY, "w", "7", None),
    )
    assert done == Done()
    assert resolved.delivered
    assert consistent(mine.store, lease)[1:] == [entry(2, WAKE)]


def test_a_park_after_a_wake_gets_it_and_stays(
    sessions: tuple[Session, Session],
) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    _, answer = one_after_the_other(
        (other, lambda: other.store.resolve(KEY, "w", "7", None)),
        lambda: mine.store.park(lease, (), 0, False),
    )
    assert answer == Appended((entry(1, WAKE),), 1)
    row = mine.store.find(KEY)
    assert row is not None
    assert (row.status, row.lease_owner) == (Status.RUNNING, "a")


def test_a_wake_after_a_park_makes_it_runnable(
    sessions: tuple[Session, Session],
) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    answer, resolved = one_after_the_other(
        (mine, lambda: mine.store.park(lease, (), 0, False)),
        lambda: other.store.resolve(KEY, "w", "7", None),
    )
    assert answer == Done()
    assert resolved.instance.status is Status.SUSPENDED
    assert len(mine.store.claim_due("b", MINUTE, (), ["order"], 9, 9).claims) == 1


def test_a_crash_after_a_cancel_is_skipped(sessions: tuple[Session, Session]) -> None:
    mine, other = sessions
    lease = lease_on(mine.store)
    _, answer = one_after_the_other(
        (other, lambda: other.store.cancel(KEY)),
        lambda: mine.store.crash(lease, "{}", 0, 5),
    )
    assert isinstance(answer, Refused)
    assert kinds(consistent(mine.store, lease)) == ["cancelled"]


def test_a_start_that_loses_finds_the_winner(sessions: tuple[Session, Session]) -> None:
    mine, other = sessions
    winner, loser = one_after_the_other(
        (other, lambda: claim(other.store, owner="b")),
        lambda: mine.store.claim(KEY, "a", MINUTE, (), new()),
    )
    assert winner.created
    assert loser == Held("b", winner.instance.lease_until)


def test_a_claim_that_waited_for_a_release_gets_the_lease(
    sessions: tuple[Session, Session],
) -> None:
    mine, other = sessions
    lease = lease_on(other.store, owner="b")
    released, claimed = one_after_the_other(
        (other, lambda: other.store.release(lease)),
        lambda: mine.store.claim(KEY, "a", MINUTE, ()),
    )
    assert released
    assert isinstance(claimed, Claim)


# --- dying in the middle ---

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


# --- many at once ---


@pytest.mark.parametrize("rounds", [200])
def test_cancel_finish_and_resolve_never_deadlock_and_one_end_wins(
    store: SqlStore, database: Database, rounds: int
) -> None:
    rounds = rounds if database.dialect == "postgresql" else rounds // 5
    barrier = Barrier(3)
    with ThreadPoolExecutor(3) as threads:
        for number in range(rounds):
            key = Key("order", str(number))
            lease = lease_on(store, key)
            calls: list[Callable[[], Any]] = [
                lambda key=key: store.cancel(key),  # type: ignore[misc]
                lambda lease=lease: store.finish(  # type: ignore[misc]
                    lease, Status.COMPLETED, "1", [ok("a")]
                ),
                lambda key=key: store.resolve(key, "w", "7", None),  # type: ignore[misc]
            ]
            # Another order of arrival each time.
            turned = calls[number % 3 :] + calls[: number % 3]
            jobs = [threads.submit(_together, barrier, call) for call in turned]
            answers = [job.result() for job in jobs]
            entries = consistent(store, lease)
            ends = [
                each for each in kinds(entries) if each in ("cancelled", "completed")
            ]
            assert len(ends) == 1
            assert entries[-1].kind == ends[0]
            assert (Done() in answers) == (ends == ["completed"])


def test_fifty_wakes_at_once_are_all_kept_in_one_order(store: SqlStore) -> None:
    lease = lease_on(store)
    barrier = Barrier(50)

    def resolve(number: int) -> bool:
        barrier.wait()
        answer = store.resolve(KEY, f"w{number}", str(number), None)
        assert isinstance(answer, Resolved)
        return answer.delivered

    with ThreadPoolExecutor(50) as threads:
        assert all(threads.map(resolve, range(50)))
    entries = consistent(store, lease)
    assert {each.name for each in entries} == {f"w{number}" for number in range(50)}


def test_one_of_many_wakes_for_a_name_is_delivered(store: SqlStore) -> None:
    lease = lease_on(store)

    def resolve(number: int) -> bool:
        answer = store.resolve(KEY, "w", str(number), None)
        assert isinstance(answer, Resolved)
        return answer.delivered

    with ThreadPoolExecutor(20) as threads:
        delivered = list(threads.map(resolve, range(20)))
    (wake,) = consistent(store, lease)
    assert delivered.count(True) == 1
    assert wake.payload == str(delivered.index(True))


def test_workers_that_claim_at_once_share_without_overlap(
    store: SqlStore, clock: BoundClock
) -> None:
    for number in range(60):
        store.start(Key("order", str(number)), new())
    barrier = Barrier(6)

    def work(owner: str) -> list[int]:
        barrier.wait()
        taken: list[int] = []
        while True:
            batch = store.claim_due(owner, MINUTE, (), ["order"], 3, 9)
            assert len(batch.claims) <= 3
            if not batch.claims and not batch.failed:
                left = store.claim_due(owner, MINUTE, (), [], 3, 9).unregistered
                if not left:
                    return taken
            taken += [each.lease.instance for each in batch.claims]

    with ThreadPoolExecutor(6) as threads:
        shares = list(threads.map(work, "abcdef"))
    everything = [instance for share in shares for instance in share]
    assert len(everything) == len(set(everything)) == 60


def _together(barrier: Barrier, call: Callable[[], Any]) -> Any:
    barrier.wait()
    return call()


# --- rows that somebody holds, where rows can be held ---


@pytest.fixture
def held_row(servers: tuple[Session, Session]) -> Iterator[tuple[Session, Lease]]:
    """A store, and a lease whose row another session has locked."""
    mine, other = servers
    lease = lease_on(mine.store, Key("order", "held"))
    with other.database.write() as connection:
        connection.exec_driver_sql(
            "SELECT id FROM workflow_engine.wf_instances WHERE workflow_id = 'held' "
            "FOR UPDATE"
        )
        yield mine, lease


@pytest.fixture
def servers(postgres_url: str, clock: BoundClock) -> Iterator[tuple[Session, Session]]:
    with Database.open(postgres_url) as mine, Database.open(postgres_url) as others:
        yield (
            Session(mine, SqlStore(mine, clock)),
            Session(others, SqlStore(others, clock)),
        )


@pytest.mark.postgres
def test_a_held_row_does_not_stall_a_claim_of_others(
    held_row: tuple[Session, Lease], clock: BoundClock
) -> None:
    session, _ = held_row
    for id in "ab":
        session.store.start(Key("order", id), new())
    clock.advance(MINUTE)
    batch = session.store.claim_due("b", MINUTE, (), ["order"], 2, 9)
    assert {each.instance.key.id for each in batch.claims} == {"a", "b"}


@pytest.mark.postgres
def test_a_held_row_does_not_stall_a_heartbeat_and_counts_as_held(
    held_row: tuple[Session, Lease], clock: BoundClock
) -> None:
    session, lease = held_row
    other = lease_on(session.store, Key("order", "a"))
    clock.advance(MINUTE // 2)
    held = session.store.renew("a", MINUTE, [lease, other])
    assert held == {lease.instance, other.instance}
    rows = [session.store.find(each.key) for each in (lease, other)]
    untils = [row.lease_until for row in rows if row is not None]
    assert untils == [clock.now + MINUTE // 2, clock.now + MINUTE]


@pytest.mark.postgres
def test_a_held_row_does_not_stall_the_burial_of_the_dead(
    held_row: tuple[Session, Lease],
) -> None:
    session, _ = held_row
    lease_on(session.store, Key("order", "a"))
    assert session.store.expire(["a"]) == 1


@pytest.mark.postgres
def test_a_claim_locks_no_more_rows_than_it_may_take(
    servers: tuple[Session, Session],
) -> None:
    mine, other = servers
    for number in range(20):
        mine.store.start(Key("order", str(number)), new())
    with (
        paused_after_writing(mine.database) as pause,
        in_thread(
            lambda: mine.store.claim_due("a", MINUTE, (), ["order"], 3, 9)
        ) as claimed,
    ):
        pause.wait_reached()
        with other.database.write() as connection:
            free = connection.exec_driver_sql(
                "SELECT id FROM workflow_engine.wf_instances FOR UPDATE SKIP LOCKED"
            ).all()
        # A second worker takes others meanwhile.
        second = other.store.claim_due("b", MINUTE, (), ["order"], 3, 9)
        pause.go_on()
        first = claimed.result()
    assert len(free) == 17
    taken = [each.lease.instance for each in (*first.claims, *second.claims)]
    assert len(set(taken)) == 6


# --- what it costs ---


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


def verb(statement: str) -> str:
    return "NOTIFY" if "pg_notify" in statement else statement.split()[0]


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
