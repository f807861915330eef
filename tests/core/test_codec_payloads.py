"""How values are written, and how later declarations read what earlier ones wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from uuid import UUID

import attrs
import pytest

from tests.core import samples
from tests.core.samples import (
    AN_ID,
    CODEC,
    MOMENT,
    PARIS,
    PRICE,
    Access,
    Address,
    Color,
    Computed,
    Line,
    Mood,
    Pair,
    Price,
    Scores,
    Size,
    same,
    there_and_back,
)
from workflow_engine.core.carriers.typenames import type_name
from workflow_engine.core.codec import Codec
from workflow_engine.errors import UnsupportedType, ValueProblem

T = TypeVar("T")


@attrs.frozen
class Point:
    """Shares its name with a class of another module."""

    x: int


@attrs.frozen
class Circle:
    x: int
    radius: int = 1


@attrs.frozen
class Square:
    x: int
    side: int


# --- frozen forms ---------------------------------------------------------------------

ID = f'"{AN_ID}"'
GOLDEN: list[tuple[Any, Any, str]] = [
    (type(None), None, "null"),
    (bool, True, "true"),
    (int, -7, "-7"),
    (float, 1.0, "1.0"),
    (float, 3, "3.0"),
    (float, 1e100, "1e+100"),
    (str, 'é"\n', '"\\u00e9\\"\\n"'),
    (bytes, b"\0\xff", '"AP8="'),
    (bytearray, bytearray(b"a"), '"YQ=="'),
    (UUID, AN_ID, ID),
    (datetime, MOMENT, '"2024-01-02T03:00:00+00:00"'),
    (datetime, MOMENT.replace(microsecond=6), '"2024-01-02T03:00:00.000006+00:00"'),
    (datetime, datetime(2024, 1, 2, tzinfo=PARIS), '"2024-01-02T00:00:00+02:00"'),
    (datetime, datetime(2024, 1, 2, fold=1), '"2024-01-02T00:00:00 fold=1"'),  # noqa: DTZ001
    (date, date(2024, 1, 2), '"2024-01-02"'),
    (time, time(1, 2, 3), '"01:02:03"'),
    (timedelta, timedelta(1, 2, 3), '"P1DT2.000003S"'),
    (timedelta, timedelta(hours=-1), '"P-1DT82800S"'),
    (Decimal, Decimal("1.10"), '"1.10"'),
    (Color, Color.ROUGE, '"RED"'),
    (Size, Size.L, '"L"'),
    (Mood, Mood.GOOD, '"GOOD"'),
    (Access, Access.READ | Access.WRITE, "3"),
    (Literal["a", 1], 1, "1"),
    (Literal[b"a"], b"a", '"YQ=="'),
    (list[UUID], [AN_ID], f"[{ID}]"),
    (tuple[int, str], (1, "a"), '[1,"a"]'),
    (set[str], {"b", "a", "c"}, '["a","b","c"]'),
    (frozenset[int], frozenset({10, 9}), "[10,9]"),
    (dict[str, int], {"b": 1, "a": 2}, '{"b":1,"a":2}'),
    (dict[int, str], {2: "b", 1: "a"}, '[[2,"b"],[1,"a"]]'),
    (dict[Mood, int], {Mood.GOOD: 1}, '[["GOOD",1]]'),
    (Price, PRICE, '{"amount":"9.90","currency":"EUR"}'),
    (Pair, Pair(1), '{"left":1,"right":"r"}'),
    (Address, {"zip": 1, "street": "s"}, '{"street":"s","zip":1}'),
    (Computed, Computed(2), '{"a":2,"double":4}'),
    (Scores, Scores([1]), "[1]"),
    (int | None, 1, "1"),
    (int | None, None, "null"),
    (int | str | float, 1.0, "1.0"),
    (Line | None, None, "null"),
    (Price | None, PRICE, '{"amount":"9.90","currency":"EUR"}'),
    (UUID | str, AN_ID, f'{{"$type":"UUID","value":{ID}}}'),
    (UUID | str, "a", '{"$type":"str","value":"a"}'),
    (UUID | str | None, None, "null"),
    (list[int] | tuple[int, ...], (1,), '{"$type":"tuple[int, ...]","value":[1]}'),
    (Circle | Square | int, Circle(1), '{"$type":"Circle","value":{"x":1,"radius":1}}'),
    (Circle | Square | int, 1, "1"),
    (Any, {"b": [1, None], "a": 1.0}, '{"b":[1,null],"a":1.0}'),
]


@pytest.mark.parametrize(("type_", "value", "text"), GOLDEN)
def test_a_value_is_written_as_ever(type_: Any, value: Any, text: str) -> None:
    assert CODEC.encode(value, type_) == text
    assert CODEC.decode(text, type_) == value


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (datetime, '"2024-01-02T03:00:00Z"', MOMENT),
        (UUID, json.dumps(str(AN_ID).upper()), AN_ID),
        (list[int], " [1, 2] ", [1, 2]),
        (Price, '{"currency": "EUR", "amount": "9.90"}', PRICE),
        (str, '"é"', "é"),
    ],
)
def test_what_others_write_is_read(type_: Any, text: str, value: Any) -> None:
    assert same(CODEC.decode(text, type_), value)


# --- declarations that grow -----------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        (int, int | None, 1),
        (int, int | str, 1),
        (int, str | int | list[int] | None, 1),
        (int, int | float, 1),
        (float, int | float, 1.0),
        (str, str | None, "a"),
        (str, str | int, "a"),
        (UUID, UUID | int | None, AN_ID),
        (list[int], list[int] | None, [1]),
        (list[int], list[int | str], [1]),
        (list[int], list[Any], [1]),
        (Circle, Circle | None, Circle(1)),
        (Circle, Circle | str | list[int], Circle(1)),
        (dict[str, int], dict[str, int | None], {"a": 1}),
        (dict[str, Any], dict[str, Any] | None, {"$type": "a", "value": 1}),
        (Literal["a"], Literal["a", "b"], "a"),
        (Literal["a", "b"], str, "a"),
        (Literal["a"], Literal["a"] | str, "a"),
        (Circle | Square, Circle | Square | None, Square(1, 2)),
        (Circle | Square, Square | Price | Circle | int, Circle(1)),
        (int | str, str | int, 1),
        # Tagged by now, and only one member reads what has no tag.
        (Circle, Circle | Price, Circle(1)),
        (Square, Circle | Square, Square(1, 2)),
        (str, str | UUID, "no id"),
        (list[int], list[int] | list[str], [1]),
        (list[str], list[str] | tuple[int, ...], ["a"]),
        (str, str | UUID | Circle, "no id"),
        (Circle, str | UUID | Circle, Circle(1)),
    ],
)
def test_a_wider_declaration_reads_what_was_stored(
    before: Any, after: Any, value: Any
) -> None:
    assert same(CODEC.decode(CODEC.encode(value, before), after), value)


@pytest.mark.parametrize(
    ("type_", "text", "names"),
    [
        (str | UUID, ID, "UUID and str"),
        (list[int] | tuple[int, ...], "[1]", r"list\[int\] and tuple\[int, ...\]"),
        (Circle | Point, '{"x":1}', "Circle and Point"),
    ],
)
def test_an_old_value_that_could_be_two_members_is_not_guessed(
    type_: Any, text: str, names: str
) -> None:
    with pytest.raises(ValueProblem, match=f"it has no tag, and fits {names}"):
        CODEC.decode(text, type_)


def test_an_old_value_that_fits_no_member_is_refused() -> None:
    with pytest.raises(ValueProblem, match="it has no tag, and fits no member"):
        CODEC.decode('{"y":1}', Circle | Square)


def test_a_tag_names_a_declared_member_and_nothing_else() -> None:
    for tag in ["Line", "circle", "tests.core.test_codec_payloads.Circle", "", 1, None]:
        text = json.dumps({"$type": tag, "value": {"x": 1}})
        with pytest.raises(ValueProblem, match="which names no member"):
            CODEC.decode(text, Circle | Square)
    with pytest.raises(ValueProblem) as caught:
        CODEC.decode('[{"$type":"Circle","value":{"x":"1"}}]', list[Circle | Square])
    assert caught.value.path == "$[0].x"


def test_a_dict_that_looks_tagged_is_still_a_dict() -> None:
    value = {"$type": "UUID", "value": str(AN_ID)}
    for type_ in (
        Any,
        dict[str, str],
        dict[str, str] | None,
        dict[str, str] | int | float,
        dict[str, str] | UUID | str,
        dict[str, str] | Circle,
        dict[str, Any] | list[int] | tuple[int, ...],
    ):
        assert same(there_and_back(value, type_), value)


def test_members_of_one_name_are_told_apart_by_their_modules() -> None:
    type_ = Point | samples.Point | int
    for value in (Point(1), samples.Point(1), 1):
        assert same(there_and_back(value, type_), value)
    assert '"tests.core.samples.Point"' in CODEC.encode(samples.Point(1), type_)


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [
        (int | str | None, None | str | int, None),
        (list[int | str] | tuple[int, ...], tuple[int, ...] | list[str | int], [1]),
        (set[Literal[1, "a"]] | list[int], list[int] | set[Literal["a", 1]], {1}),
        (list[Any] | list[int], list[int] | list[Any], [1]),
    ],
)
def test_the_order_of_members_changes_nothing(one: Any, other: Any, value: Any) -> None:
    # Python holds the two for equal, so a codec may know either by the other's name.
    text = Codec().encode(value, one)
    assert Codec().encode(value, other) == text
    assert same(Codec().decode(text, other), value)
    assert type_name(one) == type_name(other)


def test_members_that_nothing_tells_apart_are_refused() -> None:
    def make() -> type:
        @attrs.frozen
        class Twin:
            x: int

        return Twin

    with pytest.raises(UnsupportedType, match="two members have the same name"):
        CODEC.check(make() | make())


def test_any_among_its_members_makes_a_union_plain_json() -> None:
    assert same(there_and_back((1,), UUID | Any), [1])
    with pytest.raises(ValueProblem, match="plain JSON"):
        CODEC.encode(AN_ID, UUID | Any)


# --- classes that grow ----------------------------------------------------------------


@attrs.frozen
class Grown:
    x: int
    new: str = "new"
    made: list[int] = attrs.field(factory=lambda: [1])
    late: int = attrs.field(init=False, default=5)


@dataclass
class GrownData:
    x: int
    new: str = "new"


class GrownTuple(NamedTuple):
    x: int
    new: str = "new"


class GrownKeys(TypedDict):
    x: int
    new: NotRequired[str]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (Grown, Grown(1)),
        (GrownData, GrownData(1)),
        (GrownTuple, GrownTuple(1)),
        (GrownKeys, {"x": 1}),
    ],
)
def test_a_class_reads_what_was_stored_before_it_had_a_field(
    type_: Any, value: Any
) -> None:
    assert same(CODEC.decode('{"x":1}', type_), value)
    with pytest.raises(ValueProblem, match="it is missing") as missing:
        CODEC.decode('{"new":"a"}', type_)
    assert (missing.value.path, missing.value.expected) == ("$.x", "int")
    with pytest.raises(ValueProblem, match="unknown fields \\('gone'\\)") as unknown:
        CODEC.decode('{"x":1,"gone":2}', type_)
    assert unknown.value.path == "$"


def test_a_field_that_the_constructor_does_not_take_keeps_its_value() -> None:
    value = Grown(1)
    object.__setattr__(value, "late", 7)
    assert there_and_back(value, Grown).late == 7


@attrs.define
class Aliased:
    _x: int
    x: int = attrs.field(init=False, default=0)


def test_a_field_and_a_keyword_of_the_same_name_are_told_apart() -> None:
    value = Aliased(x=1)
    value.x = 2
    assert CODEC.encode(value, Aliased) == '{"_x":1,"x":2}'
    assert there_and_back(value, Aliased) == value


# --- generic classes ------------------------------------------------------------------


@attrs.frozen
class Base(Generic[T]):
    base: T


@attrs.frozen
class Child(Base[list[T]], Generic[T]):
    own: T


@attrs.frozen
class Bound(Child[UUID]):
    more: int = 0


@attrs.frozen
class Unbound(Base):  # type: ignore[type-arg]
    more: int = 0


class GenericKeys(TypedDict, Generic[T]):
    item: T


class GenericTuple(NamedTuple, Generic[T]):
    item: T


@pytest.mark.parametrize(
    ("type_", "value", "wrong"),
    [
        (Child[UUID], Child([AN_ID], AN_ID), Child(["a"], AN_ID)),  # type: ignore[misc]
        (Bound, Bound([AN_ID], AN_ID), Bound([AN_ID], "a")),  # type: ignore[arg-type]
        (GenericKeys[UUID], {"item": AN_ID}, {"item": "a"}),
        (GenericTuple[UUID], GenericTuple(AN_ID), GenericTuple("a")),
        (Unbound, Unbound([1]), Unbound(AN_ID)),
    ],
)
def test_a_type_argument_reaches_the_fields(type_: Any, value: Any, wrong: Any) -> None:
    assert same(there_and_back(value, type_), value)
    with pytest.raises(ValueProblem):
        CODEC.encode(wrong, type_)
