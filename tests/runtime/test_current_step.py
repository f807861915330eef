"""What a step function may know about the step it performs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from workflow_engine import (
    Await,
    Completed,
    CurrentStep,
    Step,
    StepFailed,
    WorkflowBody,
    current_step,
    workflow,
)

from .bench import Bench


def test_a_step_knows_which_one_it_is(bench: Bench) -> None:
    seen: list[CurrentStep] = []

    @workflow
    def order() -> WorkflowBody[None]:
        for name in ("a", "b"):
            yield Step(name, lambda: seen.append(current_step()))

    bench.engine(order).run(order, "no-1")
    assert [(step.workflow, step.id, step.step) for step in seen] == [
        ("order", "no-1", "a"),
        ("order", "no-1", "b"),
    ]
    assert [(step.generation, step.attempt) for step in seen] == [(0, 1), (0, 1)]
    assert seen[0].idempotency_key != seen[1].idempotency_key


def test_an_async_step_knows_too_and_so_do_its_tasks(bench: Bench) -> None:
    async def name() -> str:
        await asyncio.sleep(0)
        return current_step().step

    async def both() -> list[str]:
        return list(await asyncio.gather(name(), name()))

    @workflow
    def order() -> WorkflowBody[list[str]]:
        return (yield from Step("async", both))

    assert bench.engine(order).run(order, "1") == Completed(["async", "async"])


def test_outside_a_step_there_is_none(bench: Bench) -> None:
    asked = []

    def ask() -> None:
        with pytest.raises(LookupError, match="only inside a step function"):
            current_step()
        asked.append(threading.current_thread().name)

    @workflow
    def order() -> WorkflowBody[None]:
        ask()
        yield Step("a", bench.do, "a")
        ask()

    ask()
    bench.engine(order).run(order, "1")
    ask()
    assert len(asked) == 4


def test_a_key_is_stable_over_crashes_and_attempts(bench: Bench) -> None:
    keys = []
    attempts = []

    def charge() -> None:
        step = current_step()
        keys.append(step.idempotency_key)
        attempts.append(step.attempt)
        if len(keys) < 4:
            raise ValueError("not yet")

    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("charge", charge)

    engine = bench.engine(order)
    engine.start(order, "1")
    for pause in (0, 2, 4):
        bench.clock.advance(pause)
        engine.worker().run_once()
    bench.crash(order, "1", at="after_step")
    engine.run(order, "1")
    assert len(set(keys)) == 1
    assert attempts == [1, 2, 3, 4, 4]


def test_a_key_belongs_to_one_instance(bench: Bench) -> None:
    keys = []

    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("charge", lambda: keys.append(current_step().idempotency_key))

    engine = bench.engine(order)
    for id in "12":
        engine.run(order, id)
    # Collected, and the id used again: a new incarnation.
    bench.execute("DELETE FROM wf_journal")
    bench.execute("DELETE FROM wf_instances")
    engine.run(order, "1")
    assert len(set(keys)) == 3


def test_nested_runs_each_know_their_own_step(bench: Bench) -> None:
    seen = []

    @workflow
    def inner() -> WorkflowBody[None]:
        yield Step("inner", lambda: seen.append(current_step().step))

    @workflow
    def outer() -> WorkflowBody[None]:
        yield Step("outer", run_inner)

    def run_inner() -> None:
        engine.run(inner, "1")
        seen.append(current_step().step)

    engine = bench.engine(inner, outer)
    engine.run(outer, "1")
    assert seen == ["inner", "outer"]


# --- async steps ---


def test_an_async_step_that_raises_fails_like_any_other(bench: Bench) -> None:
    async def fails() -> None:
        raise ValueError("x")

    @workflow
    def order() -> WorkflowBody[str]:
        try:
            yield Step("a", fails)
        except StepFailed as error:
            return error.message
        return ""

    assert bench.engine(order).run(order, "1") == Completed("x")


def test_an_async_step_runs_although_a_loop_is_running_already(bench: Bench) -> None:
    async def fetch() -> str:
        await asyncio.sleep(0)
        return current_step().step

    @workflow
    def order() -> WorkflowBody[str]:
        return (yield from Step("fetch", fetch))

    async def main() -> object:
        return bench.engine(order).run(order, "1")

    assert asyncio.run(main()) == Completed("fetch")


def test_an_async_step_may_wait_for_what_the_body_learned(bench: Bench) -> None:
    async def double(number: int) -> int:
        return 2 * number

    @workflow
    def order() -> WorkflowBody[int]:
        number = yield from Await("n", returns=int)
        return (yield from Step("double", double, number))

    engine = bench.engine(order)
    engine.start(order, "1")
    engine.resolve(order, "1", "n", 4)
    assert engine.run(order, "1") == Completed(8)
