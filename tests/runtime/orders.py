"""Workflows that several of these tests run."""

from __future__ import annotations

from workflow_engine import (
    Await,
    ContinueAsNew,
    CurrentGeneration,
    Step,
    Workflow,
    WorkflowBody,
    workflow,
)

from .bench import Bench


def three_steps(bench: Bench) -> Workflow[[], int]:
    @workflow
    def order() -> WorkflowBody[int]:
        total = 0
        for name in "abc":
            total += yield from Step(name, bench.do, name, 1)
        return total

    return order


def two_generations(bench: Bench) -> Workflow[[], str]:
    @workflow
    def order() -> WorkflowBody[str]:
        generation = yield from CurrentGeneration()
        yield Step("a", bench.do, f"a{generation}")
        if generation == 0:
            yield ContinueAsNew(None)
        said: str = yield from Await("word", returns=str)
        yield Step("b", bench.do, "b")
        return said

    return order
