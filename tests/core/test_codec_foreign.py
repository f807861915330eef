"""Classes that the codec does not know, by the hooks of a cattrs converter."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import cattrs
import pytest

from tests.core.samples import AN_ID, CODEC, Point, refusal, same, there_and_back
from workflow_engine.core.codec import Codec
from workflow_engine.errors import UnsupportedType, ValueProblem


class Money:
    """Somebody's class, without declared fields."""

    def __init__(self, amount: Any, currency: str) -> None:
        self.amount, self.currency = amount, currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.currency)


class Coin(Money):
    """Would come back as Money."""


def write(money: Money) -> Any:
    return [money.amount, money.currency]


def read(plain: Any, type_: Any) -> Money:
    return Money(*plain)


def codec(
    write: Callable[[Any], Any] = write,
    read: Callable[[Any, Any], Any] = read,
    type_: Any = Money,
) -> Codec:
    """A codec with hooks for a class."""
    converter = cattrs.Converter()
    converter.register_unstructure_hook(type_, write)
    converter.register_structure_hook(type_, read)
    return Codec(converter=converter)


def refused(codec: Codec, value: Any, type_: Any = Money) -> ValueProblem:
    with pytest.raises(ValueProblem) as caught:
        codec.encode(value, type_)
    return caught.value


FIVE = Money(5, "EUR")


@dataclass
class Bill:
    total: Money
    paid: Money | None = None


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (Money, FIVE, '[5,"EUR"]'),
        (Money | None, FIVE, '[5,"EUR"]'),
        (Money | None, None, "null"),
        (list[Money], [FIVE, FIVE], '[[5,"EUR"],[5,"EUR"]]'),
        (dict[str, Money], {"a": FIVE}, '{"a":[5,"EUR"]}'),
        (dict[Money, int], {FIVE: 1}, '[[[5,"EUR"],1]]'),
        (set[Money], {FIVE}, '[[5,"EUR"]]'),
        (OrderedDict[str, Money], OrderedDict(a=FIVE), '{"a":[5,"EUR"]}'),
        (Bill, Bill(FIVE), '{"total":[5,"EUR"],"paid":null}'),
        (Money | str, FIVE, '{"$type":"Money","value":[5,"EUR"]}'),
        (Money | Path, Path("a"), '{"$type":"Path","value":"a"}'),
    ],
)
def test_a_class_with_hooks_is_carried_in_every_position(
    type_: Any, value: Any, text: str
) -> None:
    carrying = codec()
    carrying.check(type_)
    assert carrying.encode(value, type_) == text
    back = carrying.decode(text, type_)
    assert (back, type(back)) == (value, type(value))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (Path, Path("a/b")),
        (defaultdict[str, int], defaultdict(int, a=1)),
        (Counter[str], Counter("aab")),
    ],
)
def test_some_classes_are_carried_without_a_converter(type_: Any, value: Any) -> None:
    assert same(there_and_back(value, type_), value)


@pytest.mark.parametrize(
    ("type_", "value"), [(int, 1), (UUID, AN_ID), (Point, Point(1)), (deque, deque())]
)
def test_hooks_for_what_is_carried_anyway_change_nothing(
    type_: Any, value: Any
) -> None:
    meddling = codec(lambda _: "other", lambda *_: value, type_)
    text = meddling.encode(value, type_)
    assert text == CODEC.encode(value, type_)
    assert same(meddling.decode(text, type_), value)
    for wrong in ("other", None):
        assert refused(meddling, wrong, type_).path == "$"
        with pytest.raises(ValueProblem):
            meddling.decode(CODEC.encode(wrong), type_)


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (lambda plain, _: Money(plain[0] + 1, plain[1]), "read back as another Money"),
        (lambda plain, _: Coin(*plain), "read back as another Coin"),
        (lambda plain, _: plain, "structure hook gave list; make it give"),
        (lambda plain, _: Money(float(plain[0]), plain[1]), "changes what it is given"),
    ],
    ids=["value", "subclass", "class", "only ==-equal"],
)
def test_hooks_that_read_back_something_else_are_refused(
    read: Callable[[Any, Any], Any], found: str
) -> None:
    lying = codec(read=read)
    assert found in refused(lying, FIVE).problem
    assert refused(lying, {"k": [FIVE]}, dict[str, list[Money]]).path[:6] == "$.k[0]"


def test_a_class_that_compares_by_identity_is_refused() -> None:
    class Bare:
        """Has no __eq__."""

    bare = codec(lambda _: 1, lambda *_: Bare(), Bare)
    assert "its class compare by value" in refused(bare, Bare(), Bare).problem


def test_a_comparison_that_raises_is_a_refusal() -> None:
    class Rude:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("never")

        __hash__ = None  # type: ignore[assignment]

    rude = codec(lambda _: 1, lambda *_: Rude(), Rude)
    assert "__eq__ raised RuntimeError: never" in refused(rude, Rude(), Rude).problem


def test_what_a_builtins_own_comparison_does_not_see_counts() -> None:
    class Named(dict[str, int]):
        name = "none"

    assert same(there_and_back(Named(a=1), Named), Named(a=1))
    named = Named(a=1)
    named.name = "some"
    assert "another Named" in refusal(named, Named).problem
    counts = defaultdict(lambda: 7, a=1)
    assert "another defaultdict" in refusal(counts, defaultdict[str, int]).problem


def test_lists_that_were_tuples_must_not_matter() -> None:
    kept = codec(write=lambda money: (money.amount, money.currency))
    pair = Money((1, 2), "EUR")
    assert kept.encode(FIVE, Money) == '[5,"EUR"]'
    assert "another Money" in refused(kept, pair).problem


def unlucky(*_: Any) -> Any:
    raise RuntimeError("unlucky")


def test_a_hook_that_raises_is_a_refusal_with_its_path() -> None:
    problem = refused(codec(write=unlucky), [FIVE], list[Money])
    assert (problem.path, problem.expected) == ("$[0]", "Money")
    assert "unstructure hook raised RuntimeError: unlucky; " in problem.problem
    problem = refused(codec(read=unlucky), [FIVE], list[Money])
    assert (problem.path, problem.expected) == ("$[0]", "Money")
    with pytest.raises(ValueProblem) as caught:
        codec(read=unlucky).decode('{"a":[1,"EUR"]}', dict[str, Money])
    assert (caught.value.path, caught.value.expected) == ("$.a", "Money")
    assert "structure hook raised RuntimeError: unlucky; " in caught.value.problem


@pytest.mark.parametrize("detailed", [True, False])
def test_the_path_goes_on_inside_what_the_converter_reads(detailed: bool) -> None:
    @attrs.define
    class Inner:
        counts: list[int]

    converter = cattrs.Converter(detailed_validation=detailed)
    converter.register_unstructure_hook(Money, write)
    converter.register_structure_hook(
        Money,
        lambda plain, _: Money(converter.structure(plain, dict[str, Inner]), "EUR"),
    )
    with pytest.raises(ValueProblem) as caught:
        Codec(converter=converter).decode('[{"a b":{"counts":[1,"x"]}}]', list[Money])
    inside = '["a b"].counts[1]' if detailed else ""
    assert caught.value.path == "$[0]" + inside
    assert "ValueError: invalid literal" in caught.value.problem


@pytest.mark.parametrize(
    ("written", "path", "found"),
    [
        (Fraction(1), "$", "gave no plain JSON (found fractions.Fraction)"),
        ({"a": [b"x"]}, "$.a[0]", "gave no plain JSON (found bytes)"),
        ({1: 2}, "$", "gave no plain JSON (key 1 is int"),
        (float("nan"), "$", "gave no plain JSON (found the float nan"),
        (None, "$", "gave None; give something else"),
    ],
)
def test_hooks_must_write_plain_json(written: Any, path: str, found: str) -> None:
    problem = refused(codec(write=lambda _: written), FIVE)
    assert (problem.path, problem.expected) == (path, "Money")
    assert found in problem.problem


def test_a_value_of_another_class_is_refused() -> None:
    for value in (None, 5, "EUR", [5, "EUR"], Fraction(5)):
        assert refused(codec(), value).path == "$"
    assert "another Money" in refused(codec(), Coin(5, "EUR")).problem


def test_subclasses_are_carried_where_the_hooks_tell_them_apart() -> None:
    classes = {"Money": Money, "Coin": Coin}
    telling = codec(
        lambda money: [type(money).__name__, money.amount, money.currency],
        lambda plain, _: classes[plain[0]](*plain[1:]),
    )
    for value in (FIVE, Coin(1, "EUR")):
        back = telling.decode(telling.encode(value, Money | None), Money | None)
        assert type(back) is type(value)
        assert back == value


# --- types without hooks --------------------------------------------------------------


def only_structure(converter: cattrs.Converter) -> None:
    converter.register_structure_hook(Money, read)


def only_unstructure(converter: cattrs.Converter) -> None:
    converter.register_unstructure_hook(Money, write)


@pytest.mark.parametrize("register", [None, only_structure, only_unstructure])
@pytest.mark.parametrize("type_", [Money, list[Money], dict[str, Money | None], Bill])
def test_a_type_without_both_hooks_is_found_early(
    register: Callable[[cattrs.Converter], None] | None, type_: Any
) -> None:
    converter = cattrs.Converter()
    if register is not None:
        register(converter)
    for lacking in (Codec(), Codec(converter=converter)):
        with pytest.raises(UnsupportedType) as caught:
            lacking.check(type_)
        assert str(caught.value).startswith("Money cannot be stored")
        assert "register hooks on a cattrs Converter and pass Engine(converter=" in str(
            caught.value
        )


def test_hooks_may_be_registered_until_they_are_needed() -> None:
    converter = cattrs.Converter()
    late = Codec(converter=converter)
    with pytest.raises(UnsupportedType):
        late.check(Money)
    only_structure(converter)
    only_unstructure(converter)
    assert late.encode(FIVE, Money) == '[5,"EUR"]'


def test_a_hook_factory_that_raises_is_found_early() -> None:
    converter = cattrs.Converter()
    converter.register_structure_hook_factory(lambda type_: type_ is Money, unlucky)
    with pytest.raises(UnsupportedType, match="RuntimeError: unlucky"):
        Codec(converter=converter).check(list[Money])
