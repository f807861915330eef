"""Starting, sending and signalling in a transaction of the caller's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import StaticPool, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from workflow_engine import (
    Await,
    Completed,
    Engine,
    InputConflict,
    InstanceExists,
    InstanceNotFound,
    RetryPolicy,
    Step,
    StoreRefused,
    Transaction,
    WorkflowBody,
    awakeable,
    receive,
    workflow,
)
from workflow_engine.testing import TestClock

from ..runtime.bench import Bench, kinds
from ..wholeness import check_whole
from .flows import id_of_only


@pytest.fixture
def bench(database_url: str, clock: TestClock) -> Iterator[Bench]:
    """Each database in turn, with a table of the user's."""
    with Bench.on(database_url, clock) as bench:
        bench.execute("DROP TABLE IF EXISTS orders")
        bench.execute("CREATE TABLE orders (number TEXT PRIMARY KEY)")
        yield bench


@pytest.fixture
def callers(bench: Bench) -> Iterator[sqlalchemy.Engine]:
    """An engine of the caller's, with all defaults of SQLAlchemy."""
    url = bench.url.replace("postgresql:", "postgresql+psycopg:")
    engine = sqlalchemy.create_engine(url)
    yield engine
    engine.dispose()


def insert(session: Session, number: str = "1") -> None:
    session.execute(text("INSERT INTO orders VALUES (:number)"), {"number": number})


def orders(bench: Bench) -> list[str]:
    return [number for (number,) in bench.execute("SELECT number FROM orders")]


@workflow
def order(number: int) -> WorkflowBody[int]:
    return (yield from Step("work", int, number))


@workflow
def listening() -> WorkflowBody[list[Any]]:
    decision = yield from awakeable("decision", returns=str)
    message: str = yield from receive("news", returns=str)
    return [(yield from decision), message]


@pytest.mark.parametrize("first", ["their row", "the start"])
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_an_instance_is_there_when_the_callers_row_is(
    bench: Bench, callers: sqlalchemy.Engine, ending: str, first: str
) -> None:
    engine = bench.engine(order)
    with Session(callers) as session:
        if first == "their row":
            insert(session)
        starting = engine.starting(session=session, tags={"by": "me"})
        handle = starting.start(order, "1", 5)
        assert starting.start(order, "1").id == "1"  # it sees its own
        if first == "the start":
            insert(session)
        with pytest.raises(InstanceNotFound):
            handle.status()
        assert engine.list().items == ()
        if not bench.url.startswith("sqlite"):  # there it would wait for the lock
            assert engine.worker().run_once().discovered == 0
        getattr(session, ending)()
    committed = ending == "commit"
    assert orders(bench) == (["1"] if committed else [])
    assert engine.worker().drain().completed == committed
    assert len(engine.list(tags={"by": "me"}).items) == committed
    if committed:
        assert handle.result(0) == 5
    check_whole(bench.url)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_messages_and_signals_are_delivered_with_the_commit(
    bench: Bench, callers: sqlalchemy.Engine, ending: str
) -> None:
    engine = bench.engine(listening)
    engine.run(listening, "1")
    before = kinds(engine, listening, "1")
    with Session(callers) as session:
        insert(session)
        assert engine.send(listening, "1", "news", "new", key="k", session=session)
        assert not engine.send(listening, "1", "news", "new", "k", session=session)
        id = id_of_only(engine, listening)
        assert engine.signal(id, "yes", session=session)
        assert not engine.signal(id, "no", session=session)
        assert kinds(engine, listening, "1") == before
        getattr(session, ending)()
    if ending == "commit":
        assert engine.worker().drain().completed == 1
        assert engine.handle(listening, "1").result(0) == ["yes", "new"]
    else:
        assert engine.worker().drain().advanced == 0
        assert kinds(engine, listening, "1") == before
        assert engine.signal(id, "yes")
    check_whole(bench.url)


def test_hints_go_out_when_the_caller_commits_and_not_before(
    bench: Bench, callers: sqlalchemy.Engine
) -> None:
    engine = bench.engine(order)
    heard: list[str] = []
    listening = engine._equip().store.listen(lambda: heard.append("!"), others=False)
    try:
        with Session(callers) as session:
            engine.starting(session=session).start(order, "1", 1)
            with session.begin_nested():
                engine.starting(session=session).start(order, "2", 2)
            assert heard == []
            session.commit()
            assert heard == ["!"]
            insert(session)
            session.commit()
            assert heard == ["!"]
            engine.starting(session=session).start(order, "3", 3)
            session.rollback()
            assert heard == ["!"]
    finally:
        listening.close()


def test_a_call_that_is_refused_leaves_the_rest_as_it_was(
    bench: Bench, callers: sqlalchemy.Engine
) -> None:
    engine = bench.engine(order)
    engine.start(order, "old", 1)
    with Session(callers) as session:
        insert(session)
        starting = engine.starting(session=session)
        with pytest.raises(InputConflict):
            starting.start(order, "old", 2)
        with pytest.raises(InstanceExists):
            engine.starting(session=session, on_conflict="reject").start(
                order, "old", 1
            )
        with pytest.raises(InstanceNotFound):
            engine.send(order, "none", "news", 1, session=session)
        starting.start(order, "new", 2)
        session.commit()
    assert orders(bench) == ["1"]
    assert engine.worker().drain().completed == 2


def test_a_savepoint_of_the_callers_takes_back_what_was_done_in_it(
    bench: Bench, callers: sqlalchemy.Engine
) -> None:
    engine = bench.engine(order)
    with Session(callers) as session:
        engine.starting(session=session).start(order, "1", 1)
        savepoint = session.begin_nested()
        engine.starting(session=session).start(order, "2", 2)
        savepoint.rollback()
        session.commit()
    assert [each.id for each in engine.list().items] == ["1"]


def test_one_that_ended_is_started_afresh_with_the_commit(
    bench: Bench, callers: sqlalchemy.Engine
) -> None:
    engine = bench.engine(order)
    assert engine.run(order, "1", 1) == Completed(1)
    with Session(callers) as session:
        starting = engine.starting(session=session, on_conflict="restart")
        starting.start(order, "1", 2)
        assert engine.handle(order, "1").result(0) == 1
        session.commit()
    engine.worker().drain()
    assert engine.handle(order, "1").result(0) == 2


def test_the_callers_own_engine_and_scoped_sessions_do(
    bench: Bench, callers: sqlalchemy.Engine
) -> None:
    pool = callers.pool
    engine = bench.engine(order, url=callers)
    session = scoped_session(sessionmaker(callers))
    engine.starting(session=session).start(order, "1", 1)
    session.commit()
    session.remove()
    assert engine.worker().drain().completed == 1
    engine.close()
    assert callers.pool is pool
    with callers.connect() as connection:
        assert connection.scalar(text("SELECT 1")) == 1


# --- within a transaction of the engine's ---


def test_a_transaction_starts_and_sends_exactly_once(bench: Bench) -> None:
    def act(session: Session) -> None:
        bench.do("act")
        insert(session)
        engine.starting(session=session).start(order, "child", 3)
        engine.send(parent, "1", "news", "hello", session=session)

    @workflow
    def parent() -> WorkflowBody[str]:
        yield Transaction("act", act)
        return (yield from receive("news", returns=str))

    engine = bench.engine(parent, order)
    bench.crash(parent, "1", at="after_step", of="act")
    assert [each.id for each in engine.list().items] == ["1"]
    assert engine.run(parent, "1") == Completed("hello")
    assert engine.worker().drain().completed == 1
    assert bench.calls("act") == 2
    assert orders(bench) == ["1"]
    assert kinds(engine, parent, "1") == ["message", "step_ok", "completed"]


@pytest.mark.parametrize("how", ["with a key", "in the transaction"])
def test_what_a_step_sends_counts_once_when_it_is_tried_again(
    bench: Bench, how: str
) -> None:
    def fail_once(session: Session | None) -> None:
        bench.do("act")
        key = "k" if how == "with a key" else None
        engine.send(listener, "1", "news", "once", key, session=session)
        if bench.calls("act") == 1:
            raise OSError("away")

    @workflow
    def listener() -> WorkflowBody[None]:
        yield Await("never")

    @workflow
    def sending() -> WorkflowBody[None]:
        policy = RetryPolicy(attempts=2, initial=1, jitter=0)
        if how == "with a key":
            yield Step("act", fail_once, None).retry(policy)
        else:
            yield Transaction("act", fail_once).retry(policy)

    engine = bench.engine(sending, listener)
    engine.run(listener, "1")
    engine.start(sending, "1")
    engine.worker().drain()
    bench.clock.advance(5)
    engine.worker().drain()
    assert (bench.calls("act"), kinds(engine, listener, "1")) == (2, ["message"])


# --- sessions that are of no use ---


def test_a_session_on_another_database_is_refused(
    bench: Bench, callers: sqlalchemy.Engine, tmp_path: Any
) -> None:
    engine = bench.engine(order)
    beside = "postgres"
    if callers.dialect.name == "sqlite":
        beside = f"{tmp_path}/beside.db"
    other_file = sqlalchemy.make_url(f"sqlite:///{tmp_path}/other.db")
    for url in (callers.url.set(database=beside), other_file):
        other = sqlalchemy.create_engine(url)
        with (
            Session(other) as session,
            pytest.raises(StoreRefused, match="bound to another database"),
        ):
            engine.starting(session=session).start(order, "1", 1)
        other.dispose()
    with Session() as session, pytest.raises(StoreRefused, match="no engine"):
        engine.starting(session=session).start(order, "1", 1)
    with pytest.raises(TypeError, match="Session"):
        engine.starting(session=callers).start(order, "1", 1)  # type: ignore[arg-type]
    assert engine.list().items == ()


def test_a_session_that_commits_by_itself_is_refused(
    postgres_url: str, clock: TestClock
) -> None:
    with Bench.on(postgres_url, clock) as bench:
        engine = bench.engine(order)
        url = bench.url.replace("postgresql:", "postgresql+psycopg:")
        callers = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
        with Session(callers) as session, pytest.raises(StoreRefused, match="auto"):
            engine.starting(session=session).start(order, "1", 1)
        callers.dispose()
        assert engine.list().items == ()


def test_a_database_in_memory_is_not_shared_with_a_caller() -> None:
    callers = sqlalchemy.create_engine(
        "sqlite://",
        poolclass=StaticPool,
        connect_args={"check_same_thread": False},
    )
    with Engine(callers, workflows=[order]) as engine:
        with Session(callers) as session, pytest.raises(StoreRefused, match="memory"):
            engine.starting(session=session).start(order, "1", 1)
        assert engine.run(order, "1", 1) == Completed(1)
    callers.dispose()
