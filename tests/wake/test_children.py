"""Children: spawned once, independent, and heard of the moment they end."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from workflow_engine import (
    Child,
    ChildCancelled,
    ChildFailed,
    Completed,
    ContinueAsNew,
    CurrentGeneration,
    DuplicateStepName,
    Failed,
    InvalidInput,
    InvalidName,
    Status,
    Step,
    Suspended,
    Workflow,
    WorkflowBody,
    WorkflowCancelled,
    WorkflowFailed,
    spawn_child,
    workflow,
)
from workflow_engine.core.compounds import AllOf

from ..runtime.bench import Bench, entries, steps
from .flows import patient, tell_child


@attrs.frozen
class Parcel:
    """What a shipment comes to."""

    order: str
    weight: int


@workflow
def ship(order: str, weight: int = 1) -> WorkflowBody[Parcel]:
    yield Step("weigh", int, weight)
    return Parcel(order, weight)


@workflow
def sell(order: str) -> WorkflowBody[Parcel]:
    shipment = yield from spawn_child(ship, f"ship-{order}", order, 3)
    return (yield from shipment)


@workflow
def parent() -> WorkflowBody[str]:
    """Waits for a patient child, and says how it ended."""
    child = yield from spawn_child(patient, "child")
    try:
        return (yield from child)
    except ChildFailed as failed:
        return f"{failed.type}: {failed.message}"
    except ChildCancelled as cancelled:
        return f"{cancelled.workflow} {cancelled.id} cancelled"


@workflow
def trusting() -> WorkflowBody[str]:
    """Waits for a patient child, and fails with it."""
    child = yield from spawn_child(patient, "child")
    return (yield from child)


# --- spawning -------------------------------------------------------------------------


def test_a_parent_gets_its_childs_result(bench: Bench) -> None:
    engine = bench.engine(sell, ship)
    engine.start(sell, "1", "tea")
    engine.worker(concurrency=1).drain()
    assert engine.handle(sell, "1").result() == Parcel("tea", 3)
    assert engine.handle(ship, "ship-tea").result() == Parcel("tea", 3)
    assert entries(engine, sell, "1") == [
        ("step_ok", "childid:ship:ship-tea"),
        ("wake", "child:ship:ship-tea"),
        ("completed", None),
    ]


def test_a_child_exists_before_its_parent_goes_on_and_is_not_spawned_again(
    bench: Bench,
) -> None:
    bench.crash(sell, "1", "tea", at="before_commit", of="append")
    engine = bench.engine(sell, ship)
    assert [one.id for one in engine.list(name=ship)] == []
    bench.crash(sell, "1", "tea", at="after_commit", of="append")
    (spawned,) = engine.list(name=ship)
    assert spawned.status == Status.RUNNING
    for _ in range(2):
        assert engine.run(sell, "1") == Suspended(("child:ship:ship-tea",))
    assert engine.describe(ship, "ship-tea") == spawned
    assert steps(engine, sell, "1") == ["childid:ship:ship-tea"]


def test_a_child_needs_no_parent_to_run(bench: Bench) -> None:
    engine = bench.engine(sell, ship)
    engine.run(sell, "1", "tea")
    engine.cancel(sell, "1")
    assert engine.run(ship, "ship-tea") == Completed(Parcel("tea", 3))


def test_a_child_that_is_not_waited_for_is_left_alone(bench: Bench) -> None:
    @workflow
    def careless() -> WorkflowBody[str]:
        child = yield from spawn_child(patient, "child")
        return child.id

    engine = bench.engine(careless, patient)
    assert engine.run(careless, "1") == Completed("child")
    engine.worker().run_once()
    tell_child(bench, "hello")
    assert engine.run(patient, "child") == Completed("hello")


def test_many_children_are_spawned_and_awaited_side_by_side(bench: Bench) -> None:
    @workflow
    def wholesale() -> WorkflowBody[int]:
        spawns = [spawn_child(ship, str(n), "tea", n) for n in range(20)]
        children = yield from AllOf(spawns)
        parcels = yield from AllOf(children)
        return sum(parcel.weight for parcel in parcels)

    engine = bench.engine(wholesale, ship)
    engine.start(wholesale, "1")
    engine.worker().drain()
    assert engine.handle(wholesale, "1").result() == sum(range(20))
    assert len(engine.list(name=ship)) == 20


def test_five_levels_need_no_more_than_one_slot(bench: Bench) -> None:
    @workflow
    def deep(level: int) -> WorkflowBody[int]:
        if level == 0:
            return 0
        child: Child[int] = yield from spawn_child(deep_again, str(level), level - 1)
        return 1 + (yield from child)

    deep_again: Workflow[[int], int] = deep
    engine = bench.engine(deep)
    engine.start(deep, "top", 5)
    engine.worker(concurrency=1).drain()
    assert engine.handle(deep, "top").result() == 5


def test_a_child_that_no_worker_knows_is_waited_for(bench: Bench) -> None:
    engine = bench.engine(sell)
    engine.start(sell, "1", "tea")
    summary = engine.worker().drain()
    assert summary.still_suspended == 1
    assert summary.unregistered_names == {"ship"}
    bench.engine(ship).worker().drain()
    assert engine.run(sell, "1") == Completed(Parcel("tea", 3))


@pytest.mark.parametrize("arguments", [(), ("tea", "heavy"), ("tea", 1, 2)])
def test_arguments_that_do_not_fit_are_the_parents_error(
    bench: Bench, arguments: tuple[Any, ...]
) -> None:
    @workflow
    def careless() -> WorkflowBody[str]:
        try:
            yield spawn_child(ship, "1", *arguments)
        except InvalidInput:
            return "caught"
        return "spawned"

    engine = bench.engine(careless)
    assert engine.run(careless, "1") == Completed("caught")
    assert len(engine.list(name=ship)) == 0


def test_an_id_that_is_none_is_refused() -> None:
    for id in ("", "a\nb", "x" * 256):
        with pytest.raises(InvalidName, match="workflow id"):
            spawn_child(ship, id, "tea")


def test_one_child_is_spawned_once_in_a_generation(bench: Bench) -> None:
    @workflow
    def twice() -> WorkflowBody[None]:
        yield spawn_child(ship, "1", "tea")
        yield spawn_child(ship, "1", "tea")

    ending = bench.engine(twice).run(twice, "1")
    assert isinstance(ending, Failed)
    assert ending.reason.startswith(DuplicateStepName.__name__)


def test_children_of_any_names_are_kept_apart(bench: Bench) -> None:
    first, second, third = (
        workflow(name=name)(ship.function) for name in ("a:b", "a", "a%3Ab" + "x" * 250)
    )

    @workflow
    def alike() -> WorkflowBody[list[Parcel]]:
        pairs = [(first, "c"), (second, "b:c"), (second, "b%3Ac"), (third, "y" * 255)]
        spawns = [spawn_child(each, id, id) for each, id in pairs]
        children = yield from AllOf(spawns)
        return (yield from AllOf(children))

    engine = bench.engine(alike, first, second, third)
    engine.start(alike, "1")
    engine.worker().drain()
    parcels = engine.handle(alike, "1").result()
    assert [each.order for each in parcels] == ["c", "b:c", "b%3Ac", "y" * 255]


# --- its end --------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_the_end_of_a_child_and_the_news_of_it_are_one_commit(
    bench: Bench, point: Any
) -> None:
    engine = bench.engine(sell, ship)
    engine.run(sell, "1", "tea")
    bench.crash(ship, "ship-tea", at=point, of="finish")
    is_ended = engine.describe(ship, "ship-tea").status == Status.COMPLETED
    assert is_ended == (point == "after_commit")
    assert (("wake", "child:ship:ship-tea") in entries(engine, sell, "1")) == is_ended
    engine.worker().drain()
    assert engine.handle(sell, "1").result() == Parcel("tea", 3)


def test_the_end_of_a_child_wakes_its_parent_at_once(bench: Bench) -> None:
    engine = bench.engine(parent, patient)
    engine.start(parent, "1")
    engine.worker().drain()
    tell_child(bench, "hello")
    engine.run(patient, "child")
    summary = engine.worker().run_once()
    assert (summary.discovered, summary.completed) == (1, 1)


def test_a_child_may_end_while_its_parent_is_busy(bench: Bench) -> None:
    @workflow
    def busy() -> WorkflowBody[Parcel]:
        child = yield from spawn_child(ship, "1", "tea")
        yield Step("meanwhile", lambda: str(bench.engine(ship).run(ship, "1")))
        return (yield from child)

    engine = bench.engine(busy)
    assert engine.run(busy, "1") == Completed(Parcel("tea", 1))


def test_a_child_that_goes_on_as_new_has_not_ended(bench: Bench) -> None:
    @workflow
    def long_lived() -> WorkflowBody[str]:
        generation = yield from CurrentGeneration()
        if generation < 3:
            yield ContinueAsNew(None)
        return f"generation {generation}"

    @workflow
    def waiting() -> WorkflowBody[str]:
        child = yield from spawn_child(long_lived, "child")
        return (yield from child)

    engine = bench.engine(waiting, long_lived)
    engine.start(waiting, "1")
    engine.worker().drain()
    assert engine.handle(waiting, "1").result() == "generation 3"


def brittle_child(bench: Bench) -> Workflow[[], None]:
    @workflow
    def brittle() -> WorkflowBody[None]:
        bench.do("brittle")
        raise ValueError("the lamp broke")
        yield

    return brittle


def waiting_for(bench: Bench, child: Workflow[[], None]) -> Workflow[[], str]:
    @workflow
    def waiting() -> WorkflowBody[str]:
        spawned = yield from spawn_child(child, "child")
        try:
            yield spawned
        except ChildFailed as failed:
            bench.done.append(failed.remote_traceback)
            return f"{failed.workflow} {failed.id}, {failed.type}: {failed.message}"
        return "no failure"

    return waiting


def test_a_childs_failure_is_raised_where_it_is_waited_for(bench: Bench) -> None:
    brittle = brittle_child(bench)
    waiting = waiting_for(bench, brittle)
    engine = bench.engine(waiting, brittle)
    engine.start(waiting, "1")
    engine.worker(max_attempts=1).drain()
    result = engine.handle(waiting, "1").result()
    assert result == "brittle child, ValueError: the lamp broke"
    assert "in brittle" in bench.done[-1]
    with pytest.raises(WorkflowFailed, match="the lamp broke"):
        engine.handle(brittle, "child").result()


def test_a_childs_failure_is_the_same_after_a_crash(bench: Bench) -> None:
    brittle = brittle_child(bench)
    waiting = waiting_for(bench, brittle)
    engine = bench.engine(brittle)
    bench.engine(waiting).run(waiting, "1")
    engine.worker(max_attempts=1).drain()
    bench.crash(waiting, "1", at="before_commit", of="finish")
    ending = bench.engine(waiting).run(waiting, "1")
    assert ending == Completed("brittle child, ValueError: the lamp broke")


def test_a_child_that_is_retried_has_not_failed_yet(bench: Bench) -> None:
    brittle = brittle_child(bench)
    waiting = waiting_for(bench, brittle)
    engine = bench.engine(waiting, brittle)
    engine.start(waiting, "1")
    worker = engine.worker(max_attempts=3)
    for failures in (1, 2):
        worker.drain()
        assert bench.calls("brittle") == failures
        assert engine.handle(waiting, "1").status() == Status.SUSPENDED
        bench.clock.advance(60)
    worker.drain()
    assert engine.handle(waiting, "1").status() == Status.COMPLETED


def test_a_child_whose_processes_keep_dying_fails_for_its_parent_too(
    bench: Bench,
) -> None:
    bench.engine(parent).run(parent, "1")
    bench.crash(patient, "child", at="before_commit", of="append")
    engine = bench.engine(parent, patient)
    assert engine.worker(max_takeovers=1).run_once().failed == 1
    engine.worker().drain()
    result = engine.handle(parent, "1").result()
    assert result.startswith("TakeoverLimit: taken over 1 times")


def test_a_childs_cancellation_is_raised_where_it_is_waited_for(bench: Bench) -> None:
    engine = bench.engine(parent, patient)
    engine.start(parent, "1")
    engine.worker().drain()
    assert engine.cancel(patient, "child")
    assert engine.worker().run_once().completed == 1
    assert engine.handle(parent, "1").result() == "patient child cancelled"
    assert engine.describe(patient, "child").status == Status.CANCELLED


def test_a_parent_that_is_cancelled_while_it_waits_is_cancelled_and_not_failed(
    bench: Bench,
) -> None:
    engine = bench.engine(parent, patient)
    engine.start(parent, "1")
    engine.worker().drain()
    engine.cancel(parent, "1")
    assert engine.describe(parent, "1").status == Status.CANCELLED
    with pytest.raises(WorkflowCancelled):
        engine.handle(parent, "1").result()
    assert engine.describe(patient, "child").status == Status.SUSPENDED


def test_a_parent_that_is_cancelled_while_it_runs_is_cancelled_and_not_failed(
    bench: Bench,
) -> None:
    @workflow
    def interrupted() -> WorkflowBody[str]:
        child = yield from spawn_child(patient, "child")
        yield Step("meanwhile", lambda: engine.cancel("interrupted", "1"))
        return (yield from child)

    engine = bench.engine(interrupted)
    engine.run(interrupted, "1")
    assert engine.describe(interrupted, "1").status == Status.CANCELLED


def test_an_unhandled_failure_of_a_child_is_final_for_the_parent(
    bench: Bench,
) -> None:
    engine = bench.engine(trusting, patient)
    engine.run(trusting, "1")
    engine.cancel(patient, "child")
    ending = engine.run(trusting, "1")
    assert isinstance(ending, Failed)
    assert ending.reason.startswith("ChildCancelled")
