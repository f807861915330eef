"""Passes of a worker: what is found, claimed and run, and how it stops."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    PassSummary,
    Status,
    Step,
    Worker,
    Workflow,
    WorkflowBody,
    workflow,
)
from workflow_engine.core.rows import Batch
from workflow_engine.runtime.clock import SystemClock

from .bench import Bench, steps

PATIENCE = 20
"""Seconds after which something has gone wrong."""


@contextmanager
def in_a_thread(work: Callable[[], object]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=work)
    thread.start()
    yield thread
    thread.join(PATIENCE)
    assert not thread.is_alive()


def order_of(bench: Bench) -> Workflow[[], int]:
    @workflow(name="order")
    def body() -> WorkflowBody[int]:
        a: int = yield from Step("a", bench.do, "a", 1)
        b: int = yield from Step("b", bench.do, "b", 2)
        return a + b

    return body


def test_a_pass_runs_what_was_started_and_sums_it_up(bench: Bench) -> None:
    order = order_of(bench)
    engine = bench.engine(order)
    for number in range(3):
        engine.start(order, str(number))
    assert engine.worker().run_once() == PassSummary(
        discovered=3, advanced=3, resumed=3, completed=3
    )
    assert engine.worker().run_once() == PassSummary()


def test_summaries_add_up() -> None:
    one = PassSummary(completed=1, unregistered_names=frozenset("a"))
    two = PassSummary(completed=2, failed=1, unregistered_names=frozenset("ab"))
    both = PassSummary(completed=3, failed=1, unregistered_names=frozenset("ab"))
    assert one + two == two + one == both
    assert PassSummary() + one == one


def test_an_unregistered_name_is_skipped_and_named_once(bench: Bench) -> None:
    order = order_of(bench)
    other = workflow(name="other")(order.function)
    engine = bench.engine(order, other)
    for id in "123":
        engine.start(other, id)
    engine.start(order, "1")
    summary = bench.engine(order).worker().run_once()
    assert (summary.unknown_name, summary.completed) == (3, 1)
    assert summary.unregistered_names == {"other"}
    assert engine.describe(other, "1").status == Status.RUNNING
    assert engine.worker().run_once().completed == 3


def test_a_pass_takes_no_more_than_its_limit(bench: Bench) -> None:
    order = order_of(bench)
    engine = bench.engine(order)
    for number in range(5):
        engine.start(order, str(number))
    worker = engine.worker(concurrency=2)
    assert [worker.run_once(limit=3).completed for _ in range(3)] == [3, 2, 0]


def test_a_pass_runs_more_than_fits_at_once(bench: Bench) -> None:
    order = order_of(bench)
    engine = bench.engine(order)
    for number in range(7):
        engine.start(order, str(number))
    assert engine.worker(concurrency=2).run_once().completed == 7


def test_instances_run_at_the_same_time_up_to_the_concurrency(bench: Bench) -> None:
    together = threading.Barrier(3)

    @workflow
    def meeting() -> WorkflowBody[None]:
        yield Step("meet", together.wait, PATIENCE).returns(int)

    engine = bench.engine(meeting)
    for number in range(3):
        engine.start(meeting, str(number))
    assert engine.worker(concurrency=3).run_once().completed == 3


def test_a_worker_claims_no_more_than_it_can_run(bench: Bench) -> None:
    owners = []

    @workflow
    def looking() -> WorkflowBody[None]:
        yield Step("look", look)

    def look() -> None:
        owners.append([row.owner is not None for row in engine.list()])

    engine = bench.engine(looking)
    for number in range(3):
        engine.start(looking, str(number))
    engine.worker(concurrency=1).run_once()
    assert [sum(held) for held in owners] == [1, 1, 1]


def test_a_worker_leaves_alone_what_somebody_else_runs(bench: Bench) -> None:
    @workflow
    def long() -> WorkflowBody[None]:
        yield Step("long", during)

    def during() -> None:
        bench.do("long")
        summary = bench.engine(long).worker().run_once()
        assert summary.discovered == 0

    engine = bench.engine(long)
    engine.start(long, "1")
    assert engine.worker().run_once().completed == 1
    assert bench.done == ["long"]


def test_draining_goes_on_while_something_advances(bench: Bench) -> None:
    """Each run of the first instance makes the second one runnable, and so on."""

    @workflow
    def relay(number: int) -> WorkflowBody[int]:
        value = yield from Await("baton", returns=int)
        if number < 5:
            args = ("relay", str(number + 1), "baton", value + 1)
            yield Step("pass on", engine.resolve, *args)
        return value

    engine = bench.engine(relay)
    for number in range(6):
        engine.start(relay, str(number), number)
    engine.worker().drain()
    assert {row.status for row in engine.list()} == {Status.SUSPENDED}
    engine.resolve(relay, "0", "baton", 0)
    summary = engine.worker().drain()
    assert (summary.completed, summary.failed) == (6, 0)


def test_draining_ends_though_instances_park_and_crash(bench: Bench) -> None:
    @workflow
    def stuck(how: str) -> WorkflowBody[None]:
        yield Step("a", bench.do, "a")
        if how == "crash":
            raise RuntimeError("a bug")
        yield Await("never")

    engine = bench.engine(stuck)
    engine.start(stuck, "1", "park")
    engine.start(stuck, "2", "crash")
    summary = engine.worker().drain()
    assert (summary.still_suspended, summary.paced, summary.advanced) == (1, 1, 2)


def test_a_parked_instance_is_not_run_again_until_something_happens(
    bench: Bench,
) -> None:
    @workflow
    def waiting() -> WorkflowBody[int]:
        bench.do("run")
        return (yield from Await("n", returns=int))

    engine = bench.engine(waiting)
    engine.start(waiting, "1")
    worker = engine.worker()
    assert worker.run_once().still_suspended == 1
    bench.clock.advance(10_000_000)
    assert worker.run_once() == PassSummary()
    engine.resolve(waiting, "1", "n", 1)
    assert worker.run_once().completed == 1
    assert bench.done == ["run", "run"]


def test_a_delayed_start_is_left_alone_until_it_is_due(bench: Bench) -> None:
    order = order_of(bench)
    engine = bench.engine(order)
    handle = engine.starting(delay=90).start(order, "1")
    worker = engine.worker()
    assert worker.run_once().discovered == 0
    bench.clock.advance(89)
    assert worker.run_once().discovered == 0
    bench.clock.advance(1)
    assert worker.run_once().completed == 1
    assert handle.result() == 3


# --- stopping ---


def test_a_stopped_worker_ends_at_the_next_boundary(bench: Bench) -> None:
    workers: list[Worker] = []

    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("a", bench.do, "a")
        yield Step("stop", workers[0].stop)
        yield Step("b", bench.do, "b")

    engine = bench.engine(order)
    engine.start(order, "1")
    engine.start(order, "2")
    workers.append(engine.worker(concurrency=1))
    summary = workers[0].run_once()
    assert (summary.resumed, summary.completed, summary.paced) == (1, 0, 0)
    assert workers[0].run_once() == PassSummary()
    seen = engine.describe(order, "1")
    assert (seen.owner, seen.attempts, seen.status) == (None, 0, Status.RUNNING)
    assert steps(engine, order, "1") == ["a", "stop"]

    workers[0] = engine.worker()
    assert bench.engine(order).run(order, "1") == Completed(None)
    assert bench.done == ["a", "b"]


def test_a_worker_runs_in_a_thread_until_it_is_stopped(bench: Bench) -> None:
    order = order_of(bench)
    engine = bench.engine(order, clock=SystemClock())
    before = signal.getsignal(signal.SIGTERM)
    worker = engine.worker(poll=0.01)
    with in_a_thread(worker.run):
        handles = [engine.start(order, str(number)) for number in range(4)]
        assert [handle.result() for handle in handles] == [3, 3, 3, 3]
        assert signal.getsignal(signal.SIGTERM) is before
        worker.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_step_end_and_starts_nothing_more(
    bench: Bench, number: signal.Signals
) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("signal", os.kill, os.getpid(), number)
        yield Step("wait", stopped.wait, PATIENCE).returns(bool)
        yield Step("b", bench.do, "b")

    engine = bench.engine(order)
    engine.start(order, "1")
    before = signal.getsignal(number)
    worker = engine.worker()
    stopped = worker._stop
    summary = worker.run()
    assert (summary.resumed, summary.completed, summary.paced) == (1, 0, 0)
    assert signal.getsignal(number) is before
    assert set(steps(engine, order, "1")) <= {"signal", "wait"}
    seen = engine.describe(order, "1")
    assert (seen.owner, seen.attempts) == (None, 0)
    assert bench.done == []


def test_a_second_signal_gives_up_at_once(bench: Bench) -> None:
    ended = threading.Event()

    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("stuck", stuck)

    def stuck() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert worker._stop.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGTERM)
        assert ended.wait(PATIENCE)

    engine = bench.engine(order)
    engine.start(order, "1")
    worker = engine.worker()
    with pytest.raises(SystemExit) as exit:
        worker.run()
    assert exit.value.code == 128 + signal.SIGTERM
    (thread,) = worker._running.values()
    ended.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_step_that_outlasts_the_grace_is_left_behind_and_named(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()

    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("stuck", stuck)

    def stuck() -> None:
        worker.stop()
        assert ended.wait(PATIENCE)

    engine = bench.engine(order)
    engine.start(order, "1")
    worker = engine.worker(grace=0)
    with caplog.at_level(logging.WARNING, "workflow_engine"):
        worker.run()
    assert "still in a step" in caplog.text
    (thread,) = worker._running.values()
    ended.set()
    thread.join(PATIENCE)
    # What it did is recorded all the same.
    assert steps(engine, order, "1") == ["stuck"]


# --- options ---


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": 1.5},
        {"max_attempts": 0},
        {"max_attempts": True},
        {"max_takeovers": -1},
        {"lease": 0},
        {"lease": float("nan")},
        {"lease": float("inf")},
        {"poll": -1},
        {"grace": 1e18},
    ],
    ids=str,
)
def test_a_worker_refuses_options_that_make_no_sense(
    sqlite_bench: Bench, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        sqlite_bench.engine().worker(**options)


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), 1e18])
def test_a_delay_must_be_a_duration(sqlite_bench: Bench, delay: float) -> None:
    with pytest.raises(ValueError, match="delay"):
        sqlite_bench.engine().starting(delay=delay)


def test_what_is_claimed_when_the_stop_comes_is_given_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = order_of(bench)
    engine = bench.engine(order)
    engine.start(order, "1")
    worker = engine.worker()
    store = worker._equipment.store
    claim_due = store.claim_due

    def stop_amid(*given: Any) -> Batch:
        batch = claim_due(*given)
        worker.stop()
        return batch

    monkeypatch.setattr(store, "claim_due", stop_amid)
    assert worker.run().resumed == 0
    seen = engine.describe(order, "1")
    assert (seen.owner, seen.attempts, seen.takeovers) == (None, 0, 0)
    assert bench.done == []
