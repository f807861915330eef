"""Types of every sort the codec carries, with values, and how to compare them."""

from __future__ import annotations

import json
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import attrs
import pydantic
import pytest

from workflow_engine.core.codec import Codec
from workflow_engine.errors import ValueProblem

T = TypeVar("T")
CODEC = Codec()


@dataclass
class Point:
    x: int
    y: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    amount: Decimal
    currency: str = "EUR"


@attrs.frozen
class Line:
    article: str
    price: Price
    note: str | None = None


@attrs.define
class Order:
    id: UUID
    lines: list[Line]
    placed: datetime
    _secret: bytes = b""
    total: int = attrs.field(init=False, default=0)


class Model(pydantic.BaseModel):
    name: str
    born: date = pydantic.Field(alias="birthday")
    tags: set[str] = set()
    points: list[Point] = []


class Scores(pydantic.RootModel[list[int]]):
    pass


class Color(Enum):
    RED = (255, 0, 0)
    GREEN = object()
    ROUGE = RED


class Size(IntEnum):
    S = 1
    L = 3


class Mood(StrEnum):
    GOOD = "good"
    BAD = auto()


class Access(Flag):
    READ = auto()
    WRITE = auto()


class Bits(IntFlag):
    ONE = 1


class Pair(NamedTuple):
    left: int
    right: str = "r"


Loose = namedtuple("Loose", ["a", "b"])


class Address(TypedDict):
    street: str
    zip: NotRequired[int]


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)
    parent: Tree | None = None


@attrs.frozen
class Box(Generic[T]):
    content: T
    more: list[T] = attrs.field(factory=list)


@dataclass
class IntBox(Generic[T]):
    one: T


@dataclass
class Deep(IntBox[list[T]], Generic[T]):
    other: T


@dataclass
class Computed:
    a: int
    double: int = field(init=False)

    def __post_init__(self) -> None:
        self.double = self.a * 2


def _rounded(n: float) -> int:
    return round(n)


@attrs.define
class Validated:
    n: int = attrs.field(validator=attrs.validators.ge(0), converter=_rounded)


UserId = NewType("UserId", UUID)
Name = NewType("Name", str)
AN_ID = UUID("12345678-1234-5678-1234-567812345678")
PRICE = Price(amount=Decimal("9.90"))
MOMENT = datetime(2024, 1, 2, 3, tzinfo=UTC)
PARIS = timezone(timedelta(hours=2))

SCALARS: list[tuple[Any, list[Any]]] = [
    (type(None), [None]),
    (None, [None]),
    (bool, [True, False]),
    (int, [0, -1, 2**63, 10**4000]),
    (float, [0.0, -0.0, 1.0, 0.1, 1e308, 5e-324]),
    (str, ["", "é", "\0", "🙂", "\ud800", "\udc00\ud800", "$type", '"', "\u2028"]),
    (bytes, [b"", b"\0\xff", bytes(range(256))]),
    (UUID, [AN_ID]),
    (
        datetime,
        [
            datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=PARIS),
            datetime(2024, 1, 1, tzinfo=timezone(timedelta(seconds=-1))),
        ],
    ),
    (date, [date.min, date.max, date(2024, 2, 29)]),
    (time, [time.min, time.max, time(12, tzinfo=PARIS)]),
    (timedelta, [timedelta(), timedelta.min, timedelta.max, -timedelta(0, 1, 1)]),
    (Decimal, [Decimal("1.10"), Decimal("-0"), Decimal("1E+999"), Decimal("1e-400")]),
    (Color, [Color.RED, Color.GREEN, Color.ROUGE]),
    (Size, [Size.S, Size.L]),
    (Mood, [Mood.GOOD]),
    (Access, [Access.READ, Access.READ | Access.WRITE, Access(0)]),
    (Bits, [Bits.ONE, Bits(7)]),
    (Literal["a", "b"], ["a"]),
    (Literal[1, "a", None, True, b"x", Size.S], [1, "a", None, True, b"x", Size.S]),
    (UserId, [UserId(AN_ID)]),
    (Name, [Name("x")]),
    (Annotated[int, "metadata"], [1]),
    (Path, [Path("/a/b"), Path(), Path("\udcff")]),
]
COMPOUNDS: list[tuple[Any, list[Any]]] = [
    (tuple[int, str], [(1, "a")]),
    (tuple[int, ...], [(), (1, 2)]),
    (tuple[()], [()]),
    (tuple[tuple[int, UUID], ...], [((1, AN_ID),)]),
    (frozenset[int], [frozenset(), frozenset({1, 2})]),
    (Price, [PRICE]),
    (Line, [Line("pen", PRICE), Line("pen", PRICE, "blue")]),
    (Pair, [Pair(1), Pair(1, "x")]),
]
UNHASHABLE: list[tuple[Any, list[Any]]] = [
    (list[int], [[], [1, 2]]),
    (list, [[], [1, "a", None, {"k": [1.5]}]]),
    (tuple[list[int], ...], [([1],)]),
    (set[str], [set(), {"a", "b"}]),
    (set[frozenset[int]], [{frozenset({1}), frozenset()}]),
    (set[tuple[int, str]], [{(1, "a")}]),
    (bytearray, [bytearray(b"\0\xff")]),
    (dict[str, int], [{}, {"a": 1, "": 2, "\ud800": 3}]),
    (dict[int, str], [{}, {1: "a", -1: "b"}]),
    (dict[Name, int], [{Name("a"): 1}]),
    (dict[tuple[int, Color], list[Point]], [{(1, Color.RED): [Point(1)]}]),
    (dict[Mood, int], [{Mood.GOOD: 1}]),
    (dict, [{"a": [1, None, {"b": 2.5}]}]),
    (deque[UUID], [deque(), deque([AN_ID])]),
    (deque, [deque([1, [2]])]),
    (OrderedDict[str, Decimal], [OrderedDict(b=Decimal(1), a=Decimal("2.0"))]),
    (OrderedDict[int, str], [OrderedDict(), OrderedDict({2: "a", 1: "b"})]),
    (list[Point], [[Point(1), Point(2, 0.5)]]),
    (Point, [Point(1), Point(-1, 2.5)]),
    (Order, [Order(AN_ID, [Line("pen", PRICE)], MOMENT, b"s")]),
    (Loose, [Loose(1, [2])]),
    (Address, [{"street": "s"}, {"street": "s", "zip": 1}]),
    (Tree, [Tree(1, [Tree(2, [Tree(3)])], Tree(0))]),
    (Box[int], [Box(1), Box(1, [2])]),
    (Box[Point], [Box(Point(1), [Point(2)])]),
    (Box, [Box("x", [1, "y"])]),
    (Deep[int], [Deep([1], 2)]),
    (Computed, [Computed(2)]),
    (Validated, [Validated(3)]),
    (
        Model,
        [Model(name="n", birthday=date(2000, 1, 1), tags={"a"}, points=[Point(1)])],
    ),
    (Scores, [Scores([1, 2])]),
    (Any, [None, True, 1, 1.5, "a", [1, [2]], {"a": {"b": [None]}}]),
    (object, [None, {"a": 1}]),
]
HASHABLE = SCALARS + COMPOUNDS
ALL = HASHABLE + UNHASHABLE


def same(one: Any, other: Any) -> bool:
    """Equal in value and in type, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (set, frozenset)):
        return one == other and same(sorted(map(repr, one)), sorted(map(repr, other)))
    if attrs.has(type(one)) or hasattr(one, "__dataclass_fields__"):
        names = getattr(one, "__slots__", None) or vars(one)
        fields = [name for name in names if name != "__weakref__"]
        return all(same(getattr(one, name), getattr(other, name)) for name in fields)
    return bool(one == other) and repr(one) == repr(other)


def there_and_back(value: Any, type_: Any) -> Any:
    text = CODEC.encode(value, type_)
    assert text.isascii()
    json.loads(text)
    assert CODEC.encode(value, type_) == text
    return CODEC.decode(text, type_)


def refusal(value: Any, type_: Any = Any) -> ValueProblem:
    """Why a value is not carried."""
    with pytest.raises(ValueProblem) as caught:
        CODEC.encode(value, type_)
    return caught.value
