"""Too large, too deep, too long; texts that do not fit, and hostile ones."""

from __future__ import annotations

import inspect
import json
import sys
from collections import OrderedDict, deque
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest

from tests.core.samples import (
    AN_ID,
    CODEC,
    Access,
    Address,
    Color,
    Model,
    Pair,
    Point,
    Price,
    Scores,
    Size,
    Tree,
    Validated,
    refusal,
    same,
    there_and_back,
)
from workflow_engine.core.codec import Codec
from workflow_engine.errors import ValueProblem

# --- limits ---------------------------------------------------------------------------


def test_a_payload_over_the_limit_is_refused_with_both_sizes() -> None:
    codec = Codec(max_bytes=100)
    assert codec.encode("a" * 98) == '"' + "a" * 98 + '"'
    for value, type_ in [("a" * 99, Any), ("a" * 99, str), (b"a" * 99, bytes)]:
        with pytest.raises(ValueProblem, match=r"takes \d+ bytes and the limit is 100"):
            codec.encode(value, type_)
    assert Codec(max_bytes=10).decode(Codec().encode("a" * 99)) == "a" * 99


def test_the_limit_is_four_mebibytes_unless_said_otherwise() -> None:
    size = 4 * 2**20
    assert len(Codec().encode("a" * (size - 2))) == size
    with pytest.raises(ValueProblem, match="4194305 bytes"):
        Codec().encode("a" * (size - 1))


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def chain(length: int) -> Tree:
    tree = Tree(0)
    for number in range(length):
        tree = Tree(number, parent=tree)
    return tree


def test_a_hundred_levels_are_carried_and_no_more() -> None:
    assert same(there_and_back(nested(100), Any), nested(100))
    assert "100 levels" in refusal(nested(101)).problem
    assert same(there_and_back({"a": nested(99)}, dict[str, Any]), {"a": nested(99)})
    assert "100 levels" in refusal({"a": nested(100)}, dict[str, Any]).problem
    assert same(there_and_back(chain(98), Tree), chain(98))
    assert "100 levels" in refusal(chain(99 + 1), Tree).problem
    assert "100 levels" in refusal(chain(100_000), Tree).problem


def test_a_value_that_contains_itself_is_refused() -> None:
    plain: list[Any] = []
    plain.append({"me": plain})
    tree = Tree(1)
    tree.children.append(tree)
    assert "contains itself" in refusal(plain).problem
    assert refusal(plain).path.startswith("$[0].me[0].me")
    assert len(refusal(plain).path) < 100
    assert "contains itself" in refusal(tree, Tree).problem


def test_a_stack_that_is_nearly_full_is_no_crash() -> None:
    tree = chain(90)
    text, limit = CODEC.encode(tree, Tree), sys.getrecursionlimit()
    for room in (60, 140):
        sys.setrecursionlimit(len(inspect.stack(0)) + room)
        try:
            with pytest.raises(ValueProblem, match="100 levels"):
                CODEC.encode(tree, Tree)
            with pytest.raises(ValueProblem, match="100 levels"):
                CODEC.decode(text, Tree)
        finally:
            sys.setrecursionlimit(limit)


@pytest.mark.parametrize("type_", [Any, list[Any], Tree, dict[str, Any]])
def test_a_text_nested_without_end_is_refused(type_: Any) -> None:
    for text in ["[" * 200_000, '{"parent":' * 200_000, "[" * 5000 + "]" * 5000]:
        with pytest.raises(ValueProblem):
            CODEC.decode(text, type_)


@pytest.mark.parametrize("type_", [Any, int, int | str, list[int]])
def test_an_int_with_too_many_digits_is_refused(type_: Any) -> None:
    value: Any = [10**4300] if type_ == list[int] else 10**4300
    assert "4300 digits" in refusal(value, type_).problem
    text = "9" * 5000
    with pytest.raises(ValueProblem):
        CODEC.decode(f"[{text}]" if type_ == list[int] else text, type_)


def test_an_interpreter_with_a_lower_limit_on_digits_refuses_too() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert "too many digits" in refusal(10**700).problem
    finally:
        sys.set_int_max_str_digits(before)


def test_a_character_split_in_two_is_refused() -> None:
    problem = refusal({"a": [b"", "\ud83d\ude00"]}, dict[str, list[bytes | str]])
    assert "surrogates" in problem.problem
    assert refusal({"a": ["\ud83d\ude00"]}).path == "$.a[0]"
    assert refusal({"\ud83d\ude00": 1}).path == "$"
    assert same(there_and_back(["\ud83d", "\ude00"], Any), ["\ud83d", "\ude00"])


# --- texts that do not fit ------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[1,]",
        "{'a':1}",
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e999",
        "01",
        "1 2",
    ],
)
def test_what_is_not_json_is_refused(text: str) -> None:
    for type_ in (Any, float, list[float], str):
        with pytest.raises(ValueProblem, match="not JSON"):
            CODEC.decode(text, type_)


@pytest.mark.parametrize(
    ("type_", "texts"),
    [
        (int, ["1.0", "1.9", '"1"', "true", "null"]),
        (bool, ['"no"', "0", "1", "null"]),
        (float, ['"1"', "true", "null", str(2**53 + 1)]),
        (str, ["1", "null", "[]"]),
        (type(None), ["0", '""', "false"]),
        (bytes, ['"a"', '"é"', "[1]", '"YQ"', '"Y Q=="']),
        (UUID, [json.dumps(f"{{{AN_ID}}}"), json.dumps(AN_ID.hex), '"x"', "1"]),
        (datetime, ['"2024-01-01"', '"2024-13-01T00:00:00"', "0"]),
        (date, ['"2024-01-01T00:00:00"', '"01/01/2024"']),
        (time, ['"25:00"', "12"]),
        (
            timedelta,
            ['"1:00"', '"P1D"', "5", '"P9999999999DT0S"', '"P999999999DT99999S"'],
        ),
        (Decimal, ['"NaN"', '"Infinity"', '"x"', "1.5", '"1E+99999999999999999999"']),
        (Color, ['"BLUE"', "[255,0,0]", '"__class__"', '"mro"', '"value"']),
        (Size, ["1", '"XL"']),
        (Access, ["8", '"READ"', "true", "-9"]),
        (Literal[1, "a"], ["true", "1.0", '"b"', "2"]),
        (list[int], ["{}", '"12"', "[1.5]", "[[1]]"]),
        (tuple[int, str], ["[1]", '[1,"a",2]', '["a",1]', "{}"]),
        (set[int], ["[1,1]", "{}"]),
        (set[Any], ["[[1]]", "[1,true]"]),
        (dict[str, int], ["[]", '{"a":"b"}', '[["a",1]]']),
        (dict[int, int], ["{}", "[[1]]", "[[1,2,3]]", "[1]", "[[1,1],[1,2]]"]),
        (dict[tuple[Any, ...], int], ["[[[[1]],1]]"]),
        (deque[int], ["{}", '["1"]', "[1.0]", '"12"']),
        (OrderedDict[str, int], ["[]", '{"a":"1"}', '[["a",1]]']),
        (Path, ["1", "null", '["a"]', "{}"]),
        (Point, ["{}", '{"x":1,"z":2}', '{"x":"1"}', "[1,2]", "null"]),
        (Pair, ["[1]", "{}", '{"left":1,"right":"r","more":1}']),
        (Address, ["{}", '{"street":"s","more":1}', "[]"]),
        (Validated, ['{"n":"x"}', "{}"]),
        (
            Model,
            ["{}", '{"name":1,"born":"2000-01-01"}', '{"name":"n","born":"x"}', "[]"],
        ),
        (Scores, ["{}", '["1"]']),
        (Point | Price, ["{}", "[]", '{"x":1,"amount":"1"}']),
    ],
)
def test_a_text_that_does_not_fit_is_refused(type_: Any, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ValueProblem):
            CODEC.decode(text, type_)
        with pytest.raises(ValueProblem) as caught:
            CODEC.decode(f'{{"k":[{text}]}}', dict[str, list[type_]])
        assert caught.value.path.startswith("$.k[0]")


def test_a_text_chooses_no_class_and_imports_nothing() -> None:
    assert "this" not in sys.modules
    hostile = [
        {"$type": "this.s", "value": {}},
        {"$type": "os.system", "value": "true"},
        {"py/object": "this.s", "py/reduce": []},
        {"__class__": "this.s"},
        {"$type": "Line", "value": {"article": "a"}},
        {"$type": ["Point"], "value": {}},
        {"$type": None, "value": {"x": 1}},
    ]
    for plain in hostile:
        text = json.dumps(plain)
        assert CODEC.decode(text) == plain
        for type_ in (Point, Point | Price, Point | None, UUID | str, Color, Model):
            with pytest.raises(ValueProblem):
                CODEC.decode(text, type_)
    assert "this" not in sys.modules
