"""Many at once: one wins, and everybody is told the same."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import NullPool

from workflow_engine import (
    Await,
    Cancelled,
    Completed,
    ContinueAsNew,
    EngineClosed,
    Handle,
    InputConflict,
    Status,
    Step,
    WorkflowBody,
    restore_seed,
    workflow,
)
from workflow_engine.core.journal import MARKERS

from ..wholeness import check_whole
from .bench import Bench, entries, kinds
from .outages import after_tries


def at_once(actions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Do several things in a thread each, begun together; what came of each."""
    line = threading.Barrier(len(actions))
    came: list[Any] = [None] * len(actions)

    def act(place: int, action: Callable[[], Any]) -> None:
        line.wait()
        try:
            came[place] = action()
        except Exception as error:  # noqa: BLE001 - the caller looks at it
            came[place] = error

    threads = [
        threading.Thread(target=act, args=numbered) for numbered in enumerate(actions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return came


def test_fifty_starts_of_one_id_make_one_instance_with_the_first_input(
    bench: Bench,
) -> None:
    @workflow
    def order(value: int) -> WorkflowBody[int]:
        return (yield from Step("a", bench.do, "a", value).returns(int))

    @workflow
    def other(value: int) -> WorkflowBody[int]:
        return (yield from Step("a", bench.do, "other", value).returns(int))

    engine = bench.engine(order, other)
    # Each input twice: one pair is let in, the first of it and the one that agrees.
    starts = [partial(engine.start, order, "1", number // 2) for number in range(50)]
    came = at_once(starts)
    let_in = [n for n, each in enumerate(came) if isinstance(each, Handle)]
    conflicts = [each for each in came if isinstance(each, InputConflict)]
    assert (len(let_in), len(conflicts)) == (2, 48)
    assert engine.worker().run_once().completed == 1
    for number in let_in:
        assert came[number].result(timeout=0) == number // 2
    assert bench.done == ["a"]
    # The same id under another name is another instance.
    assert engine.run(other, "1", 99) == Completed(99)
    assert len(engine.list()) == 2
    check_whole(bench.url)


def test_deliveries_at_once_leave_one_value_and_tell_one_that_it_won(
    bench: Bench,
) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        return (yield from Await("word", returns=int))

    engines = [bench.engine(order) for _ in range(2)]
    for id in map(str, range(20)):
        engines[0].start(order, id)
        came = at_once(
            [partial(engines[n % 2].resolve, order, id, "word", n) for n in range(4)]
        )
        assert sorted(came) == [False, False, False, True]
        assert engines[0].run(order, id) == Completed(came.index(True))
        assert kinds(engines[0], order, id) == ["wake", "completed"]


def test_a_cancel_a_completion_and_a_delivery_at_once_never_deadlock(
    bench: Bench,
) -> None:
    @workflow
    def order() -> WorkflowBody[str]:
        yield Step("a", bench.do, "a")
        return "done"

    engine, another = bench.engine(order), bench.engine(order)
    endings: Counter[str] = Counter()
    with after_tries(1, lambda: None) as said:
        for id in map(str, range(200)):
            engine.start(order, id)
            ran, cancelled, delivered = at_once(
                [
                    partial(engine.run, order, id),
                    partial(another.cancel, order, id),
                    partial(another.resolve, order, id, "word", 1),
                ]
            )
            described = engine.describe(order, id)
            assert cancelled is (described.status == Status.CANCELLED)
            assert ran == (Cancelled() if cancelled else Completed("done"))
            journal = kinds(engine, order, id)
            assert [kind for kind in journal if kind in MARKERS] == journal[-1:]
            assert ("wake" in journal) is delivered
            endings[described.status] += 1
    assert said == []
    assert set(endings) <= {Status.COMPLETED, Status.CANCELLED}
    check_whole(bench.url)


# --- the life of a client -------------------------------------------------------------


def test_a_client_works_before_a_worker_does_and_after_it_stopped(bench: Bench) -> None:
    @workflow
    def order(value: int) -> WorkflowBody[int]:
        return (yield from Step("a", bench.do, "a", value).returns(int))

    engine = bench.engine(order)
    early = engine.start(order, "1", 4)
    worker = engine.worker()
    assert worker.run_once().completed == 1
    worker.stop()
    assert early.result(timeout=0) == 4
    late = engine.start(order, "2", 5)
    assert late.status() == Status.RUNNING
    assert engine.run(order, "2") == Completed(5)


def test_a_client_that_is_closed_says_so(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("a", bench.do, "a")

    engine = bench.engine(order)
    handle, worker = engine.start(order, "1"), engine.worker()
    engine.close()
    for use in (
        lambda: engine.start(order, "2"),
        lambda: engine.run(order, "1"),
        lambda: engine.describe(order, "1"),
        lambda: engine.resolve(order, "1", "word", 1),
        lambda: engine.cancel(order, "1"),
        lambda: engine.list(),
        lambda: engine.worker(),
        lambda: worker.run_once(),
        lambda: worker.run(),
        lambda: handle.result(timeout=0),
    ):
        with pytest.raises(EngineClosed, match="closed"):
            use()
    assert bench.done == []


# --- somebody else's pool -------------------------------------------------------------


@pytest.fixture
def poolless(bench: Bench) -> Iterator[sqlalchemy.Engine]:
    """A caller's engine that keeps no connection: each is a new session."""
    url = bench.url.replace("postgresql:", "postgresql+psycopg:")
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)
    yield engine
    engine.dispose()


def test_everything_works_on_an_engine_without_a_pool(
    bench: Bench, poolless: sqlalchemy.Engine
) -> None:
    @workflow
    def order(value: int) -> WorkflowBody[int]:
        total = yield from restore_seed(value)
        total += yield from Step("a", bench.do, "a", 1).returns(int)
        if total > value + 1:
            return total
        total += yield from Await("word", returns=int)
        yield ContinueAsNew(total)
        return 0

    with after_tries(1, lambda: None) as said:
        engine = bench.engine(order, url=poolless)
        ids = [str(number) for number in range(8)]
        for id in ids:
            engine.start(order, id, 10)
        worker = engine.worker(concurrency=4)
        assert worker.run_once().still_suspended == len(ids)
        for id in ids[1:]:
            assert engine.resolve(order, id, "word", 5)
        assert engine.cancel(order, ids[0])
        assert worker.drain().completed == len(ids) - 1
    assert said == []
    for id in ids[1:]:
        assert engine.run(order, id) == Completed(17)
        assert entries(engine, order, id, 0)[-1][0] == "continued_as_new"
    assert engine.run(order, ids[0]) == Cancelled()
    assert len(engine.list(status="completed")) == len(ids) - 1
    check_whole(bench.url)


def test_a_pool_of_one_connection_serves_several_runs(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        total = 0
        for name in "abc":
            total += yield from Step(name, bench.do, name, 1)
        return total

    url = bench.url.replace("postgresql:", "postgresql+psycopg:")
    single = sqlalchemy.create_engine(url, pool_size=1, max_overflow=0)
    engine = bench.engine(order, url=single)
    for number in range(12):
        engine.start(order, str(number))
    assert engine.worker(concurrency=4).run_once().completed == 12
    assert engine.run(order, "12") == Completed(3)
    single.dispose()
