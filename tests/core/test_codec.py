"""Every type in every position comes back equal in value and in type."""

from __future__ import annotations

import collections.abc as abc
import subprocess
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import InitVar, dataclass, make_dataclass
from datetime import datetime, time, timedelta
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    Never,
    Optional,
    TypeVar,
    Union,
    get_origin,
)
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import pytest
from typing_extensions import TypeAliasType

from tests.core.samples import (
    ALL,
    AN_ID,
    CODEC,
    HASHABLE,
    Pair,
    Point,
    same,
    there_and_back,
)
from workflow_engine.core.codec import Codec
from workflow_engine.errors import ValueProblem

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
Bound = TypeVar("Bound", bound=UUID)
Either = TypeVar("Either", UUID, str)


# --- type x position ------------------------------------------------------------------

_list: Any = list
_dict: Any = dict
_set: Any = set
_namedtuple: Any = NamedTuple


def a_dataclass(type_: Any) -> Any:
    return make_dataclass("Holder", [("held", type_)])


def an_attrs_class(type_: Any) -> Any:
    return attrs.make_class("Holder", {"held": attrs.field(type=type_)})


def a_namedtuple(type_: Any) -> Any:
    return _namedtuple("Holder", [("held", type_)])


# Any among its members makes a union plain JSON; typing wants its members hashable.
_TELLING = [
    (type_, values)
    for type_, values in ALL
    if type_ not in (Any, object) and get_origin(type_) is not Annotated
]
_EVERYTHING: Any = Union[tuple(type_ for type_, _ in _TELLING)]  # noqa: UP007

POSITIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "bare": (lambda type_: type_, lambda _, value: value),
    "optional": (lambda type_: Optional[type_], lambda _, value: value),  # noqa: UP045
    "item of a list": (lambda type_: _list[type_], lambda _, value: [value, value]),
    "value of a dict": (
        lambda type_: _dict[str, type_],
        lambda _, value: {"a b": value},
    ),
    "field of a dataclass": (a_dataclass, lambda holder, value: holder(value)),
    "field of an attrs class": (an_attrs_class, lambda holder, value: holder(value)),
    "field of a namedtuple": (a_namedtuple, lambda holder, value: holder(value)),
}
HASHABLE_POSITIONS: dict[
    str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]
] = {
    "key of a dict": (lambda type_: _dict[type_, int], lambda _, value: {value: 1}),
    "item of a set": (lambda type_: _set[type_], lambda _, value: {value}),
}


def survives(type_: Any, values: list[Any], positions: Any) -> None:
    for position, (declare, place) in positions.items():
        declared = declare(type_)
        for value in values:
            placed = place(declared, value)
            assert same(there_and_back(placed, declared), placed), position


@pytest.mark.parametrize(("type_", "values"), ALL)
def test_every_type_survives_in_every_position(type_: Any, values: list[Any]) -> None:
    survives(type_, values, POSITIONS)
    assert there_and_back(None, Optional[type_]) is None  # noqa: UP045


@pytest.mark.parametrize(("type_", "values"), HASHABLE)
def test_every_hashable_type_survives_as_a_key(type_: Any, values: list[Any]) -> None:
    survives(type_, values, HASHABLE_POSITIONS)


@pytest.mark.parametrize(("type_", "values"), _TELLING)
def test_every_type_survives_as_a_member_of_a_union_of_them_all(
    type_: Any, values: list[Any]
) -> None:
    for value in values:
        assert same(there_and_back(value, _EVERYTHING), value)
        assert same(there_and_back([value], list[_EVERYTHING]), [value])


# --- what each word of a declaration means --------------------------------------------


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ((1, 2), [1, 2]),
        ({"a": (1,)}, {"a": [1]}),
        (Pair(1), [1, "r"]),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(list, a=[1]), {"a": [1]}),
    ],
)
def test_plain_json_comes_back_as_list_and_dict(value: Any, seen: Any) -> None:
    assert same(there_and_back(value, Any), seen)
    assert same(there_and_back([value], list[Any]), [seen])
    assert same(there_and_back({"k": value}, dict), {"k": seen})


@pytest.mark.parametrize(
    ("type_", "value", "seen"),
    [
        (abc.Sequence[int], (1, 2), [1, 2]),
        (abc.Sequence[int], range(3), [0, 1, 2]),
        (abc.Iterable[UUID], [AN_ID], [AN_ID]),
        (abc.Collection[int], (1,), [1]),
        (abc.MutableSequence[int], [1], [1]),
        (abc.Sequence, (1,), [1]),
        (abc.Set[int], frozenset({1}), {1}),
        (abc.MutableSet[int], {1}, {1}),
        (abc.Mapping[str, int], OrderedDict(a=1), {"a": 1}),
        (abc.Mapping[int, int], {1: 1}, {1: 1}),
        (abc.MutableMapping[str, Any], {"a": (1,)}, {"a": [1]}),
    ],
)
def test_an_abstract_declaration_promises_the_contents(
    type_: Any, value: Any, seen: Any
) -> None:
    assert same(there_and_back(value, type_), seen)


def test_an_int_for_a_float_comes_back_as_a_float() -> None:
    assert same(there_and_back(1, float), 1.0)
    assert same(there_and_back(1, float | None), 1.0)
    assert same(there_and_back(1, float | str), 1.0)
    assert same(CODEC.decode("1", float), 1.0)
    assert same(there_and_back(1, int | float), 1)
    assert same(CODEC.decode("1", float | int), 1)


def test_an_aware_datetime_keeps_its_offset() -> None:
    local = datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Europe/Paris"))
    back = there_and_back(local, datetime)
    assert back == local
    assert back.utcoffset() == timedelta(hours=2)


def test_a_repeated_hour_keeps_its_fold() -> None:
    repeated = datetime(2024, 10, 27, 2, fold=1)  # noqa: DTZ001 - naive on purpose
    assert there_and_back(repeated, datetime).fold == 1
    assert there_and_back(time(2, fold=1), time).fold == 1


def test_the_text_of_a_set_does_not_depend_on_its_order() -> None:
    one = {0, 8}  # these two collide, so they stand in the order of their insertion
    other = {8, 0}
    assert list(one) != list(other)
    assert CODEC.encode(one, set[int]) == CODEC.encode(other, set[int]) == "[0,8]"


def test_a_dict_keeps_its_order() -> None:
    assert list(there_and_back({"b": 1, "a": 2}, dict[str, int])) == ["b", "a"]
    assert list(there_and_back({2: 1, 1: 2}, dict[int, int])) == [2, 1]


def test_final_and_type_variables_stand_for_what_they_wrap() -> None:
    @dataclass
    class Holder(Generic[T]):
        fixed: Final[int]
        anything: T

    assert same(there_and_back(Holder(1, [2]), Holder), Holder(1, [2]))


def test_metadata_may_lack_a_hash() -> None:
    type_ = Annotated[UUID, ["no hash"]]
    holder = make_dataclass("Holder", [("held", list[type_])])
    assert there_and_back(AN_ID, type_) == AN_ID
    assert there_and_back({"a": AN_ID}, dict[str, type_]) == {"a": AN_ID}
    assert there_and_back(holder([AN_ID]), holder) == holder([AN_ID])


def test_nothing_is_a_value_of_never() -> None:
    CODEC.check(Never)
    with pytest.raises(ValueProblem, match="never to have a value"):
        CODEC.encode(None, Never)


def test_a_class_inside_a_function_may_contain_itself() -> None:
    @attrs.define
    class Node:
        next: Node | None = None

    assert there_and_back(Node(Node()), Node) == Node(Node())


def test_an_init_var_with_a_default_is_no_field() -> None:
    assert there_and_back(Scaled(2), Scaled) == Scaled(2)


@dataclass
class Scaled:
    n: int
    by: InitVar[int] = 1

    def __post_init__(self, by: int) -> None:
        self.n *= by


Couple = TypeAliasType("Couple", tuple[A, B | None], type_params=(A, B))
Ids = TypeAliasType("Ids", list[UUID])


def test_a_type_alias_stands_for_what_it_names() -> None:
    assert same(there_and_back((1, AN_ID), Couple[int, UUID]), (1, AN_ID))
    assert same(there_and_back([AN_ID], Ids), [AN_ID])
    with pytest.raises(ValueProblem) as caught:
        CODEC.encode((1, 2), Couple[int, UUID])
    assert (caught.value.path, caught.value.expected) == ("$[1]", "UUID | None")


def test_type_variables_stand_for_their_bounds() -> None:
    assert same(there_and_back(AN_ID, Bound), AN_ID)
    assert same(there_and_back(AN_ID, Either), AN_ID)
    assert same(there_and_back("a", Either), "a")
    with pytest.raises(ValueProblem):
        CODEC.encode("a", Bound)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is of 3.12")
def test_type_aliases_may_be_generic_and_may_contain_themselves() -> None:
    scope: dict[str, Any] = {}
    exec("type Json = dict[str, Json] | list[Json] | str | None", scope)
    exec("type Couple[A, B] = tuple[A, B | None]", scope)
    value = {"a": ["b", None, {"c": "d"}]}
    assert same(there_and_back(value, scope["Json"]), value)
    assert same(there_and_back((1, AN_ID), scope["Couple"][int, UUID]), (1, AN_ID))


# --- cost and boundaries --------------------------------------------------------------


class Watched(type):
    """Counts how often the fields of a class are asked for."""

    asked = 0

    def __getattribute__(cls, name: str) -> Any:
        if name == "__attrs_attrs__":
            Watched.asked += 1
        return super().__getattribute__(name)


@attrs.define
class Seen(metaclass=Watched):
    n: int


def test_a_type_is_worked_out_once_for_ten_thousand_values() -> None:
    codec, type_ = Codec(), Seen | Point | int | None
    texts = [codec.encode(value, type_) for value in (Seen(1), Point(1), 1, None)]
    before = Watched.asked
    assert before > 0
    for _ in range(2500):
        for text in texts:
            codec.decode(text, Union[Seen, Point, int, None])  # noqa: UP007
    assert Watched.asked == before


def test_types_made_anew_each_time_do_not_pile_up() -> None:
    codec = Codec()
    for number in range(5000):
        codec.check(Literal[number])
    assert len(codec._carriers) <= 4100


def test_nothing_heavy_is_imported_for_those_who_do_not_use_it() -> None:
    program = (
        "import sys, dataclasses\n"
        "from workflow_engine.core.codec import Codec\n"
        "@dataclasses.dataclass\nclass A: x: int\n"
        "assert Codec().decode(Codec().encode(A(1), A), A) == A(1)\n"
        "heavy = ('pydantic', 'cattrs', 'sqlalchemy', 'alembic')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
