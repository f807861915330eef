"""`cancel_child`: a parent ends its child, in the commit that records it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workflow_engine import (
    Child,
    ChildCancelled,
    Completed,
    Status,
    Step,
    Workflow,
    WorkflowBody,
    cancel_child,
    spawn_child,
    workflow,
)
from workflow_engine.core.compounds import AnyOf

from ..runtime.bench import Bench, entries
from .flows import patient, tell_child


def cancelling(
    then: Callable[[Child[str]], WorkflowBody[str]],
) -> Workflow[[], str]:
    @workflow
    def cancelling() -> WorkflowBody[str]:
        child = yield from spawn_child(patient, "child")
        return (yield from then(child))

    return cancelling


def test_a_parent_may_end_its_child(bench: Bench) -> None:
    def then(child: Child[str]) -> WorkflowBody[str]:
        yield Step(
            "let it begin", lambda: str(bench.engine(patient).run(patient, "child"))
        )
        yield cancel_child(child)
        try:
            return (yield from child)
        except ChildCancelled:
            return "cancelled"

    impatient = cancelling(then)
    engine = bench.engine(impatient)
    assert engine.run(impatient, "1") == Completed("cancelled")
    assert engine.describe(patient, "child").status == Status.CANCELLED
    assert entries(engine, impatient, "1")[-4:-1] == [
        ("step_ok", "let it begin"),
        ("step_ok", "childcancel:patient:child"),
        ("wake_failed", "child:patient:child"),
    ]


def test_ending_a_child_and_recording_it_are_one_commit(bench: Bench) -> None:
    def then(child: Child[str]) -> WorkflowBody[str]:
        yield cancel_child(child)
        return "done"

    impatient = cancelling(then)
    engine = bench.engine(impatient)
    points: list[Any] = ["before_commit", "after_commit"]
    bench.crash(impatient, "1", at="after_commit", of="append")
    for point, status in zip(points, (Status.RUNNING, Status.CANCELLED), strict=True):
        bench.crash(impatient, "1", at=point, of="append")
        assert engine.describe(patient, "child").status == status
    assert engine.run(impatient, "1") == Completed("done")


def test_ending_a_child_that_has_ended_changes_nothing(bench: Bench) -> None:
    def then(child: Child[str]) -> WorkflowBody[str]:
        yield Step("hear", tell)
        yield cancel_child(child)
        yield cancel_child(child)
        return (yield from child)

    def tell() -> None:
        engine = bench.engine(patient)
        engine.run(patient, "child")
        tell_child(bench, "hello")
        engine.run(patient, "child")

    late = cancelling(then)
    engine = bench.engine(late)
    assert engine.run(late, "1") == Completed("hello")
    assert engine.describe(patient, "child").status == Status.COMPLETED


def test_losing_the_wait_for_a_child_does_not_end_it(bench: Bench) -> None:
    @workflow
    def racing() -> WorkflowBody[int]:
        child = yield from spawn_child(patient, "child")
        index, _ = yield from AnyOf([child, Step("quick", int)])
        return index

    engine = bench.engine(racing)
    assert engine.run(racing, "1") == Completed(1)
    assert engine.describe(patient, "child").status == Status.RUNNING


def test_a_child_that_is_running_stops_when_it_is_ended(bench: Bench) -> None:
    @workflow
    def stepping() -> WorkflowBody[None]:
        yield Step("first", lambda: str(bench.engine(ending).run(ending, "1")))
        yield Step("second", bench.do, "second")

    @workflow
    def ending() -> WorkflowBody[None]:
        yield cancel_child((yield from spawn_child(stepping, "child")))

    engine = bench.engine(ending, stepping)
    bench.crash(ending, "1", at="after_commit", of="append")
    engine.run(stepping, "child")
    assert bench.done == []
    assert engine.describe(stepping, "child").status == Status.CANCELLED
