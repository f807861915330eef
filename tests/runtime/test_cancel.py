"""Plain cancel: the marker is written at once, the run stops at its next boundary."""

from __future__ import annotations

from typing import Any

import pytest

from workflow_engine import (
    Await,
    Cancelled,
    Completed,
    InstanceNotFound,
    Status,
    Step,
    StepFailed,
    Suspended,
    Workflow,
    WorkflowBody,
    WorkflowCancelled,
    workflow,
)

from .bench import Bench, entries, kinds


def cancelling(bench: Bench, during: Any) -> Workflow[[], None]:
    @workflow(name="order")
    def body() -> WorkflowBody[None]:
        yield Step("a", bench.do, "a")
        yield Step("cancel", during)
        yield Step("b", bench.do, "b")

    return body


def test_a_step_in_flight_may_finish_and_no_more_begin(bench: Bench) -> None:
    def cancel() -> None:
        bench.do("cancel")
        assert engine.cancel("order", "1")

    order = cancelling(bench, cancel)
    engine = bench.engine(order)
    assert engine.run(order, "1") == Cancelled()
    assert bench.done == ["a", "cancel"]
    assert entries(engine, order, "1") == [("step_ok", "a"), ("cancelled", None)]
    seen = engine.describe(order, "1")
    assert (seen.status, seen.owner) == (Status.CANCELLED, None)
    assert seen.ended_at == bench.clock.now


def test_cancelling_twice_is_one_cancellation(bench: Bench) -> None:
    order = cancelling(bench, str)
    engine = bench.engine(order)
    engine.start(order, "1")
    assert engine.cancel(order, "1")
    assert engine.cancel(order, "1")
    assert kinds(engine, order, "1") == ["cancelled"]


def test_an_ended_instance_is_not_cancelled_any_more(bench: Bench) -> None:
    order = cancelling(bench, str)
    engine = bench.engine(order)
    engine.run(order, "1")
    assert not engine.cancel(order, "1")
    assert engine.run(order, "1") == Completed(None)
    assert kinds(engine, order, "1")[-1] == "completed"


def test_nobody_can_be_cancelled_who_does_not_exist(bench: Bench) -> None:
    order = cancelling(bench, str)
    with pytest.raises(InstanceNotFound, match="'order' has no instance 'nobody'"):
        bench.engine(order).cancel(order, "nobody")


@pytest.mark.parametrize("ending", ["return", "raise", "park", "fail the step"])
def test_a_run_that_ends_after_the_cancel_ends_as_cancelled(
    bench: Bench, ending: str
) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        engine.cancel("order", "1")
        if ending == "raise":
            raise RuntimeError("a bug")
        if ending == "park":
            yield Await("never")
        if ending == "fail the step":
            try:
                yield Step("a", bench.fail, "a", ValueError("x"))
            except StepFailed:
                yield Step("b", bench.do, "b")

    engine = bench.engine(order)
    engine.start(order, "1")
    summary = engine.worker(max_attempts=1).run_once()
    assert (summary.failed, summary.completed, summary.paced) == (0, 0, 0)
    assert engine.run(order, "1") == Cancelled()
    assert kinds(engine, order, "1") == ["cancelled"]


def test_who_waits_is_told(bench: Bench) -> None:
    order = cancelling(bench, str)
    engine = bench.engine(order)
    handle = engine.start(order, "1")
    engine.cancel(order, "1")
    with pytest.raises(WorkflowCancelled, match="'order', instance '1' was cancelled"):
        handle.result()


def test_a_suspended_instance_ends_and_takes_no_delivery(bench: Bench) -> None:
    @workflow
    def waiting() -> WorkflowBody[None]:
        try:
            yield Await("go")
        finally:
            bench.do("cleanup")

    engine = bench.engine(waiting)
    assert engine.run(waiting, "1") == Suspended(("go",))
    assert engine.cancel(waiting, "1")
    assert not engine.resolve(waiting, "1", "go", None)
    assert engine.worker().run_once().discovered == 0
    assert kinds(engine, waiting, "1") == ["cancelled"]
    # Plain cancel runs nothing of the body; the cleanup was that of the park.
    assert bench.done == ["cleanup"]


def test_a_delivery_and_a_cancel_have_one_winner_in_either_order(bench: Bench) -> None:
    @workflow
    def waiting() -> WorkflowBody[str]:
        return (yield from Await("go", returns=str))

    engine = bench.engine(waiting)
    for id in "12":
        engine.run(waiting, id)
    engine.resolve(waiting, "1", "go", "first")
    engine.cancel(waiting, "1")
    engine.cancel(waiting, "2")
    assert not engine.resolve(waiting, "2", "go", "late")
    assert engine.run(waiting, "1") == engine.run(waiting, "2") == Cancelled()
