"""Classes that do not take back what they gave, and types that cannot be carried."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
)
from dataclasses import InitVar, dataclass, make_dataclass
from typing import TYPE_CHECKING, Any, NewType

import attrs
import pydantic
import pytest

from tests.core.samples import (
    ALL,
    CODEC,
    Point,
    refusal,
    there_and_back,
)
from workflow_engine.errors import UnresolvedAnnotation, UnsupportedType, ValueProblem

if TYPE_CHECKING:
    from fractions import Fraction


# --- classes that do not take back what they gave -------------------------------------


@attrs.define
class Growing:
    n: int

    def __attrs_post_init__(self) -> None:
        self.n += 1


def first(items: list[int]) -> list[int]:
    return items[:1]


@attrs.define
class Short:
    items: list[int] = attrs.field(converter=first)


@attrs.define
class Positive:
    n: int = attrs.field(validator=attrs.validators.gt(0), on_setattr=[])


@dataclass
class Custom:
    n: int

    def __post_init__(self) -> None:
        if self.n == 13:
            raise RuntimeError("unlucky")


class Plain(pydantic.BaseModel):
    shown: int
    hidden: int = pydantic.Field(default=0, exclude=True)


class Holder(pydantic.BaseModel):
    plain: Plain


class Extended(Plain):
    more: int = 1


def test_a_class_that_changes_what_it_is_given_is_refused() -> None:
    problem = refusal({"k": [Growing(1)]}, dict[str, list[Growing]])
    assert problem.path == "$.k[0].n"
    assert "changes what it is given" in problem.problem
    short = Short([])
    short.items.extend([1, 2])
    assert refusal(short, Short).path == "$.items"


def test_a_class_that_would_refuse_its_own_fields_is_refused() -> None:
    broken = Positive(1)
    broken.n = -1
    problem = refusal([broken], list[Positive])
    assert problem.path == "$[0]"
    assert "could not be read back" in problem.problem
    unlucky = Custom(1)
    unlucky.n = 13
    assert "RuntimeError: unlucky" in refusal(unlucky, Custom).problem
    with pytest.raises(ValueProblem, match="unlucky"):
        CODEC.decode('{"n":13}', Custom)


def test_a_model_that_would_lose_something_is_refused() -> None:
    assert there_and_back(Plain(shown=1), Plain) == Plain(shown=1)
    assert "another value" in refusal(Plain(shown=1, hidden=2), Plain).problem
    refusal(Holder(plain=Extended(shown=1)), Holder)
    refusal(Extended(shown=1), Plain)


class Rude(pydantic.BaseModel):
    n: int

    @pydantic.model_validator(mode="after")
    def refuse(self) -> Rude:
        if self.n == 13:
            raise RuntimeError("unlucky")
        return self

    @pydantic.field_serializer("n")
    def write(self, n: int) -> int:
        if n == 14:
            raise RuntimeError("unlucky")
        return n


def test_a_model_whose_own_code_fails_is_refused() -> None:
    assert there_and_back(Rude(n=1), Rude) == Rude(n=1)
    with pytest.raises(ValueProblem, match=r"cannot read it \(RuntimeError\)"):
        CODEC.decode('{"n":13}', Rude)
    assert (
        "cannot read it (RuntimeError)"
        in refusal(Rude.model_construct(n=13), Rude).problem
    )
    assert "cannot write it" in refusal(Rude(n=14), Rude).problem
    found = refusal(Rude.model_construct(n="secret"), Rude)
    assert (found.path, "secret" in found.problem) == ("$.n", False)


def test_what_is_wrong_in_a_model_is_found_by_its_path() -> None:
    with pytest.raises(ValueProblem) as caught:
        CODEC.decode('[{"plain":{"shown":"1"}}]', list[Holder])
    assert caught.value.path == "$[0].plain.shown"


def test_a_field_without_a_value_is_refused() -> None:
    @attrs.define
    class Late:
        n: int = attrs.field(init=False)

    assert "has no value yet" in refusal(Late(), Late).problem


# --- types that cannot be carried -----------------------------------------------------


class Opaque:
    """Has no declared fields."""


class Bag(list[int]):
    """Would come back as a list."""


@dataclass
class WithLock:
    lock: Opaque


@dataclass
class Outer:
    inner: WithLock


Endless = NewType("Endless", int)
_endless: Any = Endless
_endless.__supertype__ = NewType("Other", Endless)  # as `type X = Y`, `type Y = X` are


@dataclass
class Loop:
    lock: Opaque
    me: Loop | None = None


@dataclass
class Started:
    n: int
    by: InitVar[int]


@dataclass
class Unresolved:
    part: Fraction


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (Opaque, "Opaque cannot be stored: it has no declared fields"),
        (list[Opaque], "Opaque cannot be stored"),
        (WithLock, r"Opaque cannot be stored \(field 'lock' of WithLock\)"),
        (dict[str, list[WithLock | None]], "field 'lock' of WithLock"),
        (Loop, "field 'lock' of Loop"),
        (Outer, "field 'lock' of WithLock"),
        (Endless, "defined as itself"),
        (Started, "constructor needs 'by'"),
        (Generator[int, None, int], "read only once; make a list"),
        (Iterator[int], "read only once; make a list"),
        (AsyncGenerator[int, None], "read only once; make a list"),
        (Awaitable[int], "no value yet"),
        (Coroutine[Any, Any, int], "no value yet"),
        (Callable[[int], str], r"Callable\[\[int\], str\] cannot be stored"),
        (type[int], "cannot be stored"),
        (complex, "cannot be stored"),
        (Bag, "container of its own kind; declare list or dict"),
        ("Point", "it is a name, not a type"),
        (list["Point"], "it is a name, not a type"),
        (5, "it is not a class"),
        ([int], "it is not a class"),
    ],
)
def test_a_type_that_cannot_be_carried_is_found_early(type_: Any, text: str) -> None:
    for _ in range(2):
        with pytest.raises(UnsupportedType, match=text):
            CODEC.check(type_)
    with pytest.raises(UnsupportedType):
        CODEC.encode(None, type_)
    with pytest.raises(UnsupportedType):
        CODEC.decode("null", type_)


def test_an_annotation_that_exists_only_for_type_checkers_is_found_early() -> None:
    with pytest.raises(UnresolvedAnnotation, match=r"Unresolved .*'Fraction'"):
        CODEC.check(list[Unresolved])


def test_an_annotation_that_does_not_parse_is_found_early() -> None:
    misspelt = make_dataclass("Misspelt", [("part", "list[int")])
    with pytest.raises(UnresolvedAnnotation, match="Misspelt cannot be resolved"):
        CODEC.check(misspelt)


def test_every_type_that_can_be_carried_passes_the_check() -> None:
    for type_, _ in ALL:
        CODEC.check(type_)
