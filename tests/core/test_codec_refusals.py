"""What is not carried is refused at once, saying where, what and what to do."""

from __future__ import annotations

import asyncio
import collections
import threading
from collections import OrderedDict, deque
from collections.abc import (
    AsyncGenerator,
    Generator,
)
from dataclasses import make_dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Optional
from uuid import UUID

import attrs
import pytest

from tests.core.samples import (
    AN_ID,
    PRICE,
    Access,
    Address,
    Box,
    Color,
    Line,
    Loose,
    Model,
    Mood,
    Name,
    Pair,
    Point,
    Price,
    Scores,
    Size,
    Tree,
    UserId,
    refusal,
)


class Sub(Point):
    """Would come back as a Point."""


class Words(str):
    __slots__ = ()


class Instant(datetime):
    """Would come back as a datetime."""


class Nowhere(tzinfo):
    """A zone without an offset."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None

    dst = utcoffset

    def tzname(self, moment: datetime | None) -> str | None:
        return None


begun: Any = tzinfo  # it raises NotImplementedError when asked
NAN, INF = float("nan"), float("inf")
NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - a bare timezone too
WRONG: list[tuple[Any, list[Any]]] = [
    (type(None), [0, False, ""]),
    (bool, [0, 1, "no", "true", None]),
    (int, [1.0, 1.9, "1", True, None, Size.S, Decimal(1)]),
    (float, ["1.5", True, NAN, INF, -INF, Decimal(1), 2**53 + 1, 10**400]),
    (str, [1, b"a", Mood.GOOD, Words("a"), None]),
    (bytes, ["a", bytearray(b"a"), memoryview(b"a")]),
    (bytearray, [b"a"]),
    (UUID, [str(AN_ID), AN_ID.int]),
    (datetime, ["2024-01-01T00:00:00", date.min, Instant(2024, 1, 1), 0]),
    (datetime, [NOW.replace(tzinfo=Nowhere()), NOW.replace(tzinfo=begun())]),
    (datetime, [NOW.astimezone(timezone(timedelta(microseconds=1)))]),
    (date, [NOW, "2024-01-01"]),
    (time, ["12:00", NOW]),
    (timedelta, [1, 1.5, "1"]),
    (Decimal, [1, 1.5, "1", Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity")]),
    (Color, ["RED", (255, 0, 0), Size.S]),
    (Size, [1, Color.RED]),
    (Mood, ["good"]),
    (Access, [1, Color.RED]),
    (Literal["a", "b"], ["c", 1, None, Words("a")]),
    (Literal[1], [True, 1.0, 2]),
    (UserId, [str(AN_ID)]),
    (Name, [1]),
    (list[int], [(1,), {1}, "1", ["a"], [None], [True], [[1]], Scores([1])]),
    (tuple[int, str], [[1, "a"], (1,), (1, "a", 2), ("a", 1), Pair(1)]),
    (tuple[int, ...], [[1], ("a",), Pair(1)]),
    (tuple[()], [(1,)]),
    (set[int], [[1], frozenset({1}), {"a"}, {1.5}]),
    (set[Any], [{(1, 2)}, {AN_ID}]),
    (frozenset[int], [{1}, frozenset({"a"})]),
    (dict[str, int], [[], {1: 1}, {"a": "b"}, {Mood.GOOD: 1}, Loose(1, 2)]),
    (dict[int, str], [{"1": "a"}, {1: 1}, {True: "a"}, [(1, "a")]]),
    (dict[tuple[Any, ...], int], [{(1, (2,)): 1}]),
    (deque[int], [[1], (1,), deque(["1"]), deque([True]), deque([1], maxlen=2)]),
    (OrderedDict[str, int], [{"a": 1}, OrderedDict(a="1"), OrderedDict({1: 1})]),
    (Path, ["a", None, PurePosixPath("a"), 1]),
    (list[Point], [[{"x": 1}], [Sub(1)], [None], Point(1)]),
    (Point, [{"x": 1, "y": 0.0}, Sub(1), PRICE, None, Point("1"), Point(1, NAN)]),  # type: ignore[arg-type]
    (Line, [Line(1, PRICE), Line("a", Price(amount=1)), Point(1)]),  # type: ignore[arg-type]
    (Pair, [(1, "r"), Loose(1, 2), Pair("a")]),  # type: ignore[arg-type]
    (
        Address,
        [[], {}, {"street": 1}, {"street": "s", "zip": None}, {"street": "s", 1: 1}],
    ),
    (Box[int], [Box("a"), Box(1, ["a"]), Box(True)]),
    (Tree, [Tree(1, [Tree("a")])]),  # type: ignore[arg-type]
    (Model, [{"name": "n"}, Model.model_construct(name=1, born=date.min)]),
    (Scores, [[1], Scores.model_construct(["a"])]),  # type: ignore[list-item]
    (collections.abc.Sequence[int], ["12", b"12", {1}, {1: 1}, iter([1]), ["a"]]),
    (collections.abc.Set[int], [[1], {"a"}]),
    (collections.abc.Mapping[str, int], [[("a", 1)], {1: 1}, {"a": None}]),
    (int | str, [1.5, None, b"", ["a"]]),
    (UUID | str, [1, b""]),
    (Point | Price, [Sub(1), {"x": 1}, Point("a")]),  # type: ignore[arg-type]
    (list[int] | list[str], [[1, "a"], (1,)]),
    (object, [AN_ID, PRICE, {1}, {1: 1}, Size.S, Words("a"), NAN, object(), print]),
]
every_wrong = pytest.mark.parametrize(("type_", "values"), WRONG)


# --- wrong values in every position ---------------------------------------------------


@every_wrong
def test_a_wrong_value_is_refused(type_: Any, values: list[Any]) -> None:
    for value in values:
        problem = refusal(value, type_)
        assert problem.path.startswith("$")
        assert problem.expected
        assert "; " in problem.problem, "what was found, and what to do"
        if value is not None:
            refusal(value, Optional[type_])  # noqa: UP045


@every_wrong
def test_the_path_leads_to_the_wrong_value(type_: Any, values: list[Any]) -> None:
    a_dataclass = make_dataclass("A", [("held", type_)])
    an_attrs_class = attrs.make_class("B", {"held": attrs.field(type=type_)})
    for value in values:
        path = refusal(value, type_).path[1:]
        assert refusal([value], list[type_]).path == "$[0]" + path
        assert refusal((1, value), tuple[int, type_]).path == "$[1]" + path
        assert refusal({"k": value}, dict[str, type_]).path == "$.k" + path
        assert refusal({"a b": value}, dict[str, type_]).path == '$["a b"]' + path
        assert refusal({1: value}, dict[int, type_]).path == "$[1]" + path
        assert refusal(a_dataclass(value), a_dataclass).path == "$.held" + path
        assert refusal(an_attrs_class(value), an_attrs_class).path == "$.held" + path


def test_the_path_goes_through_everything() -> None:
    lines = [Line("a", PRICE), Line("b", Price(amount=Decimal(1), currency=None))]  # type: ignore[arg-type]
    problem = refusal({AN_ID: {"of today": lines}}, dict[UUID, dict[str, list[Line]]])
    assert problem.path == f"$[UUID('{AN_ID}')][\"of today\"][1].price.currency"
    assert problem.expected == "str"
    assert problem.problem == "found None; give the declared type or declare another"


def test_a_union_says_all_its_members() -> None:
    problem = refusal([1.5], list[int | str | None])
    assert (problem.path, problem.expected) == ("$[0]", "int | str | None")


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ({"a": {1: 2}}, "$.a", "key 1 is int"),
        ([0, {1, 2}], "$[1]", "found set"),
        ((0, AN_ID), "$[1]", "found uuid.UUID"),
        ({"k k": [PRICE]}, '$["k k"][0]', "found tests.core.samples.Price"),
        (threading.Lock(), "$", "found _thread.lock"),
        (object(), "$", "found object"),
        ([NAN], "$[0]", "found the float nan"),
        (Words("a"), "$", "found tests.core.test_codec_refusals.Words"),
    ],
)
def test_without_a_declaration_only_plain_json_is_taken(
    value: Any, path: str, found: str
) -> None:
    problem = refusal(value)
    assert (problem.path, problem.expected) == (path, "plain JSON")
    assert problem.problem.startswith(found)
    declared = refusal({"x": value}, dict[str, Any])
    assert declared.path == "$.x" + path[1:]
    if "float" not in found:
        assert ".returns(...)" in problem.problem


def steps() -> Generator[int, None, None]:
    yield 1


async def wait() -> int:
    return 1


async def stream() -> AsyncGenerator[int, None]:
    yield 1


@pytest.mark.parametrize("type_", [Any, int, list[int], Point, int | str, int | None])
def test_what_was_not_run_says_how_to_run_it(type_: Any) -> None:
    coroutine = wait()
    advice = {
        "returned a generator; use `yield from steps()`": steps(),
        "returned a coroutine; use `await wait()`": coroutine,
        "returned an async generator; collect its items into a list": stream(),
        "found map; make a list of it, since it can be read only once": map(int, ""),
    }
    for text, value in advice.items():
        assert refusal(value, type_).problem == text
        assert refusal([value], list[type_]).path == "$[0]"
    coroutine.close()


def test_what_has_no_value_yet_says_to_await_it() -> None:
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()
    assert refusal(future).problem == "found _asyncio.Future; await it first"
