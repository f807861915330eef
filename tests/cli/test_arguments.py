"""Arguments: from words to values."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import pytest

from workflow_engine import InvalidInput, WorkflowBody, workflow
from workflow_engine.cli.arguments import parse_value, read_arguments

from .conftest import CommandLine


class Size(Enum):
    SMALL = "small"


@dataclass
class Line:
    sku: str
    count: int = 1


def taking(type_: Any) -> Any:
    """A workflow with one parameter of a type."""

    def body(value: Any) -> WorkflowBody[None]:
        yield from ()

    body.__annotations__["value"] = type_
    return workflow(body)


@workflow
def several(
    one: int, two: str = "2", *rest: int, four: object = object(), **more: Line
) -> WorkflowBody[None]:
    yield from ()


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (int, "5", 5),
        (str, "5", "5"),
        (str, '"5"', "5"),
        (str, "hello", "hello"),
        (str, "null", "null"),
        (str, "[1]", "[1]"),
        (str | None, "null", None),
        (int | str, "5", 5),
        (Any, "5", 5),
        (Any, "five", "five"),
        (Any, "NaN", "NaN"),
        (Any, "", ""),
        (bool, "true", True),
        (float, "1", 1.0),
        (Decimal, "1.50", Decimal("1.50")),
        (date, "2030-01-31", date(2030, 1, 31)),
        (UUID, str(UUID(int=7)), UUID(int=7)),
        (Size, "SMALL", Size.SMALL),
        (list[int], "[1, 2]", [1, 2]),
        (tuple[int, str], '[1, "2"]', (1, "2")),
        (Line, '{"sku": "a"}', Line("a")),
        (dict[int, Line], '[[1, {"sku": "a", "count": 2}]]', {1: Line("a", 2)}),
    ],
)
def test_a_word_becomes_what_the_annotation_says(
    type_: Any, text: str, value: object
) -> None:
    for args, pairs in (((text,), ()), ((), (f"value={text}",))):
        positional, named = read_arguments(taking(type_), args, pairs, None)
        found = [*positional, *named.values()]
        assert found == [value]
        assert type(found[0]) is type(value)


@pytest.mark.parametrize(
    ("type_", "text", "problem"),
    [
        (int, "five", "parameter value: expected int: "),
        (int, "1.5", "parameter value: expected int: "),
        (bool, "yes", "parameter value: expected bool: "),
        (list[int], '[1, "two"]', "parameter value[1]: expected int: "),
        (Line, '{"sku": 1}', "parameter value.sku: expected str: "),
        (Line, '{"sku": "a", "size": 2}', "parameter value: expected "),
    ],
)
def test_a_word_that_does_not_fit_is_an_error_with_its_place(
    type_: Any, text: str, problem: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_arguments(taking(type_), (text,), (), None)
    assert problem in str(caught.value)


def test_only_what_is_given_is_passed_on() -> None:
    """A default is the body's business: it need not be a value that is recorded."""
    assert read_arguments(several, ("1",), (), None) == ((1,), {})
    assert read_arguments(several, (), ("one=1",), None) == ((1,), {})
    assert read_arguments(several, (), (), None) == ((), {})
    assert read_arguments(several, ("1",), ("four=5",), None) == ((1,), {"four": 5})


def test_every_kind_of_parameter_can_be_given() -> None:
    words = ("1", "2", "3", "4")
    pairs = ("four=4", 'x={"sku": "a"}', 'odd key={"sku": "b"}')
    assert read_arguments(several, words, pairs, None) == (
        (1, "2", 3, 4),
        {"four": 4, "x": Line("a"), "odd key": Line("b")},
    )


def test_each_word_is_taken_as_text_by_itself() -> None:
    with pytest.raises(InvalidInput, match=r"parameter rest\[1\]: expected int"):
        read_arguments(several, ("1", "2", "3", "four"), (), None)
    with pytest.raises(InvalidInput, match=r"parameter more\.x\.count: expected int"):
        read_arguments(several, ("1", "2"), ('x={"sku": "a", "count": "b"}',), None)


@pytest.mark.parametrize(
    ("words", "pairs", "problem"),
    [
        (("1", "2"), ("two=2",), "multiple values for argument 'two'"),
        ((), ("two=2",), "parameter one: expected int: it is missing"),
    ],
)
def test_words_must_fit_the_parameters(
    words: tuple[str, ...], pairs: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_arguments(several, words, pairs, None)
    assert problem in str(caught.value)
    assert "workflow 'several' cannot start with these arguments" in str(caught.value)


def test_too_many_words_or_an_unknown_name_say_what_it_takes() -> None:
    for words, pairs in ((("1", "2"), ()), ((), ("other=1",))):
        with pytest.raises(InvalidInput, match=r"it takes \(value: 'int'\)|value: int"):
            read_arguments(taking(int), words, pairs, None)


def file_of(text: str) -> io.StringIO:
    file = io.StringIO(text)
    file.name = "input.json"
    return file


def test_a_file_gives_arguments_by_name_and_never_as_text() -> None:
    given = read_arguments(several, (), ("two=5",), file_of('{"one": 1, "four": null}'))
    assert given == ((1, "5"), {"four": None})
    with pytest.raises(InvalidInput, match=r"parameter two: expected str"):
        read_arguments(several, ("1",), (), file_of('{"two": 5}'))


@pytest.mark.parametrize(
    ("pairs", "text", "problem"),
    [
        (("one=1",), '{"one": 1}', "one is given twice"),
        (("one=1", "one=2"), "{}", "'one' is given twice"),
        (("one",), "{}", "'one' is not NAME=VALUE"),
        ((), "[1]", "input.json holds no object of arguments by name"),
        ((), "{'one': 1}", "input.json is not JSON: "),
        ((), '{"one": NaN}', "input.json is not JSON: NaN is not JSON"),
    ],
)
def test_a_mistake_on_the_command_line_is_told(
    pairs: tuple[str, ...], text: str, problem: str
) -> None:
    with pytest.raises(click.BadParameter) as caught:
        read_arguments(several, (), pairs, file_of(text))
    assert problem in caught.value.message


def test_a_value_to_deliver_is_json_or_text() -> None:
    values = ("5", '"5"', "five", '{"a": [1]}', "Infinity")
    assert [parse_value(text) for text in values] == [
        5,
        "5",
        "five",
        {"a": [1]},
        "Infinity",
    ]


def test_the_input_may_come_from_a_file_or_from_standard_input(
    on: CommandLine, place: Path, effects: Callable[[], list[str]]
) -> None:
    (place / "order.json").write_text('{"order": {"id": "o-1"}, "gift": true}')
    on.ok("run", "flows:fulfil", "1", "--input", "order.json")
    result = on(
        "run", "flows:crash", "2", "--input", "-", input='{"order": {"id": "é"}}'
    )
    assert result.exit_code == 0
    assert effects() == ["reserve", "pay", "wrap", "reserve", "pay"]


def test_a_word_that_begins_with_a_dash_stands_after_two(on: CommandLine) -> None:
    assert on("run", "flows:echo", "1", "-5").exit_code == 2
    shown = on.ok("run", "--arg", 'a="b"', "--", "flows:echo", "-1", "-5", "--x")
    assert shown.endswith('completed [[-5, "--x"], {"a": "b"}]\n')
