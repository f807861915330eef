"""Many at once on one row, on many, and rows that somebody holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import event

from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Done, Key, Lease, Resolved
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from .actors import (
    KEY,
    MINUTE,
    BoundClock,
    consistent,
    kinds,
    lease_on,
    new,
    ok,
    sql,
)
from .sessions import (
    Session,
    in_thread,
    paused_after_writing,
)


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


@pytest.mark.postgres
def test_a_start_of_what_is_deleted_meanwhile_starts_it_afresh(
    servers: tuple[Session, Session],
) -> None:
    mine, other = servers
    mine.store.start(KEY, new())
    executed: list[int] = []

    def delete_before_second(*_: object) -> None:
        executed.append(1)
        if len(executed) == 2:
            sql(other.database, "DELETE FROM wf_instances")

    event.listen(mine.database.engine, "before_cursor_execute", delete_before_second)
    _, created = mine.store.start(KEY, new())
    event.remove(mine.database.engine, "before_cursor_execute", delete_before_second)
    assert created
    assert len(executed) > 2
