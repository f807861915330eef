"""What is refused before anything runs or is stored, and with which words."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from workflow_engine import (
    AuthorError,
    Await,
    Completed,
    DuplicateStepName,
    DuplicateWorkflow,
    Engine,
    InvalidInput,
    InvalidName,
    JournalEncodeError,
    NotACommand,
    NotAWorkflow,
    Status,
    Step,
    UnknownWorkflow,
    UnresolvedAnnotation,
    UnsupportedType,
    WorkflowBody,
    workflow,
)

from .bench import Bench


def one() -> int:
    return 1


def helper() -> WorkflowBody[int]:
    return (yield from Step("inner", one))


def other() -> WorkflowBody[int]:
    return (yield from Step("inner", one))


@workflow(name="pay")
def pay(amount: int, currency: str = "EUR") -> WorkflowBody[int]:
    return (yield from Step("a", one))


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "missing a required argument: 'amount'"),
        ((1, "EUR", 3), {}, "too many positional arguments"),
        ((1,), {"colour": "red"}, "unexpected keyword argument 'colour'"),
        ((1.9,), {}, "parameter amount: cannot record it as int"),
        (("1",), {}, "parameter amount: cannot record it as int"),
        ((1, None), {}, "parameter currency: cannot record it as"),
        ((True,), {}, "parameter amount: cannot record it as int"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_stored(
    sqlite_bench: Bench, args: Any, kwargs: Any, said: str
) -> None:
    engine = sqlite_bench.engine(pay)
    for start in (engine.start, engine.run):
        with pytest.raises(InvalidInput, match="workflow 'pay'") as refused:
            start(pay, "1", *args, **kwargs)
        assert said in str(refused.value)
    assert len(engine.list()) == 0


def test_a_workflow_is_refused_where_its_declarations_name_nothing(
    sqlite_bench: Bench,
) -> None:
    @workflow
    def vague(order: Missing) -> WorkflowBody[None]:  # type: ignore[name-defined]  # noqa: F821
        yield Step("a", one)

    @workflow
    def vaguer() -> WorkflowBody[Missing]:  # type: ignore[name-defined]  # noqa: F821
        yield Step("a", one)

    for definition in (vague, vaguer):
        engine = sqlite_bench.engine(definition)
        for begin in (engine.start, engine.run):
            with pytest.raises(UnresolvedAnnotation, match="Missing") as refused:
                begin(definition, "1", *[1] * (definition is vague))
            assert definition.name in str(refused.value)
        with pytest.raises(UnresolvedAnnotation, match="Missing"):
            engine.worker()
        assert len(engine.list()) == 0


def test_a_workflow_is_refused_where_its_types_cannot_be_stored(
    sqlite_bench: Bench,
) -> None:
    @workflow
    def takes(lock: threading.Thread) -> WorkflowBody[None]:
        yield Step("a", one)

    @workflow
    def gives() -> WorkflowBody[threading.Thread]:
        yield Step("a", one)
        return threading.current_thread()

    engine = sqlite_bench.engine(takes, gives)
    with pytest.raises(
        UnsupportedType, match="workflow 'takes', its arguments: Thread "
    ):
        engine.start(takes, "1", threading.current_thread())
    with pytest.raises(UnsupportedType, match="'gives', its result: Thread "):
        engine.start(gives, "1")
    with pytest.raises(UnsupportedType, match="'gives', its result: Thread "):
        engine.worker()


@pytest.mark.parametrize("id", ["", " ", "\t", None, 7, b"x", "a\nb", "x" * 500, "\0"])
def test_an_id_that_cannot_be_one_is_refused_and_nothing_stored(
    sqlite_bench: Bench, id: Any
) -> None:
    engine = sqlite_bench.engine(pay)
    for ask in (engine.start, engine.run):
        with pytest.raises(ValueError, match="workflow id"):
            ask(pay, id, 1)
    for look in (engine.describe, engine.cancel, engine.journal):
        with pytest.raises(InvalidName, match="workflow id"):
            look(pay, id)
    assert len(engine.list()) == 0


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 256, "\ud800", None, 3])
def test_a_step_name_that_cannot_be_one_is_refused_at_the_yield(name: Any) -> None:
    for command in (lambda: Step(name, one), lambda: Await(name)):
        with pytest.raises(ValueError, match="step name"):
            command()


@pytest.mark.parametrize(
    "prefix",
    [
        "sleep:",
        "awk:",
        "awkid:",
        "child:",
        "patch:",
        "message:",
        "timeout:",
        "__workflow_",
    ],
)
def test_names_the_engine_keeps_for_itself_are_refused(prefix: str) -> None:
    with pytest.raises(InvalidName, match="belong to the engine"):
        Step(prefix + "x", one)


def test_two_names_equal_only_after_normalisation_are_two_names(bench: Bench) -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"

    @workflow
    def spelled() -> WorkflowBody[list[int]]:
        first = yield from Step(composed, bench.do, composed, 1)
        second = yield from Step(decomposed, bench.do, decomposed, 2)
        return [first, second]

    engine = bench.engine(spelled)
    for id in (composed, decomposed):
        assert engine.run(spelled, id) == Completed([1, 2])
    assert len(engine.list()) == 2


def test_a_step_without_a_function_is_refused_where_it_is_made() -> None:
    with pytest.raises(TypeError, match=r"step 'a': the second argument .* not 1"):
        Step("a", one())  # type: ignore[call-overload]


def test_exceptions_to_declare_must_be_exceptions() -> None:
    for wrong in (int, KeyboardInterrupt, ValueError("x")):
        with pytest.raises(TypeError, match=r"step 'a': .* subclasses of Exception"):
            Step("a", one).raises(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="StopIteration"):
        Step("a", one).raises(StopIteration)


def test_an_empty_iterator_does_not_end_the_body_as_if_it_had_returned(
    bench: Bench,
) -> None:
    @workflow
    def exhausted() -> WorkflowBody[None]:
        yield Step("a", bench.do, "a")
        next(iter([]))

    engine = bench.engine(exhausted)
    with pytest.raises(RuntimeError, match="StopIteration"):
        engine.run(exhausted, "1")
    assert engine.describe(exhausted, "1").status == Status.RUNNING
    assert engine.worker(max_attempts=1).run_once().failed == 1
    assert "StopIteration" in (engine.describe(exhausted, "1").reason or "")


# --- what is no workflow ---


def no_yield() -> int:
    return 5


async def a_coroutine() -> None: ...


async def an_async_generator() -> Any:
    yield Step("a", one)


class Callable_:
    def __call__(self) -> int:
        return 5


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (no_yield, "no_yield cannot be a workflow: it has no yield"),
        (a_coroutine, "a_coroutine cannot be a workflow: it is async"),
        (an_async_generator, "an_async_generator cannot be a workflow: it is async"),
        (functools.partial(an_async_generator), "it is async"),
        (Callable_(), "it has no yield"),
        (Callable_, "it has no yield"),
        (5, "5 cannot be a workflow"),
        (pay, "it is a workflow already"),
    ],
)
def test_what_is_no_generator_function_is_refused_when_decorated(
    function: Any, said: str
) -> None:
    for decorate in (workflow, workflow(name="x")):
        with pytest.raises(TypeError, match="generator") as refused:
            decorate(function)
        assert isinstance(refused.value, NotAWorkflow)
        assert said in str(refused.value)


def test_an_undecorated_function_is_refused_by_name(sqlite_url: str) -> None:
    with pytest.raises(NotAWorkflow, match=r"helper .* not decorated with @workflow"):
        Engine(sqlite_url, workflows=[helper])  # type: ignore[list-item]
    with (
        Engine(sqlite_url, workflows=[pay]) as engine,
        pytest.raises(NotAWorkflow, match=r"helper .* not decorated with @workflow"),
    ):
        engine.start(helper, "1")  # type: ignore[call-overload]


def test_two_bodies_of_one_name_are_refused_together(sqlite_url: str) -> None:
    def logged(body: Callable[..., WorkflowBody[Any]]) -> Callable[..., Any]:
        def wrapper(*args: Any) -> WorkflowBody[Any]:
            return (yield from body(*args))

        return wrapper

    first, second = workflow(logged(helper)), workflow(logged(other))
    with pytest.raises(DuplicateWorkflow, match=r"'wrapper': .*@workflow\(name="):
        Engine(sqlite_url, workflows=[first, second])
    with Engine(sqlite_url, workflows=[first, first]):
        pass


def test_an_unknown_name_says_how_to_make_it_known(bench: Bench) -> None:
    engine = bench.engine()
    for start in (engine.start, engine.run):
        with pytest.raises(UnknownWorkflow, match=r"'pay' .*Engine\(workflows="):
            start(pay, "1", 1)
    assert len(engine.list()) == 0


def test_a_name_given_at_registration_is_the_one_instances_go_by(bench: Bench) -> None:
    named = workflow(name="order-fulfilment")(helper)
    engine = bench.engine(named)
    assert engine.run("order-fulfilment", "1") == Completed(1)
    assert engine.run(named, "1") == Completed(1)
    assert [row.workflow for row in engine.list()] == ["order-fulfilment"]


def test_duplicate_names_are_told_by_both_lines() -> None:
    error = DuplicateStepName(
        workflow="w", step="s", first="at a.py:1", second="at b:2"
    )
    assert "a.py:1 and at b:2" in str(error)


def test_every_mistake_is_one_kind_of_error_and_a_builtin_one_too() -> None:
    assert issubclass(NotACommand, AuthorError)
    assert issubclass(NotACommand, TypeError)
    assert issubclass(InvalidName, ValueError)
    assert issubclass(JournalEncodeError, ValueError)
