"""What holds for every type and every value, tried on generated ones."""

from __future__ import annotations

import json
import string
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, Union
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.samples import CODEC, PARIS, Box, Color, Price, same, there_and_back
from workflow_engine.errors import ValueProblem

_text = st.text(st.characters(exclude_categories=[]), max_size=5).filter(
    lambda text: text == json.loads(json.dumps(text))
)
_leaves: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (bool, st.booleans()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, _text),
    (bytes, st.binary(max_size=4)),
    (UUID, st.uuids()),
    (datetime, st.datetimes(timezones=st.sampled_from([None, UTC, PARIS]))),
    (date, st.dates()),
    (timedelta, st.timedeltas()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (Color, st.sampled_from(Color)),
    (Literal[1, "a"], st.sampled_from([1, "a"])),
    (Price, st.builds(Price, amount=st.decimals(-9, 9), currency=_text)),
]
Typed = tuple[Any, st.SearchStrategy[Any]]


# What is subscripted is only known when a test runs.
_list: Any = list
_tuple: Any = tuple
_dict: Any = dict
_frozenset: Any = frozenset
_box: Any = Box


def _wider(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    keys, two = st.sampled_from(_leaves), st.tuples(inner, inner)
    return st.one_of(
        inner.map(lambda t: (_list[t[0]], st.lists(t[1], max_size=3))),
        inner.map(lambda t: (_box[t[0]], st.builds(Box, t[1]))),
        inner.map(lambda t: (t[0] | None, st.none() | t[1])),
        keys.map(lambda t: (_frozenset[t[0]], st.frozensets(t[1], max_size=3))),
        two.map(lambda t: (_tuple[t[0][0], t[1][0]], st.tuples(t[0][1], t[1][1]))),
        two.map(lambda t: (Union[t[0][0], t[1][0]], t[0][1] | t[1][1])),  # noqa: UP007
        st.tuples(keys, inner).map(
            lambda t: (
                _dict[t[0][0], t[1][0]],
                st.dictionaries(t[0][1], t[1][1], max_size=2),
            )
        ),
    )


_typed: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from(_leaves), _wider, max_leaves=4
)
_quick = settings(max_examples=60, deadline=None)


@_quick
@given(_typed, st.data())
def test_any_value_of_any_type_survives(typed: Typed, data: st.DataObject) -> None:
    type_, values = typed
    value = data.draw(values)
    assert same(there_and_back(value, type_), value)


@_quick
@given(_typed, _typed, st.data())
def test_a_value_of_another_type_is_refused_or_survives(
    typed: Typed, other: Typed, data: st.DataObject
) -> None:
    value = data.draw(other[1])
    try:
        text = CODEC.encode(value, typed[0])
    except ValueProblem:
        return
    # Only an int that is taken for a float may change its type.
    assert CODEC.decode(text, typed[0]) == value


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _text,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            _text | st.sampled_from(["$type", "value"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@_quick
@given(_typed, _json)
def test_what_can_be_read_can_be_written(typed: Typed, plain: Any) -> None:
    type_, _ = typed
    try:
        value = CODEC.decode(json.dumps(plain), type_)
    except ValueProblem:
        return
    assert same(there_and_back(value, type_), value)


@_quick
@given(st.text(string.printable + "\ud800\0é", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = CODEC.decode(text)
    except ValueProblem:
        return
    assert same(there_and_back(value, Any), value)
