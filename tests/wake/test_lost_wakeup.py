"""A wake that comes between the miss and the park is not lost.

What wakes is committed when the run has found nothing and is about to park: at the
point just before that commit, by another engine, as another process would do it.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from workflow_engine import (
    Await,
    AwakeableCancelled,
    AwakeableRejected,
    Cancelled,
    ChildFailed,
    Completed,
    Engine,
    Status,
    Step,
    Suspended,
    WorkflowBody,
    awakeable,
    sleep,
    spawn_child,
    workflow,
)
from workflow_engine.core.compounds import AllOf
from workflow_engine.runtime.points import Point

from ..runtime.bench import Bench, Meanwhile, kinds


@workflow
def child(breaks: bool) -> WorkflowBody[str]:
    yield Step("begin", int)
    if breaks:
        raise ValueError("broken")
    return "grown up"


@workflow
def waiting(what: str) -> WorkflowBody[str]:
    """Waits for one thing of each kind."""
    try:
        if what == "awakeable":
            return (yield from (yield from awakeable("word", returns=str)))
        if what == "await":
            return (yield from Await("word", returns=str))
        if what == "sleep":
            yield sleep(60, name="nap")
            return "rested"
        breaks = what == "broken child"
        return (yield from (yield from spawn_child(child, "child", breaks)))
    except (AwakeableRejected, AwakeableCancelled, ChildFailed) as error:
        return type(error).__name__


def signal(bench: Bench, engine: Engine) -> None:
    (question,) = engine.awakeables(waiting, "1")
    assert engine.signal(question.id, "hello")


def reject(bench: Bench, engine: Engine) -> None:
    (question,) = engine.awakeables(waiting, "1")
    assert engine.reject(question.id, "no")


def withdraw(bench: Bench, engine: Engine) -> None:
    (question,) = engine.awakeables(waiting, "1")
    assert engine.cancel_awakeable(question.id)


def resolve(bench: Bench, engine: Engine) -> None:
    assert engine.resolve(waiting, "1", "word", "hello")


def run_child(bench: Bench, engine: Engine) -> None:
    engine.worker(max_attempts=1).run_once()
    assert engine.describe(child, "child").status.is_ended


def wait_and_fire(bench: Bench, engine: Engine) -> None:
    """The sleep is armed in the park; so this is for the second one."""
    bench.clock.advance(60)
    assert engine.worker().run_once().timers_fired == 1


@attrs.frozen
class Case:
    what: str
    wake: Callable[[Bench, Engine], None]
    result: str

    def __str__(self) -> str:
        return f"{self.what}-{self.wake.__name__}"


CASES = [
    Case("awakeable", signal, "hello"),
    Case("awakeable", reject, "AwakeableRejected"),
    Case("awakeable", withdraw, "AwakeableCancelled"),
    Case("await", resolve, "hello"),
    Case("child", run_child, "grown up"),
    Case("broken child", run_child, "ChildFailed"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_comes_just_before_the_park_is_delivered_by_the_same_run(
    bench: Bench, case: Case
) -> None:
    elsewhere = bench.engine(child)
    points = Meanwhile("before_commit", "park", lambda: case.wake(bench, elsewhere))
    engine = bench.engine(waiting, points=points)
    assert engine.run(waiting, "1", case.what) == Completed(case.result)
    assert points.acted == 1


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_comes_just_after_the_park_is_found_by_the_next_pass(
    bench: Bench, case: Case
) -> None:
    elsewhere = bench.engine(child)
    points = Meanwhile("after_commit", "park", lambda: case.wake(bench, elsewhere))
    engine = bench.engine(waiting, points=points)
    assert isinstance(engine.run(waiting, "1", case.what), Suspended)
    assert points.acted == 1
    summary = bench.engine(waiting).worker().run_once()
    assert (summary.discovered, summary.completed) == (1, 1)
    assert engine.handle(waiting, "1").result() == case.result


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_wake_before_a_park_that_never_happens_is_found_by_the_next_run(
    bench: Bench, case: Case
) -> None:
    bench.crash(waiting, "1", case.what, at="before_commit", of="park")
    case.wake(bench, bench.engine(child))
    assert bench.engine(waiting).run(waiting, "1") == Completed(case.result)


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_a_sleep_that_fires_around_a_park_is_not_lost(
    bench: Bench, point: Point
) -> None:
    bench.engine(waiting).run(waiting, "1", "sleep")
    elsewhere = bench.engine()
    points = Meanwhile(point, "park", lambda: wait_and_fire(bench, elsewhere))
    engine = bench.engine(waiting, points=points)
    ending = engine.run(waiting, "1")
    assert points.acted == 1
    if point == "before_commit":
        assert ending == Completed("rested")
    else:
        assert ending == Suspended(("sleep:nap",))
        assert bench.engine(waiting).worker().run_once().completed == 1


def test_a_sleep_that_falls_due_before_its_second_park_is_over(bench: Bench) -> None:
    bench.engine(waiting).run(waiting, "1", "sleep")
    points = Meanwhile("before_commit", "park", lambda: bench.clock.advance(60))
    engine = bench.engine(waiting, points=points)
    assert engine.run(waiting, "1") == Completed("rested")


def test_a_cancellation_just_before_the_park_ends_the_run(bench: Bench) -> None:
    elsewhere = bench.engine()
    points = Meanwhile("before_commit", "park", lambda: elsewhere.cancel(waiting, "1"))
    engine = bench.engine(waiting, points=points)
    assert engine.run(waiting, "1", "await") == Cancelled()


@pytest.mark.parametrize("which", ["first", "second"])
def test_of_two_waits_either_may_be_answered_in_the_gap(
    bench: Bench, which: str
) -> None:
    @workflow
    def both() -> WorkflowBody[list[int]]:
        waits = [Await("first", returns=int), Await("second", returns=int)]
        return (yield from AllOf(waits))

    points = Meanwhile(
        "before_commit", "park", lambda: elsewhere.resolve(both, "1", which, 1)
    )
    elsewhere = bench.engine()
    engine = bench.engine(both, points=points)
    other = {"first": "second", "second": "first"}[which]
    assert engine.run(both, "1") == Suspended((other,))
    elsewhere.resolve(both, "1", other, 1)
    assert engine.run(both, "1") == Completed([1, 1])


# --- two runners, one wait ------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
def test_of_two_runners_in_one_wait_the_loser_stops(bench: Bench, case: Case) -> None:
    """The first is stopped before its park until the second has seen it through."""

    def overtake() -> None:
        engine = bench.engine(waiting, child)
        assert engine.release_lease(waiting, "1")
        engine.run(waiting, "1")
        case.wake(bench, engine)
        engine.worker().drain()

    points = Meanwhile("before_commit", "park", overtake)
    engine = bench.engine(waiting, points=points)
    assert engine.run(waiting, "1", case.what) == Completed(case.result)
    assert engine.describe(waiting, "1").status == Status.COMPLETED
    assert kinds(engine, waiting, "1").count("completed") == 1
    wakes = [kind for kind in kinds(engine, waiting, "1") if kind.startswith("wake")]
    assert len(wakes) == 1
