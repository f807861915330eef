"""How the arguments of a workflow are stored, read and compared."""

from __future__ import annotations

import functools
from collections.abc import (
    Callable,
    Mapping,
)
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar, Unpack
from uuid import UUID

import attrs
import pytest

from tests.core.samples import AN_ID, PRICE, Line, Point, Price, same
from workflow_engine.core.codec import Codec
from workflow_engine.core.commands import Command, WorkflowBody
from workflow_engine.core.signature import Parameters
from workflow_engine.errors import (
    InvalidInput,
    UnsupportedType,
    ValueProblem,
)

T = TypeVar("T")
CODEC = Codec()


# --- arguments ------------------------------------------------------------------------


class Extra(TypedDict, total=False):
    gift: bool


def fulfil(
    order: UUID,
    lines: list[Line],
    /,
    urgent: bool = False,
    *notes: str,
    price: Price = PRICE,
    **extra: int,
) -> WorkflowBody[None]:
    yield Command()


def simple(order: UUID, count: int = 1) -> WorkflowBody[None]:
    yield Command()


def loose(order, count=1):  # type: ignore[no-untyped-def]
    yield Command()


def no_parameters() -> WorkflowBody[None]:
    yield Command()


def unpacked(**extra: Unpack[Extra]) -> WorkflowBody[None]:
    yield Command()


class Shop:
    def sell(self, article: str, count: int = 1) -> WorkflowBody[None]:
        yield Command()


def stored(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    return Parameters.of(function).encode(CODEC, "fulfil", args, kwargs)


def called(function: Callable[..., Any], text: str) -> tuple[Any, Any]:
    return Parameters.of(function).decode(CODEC, text)


LINE = Line("a", PRICE)


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "text"),
    [
        (simple, (AN_ID,), {}, f'{{"order":"{AN_ID}"}}'),
        (simple, (AN_ID, 2), {}, f'{{"order":"{AN_ID}","count":2}}'),
        (simple, (), {"count": 2, "order": AN_ID}, f'{{"order":"{AN_ID}","count":2}}'),
        (loose, ((1, 2),), {}, '{"order":[1,2]}'),
        (no_parameters, (), {}, "{}"),
        (
            fulfil,
            (AN_ID, []),
            {"a": 1},
            f'{{"order":"{AN_ID}","lines":[],"extra":{{"a":1}}}}',
        ),
        (
            fulfil,
            (AN_ID, [], True, "x", "y"),
            {},
            f'{{"order":"{AN_ID}","lines":[],"urgent":true,"notes":["x","y"]}}',
        ),
        (unpacked, (), {"gift": True}, '{"extra":{"gift":true}}'),
        (Shop().sell, ("pen",), {}, '{"article":"pen"}'),
        (functools.partial(simple, count=3), (AN_ID,), {}, f'{{"order":"{AN_ID}"}}'),
    ],
)
def test_arguments_are_stored_by_name_without_defaults(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    text: str,
) -> None:
    assert stored(function, *args, **kwargs) == text


@pytest.mark.parametrize(
    ("args", "kwargs", "seen"),
    [
        ((AN_ID, [LINE]), {}, ((AN_ID, [LINE], False), {"price": PRICE})),
        ((AN_ID, [], True), {}, ((AN_ID, [], True), {"price": PRICE})),
        ((AN_ID, []), {"urgent": True}, ((AN_ID, [], True), {"price": PRICE})),
        ((AN_ID, [], True, "x"), {}, ((AN_ID, [], True, "x"), {"price": PRICE})),
        (
            (AN_ID, []),
            {"a": 1, "order": 2, "notes": 3},
            ((AN_ID, [], False), {"price": PRICE, "a": 1, "order": 2, "notes": 3}),
        ),
    ],
)
def test_a_body_is_called_with_what_was_given_and_the_defaults(
    args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any
) -> None:
    assert same(called(fulfil, stored(fulfil, *args, **kwargs)), seen)


def test_what_is_ready_to_call_can_be_called() -> None:
    text = stored(Shop().sell, "pen")
    args, kwargs = called(Shop().sell, text)
    assert isinstance(next(Shop().sell(*args, **kwargs)), Command)


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "problem"),
    [
        (simple, (), {}, "missing a required argument: 'order'; it takes (order: "),
        (
            simple,
            (AN_ID,),
            {"cuont": 2},
            "unexpected keyword argument 'cuont'; it takes",
        ),
        (simple, (AN_ID, 1, 2), {}, "too many positional arguments; it takes"),
        (simple, (AN_ID,), {"order": AN_ID}, "multiple values for argument 'order'"),
        (
            simple,
            ("x",),
            {},
            "parameter order: cannot record it as UUID: found str; give",
        ),
        (
            simple,
            (AN_ID, True),
            {},
            "parameter count: cannot record it as int: found bool",
        ),
        (
            simple,
            (AN_ID, 1.9),
            {},
            "parameter count: cannot record it as int: found float",
        ),
        (
            loose,
            ({1},),
            {},
            "parameter order: cannot record it as plain JSON: found set",
        ),
        (loose, ([AN_ID],), {}, "parameter order[0]: cannot record it as plain JSON"),
        (
            fulfil,
            (AN_ID, [LINE, 1]),
            {},
            "parameter lines[1]: cannot record it as Line",
        ),
        (fulfil, (AN_ID, [], True, "x", 1), {}, "parameter notes[1]: cannot record"),
        (fulfil, (AN_ID, []), {"a": "b"}, "parameter extra.a: cannot record it as int"),
        (loose, (map(int, ""),), {}, "found map; make a list of it"),
        (unpacked, (), {"gift": 1}, "parameter extra.gift: cannot record it as bool"),
        (unpacked, (), {"gfit": True}, "it has unknown fields ('gfit')"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    problem: str,
) -> None:
    with pytest.raises(InvalidInput) as caught:
        stored(function, *args, **kwargs)
    assert "workflow 'fulfil' cannot start with these arguments" in str(caught.value)
    assert problem in caught.value.problem


def test_the_limit_counts_all_arguments_together() -> None:
    codec = Codec(max_bytes=100)
    parameters = Parameters.of(loose)
    parameters.encode(codec, "w", ("a" * 40, "a" * 30), {})
    with pytest.raises(InvalidInput, match=r"the arguments: .* the limit is 100"):
        parameters.encode(codec, "w", ("a" * 50, "a" * 50), {})


def test_a_parameter_of_a_type_that_is_not_carried_is_found() -> None:
    def body(lock: type[int]) -> WorkflowBody[None]:
        yield Command()

    with pytest.raises(UnsupportedType, match="field 'lock' of arguments of body"):
        stored(body, int)


# --- parameters that change -----------------------------------------------------------


def with_more(order: UUID, count: int = 1, gift: bool = False) -> WorkflowBody[None]:
    yield Command()


def reordered(count: int = 1, *, order: UUID) -> WorkflowBody[None]:
    yield Command()


def with_required(order: UUID, count: int = 1, *, gift: bool) -> WorkflowBody[None]:
    yield Command()


def without(order: UUID) -> WorkflowBody[None]:
    yield Command()


def retyped(order: UUID, count: str = "1") -> WorkflowBody[None]:
    yield Command()


def test_stored_arguments_outlive_a_new_default_and_a_new_order() -> None:
    text = stored(simple, AN_ID, 2)
    assert called(with_more, text) == ((AN_ID, 2, False), {})
    assert called(reordered, text) == ((2,), {"order": AN_ID})


@pytest.mark.parametrize(
    ("function", "path", "problem"),
    [
        (with_required, "$.gift", "it is missing"),
        (without, "$", "unknown fields ('count')"),
        (retyped, "$.count", "found int"),
    ],
)
def test_stored_arguments_that_no_longer_fit_say_where(
    function: Callable[..., Any], path: str, problem: str
) -> None:
    with pytest.raises(ValueProblem) as caught:
        called(function, stored(simple, AN_ID, 2))
    assert caught.value.path == path
    assert problem in caught.value.problem


OTHER_ID = UUID(int=1)


@dataclass(eq=False)
class Blank:
    n: int


def many(
    whole: Any = None,
    point: Point | None = None,
    blank: Blank | None = None,
    mark: Any = attrs.NOTHING,
    *rest: int,
    **named: float,
) -> WorkflowBody[None]:
    yield Command()


@pytest.mark.parametrize(
    ("before", "now", "names"),
    [
        ('{"order":"%s"}', '{"order":"%s"}', ()),
        ('{"order":"%s"}', '{"count":1,"order":"%s"}', ()),
        ('{"order":"%s"}', '{"order":"%s","count":2}', ("count",)),
        ('{"order":"%s","count":2}', '{"order":"%s"}', ("count",)),
    ],
)
def test_a_default_and_the_same_value_given_do_not_differ(
    before: str, now: str, names: tuple[str, ...]
) -> None:
    parameters = Parameters.of(simple)
    assert parameters.differing(CODEC, before % AN_ID, now % AN_ID) == names
    changed = ("order", *names)
    assert parameters.differing(CODEC, before % AN_ID, now % OTHER_ID) == changed


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        ({"whole": {"a": 1, "b": 2}}, {"whole": {"b": 2, "a": 1}}, ()),
        ({"whole": [1, 2]}, {"whole": [2, 1]}, ("whole",)),
        ({"whole": 1}, {"whole": True}, ("whole",)),
        ({"point": Point(1)}, {"point": Point(1, 0.0)}, ()),
        ({"point": Point(1)}, {"point": Point(1, 1.0)}, ("point",)),
        ({"blank": Blank(1)}, {"blank": Blank(1)}, ()),
        ({"blank": Blank(1)}, {"blank": Blank(2)}, ("blank",)),
        ({"mark": 1}, {}, ("mark",)),
        ({}, {"whole": None}, ()),
        ({"a": 1.0}, {"a": 1.0, "b": 2.0}, ("named",)),
        ({"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}, ()),
        ({"whole": 1, "a": 1.0}, {"whole": 2, "a": 2.0}, ("whole", "named")),
    ],
)
def test_what_differs_is_named(
    one: dict[str, Any], other: dict[str, Any], names: tuple[str, ...]
) -> None:
    before, now = stored(many, **one), stored(many, **other)
    assert Parameters.of(many).differing(CODEC, before, now) == names


def test_more_positional_arguments_differ() -> None:
    parameters = Parameters.of(many)
    before, now = stored(many, 1, None, None, 2), stored(many, 1, None, None, 2, 3)
    assert parameters.differing(CODEC, before, now) == ("rest",)
    assert parameters.differing(CODEC, now, now + " ") == ()


def test_arguments_stored_before_a_field_had_a_default_do_not_differ() -> None:
    parameters = Parameters.of(many)
    assert parameters.differing(
        CODEC, '{"point":{"x":1}}', stored(many, None, Point(1))
    ) == (())


def test_arguments_that_no_longer_fit_are_compared_as_they_are() -> None:
    parameters = Parameters.of(retyped)
    before = stored(simple, AN_ID, 2)
    assert parameters.differing(CODEC, before, stored(retyped, AN_ID, "2")) == (
        "count",
    )
    assert parameters.differing(CODEC, before, stored(retyped, AN_ID)) == ("count",)
    assert parameters.differing(CODEC, before, stored(simple, AN_ID, 2) + " ") == ()


def test_the_parameters_of_a_builtin_are_plain_json() -> None:
    assert stored(len, [1]) == '{"obj":[1]}'


def test_parameters_are_read_once_a_function() -> None:
    assert Parameters.of(simple) is Parameters.of(simple)
