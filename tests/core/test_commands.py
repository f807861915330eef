"""Commands are values."""

from __future__ import annotations

from typing import Any

import pytest

from workflow_engine.core.commands import (
    ContinueAsNew,
    CurrentWorkflow,
    FreshOrdinal,
    Patch,
    Step,
    restore_seed,
)
from workflow_engine.core.waits import Await
from workflow_engine.errors import InvalidName


def charge(order: str, amount: int = 1) -> int:
    """Return the amount."""
    return amount


async def mail(order: str) -> str:
    """Return the order."""
    return order


def test_commands_that_describe_the_same_work_are_equal() -> None:
    assert Step("charge", charge, "1", amount=2) == Step(
        "charge", charge, "1", amount=2
    )
    assert Step("charge", charge, "1") != Step("charge", charge, "2")
    assert Step("charge", charge, "1") != Step("charge", charge, "1").returns(float)
    assert Await("go") == Await("go")
    assert Patch("p") == Patch("p")
    assert ContinueAsNew(1) == ContinueAsNew(1)
    assert len({Await("go"), Await("go"), CurrentWorkflow(), FreshOrdinal("n")}) == 3


def test_a_command_cannot_be_changed() -> None:
    step = Step("charge", charge, "1")
    with pytest.raises(AttributeError):
        step.name = "other"  # type: ignore[misc]


def test_returns_and_raises_give_changed_copies() -> None:
    step = Step("charge", charge, "1")
    changed = step.returns(float).raises(ValueError)
    assert (changed.declared, changed.raised) == (float, (ValueError,))
    assert step.raised == ()
    assert step.result_type is int


def test_a_step_knows_what_an_async_function_returns() -> None:
    assert Step("mail", mail, "1").result_type is str


def test_yield_from_a_command_yields_it_and_gives_the_answer() -> None:
    iterator = iter(Step("charge", charge, "1"))
    assert next(iterator) == Step("charge", charge, "1")
    with pytest.raises(StopIteration) as stopped:
        iterator.send(5)
    assert stopped.value.value == 5


def test_a_step_shows_what_it_does() -> None:
    shown = repr(Step("charge", charge, "1", amount=2).returns(int).raises(ValueError))
    assert shown == (
        "Step('charge', charge, '1', amount=2).returns(int).raises(ValueError)"
    )


@pytest.mark.parametrize(
    "name", ["", "sleep:1", "__workflow_seed__", "a\nb", "x" * 256]
)
def test_a_bad_name_is_refused_where_the_command_is_made(name: str) -> None:
    with pytest.raises(InvalidName):
        Step(name, charge, "1")
    with pytest.raises(InvalidName):
        Await(name)


def test_a_patch_id_leaves_room_for_its_prefix() -> None:
    Patch("x" * 249)
    with pytest.raises(InvalidName):
        Patch("x" * 250)


def test_what_is_not_a_function_is_refused_with_advice() -> None:
    with pytest.raises(TypeError, match="the second argument is the function to run"):
        Step("charge", charge("1"))  # type: ignore[call-overload]


@pytest.mark.parametrize("type_", [int, BaseException, "ValueError", StopIteration])
def test_only_exceptions_can_be_declared(type_: Any) -> None:
    with pytest.raises(TypeError):
        Step("charge", charge, "1").raises(type_)


def test_a_seed_is_decoded_as_what_the_default_shows() -> None:
    assert restore_seed(0).declared is Any
    assert restore_seed({"a": 1}).declared is Any
    assert restore_seed((1, 2)).declared == tuple[Any, ...]
    assert restore_seed(None, returns=float).declared is float
