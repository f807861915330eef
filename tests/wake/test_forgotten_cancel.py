"""A resurrection that takes a cancellation back."""

from __future__ import annotations

from typing import Any

import pytest

from workflow_engine import (
    Await,
    AwakeableNotFound,
    Cancelled,
    CancelRequested,
    Completed,
    Engine,
    Every,
    IllegalMove,
    ResurrectAmbiguous,
    Status,
    Step,
    StepFailed,
    Suspended,
    Workflow,
    WorkflowBody,
    awakeable,
    current_step,
    sleep,
    spawn_child,
    workflow,
)

from ..runtime.bench import Bench, entries, kinds
from ..wholeness import check_whole
from .flows import patient, tell_child


def guarding(bench: Bench, keys: list[str] | None = None) -> Workflow[[], str]:
    """Waits for a child, and cleans up when it is called off."""

    def undo() -> None:
        bench.do("undo")
        if keys is not None:
            keys.append(current_step().idempotency_key)

    @workflow
    def guarding() -> WorkflowBody[str]:
        yield Step("do", bench.do, "do")
        child = yield from spawn_child(patient, "child")
        try:
            return (yield from child)
        except CancelRequested:
            asked = yield from awakeable("late", returns=str)
            bench.do(asked.id)
            yield Step("undo", undo)
            raise

    return guarding


def called_off(bench: Bench, guard: Workflow[[], str], **options: Any) -> Engine:
    engine = bench.engine(guard, patient, **options)
    engine.run(guard, "1")
    engine.run(patient, "child")
    engine.cancel(guard, "1", cleanup=True)
    assert engine.run(guard, "1") == Cancelled()
    return engine


def test_one_that_was_called_off_in_a_wait_waits_again(bench: Bench) -> None:
    guard = guarding(bench)
    engine = called_off(bench, guard, snapshot_policy=Every(1))
    engine.resurrect(guard, "1", forget_cancel=True)
    seen = engine.describe(guard, "1")
    assert (seen.status, seen.cancel_requested) == (Status.RUNNING, False)
    assert engine.run(guard, "1") == Suspended(("child:patient:child",))
    tell_child(bench, "hello")
    engine.worker().drain()
    assert engine.handle(guard, "1").result() == "hello"
    assert bench.calls("undo") == 1
    assert kinds(engine, guard, "1") == [
        *("step_ok", "step_ok", "cancel", "step_ok", "step_ok", "cancelled"),
        *("resurrected", "wake", "completed"),
    ]
    check_whole(bench.url)


def test_another_cancellation_cleans_up_anew(bench: Bench) -> None:
    keys: list[str] = []
    guard = guarding(bench, keys)
    engine = called_off(bench, guard)
    late = bench.done[1]
    engine.resurrect(guard, "1", forget_cancel=True)
    # The cleanup is history, and so is what it asked.
    with pytest.raises(AwakeableNotFound):
        engine.signal(late, "hello")
    engine.run(guard, "1")
    assert engine.cancel(guard, "1", cleanup=True)
    assert engine.run(guard, "1") == Cancelled()
    assert len(set(keys)) == bench.calls("undo") == 2
    assert bench.calls(late) == 1
    check_whole(bench.url)


def test_one_that_was_cancelled_at_once_goes_on_where_it_was(bench: Bench) -> None:
    @workflow
    def napping() -> WorkflowBody[str]:
        yield Step("do", bench.do, "do")
        yield sleep(60, name="nap")
        return "rested"

    engine = bench.engine(napping)
    engine.run(napping, "1")
    engine.cancel(napping, "1", cleanup=True)  # never delivered
    engine.cancel(napping, "1")
    with pytest.raises(IllegalMove, match="forget_cancel takes a cancellation back"):
        engine.resurrect(napping, "1")
    bench.clock.advance(30)
    engine.resurrect(napping, "1", forget_cancel=True)
    assert engine.run(napping, "1") == Suspended(("sleep:nap",))
    bench.clock.advance(30)  # the sleep was never interrupted
    assert engine.worker().run_once().completed == 1
    assert bench.done == ["do"]


def test_what_was_settled_meanwhile_is_delivered(bench: Bench) -> None:
    guard = guarding(bench)
    engine = called_off(bench, guard)
    tell_child(bench, "hello")
    engine.worker().drain()
    engine.resurrect(guard, "1", forget_cancel=True)
    assert engine.run(guard, "1") == Completed("hello")


def test_without_it_a_cleanup_that_failed_goes_on(bench: Bench) -> None:
    broken = [ValueError("away")]

    def undo() -> None:
        bench.do("undo")
        if broken:
            raise broken[0]

    @workflow
    def order() -> WorkflowBody[None]:
        try:
            yield Await("go")
        except CancelRequested:
            yield Step("first", bench.do, "first")
            yield Step("undo", undo)

    engine = bench.engine(order)
    engine.run(order, "1")
    engine.cancel(order, "1", cleanup=True)
    assert engine.worker(max_attempts=1).drain().failed == 1
    assert not engine.cancel(order, "1", cleanup=True)
    broken.clear()
    engine.resurrect(order, "1")
    assert engine.describe(order, "1").cancel_requested
    assert engine.run(order, "1") == Cancelled()
    assert bench.done == ["first", "undo", "undo"]


def test_with_it_a_cleanup_that_failed_is_forgotten(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[str]:
        try:
            yield Step("charge", bench.fail, "charge", ValueError("declined"))
        except StepFailed:
            yield Step("tell", bench.do, "tell")
        try:
            return (yield from Await("go", returns=str))
        except CancelRequested:
            yield Step("undo", bench.fail, "undo", ValueError("away"))
            raise

    engine = bench.engine(order)
    engine.run(order, "1")
    engine.cancel(order, "1", cleanup=True)
    assert engine.worker(max_attempts=1).drain().failed == 1
    engine.resurrect(order, "1", forget_cancel=True)
    assert engine.run(order, "1") == Suspended(("go",))
    engine.resolve(order, "1", "go", "went")
    assert engine.run(order, "1") == Completed("went")
    assert bench.done == ["charge", "tell", "undo"]


def test_steps_between_a_failure_and_the_cancellation_are_still_asked_about(
    bench: Bench,
) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        try:
            yield Step("charge", bench.do, "charge")
            yield Step("refuse", bench.fail, "refuse", ValueError("declined"))
        except StepFailed as failure:
            yield Step("tell", bench.do, "tell")
            try:
                yield Await("go")
            except CancelRequested:
                yield Step("undo", bench.do, "undo")
                raise failure from None

    engine = bench.engine(order)
    engine.run(order, "1")
    engine.cancel(order, "1", cleanup=True)
    assert engine.worker(max_attempts=1).drain().failed == 1
    with pytest.raises(ResurrectAmbiguous) as caught:
        engine.resurrect(order, "1", forget_cancel=True)
    assert caught.value.names == ("tell",)
    engine.resurrect(order, "1", forget_cancel=True, rerun=())
    live = [e.step for e in engine.journal(order, "1") if e.live]
    assert live == ["charge", "tell"]
    assert entries(engine, order, "1")[-1] == ("resurrected", None)
