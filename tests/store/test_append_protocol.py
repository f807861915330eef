"""The append protocol under another session, at every point, in both orders.

One session is stopped after its first write and before its commit, while the other
starts. Whoever came first commits first; the other finds what is there then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from workflow_engine.core.journal import Draft, Kind
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.requests import Appended, Moved
from workflow_engine.core.rows import (
    Claim,
    Done,
    Fenced,
    Held,
    Instance,
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
    consistent,
    entry,
    failed,
    history,
    kinds,
    lease_on,
    new,
    ok,
)
from .sessions import (
    Session,
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
