"""Steps that commit together with what they write to the database: exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from workflow_engine import (
    AllOf,
    AnyOf,
    Await,
    Completed,
    Failed,
    JournalEncodeError,
    RetryPolicy,
    Step,
    StepFailed,
    Transaction,
    Workflow,
    WorkflowBody,
    current_step,
    workflow,
)
from workflow_engine.errors import LeaseLost, StoreUnavailable
from workflow_engine.runtime.points import Point, Points
from workflow_engine.store.transactions import MOST_CONFLICTS
from workflow_engine.testing import TestClock

from ..runtime.bench import LEASE, Bench, kinds, steps, watched
from ..runtime.faults import answers_lost
from ..wholeness import check_whole


class Base(DeclarativeBase):
    pass


class Paid(Base):
    __tablename__ = "paid"

    account: Mapped[str] = mapped_column(primary_key=True)
    amount: Mapped[int]


@pytest.fixture
def bench(database_url: str, clock: TestClock) -> Iterator[Bench]:
    """Each database in turn, with a table of the user's."""
    with with_table(database_url, clock) as bench:
        yield bench


@pytest.fixture
def sqlite_bench(sqlite_url: str, clock: TestClock) -> Iterator[Bench]:
    with with_table(sqlite_url, clock) as bench:
        yield bench


@pytest.fixture
def postgres_bench(postgres_url: str, clock: TestClock) -> Iterator[Bench]:
    with with_table(postgres_url, clock) as bench:
        yield bench


@contextmanager
def with_table(url: str, clock: TestClock) -> Iterator[Bench]:
    with Bench.on(url, clock) as bench:
        bench.execute("DROP TABLE IF EXISTS paid")
        bench.execute("CREATE TABLE paid (account TEXT PRIMARY KEY, amount INTEGER)")
        yield bench


def paid(bench: Bench) -> list[Any]:
    return bench.execute("SELECT account, amount FROM paid ORDER BY account")


def pay(session: Session, account: str, amount: int = 1) -> int:
    session.add(Paid(account=account, amount=amount))
    return amount


def paying(act: Callable[..., int]) -> Workflow[[], int]:
    @workflow(name="paying")
    def body() -> WorkflowBody[int]:
        first = yield from Transaction("pay", act, "a")
        second: int = yield from Transaction("again", pay, "b", amount=2)
        return first + second

    return body


def test_what_it_writes_is_there_with_its_result(bench: Bench) -> None:
    keys = []

    def act(session: Session, account: str) -> int:
        keys.append(current_step().idempotency_key)
        return pay(session, account, 5)

    body = paying(act)
    engine = bench.engine(body)
    with watched() as statements:
        assert engine.run(body, "1") == Completed(7)
    assert paid(bench) == [("a", 5), ("b", 2)]
    assert steps(engine, body, "1") == ["pay", "again"]
    assert keys[0]
    # The claim, a transaction each, the end; and a look at what to run.
    assert statements.commits == 4
    check_whole(bench.url)


@pytest.mark.parametrize(
    ("at", "of", "calls"),
    [
        ("before_commit", "transaction", 1),
        ("before_step", "pay", 1),
        ("after_step", "pay", 2),
        ("after_commit", "transaction", 1),
    ],
)
def test_it_counts_once_wherever_the_process_dies(
    bench: Bench, at: Point, of: str, calls: int
) -> None:
    def act(session: Session, account: str) -> int:
        bench.do("pay")
        return pay(session, account)

    body = paying(act)
    bench.crash(body, "1", at=at, of=of)
    recorded = at == "after_commit"
    assert paid(bench) == ([("a", 1)] if recorded else [])
    assert bench.engine(body).run(body, "1") == Completed(3)
    assert paid(bench) == [("a", 1), ("b", 2)]
    assert bench.calls("pay") == calls
    check_whole(bench.url)


def test_an_answer_that_is_lost_is_found_again(bench: Bench) -> None:
    """The second commit of the run is the transaction's; it is not done again."""

    def act(session: Session, account: str) -> int:
        bench.do("pay")
        return pay(session, account)

    body = paying(act)
    engine = bench.engine(body)
    with answers_lost(lambda number: number == 2) as lost:
        assert engine.run(body, "1") == Completed(3)
    assert lost == [2]
    assert bench.calls("pay") == 1
    assert paid(bench) == [("a", 1), ("b", 2)]
    assert steps(engine, body, "1") == ["pay", "again"]


class Deaf(Points):
    """No heartbeat comes through, and something happens at the last moment."""

    def __init__(self, before: str, act: Callable[[], object]) -> None:
        self._before = before
        self._act: Callable[[], object] | None = act

    def reach(self, point: Point, subject: str) -> None:
        if point == "before_heartbeat":
            raise StoreUnavailable(problem="no network")
        if (point, subject) == ("before_commit", self._before) and self._act:
            act, self._act = self._act, None
            act()


@pytest.mark.parametrize("rival", ["commits first", "has only the lease"])
def test_one_whose_lease_is_lost_rolls_back(bench: Bench, rival: str) -> None:
    """The rival takes over just before the first run's transaction begins."""
    body = paying(pay)
    other = bench.engine(body)

    def take_over() -> None:
        if rival == "commits first":
            bench.execute("UPDATE wf_instances SET lease_until = 0, runnable_at = 0")
            assert other.worker().run_once().completed == 1
        else:
            other.release_lease(body, "1")

    zombie = bench.engine(body, points=Deaf("transaction", take_over))
    if rival == "commits first":
        assert zombie.run(body, "1") == Completed(3)
        assert paid(bench) == [("a", 1), ("b", 2)]
    else:
        with pytest.raises(LeaseLost):
            zombie.run(body, "1")
        assert paid(bench) == []
        assert other.run(body, "1") == Completed(3)
    assert steps(other, body, "1") == ["pay", "again"]
    check_whole(bench.url)


def test_two_runners_in_it_at_once_write_once(postgres_bench: Bench) -> None:
    """The rival takes over and commits while the first one's function runs."""
    bench = postgres_bench
    begun: list[Callable[[], Any]] = []

    def act(session: Session, account: str) -> int:
        bench.do("pay")
        if begun:
            begun.pop()()
        return pay(session, account)

    body = paying(act)
    other = bench.engine(body)

    def another() -> None:
        bench.clock.advance(LEASE)
        assert other.run(body, "1") == Completed(3)

    begun.append(another)
    first = bench.engine(body, points=Deaf("nothing", lambda: None))
    assert first.run(body, "1") == Completed(3)
    assert bench.calls("pay") == 2
    assert paid(bench) == [("a", 1), ("b", 2)]
    assert kinds(other, body, "1") == ["step_ok", "step_ok", "completed"]


def test_a_wake_that_comes_meanwhile_moves_it_and_undoes_nothing(bench: Bench) -> None:
    @workflow
    def body() -> WorkflowBody[list[Any]]:
        amount = yield from Transaction("pay", pay, "a")
        return [amount, (yield Await("n"))]

    other = bench.engine(body)
    points = Deaf("transaction", lambda: other.resolve(body, "1", "n", 7))
    engine = bench.engine(body, points=points)
    assert engine.run(body, "1") == Completed([1, 7])
    assert kinds(engine, body, "1") == ["wake", "step_ok", "completed"]
    assert paid(bench) == [("a", 1)]


# --- what goes wrong within ---


def test_a_failure_is_rolled_back_and_thrown_into_the_body(bench: Bench) -> None:
    def break_off(session: Session) -> int:
        pay(session, "half")
        session.flush()
        raise ValueError("no")

    def no_value(session: Session) -> Any:
        pay(session, "unrecordable")
        return object()

    @workflow
    def body() -> WorkflowBody[list[str]]:
        seen = []
        for transaction in (
            Transaction("breaks", break_off).raises(ValueError),
            Transaction("collides", pay, "there"),
            Transaction("no value", no_value),
        ):
            try:
                yield transaction
            except (ValueError, StepFailed, JournalEncodeError) as error:
                seen.append(getattr(error, "type", type(error).__name__))
        yield Transaction("works", pay, "compensation")
        return seen

    bench.execute("INSERT INTO paid VALUES ('there', 0)")
    engine = bench.engine(body)
    ending = engine.run(body, "1")
    names = ["ValueError", IntegrityError.__name__, "JournalEncodeError"]
    assert ending == Completed(names)
    assert paid(bench) == [("compensation", 1), ("there", 0)]
    failed = ["step_failed"] * 3
    assert kinds(engine, body, "1") == [*failed, "step_ok", "completed"]


def test_a_failure_that_leaves_the_body_is_tried_again(bench: Bench) -> None:
    """As with any step: nothing of it is recorded, and the next attempt may do."""

    def act(session: Session, account: str) -> int:
        bench.do("pay")
        pay(session, account)
        if bench.calls("pay") == 1:
            raise OSError("away")
        return 1

    body = paying(act)
    engine = bench.engine(body)
    engine.start(body, "1")
    assert engine.worker().run_once().paced == 1
    assert (paid(bench), kinds(engine, body, "1")) == ([], ["attempt"])
    bench.clock.advance(60)
    assert engine.worker().run_once().completed == 1
    assert paid(bench) == [("a", 1), ("b", 2)]


def test_its_retry_policy_is_a_steps(bench: Bench) -> None:
    def act(session: Session, account: str) -> int:
        bench.do("pay")
        pay(session, account)
        if bench.calls("pay") < 3:
            raise OSError("away")
        return current_step().attempt

    @workflow
    def body() -> WorkflowBody[int]:
        policy = RetryPolicy(attempts=3, initial=10, factor=1, jitter=0)
        return (yield from Transaction("pay", act, "a").retry(policy))

    engine = bench.engine(body)
    engine.start(body, "1")
    for _ in range(3):
        engine.worker().drain()
        bench.clock.advance(10)
    assert engine.handle(body, "1").result(0) == 3
    assert paid(bench) == [("a", 1)]


def serialization_failure() -> str:
    return "DO $$ BEGIN RAISE EXCEPTION 'try again' USING ERRCODE = '40001'; END $$"


def test_a_serialization_failure_is_no_failure(postgres_bench: Bench) -> None:
    """A real one: another transaction changes a row that this one has looked at."""
    bench = postgres_bench
    bench.execute("INSERT INTO paid VALUES ('a', 0)")

    def act(session: Session, account: str) -> int:
        bench.do("pay")
        row = session.get_one(Paid, account)
        if bench.calls("pay") < 3:
            bench.execute("UPDATE paid SET amount = amount + 10")
        row.amount += 1
        return row.amount

    @workflow
    def body() -> WorkflowBody[int]:
        return (yield from Transaction("pay", act, "a").isolation("REPEATABLE READ"))

    engine = bench.engine(body)
    assert engine.run(body, "1") == Completed(21)
    assert bench.calls("pay") == 3
    assert paid(bench) == [("a", 21)]
    assert kinds(engine, body, "1") == ["step_ok", "completed"]


def test_a_conflict_that_does_not_end_is_its_failure(
    postgres_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflow_engine.runtime.persistence.LONGEST_PAUSE", 0.0)
    monkeypatch.setattr("workflow_engine.runtime.persistence.FIRST_PAUSE", 0.0)
    bench = postgres_bench

    def act(session: Session) -> None:
        bench.do("pay")
        session.execute(text(serialization_failure()))

    @workflow
    def body() -> WorkflowBody[str]:
        try:
            yield Transaction("pay", act)
        except StepFailed as error:
            return error.type
        return "?"

    assert bench.engine(body).run(body, "1") == Completed("OperationalError")
    assert bench.calls("pay") == MOST_CONFLICTS


def test_a_connection_that_is_lost_within_it_is_replaced(postgres_bench: Bench) -> None:
    bench = postgres_bench

    def act(session: Session, account: str) -> int:
        bench.do("pay")
        result = pay(session, account)
        session.flush()
        if bench.calls("pay") == 1:
            session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
        return result

    body = paying(act)
    assert bench.engine(body).run(body, "1") == Completed(3)
    assert bench.calls("pay") == 2
    assert paid(bench) == [("a", 1), ("b", 2)]


def test_a_locked_file_is_no_failure(sqlite_bench: Bench) -> None:
    """The function writes on a connection of its own, which waits for the engine's."""
    bench = sqlite_bench
    elsewhere = sqlalchemy.create_engine(bench.url, connect_args={"timeout": 0})

    def act(session: Session, account: str) -> int:
        bench.do("pay")
        if bench.calls("pay") < 3:
            with elsewhere.begin() as connection:
                connection.execute(text("DELETE FROM paid"))
        return pay(session, account)

    body = paying(act)
    assert bench.engine(body).run(body, "1") == Completed(3)
    elsewhere.dispose()
    assert bench.calls("pay") == 3
    assert paid(bench) == [("a", 1), ("b", 2)]


def test_its_session_commits_nothing_early(bench: Bench) -> None:
    def act(session: Session) -> int:
        pay(session, "kept")
        session.commit()
        pay(session, "undone")
        session.flush()
        session.rollback()
        pay(session, "at last")
        return 1

    @workflow
    def body() -> WorkflowBody[int]:
        return (yield from Transaction("pay", act))

    bench.crash(body, "1", at="after_step", of="pay")
    assert paid(bench) == []
    assert bench.engine(body).run(body, "1") == Completed(1)
    assert paid(bench) == [("at last", 1), ("kept", 1)]


def test_a_function_cannot_end_the_transaction(bench: Bench) -> None:
    def act(session: Session) -> int:
        session.execute(text("SELECT 1"))
        raw: Any = session.connection().connection.driver_connection
        session.commit()
        raw.execute("ROLLBACK")
        return 1

    @workflow
    def body() -> WorkflowBody[str]:
        try:
            yield Transaction("pay", act)
        except StepFailed as error:
            return error.message
        return "?"

    ending = bench.engine(body).run(body, "1")
    assert isinstance(ending, Completed)
    assert "ended the transaction" in ending.result


# --- among others ---


def test_transactions_of_branches_follow_each_other(bench: Bench) -> None:
    @workflow
    def body() -> WorkflowBody[Any]:
        return (
            yield from AllOf(
                Transaction("1", pay, "a"),
                Step("2", bench.do_number, 2),
                Transaction("3", pay, "b", 3),
                Step("4", bench.do_number, 4),
            )
        )

    engine = bench.engine(body)
    assert engine.run(body, "1") == Completed([1, 2, 3, 4])
    assert sorted(map(str, steps(engine, body, "1"))) == ["1", "2", "3", "4"]
    assert paid(bench) == [("a", 1), ("b", 3)]


def test_one_whose_branch_has_lost_is_not_begun(bench: Bench) -> None:
    @workflow
    def body() -> WorkflowBody[Any]:
        return (
            yield from AnyOf(
                Transaction("first", pay, "a"), Transaction("second", pay, "b")
            )
        )

    engine = bench.engine(body)
    assert engine.run(body, "1") == Completed([0, 1])
    assert paid(bench) == [("a", 1)]
    assert steps(engine, body, "1") == ["first"]


def test_a_cancelled_run_begins_none(bench: Bench) -> None:
    @workflow
    def body() -> WorkflowBody[None]:
        yield Step("cancels", engine_cancels)
        yield Transaction("pay", pay, "a")

    def engine_cancels() -> None:
        engine.cancel("body", "1", cleanup=True)

    engine = bench.engine(body)
    engine.run(body, "1")
    assert paid(bench) == []
    assert str(engine.describe(body, "1").status) == "cancelled"


# --- the command ---


def test_what_cannot_be_a_transaction_is_refused() -> None:
    async def later(session: Session) -> None: ...

    with pytest.raises(TypeError, match="sync"):
        Transaction("t", later)
    with pytest.raises(TypeError, match="statement_timeout"):
        Transaction("t", pay, "a").timeout(5)
    with pytest.raises(ValueError, match="SERIALIZABLE"):
        Transaction("t", pay, "a").isolation("DIRTY")  # type: ignore[arg-type]


def test_two_that_describe_the_same_are_equal_and_a_step_is_not_one() -> None:
    def nothing(session: Any) -> None: ...

    one = Transaction("t", pay, "a").raises(ValueError).returns(int)
    assert one == Transaction("t", pay, "a").raises(ValueError).returns(int)
    assert Transaction("t", nothing) != Step("t", nothing, None)
    assert one != one.isolation("SERIALIZABLE")
    assert repr(one) == "Transaction('t', pay, 'a').returns(int).raises(ValueError)"


def test_a_mistake_in_it_fails_at_once(bench: Bench) -> None:
    def generator(session: Session) -> Any:
        yield 1

    @workflow
    def body() -> WorkflowBody[None]:
        yield Transaction("t", generator)

    assert isinstance(bench.engine(body).run(body, "1"), Failed)
