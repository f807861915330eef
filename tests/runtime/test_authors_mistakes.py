"""A body that misuses the library gets one error that says where and what to do.

The table goes through the public face: each body is run, and the instance fails at once
with a reason that names the workflow, the step, the path in the value, and a way out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from workflow_engine import (
    AuthorError,
    Await,
    Completed,
    ContinueAsNew,
    Failed,
    InvalidInput,
    JournalEncodeError,
    Status,
    Step,
    WorkflowBody,
    workflow,
)

from .bench import Bench, kinds


def one() -> int:
    return 1


def a_generator() -> Iterator[int]:
    yield 1


def makes_a_helper() -> Any:
    return helper()


def helper() -> WorkflowBody[int]:
    return (yield from Step("inner", one))


def wrong_type() -> int:
    return "no"  # type: ignore[return-value]


def nested_nan() -> list[dict[str, float]]:
    return [{"x": 1.0}, {"x": float("nan")}]


def a_lock() -> Any:
    return {"locks": [threading.Lock()]}


def unknown_type() -> Missing:  # type: ignore[name-defined]  # noqa: F821
    return None


def an_iterator() -> Iterator[int]:
    return iter([1])


def yields_five() -> WorkflowBody[None]:
    yield 5  # type: ignore[misc]


def yields_a_helper() -> WorkflowBody[None]:
    yield helper()  # type: ignore[misc]


def returns_a_helper() -> WorkflowBody[Any]:
    yield Step("a", one)
    return helper()


def returns_an_object() -> WorkflowBody[Any]:
    yield Step("a", one)
    return {"result": object()}


def returns_another_type() -> WorkflowBody[int]:
    yield Step("a", one)
    return "no"  # type: ignore[return-value]


def steps(*steps: Step[Any]) -> Callable[[], WorkflowBody[None]]:
    def body() -> WorkflowBody[None]:
        yield from steps

    return body


def in_a_loop() -> WorkflowBody[None]:
    for _ in range(2):
        yield Step("again", one)


def a_step_named_as_an_await() -> WorkflowBody[None]:
    yield Step("both", one)
    yield Await("both")


def awaits_an_iterator() -> WorkflowBody[None]:
    yield Await("w", returns=Iterator[int])


def a_bad_seed() -> WorkflowBody[None]:
    yield ContinueAsNew({"at": [object()]})


MISUSES: list[tuple[Callable[..., Any], list[str]]] = [
    (yields_five, ["NotACommand", "5 (int)", "yield Step(...)"]),
    (yields_a_helper, ["NotACommand", "use `yield from helper(...)`"]),
    (returns_a_helper, ["its result", "use `yield from helper(...)`"]),
    (steps(Step("s", helper)), ["step 's'", "use `yield from helper(...)`"]),
    (steps(Step("s", makes_a_helper)), ["step 's'", "use `yield from helper(...)`"]),
    (returns_an_object, ["its result", "$.result", "object"]),
    (returns_another_type, ["its result", "at $ as int", "str"]),
    (steps(Step("s", wrong_type)), ["step 's'", "at $ as int", "str"]),
    (steps(Step("s", nested_nan)), ["step 's'", "$[1].x", "nan"]),
    (steps(Step("s", a_lock)), ["step 's'", "$.locks[0]", "lock"]),
    (steps(Step("s", object)), ["step 's'", "found object", ".returns(...)"]),
    (steps(Step("s", unknown_type)), ["step 's'", "unknown_type", "Missing", "import"]),
    (steps(Step("s", an_iterator)), ["step 's'", "Iterator[int]", "make a list of it"]),
    (steps(Step("s", one).returns(threading.Lock)), ["step 's'", "cannot be stored"]),
    (awaits_an_iterator, ["await 'w'", "Iterator[int]", "make a list of it"]),
    (in_a_loop, ["'again'", "twice", "test_authors_mistakes.py:", "loop variable"]),
    (a_step_named_as_an_await, ["'both'", "a wait", "a step"]),
    (a_bad_seed, ["ContinueAsNew", "$.at[0]", "object"]),
]


def _name(misuse: tuple[Callable[..., Any], list[str]]) -> str:
    return f"{misuse[0].__name__}-{misuse[1][-1]}"


@pytest.mark.parametrize(("body", "said"), MISUSES, ids=map(_name, MISUSES))
def test_a_misuse_fails_the_instance_at_once_and_says_what_to_do(
    sqlite_bench: Bench, body: Callable[..., Any], said: list[str]
) -> None:
    misused = workflow(name="wf")(body)
    engine = sqlite_bench.engine(misused)
    ending = engine.run(misused, "1")
    assert isinstance(ending, Failed)
    assert "workflow 'wf'" in ending.reason
    for words in said:
        assert words in ending.reason
    seen = engine.describe(misused, "1")
    assert (seen.status, seen.attempts, seen.owner) == (Status.FAILED, 0, None)
    assert seen.reason == ending.reason
    assert kinds(engine, misused, "1")[-1] == "failed"
    assert engine.worker().run_once().discovered == 0


def test_a_misuse_may_be_caught_where_it_happens(bench: Bench) -> None:
    @workflow
    def careful() -> WorkflowBody[list[str]]:
        caught = []
        for mistake in (5, Step("s", a_lock), Step("s", one)):
            try:
                yield mistake  # type: ignore[misc]
            except AuthorError as error:
                caught.append(type(error).__name__)
        yield Await("go")
        return caught

    engine = bench.engine(careful)
    engine.run(careful, "1")
    engine.resolve(careful, "1", "go", None)
    expected = ["NotACommand", "JournalEncodeError", "DuplicateStepName"]
    assert bench.engine(careful).run(careful, "1") == Completed(expected)
    # What cannot be recorded is no value of the journal's, but an error in it.
    assert kinds(engine, careful, "1") == ["step_failed", "wake", "completed"]


def test_a_step_is_not_answered_with_what_was_delivered_under_its_name(
    bench: Bench,
) -> None:
    @workflow
    def mixed() -> WorkflowBody[None]:
        yield Step("both", bench.do, "both")

    engine = bench.engine(mixed)
    engine.start(mixed, "1")
    engine.resolve(mixed, "1", "both", 1)
    ending = engine.run(mixed, "1")
    assert isinstance(ending, Failed)
    assert "a Step named 'both', but the journal holds a wake" in ending.reason
    assert bench.done == []


def test_an_unencodable_value_writes_no_entry_when_it_ends_the_body(
    bench: Bench,
) -> None:
    @workflow
    def careless() -> WorkflowBody[None]:
        yield Step("s", bench.do, "s", object())

    engine = bench.engine(careless)
    assert isinstance(engine.run(careless, "1"), Failed)
    assert kinds(engine, careless, "1") == ["failed"]
    assert bench.done == ["s"]


def test_a_value_too_large_fails_once_with_size_and_limit(bench: Bench) -> None:
    @workflow
    def large() -> WorkflowBody[str]:
        return str((yield from Step("big", bench.do, "big", "x" * 2_000)))

    engine = bench.engine(large, max_payload_bytes=1_000)
    ending = engine.run(large, "1")
    assert isinstance(ending, Failed)
    for words in ("step 'big'", "2002 bytes", "limit is 1000"):
        assert words in ending.reason
    engine.run(large, "1")
    assert bench.done == ["big"]


def test_a_result_or_seed_too_large_fails_the_instance(bench: Bench) -> None:
    @workflow
    def large(rotates: bool) -> WorkflowBody[str]:
        yield Step("a", one)
        if rotates:
            yield ContinueAsNew("x" * 2_000)
        return "x" * 2_000

    engine = bench.engine(large, max_payload_bytes=1_000)
    for id, rotates, where in [
        ("1", False, "its result"),
        ("2", True, "ContinueAsNew"),
    ]:
        ending = engine.run(large, id, rotates)
        assert isinstance(ending, Failed)
        assert where in ending.reason
        assert "limit is 1000" in ending.reason


def test_an_input_or_delivery_too_large_is_refused_and_nothing_stored(
    bench: Bench,
) -> None:
    @workflow
    def large(text: str) -> WorkflowBody[str]:
        return str((yield from Await("more")))

    engine = bench.engine(large, max_payload_bytes=1_000)
    with pytest.raises(InvalidInput, match="2011 bytes and the limit is 1000"):
        engine.start(large, "1", "x" * 2_000)
    assert len(engine.list()) == 0
    engine.start(large, "1", "short")
    with pytest.raises(JournalEncodeError, match=r"'more'.* limit is 1000"):
        engine.resolve(large, "1", "more", "x" * 2_000)
    assert engine.journal(large, "1") == ()
