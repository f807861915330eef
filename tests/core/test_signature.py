"""What functions declare."""

from __future__ import annotations

import asyncio
import collections.abc
import functools
import gc
import typing
import weakref
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import pytest

from tests.core.samples import AN_ID, PRICE, Line, Point, Price
from workflow_engine.core.codec import Codec
from workflow_engine.core.commands import Command, WorkflowBody
from workflow_engine.core.signature import Parameters, body_result_type, result_type
from workflow_engine.errors import (
    UnresolvedAnnotation,
)

if TYPE_CHECKING:
    from fractions import Fraction

T = TypeVar("T")
CODEC = Codec()


# --- results of steps -----------------------------------------------------------------


def charge(amount: Decimal) -> Price:
    return Price(amount=amount)


async def charge_later(amount: Decimal) -> Price:
    return Price(amount=amount)


def charge_soon(amount: Decimal) -> Awaitable[Price]:
    return charge_later(amount)


def charge_sometime(amount: Decimal) -> Coroutine[Any, Any, Price]:
    return charge_later(amount)


def undeclared(amount):  # type: ignore[no-untyped-def]
    return amount


def nothing() -> None:
    return None


def metadata() -> Annotated[int, ["no hash"]]:
    return 1


def only_the_result_counts(part: Fraction) -> int:
    return int(part)


def unresolved() -> Fraction:
    raise NotImplementedError


def misspelt() -> collections.abc.Seqence[int]:  # type: ignore[name-defined]
    raise NotImplementedError


class Till:
    def charge(self, amount: Decimal) -> Price:
        return Price(amount=amount)

    @classmethod
    def open(cls) -> UUID:
        return AN_ID

    @staticmethod
    def close() -> bool:
        return True

    def __call__(self) -> Line:
        return Line("a", PRICE)


@functools.lru_cache
def cached() -> UUID:
    return AN_ID


def logged(function: Callable[..., T]) -> Callable[..., T]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> T:
        return function(*args, **kwargs)

    return call


@pytest.mark.parametrize(
    ("function", "type_"),
    [
        (charge, Price),
        (charge_later, Price),
        (charge_soon, Price),
        (charge_sometime, Price),
        (nothing, type(None)),
        (metadata, int),
        (undeclared, Any),
        (lambda: 1, Any),
        (only_the_result_counts, int),
        (functools.partial(charge, Decimal(1)), Price),
        (functools.partial(Till().charge, Decimal(1)), Price),
        (Till().charge, Price),
        (Till.charge, Price),
        (Till.open, UUID),
        (Till().close, bool),
        (Till(), Line),
        (cached, UUID),
        (logged(charge), Price),
        (Point, Point),
        (len, Any),
        ("a".upper, Any),
        (asyncio.sleep, Any),
    ],
)
def test_the_type_of_a_result_is_what_is_declared(
    function: Callable[..., Any], type_: Any
) -> None:
    assert result_type(function) == type_
    assert result_type(function) == type_, "the second time too"


@pytest.mark.parametrize("find", [result_type, body_result_type, Parameters.of])
def test_an_annotation_that_does_not_exist_is_named(find: Any) -> None:
    def function(part: Fraction) -> Fraction:
        return part

    for _ in range(2):
        with pytest.raises(UnresolvedAnnotation) as caught:
            find(function)
        assert "test_signature" in caught.value.function
        assert "<locals>.function" in caught.value.function
        assert "'Fraction' is not defined" in caught.value.problem


def test_a_misspelt_annotation_is_named() -> None:
    with pytest.raises(UnresolvedAnnotation, match=r"unresolved.*Fraction"):
        result_type(unresolved)
    with pytest.raises(UnresolvedAnnotation, match=r"misspelt.*Seqence"):
        result_type(misspelt)


def test_an_annotation_that_is_no_type_is_named() -> None:
    def body(n: int) -> WorkflowBody[None]:
        yield Command()

    body.__annotations__["n"] = (int, str)
    with pytest.raises(UnresolvedAnnotation, match=r"of body .*Got \(<class 'int'>"):
        Parameters.of(body)


def test_a_function_is_not_kept_alive() -> None:
    def passing(n: int) -> list[int]:
        return [n]

    result_type(passing)
    Parameters.of(passing)
    gone = weakref.ref(passing)
    del passing
    gc.collect()
    assert gone() is None


# --- results of bodies ----------------------------------------------------------------


def aliased() -> WorkflowBody[Price]:
    yield Command()
    return PRICE


def bare_alias() -> WorkflowBody:  # type: ignore[type-arg]
    yield Command()


def spelled_out() -> Generator[Command[Any], Any, Price]:
    yield Command()
    return PRICE


def from_typing() -> typing.Generator[Command[Any], Any, Price | None]:
    yield Command()
    return None


def quoted() -> "collections.abc.Generator[Command[Any], Any, Price]":  # noqa: UP037
    yield Command()
    return PRICE


def returns_none() -> WorkflowBody[None]:
    yield Command()


def iterator() -> Iterator[Command[Any]]:
    yield Command()


def iterable() -> Iterable[Command[Any]]:
    yield Command()


def generic(value: T) -> WorkflowBody[list[T]]:
    yield Command()
    return [value]


def bare_generator() -> Generator:  # type: ignore[type-arg]
    yield Command()


def only_yields() -> Generator[Command[Any]]:  # type: ignore[type-arg,unused-ignore]
    yield Command()


def silent():  # type: ignore[no-untyped-def]
    yield Command()


def mistaken() -> int:  # type: ignore[misc]
    yield Command()
    return 1


@pytest.mark.parametrize(
    ("function", "type_"),
    [
        (aliased, Price),
        (bare_alias, Any),
        (spelled_out, Price),
        (from_typing, Price | None),
        (quoted, Price),
        (returns_none, type(None)),
        (iterator, Any),
        (iterable, Any),
        (generic, list[T]),  # type: ignore[valid-type]
        (bare_generator, Any),
        (only_yields, type(None)),
        (silent, Any),
        (mistaken, Any),
        (functools.partial(aliased), Price),
    ],
)
def test_the_type_of_a_body_is_what_it_returns(
    function: Callable[..., Any], type_: Any
) -> None:
    assert body_result_type(function) == type_
    CODEC.check(body_result_type(function))
