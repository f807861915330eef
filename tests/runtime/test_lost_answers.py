"""A commit succeeds and its answer is lost: the repeat changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    ContinueAsNew,
    ContinuedAsNew,
    CurrentGeneration,
    Failed,
    Status,
    Step,
    StepDecodeError,
    StepFailed,
    StoreUnavailable,
    Suspended,
    WorkflowBody,
    workflow,
)

from .bench import Bench, entries, kinds, steps
from .faults import answers_lost


@pytest.mark.parametrize("lost", [1, 2, 3], ids=["claim", "append", "finish"])
def test_a_run_adopts_its_own_entry(bench: Bench, lost: int) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        result: int = yield from Step("a", bench.do, "a", 1)
        return result

    engine = bench.engine(order)
    with answers_lost(lambda number: number == lost) as losses:
        assert engine.run(order, "1") == Completed(1)
    assert losses == [lost]
    assert bench.done == ["a"]
    assert kinds(engine, order, "1") == ["step_ok", "completed"]


def test_a_run_ends_well_though_every_other_answer_is_lost(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        total = 0
        for name in "abc":
            total += yield from Step(name, bench.do, name, 1)
        try:
            yield Step("charge", bench.fail, "charge", ValueError("x"))
        except StepFailed:
            yield Step("refund", bench.do, "refund")
        return total

    engine = bench.engine(order)
    with answers_lost(
        lambda number: number == 1 or number in range(5, 99, 2)
    ) as losses:
        assert engine.run(order, "1") == Completed(3)
    assert len(losses) >= 6
    assert bench.done == ["a", "b", "c", "charge", "refund"]
    assert steps(engine, order, "1") == ["a", "b", "c", "charge", "refund"]
    assert engine.describe(order, "1").attempts == 0


def test_a_park_whose_answer_is_lost_is_a_park(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        yield Await("n")

    engine = bench.engine(order)
    with answers_lost(lambda number: number == 2):
        assert engine.run(order, "1") == Suspended(("n",))
    assert engine.describe(order, "1").status == Status.SUSPENDED


@workflow
def rotating() -> WorkflowBody[int]:
    generation = yield from CurrentGeneration()
    if generation == 0:
        yield ContinueAsNew("seed")
    return generation


def test_a_rotation_whose_answer_is_lost_is_a_rotation(bench: Bench) -> None:
    engine = bench.engine(rotating, follow=False)
    with answers_lost(lambda number: number == 2):
        assert engine.run(rotating, "1") == ContinuedAsNew(1)
    assert engine.describe(rotating, "1").generation == 1
    assert kinds(engine, rotating, "1", generation=0) == ["continued_as_new"]


def test_a_run_follows_a_rotation_whose_answer_is_lost(bench: Bench) -> None:
    engine = bench.engine(rotating)
    with answers_lost(lambda number: number == 2):
        assert engine.run(rotating, "1") == Completed(1)


def crashing(bench: Bench) -> Any:
    @workflow(name="crashing")
    def body() -> WorkflowBody[None]:
        bench.do("run")
        raise RuntimeError("a bug")
        yield

    return body


def test_a_crash_whose_answer_is_lost_counts_one_attempt(bench: Bench) -> None:
    crash = crashing(bench)
    engine = bench.engine(crash)
    engine.start(crash, "1")
    with answers_lost(lambda number: number == 2):
        summary = engine.worker().run_once()
    assert (summary.paced, summary.lease_skipped, summary.failed) == (1, 0, 0)
    assert engine.describe(crash, "1").attempts == 1
    assert kinds(engine, crash, "1") == ["attempt"]


def test_the_last_crash_whose_answer_is_lost_fails_once(bench: Bench) -> None:
    crash = crashing(bench)
    engine = bench.engine(crash)
    engine.start(crash, "1")
    with answers_lost(lambda number: number == 2):
        assert engine.worker(max_attempts=1).run_once().failed == 1
    assert kinds(engine, crash, "1") == ["failed"]


def test_a_failure_whose_answer_is_lost_is_written_once(bench: Bench) -> None:
    @workflow
    def misused() -> WorkflowBody[None]:
        yield 5  # type: ignore[misc]

    engine = bench.engine(misused)
    with answers_lost(lambda number: number == 2):
        assert isinstance(engine.run(misused, "1"), Failed)
    assert kinds(engine, misused, "1") == ["failed"]


def test_a_block_whose_answer_is_lost_is_a_block(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        return (yield from Await("n", returns=int))

    engine = bench.engine(order)
    engine.start(order, "1")
    engine.resolve(order, "1", "n", "no number")
    with (
        answers_lost(lambda number: number == 2),
        pytest.raises(StepDecodeError, match="'n'"),
    ):
        engine.run(order, "1")
    assert engine.describe(order, "1").status == Status.BLOCKED


def test_a_claim_of_a_worker_whose_answer_is_lost_is_taken_up_again(
    bench: Bench,
) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        result: int = yield from Step("a", bench.do, "a", 1)
        return result

    engine = bench.engine(order)
    engine.start(order, "1")
    worker = engine.worker()
    with answers_lost(lambda number: number == 1):
        assert worker.run_once().discovered == 0
    bench.clock.advance(61)
    assert worker.run_once().completed == 1
    assert engine.describe(order, "1").takeovers == 0
    assert entries(engine, order, "1") == [("step_ok", "a"), ("completed", None)]


def test_outside_calls_say_that_they_may_have_happened_and_can_be_repeated(
    bench: Bench,
) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        return (yield from Await("n", returns=int))

    engine = bench.engine(order)

    def lost(call: Any, *args: Any) -> None:
        with answers_lost(lambda number: number == 1):
            with pytest.raises(StoreUnavailable) as error:
                call(*args)
            assert error.value.ambiguous

    lost(engine.start, order, "1")
    assert engine.start(order, "1").status() == Status.RUNNING
    lost(engine.resolve, order, "1", "n", 4)
    assert not engine.resolve(order, "1", "n", 5)
    assert engine.run(order, "1") == Completed(4)
    engine.start(order, "2")
    lost(engine.cancel, order, "2")
    assert engine.cancel(order, "2")
    assert kinds(engine, order, "2") == ["cancelled"]
