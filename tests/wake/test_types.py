"""What a type checker sees of waits: `assert_type` is checked by mypy, and runs here.

A line that mypy ought to refuse has an ignore comment, which mypy refuses when it is
not needed.
"""

from __future__ import annotations

from typing import Any, assert_type

from workflow_engine import (
    Awakeable,
    Child,
    Completed,
    Failed,
    WorkflowBody,
    awakeable,
    cancel_child,
    sleep,
    spawn_child,
    workflow,
)

from ..runtime.bench import Bench


@workflow
def measure(item: str, factor: int = 1) -> WorkflowBody[int]:
    yield sleep(0)
    return len(item) * factor


@workflow
def typed() -> WorkflowBody[int]:
    child = yield from spawn_child(measure, "m", "tea", factor=2)
    assert_type(child, Child[int])
    result = yield from child
    assert_type(result, int)
    asked = yield from awakeable("word", returns=str)
    assert_type(asked, Awakeable[str])
    assert_type(asked.id, str)
    open_to_all = yield from awakeable("anything")
    assert_type(open_to_all, Awakeable[Any])
    assert_type((yield from sleep(0)), None)
    assert_type((yield from cancel_child(child)), None)
    return result


def test_results_of_waits_have_the_types_that_they_declare(bench: Bench) -> None:
    engine = bench.engine(typed, measure)
    engine.start(typed, "1")
    engine.worker().drain()
    assert engine.run(typed, "1") == Completed(6)


@workflow
def mistaken(how: str) -> WorkflowBody[None]:
    if how == "type":
        yield spawn_child(measure, "m", 5)  # type: ignore[arg-type]
    if how == "name":
        yield spawn_child(measure, "m", "tea", times=2)  # type: ignore[call-arg]
    yield spawn_child(measure, "m")  # type: ignore[call-arg]


def test_arguments_that_a_type_checker_refuses_are_refused_when_they_come(
    bench: Bench,
) -> None:
    engine = bench.engine(mistaken)
    for how in ("type", "name", "missing"):
        ending = engine.run(mistaken, how, how)
        assert isinstance(ending, Failed)
        assert ending.reason.startswith("InvalidInput")
