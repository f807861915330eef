"""When a failure is recorded: once the body has gone on after it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    CurrentWorkflow,
    Failed,
    FreshOrdinal,
    Patch,
    Status,
    Step,
    StepFailed,
    Suspended,
    WorkflowBody,
    workflow,
)

from .bench import Bench, entries, kinds, steps


def test_a_failure_that_leaves_the_body_records_nothing(bench: Bench) -> None:
    @workflow
    def plain() -> WorkflowBody[None]:
        yield Step("a", bench.fail, "a", ValueError("x"))

    engine = bench.engine(plain)
    with pytest.raises(StepFailed, match="ValueError: x"):
        engine.run(plain, "1")
    assert engine.journal(plain, "1") == ()
    seen = engine.describe(plain, "1")
    assert (seen.status, seen.attempts, seen.owner) == (Status.RUNNING, 0, None)


def test_a_failed_step_is_tried_again_by_the_next_run(bench: Bench) -> None:
    errors = [ValueError("first time")]

    def flaky() -> int:
        bench.do("flaky")
        if errors:
            raise errors.pop()
        return 1

    @workflow
    def order() -> WorkflowBody[int]:
        yield Step("before", bench.do, "before")
        return (yield from Step("flaky", flaky))

    engine = bench.engine(order)
    with pytest.raises(StepFailed):
        engine.run(order, "1")
    assert engine.run(order, "1") == Completed(1)
    assert bench.done == ["before", "flaky", "flaky"]


def asks(command: Any) -> Callable[[], WorkflowBody[Any]]:
    def ask() -> WorkflowBody[Any]:
        return (yield from command)

    return ask


@pytest.mark.parametrize(
    "ask", [CurrentWorkflow(), FreshOrdinal("n"), Patch("p")], ids=str
)
def test_asking_something_is_not_going_on(sqlite_bench: Bench, ask: Any) -> None:
    @workflow
    def asking() -> WorkflowBody[None]:
        try:
            yield Step("a", sqlite_bench.fail, "a", ValueError("x"))
        except StepFailed:
            yield ask
            raise

    engine = sqlite_bench.engine(asking)
    for _ in range(2):
        with pytest.raises(StepFailed):
            engine.run(asking, "1")
    assert "step_failed" not in kinds(engine, asking, "1")
    assert sqlite_bench.done == ["a", "a"]


def test_returning_after_a_failure_records_it(bench: Bench) -> None:
    @workflow
    def giving_up() -> WorkflowBody[str]:
        try:
            yield Step("a", bench.fail, "a", ValueError("x"))
        except StepFailed as error:
            return error.message
        return ""

    engine = bench.engine(giving_up)
    assert engine.run(giving_up, "1") == Completed("x")
    assert entries(engine, giving_up, "1") == [
        ("step_failed", "a"),
        ("completed", None),
    ]


def test_a_compensation_runs_once_and_makes_the_failure_final(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("reserve", bench.do, "reserve")
        try:
            yield Step("charge", bench.fail, "charge", ValueError("declined"))
        except StepFailed:
            yield Step("release", bench.do, "release")
            raise

    bench.crash(order, "1", at="after_step", of="release")
    engine = bench.engine(order)
    ending = engine.run(order, "1")
    assert ending == Failed("StepFailed: step 'charge' failed: ValueError: declined")
    assert entries(engine, order, "1") == [
        ("step_ok", "reserve"),
        ("step_failed", "charge"),
        ("step_ok", "release"),
        ("failed", None),
    ]
    assert engine.journal(order, "1")[-1].value["entry"] == "charge"
    assert bench.done == ["reserve", "charge", "release", "release"]
    assert engine.run(order, "1") == ending


def test_cleanup_in_a_finally_that_yields_is_compensation_too(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        try:
            yield Step("charge", bench.fail, "charge", ValueError("declined"))
        finally:
            yield Step("release", bench.do, "release")

    engine = bench.engine(order)
    assert isinstance(engine.run(order, "1"), Failed)
    assert steps(engine, order, "1") == ["charge", "release"]


@pytest.mark.parametrize("linked", [True, False])
def test_another_error_raised_in_its_handling_is_final_as_well(
    bench: Bench, linked: bool
) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        try:
            yield Step("charge", bench.fail, "charge", ValueError("declined"))
        except StepFailed as error:
            yield Step("release", bench.do, "release")
            raise RuntimeError("gave up") from (error if linked else None)

    engine = bench.engine(order)
    assert engine.run(order, "1") == Failed("RuntimeError: gave up")
    assert engine.journal(order, "1")[-1].value["entry"] == "charge"


def test_an_error_after_the_handling_is_a_crash_like_any_other(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        with contextlib.suppress(StepFailed):
            yield Step("charge", bench.fail, "charge", ValueError("declined"))
        yield Step("release", bench.do, "release")
        raise RuntimeError("a bug")

    engine = bench.engine(order)
    with pytest.raises(RuntimeError, match="a bug"):
        engine.run(order, "1")
    assert engine.describe(order, "1").status == Status.RUNNING
    assert steps(engine, order, "1") == ["charge", "release"]


def test_a_failure_is_recorded_before_the_wait_that_follows_it(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[str]:
        try:
            yield Step("charge", bench.fail, "charge", ValueError("declined"))
        except StepFailed:
            return str((yield from Await("what now")))
        return "charged"

    engine = bench.engine(order)
    assert engine.run(order, "1") == Suspended(("what now",))
    assert entries(engine, order, "1") == [("step_failed", "charge")]
    engine.resolve(order, "1", "what now", "cash")
    assert engine.run(order, "1") == Completed("cash")
    assert bench.done == ["charge"]


def test_a_failure_tried_while_the_journal_moves_is_tried_again(bench: Bench) -> None:
    """A body that went on after a failure which the journal did not keep is stale."""
    runs = []

    @workflow
    def order() -> WorkflowBody[list[str]]:
        runs.append(1)
        told = []
        try:
            yield Step("charge", charge)
        except StepFailed as error:
            told.append(error.message)
            if len(runs) == 1:
                engine.resolve("order", "1", "note", "n")
        told.append((yield from Await("note", returns=str)))
        return told

    def charge() -> None:
        bench.fail("charge", ValueError("declined"))

    engine = bench.engine(order)
    assert engine.run(order, "1") == Completed(["declined", "n"])
    # The outcome it held was offered again; the step itself did not run twice.
    assert bench.done == ["charge"]
    assert len(runs) == 2
    assert kinds(engine, order, "1") == ["wake", "step_failed", "completed"]
