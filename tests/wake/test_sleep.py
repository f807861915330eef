"""Sleeping: armed once, due by the database's clock, fired by whoever comes."""

from __future__ import annotations

import pytest

from workflow_engine import (
    Await,
    Completed,
    DuplicateStepName,
    Failed,
    LeaseHeld,
    PassSummary,
    Status,
    Step,
    Suspended,
    WorkflowBody,
    sleep,
    sleep_until,
    workflow,
)
from workflow_engine.core.compounds import AllOf, AnyOf
from workflow_engine.runtime.clock import SystemClock
from workflow_engine.testing import Crashes, ProcessDied

from ..runtime.bench import LEASE, Bench, entries, watched
from .flows import SECOND, timers


@workflow
def napping(seconds: float) -> WorkflowBody[str]:
    yield sleep(seconds, name="nap")
    return "rested"


# --- arming ---------------------------------------------------------------------------


def test_a_sleeper_is_run_when_it_is_due_and_not_before(bench: Bench) -> None:
    engine = bench.engine(napping)
    worker = engine.worker()
    engine.start(napping, "1", 60)
    assert worker.run_once().still_suspended == 1
    assert engine.describe(napping, "1").waits_on == ("sleep:nap",)
    bench.clock.advance(59.999)
    assert worker.run_once() == PassSummary()
    bench.clock.advance(0.001)
    summary = worker.run_once()
    assert (summary.timers_fired, summary.completed) == (1, 1)
    assert engine.handle(napping, "1").result() == "rested"
    assert timers(bench) == []


def test_arming_and_parking_are_one_commit(bench: Bench) -> None:
    engine = bench.engine(napping)
    with watched() as seen:
        engine.run(napping, "1", 60)
    assert seen.commits == 2, "the claim, and the park"
    bench.crash(napping, "2", 60, at="before_commit", of="park")
    assert len(timers(bench)) == 1
    assert engine.describe(napping, "2").status == Status.RUNNING
    bench.crash(napping, "3", 60, at="after_commit", of="park")
    assert len(timers(bench)) == 2
    assert engine.describe(napping, "3").status == Status.SUSPENDED


def test_a_due_time_never_moves(bench: Bench) -> None:
    @workflow
    def restless() -> WorkflowBody[None]:
        yield AllOf([sleep(100, name="long"), Await("a"), Await("b"), Step("s", int)])

    engine = bench.engine(restless)
    engine.run(restless, "1")
    for seconds, disturb in (
        (10, lambda: engine.run(restless, "1")),
        (10, lambda: engine.resolve(restless, "1", "a", 1)),
        (10, lambda: engine.worker().run_once()),
        (0, lambda: bench.crash(restless, "1", at="before_commit", of="park")),
        (5, lambda: bench.engine(restless).run(restless, "1")),
    ):
        bench.clock.advance(seconds)
        disturb()
    assert bench.clock.monotonic() == 35 + 61
    assert timers(bench) == [("sleep:long", 4 * SECOND)]
    bench.clock.advance(4)
    engine.resolve(restless, "1", "b", 1)
    assert engine.worker().run_once().completed == 1


def test_a_due_time_is_reckoned_by_the_databases_clock(bench: Bench) -> None:
    engine = bench.engine(napping, clock=SystemClock())
    engine.run(napping, "1", 3600.25)
    ((delay, age),) = bench.execute(
        "SELECT t.due_at - t.created_at, t.created_at - i.created_at "
        "FROM wf_timers t JOIN wf_instances i ON i.id = t.instance_id"
    )
    assert delay == 3600 * SECOND + 250_000
    assert 0 <= age < 600 * SECOND, "not by a clock of the engine's, which is years off"


@pytest.mark.parametrize("seconds", [0.25, 0.001])
def test_a_sleep_is_good_to_the_millisecond(bench: Bench, seconds: float) -> None:
    engine = bench.engine(napping)
    engine.run(napping, "1", seconds)
    bench.clock.advance(seconds / 2)
    assert engine.worker().run_once().timers_fired == 0
    bench.clock.advance(seconds / 2)
    assert engine.worker().run_once().completed == 1


def test_no_time_at_all_is_over_at_once(bench: Bench) -> None:
    @workflow
    def brisk() -> WorkflowBody[int]:
        yield sleep(0)
        yield sleep_until(bench.clock.now, name="now")
        yield AllOf([sleep(0), sleep(0, name="again")])
        return 1

    engine = bench.engine(brisk)
    assert engine.run(brisk, "1") == Completed(1)
    assert timers(bench) == []


def test_unnamed_sleeps_are_numbered_within_their_branch(bench: Bench) -> None:
    @workflow
    def numbered() -> WorkflowBody[None]:
        yield AllOf([two(), two(), sleep(9)])
        yield sleep(9)

    def two() -> WorkflowBody[None]:
        yield sleep(1)
        yield sleep(1)

    engine = bench.engine(numbered)
    first = ("sleep:0.0/0", "sleep:0.1/0", "sleep:0.2/0")
    assert engine.run(numbered, "1") == Suspended(first)
    bench.clock.advance(1)
    engine.run(numbered, "1")
    second = ("sleep:0.0/1", "sleep:0.1/1", "sleep:0.2/0")
    assert sorted(engine.describe(numbered, "1").waits_on) == sorted(second)
    bench.clock.advance(9)
    assert engine.run(numbered, "1") == Suspended(("sleep:0",))


def test_a_loop_without_names_sleeps_anew_each_time(bench: Bench) -> None:
    @workflow
    def daily() -> WorkflowBody[None]:
        for day in range(3):
            yield Step(f"day {day}", bench.do, f"day {day}")
            yield sleep(86_400)

    engine = bench.engine(daily)
    engine.start(daily, "1")
    for _ in range(3):
        engine.worker().run_once()
        bench.clock.advance(86_400)
    assert engine.worker().run_once().completed == 1
    assert bench.done == ["day 0", "day 1", "day 2"]


def test_two_sleeps_of_one_name_are_the_authors_error(bench: Bench) -> None:
    @workflow
    def twice() -> WorkflowBody[None]:
        yield sleep(0, name="nap")
        yield sleep(0, name="nap")

    ending = bench.engine(twice).run(twice, "1")
    assert isinstance(ending, Failed)
    assert ending.reason.startswith(DuplicateStepName.__name__)
    assert "'sleep:nap' twice" in ending.reason


def test_a_sleep_and_a_step_may_have_one_name(bench: Bench) -> None:
    @workflow
    def alike() -> WorkflowBody[int]:
        yield sleep(0, name="x")
        return (yield from Step("x", int, 3))

    assert bench.engine(alike).run(alike, "1") == Completed(3)


# --- firing ---------------------------------------------------------------------------


def test_a_sleep_that_fell_due_with_no_worker_up_fires_when_one_comes(
    bench: Bench,
) -> None:
    bench.engine(napping).run(napping, "1", 60)
    bench.clock.advance(86_400)
    summary = bench.engine(napping).worker().run_once()
    assert (summary.timers_fired, summary.completed) == (1, 1)


def test_a_sleep_that_fell_due_fires_in_a_run_without_a_worker(bench: Bench) -> None:
    engine = bench.engine(napping)
    engine.run(napping, "1", 60)
    bench.clock.advance(60)
    assert engine.run(napping, "1") == Completed("rested")


def test_any_worker_fires_what_is_due_whatever_it_can_run(bench: Bench) -> None:
    bench.engine(napping).run(napping, "1", 60)
    bench.clock.advance(60)
    stranger = bench.engine().worker()
    assert stranger.run_once().timers_fired == 1
    summary = stranger.drain()
    assert (summary.timers_fired, summary.advanced, summary.unknown_name) == (0, 0, 1)
    assert bench.engine(napping).run(napping, "1") == Completed("rested")


def test_a_due_sleep_fires_whoever_holds_the_lease(bench: Bench) -> None:
    @workflow
    def racing() -> WorkflowBody[int]:
        step = Step("slow", bench.do, "slow")
        index, _ = yield from AnyOf([sleep(30, name="limit"), step])
        return index

    dying = bench.engine(racing, points=Crashes().at("before_step", "slow"))
    with pytest.raises(ProcessDied):
        dying.run(racing, "1")
    bench.clock.advance(30)
    assert bench.engine().worker().run_once().timers_fired == 1
    engine = bench.engine(racing)
    with pytest.raises(LeaseHeld):
        engine.run(racing, "1")
    assert entries(engine, racing, "1")[0] == ("wake", "sleep:limit")
    bench.clock.advance(LEASE)
    assert engine.run(racing, "1") == Completed(0)
    assert bench.done == []


def test_sleeps_are_delivered_in_the_order_in_which_they_fall_due(
    bench: Bench,
) -> None:
    @workflow
    def several() -> WorkflowBody[list[int]]:
        order: list[int] = []

        def one(number: int) -> WorkflowBody[None]:
            yield sleep(number, name=f"nap {number}")
            order.append(number)

        yield AllOf([one(3), one(1), one(2)])
        return order

    engine = bench.engine(several)
    engine.run(several, "1")
    bench.clock.advance(10)
    engine.worker().run_once()
    assert engine.handle(several, "1").result() == [1, 2, 3]


@pytest.mark.parametrize("due", [False, True])
def test_a_drain_ends_where_only_sleepers_are_left(bench: Bench, due: bool) -> None:
    engine = bench.engine(napping)
    engine.start(napping, "1", 60)
    worker = engine.worker()
    assert worker.drain().still_suspended == 1
    bench.clock.advance(60 if due else 59)
    summary = worker.drain()
    assert (summary.completed, summary.timers_fired) == (due, due)
