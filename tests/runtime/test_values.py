"""Values keep their type in every place where they are recorded."""

from __future__ import annotations

import dataclasses
import enum
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, NewType
from uuid import UUID

import attrs
import pydantic
import pytest

from workflow_engine import (
    Await,
    Completed,
    ContinueAsNew,
    ContinuedAsNew,
    CurrentGeneration,
    Failed,
    Step,
    Suspended,
    Workflow,
    WorkflowBody,
    restore_seed,
    workflow,
)
from workflow_engine.testing import Crashes, ProcessDied

from .bench import LEASE, Bench


@dataclasses.dataclass(frozen=True)
class Line:
    article: str
    price: Decimal


@dataclasses.dataclass
class Order:
    lines: list[Line]
    due: date | None = None


@attrs.frozen
class Parcel:
    weight: float
    inside: tuple[Order, ...]


class Customer(pydantic.BaseModel):
    name: str
    since: date


class Colour(enum.Enum):
    RED = "red"
    GREEN = ("gr", "een")


Amount = NewType("Amount", int)
ORDER = Order(
    [Line("tea", Decimal("1.10")), Line("pot", Decimal(20))], date(2030, 2, 1)
)

CARRIED: dict[str, tuple[Any, Any]] = {
    "dataclass": (Order, ORDER),
    "attrs": (Parcel, Parcel(1.5, (ORDER, Order([])))),
    "pydantic": (Customer, Customer(name="Ada", since=date(2030, 1, 1))),
    "enum": (Colour, Colour.GREEN),
    "uuid": (UUID, UUID(int=7)),
    "datetime": (datetime, datetime(2030, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)),
    "date": (date, date(2030, 1, 2)),
    "timedelta": (timedelta, timedelta(days=-1, microseconds=1)),
    "decimal": (Decimal, Decimal("1.100")),
    "bytes": (bytes, b"\x00\xff"),
    "tuple": (tuple[int, str], (1, "a")),
    "set": (set[int], {3, 1}),
    "frozenset": (frozenset[UUID], frozenset([UUID(int=1)])),
    "newtype": (Amount, Amount(4)),
    "literal": (Literal["a", 1], 1),
    "optional": (Order | None, None),
    "union": (Line | Colour, Colour.RED),
    "list of dataclass": (list[Line], ORDER.lines),
    "dict with int keys": (dict[int, Line], {1: Line("tea", Decimal(1))}),
    "dict with tuple keys": (dict[tuple[int, str], date], {(1, "a"): date(2030, 1, 1)}),
}


def carrying(
    bench: Bench, type_: Any, value: Any, seen: list[str], name: str
) -> Workflow[..., Any]:
    """A workflow that records the value in every place, and notes what it sees."""

    def body(given: Any) -> Any:
        seen.append(repr(given))
        seen.append(repr((yield restore_seed(value, returns=type_))))
        step = Step("first", bench.do, "first", value).returns(type_)
        seen.append(repr((yield step)))
        seen.append(repr((yield Await("wake", returns=type_))))
        yield Step("second", bench.do, "second")
        if not (yield CurrentGeneration()):
            yield ContinueAsNew(value, returns=type_)
        return value

    body.__annotations__ = {"given": type_, "return": WorkflowBody[type_]}
    return workflow(name=name)(body)


def test_values_keep_their_types_everywhere_live_and_after_a_crash(
    bench: Bench,
) -> None:
    seen: list[str] = []
    carry = {
        name: carrying(bench, type_, value, seen, name)
        for name, (type_, value) in CARRIED.items()
    }
    crashes = Crashes()
    engine = bench.engine(*carry.values(), follow=False)
    dying = bench.engine(*carry.values(), points=crashes)

    def saw(value: Any, places: int) -> bool:
        shown = list(seen)
        seen.clear()
        return shown == [repr(value)] * places

    for name, (type_, value) in CARRIED.items():
        assert engine.run(name, "1", value) == Suspended(("wake",))
        # The input, the seed, the result of the step.
        assert saw(value, 3)
        assert engine.resolve(name, "1", "wake", value, returns=type_)
    for generation in range(2):
        for name, (_, value) in CARRIED.items():
            crashes.at("after_step", "second")
            with pytest.raises(ProcessDied):
                dying.run(name, "1")
            assert saw(value, 4)
        bench.clock.advance(LEASE)
        for name, (type_, value) in CARRIED.items():
            ended = engine.run(name, "1", value)
            assert saw(value, 4)
            if generation == 0:
                assert ended == ContinuedAsNew(1)
                assert engine.resolve(name, "1", "wake", value, returns=type_)
            else:
                assert repr(ended) == repr(Completed(value))
                assert engine.handle(name, "1").result() == value
    assert bench.calls("first") == 2 * len(CARRIED)


def test_a_step_result_is_typed_by_the_functions_annotation(bench: Bench) -> None:
    def order() -> Order:
        return ORDER

    async def later() -> Colour:
        return Colour.RED

    @workflow
    def typed() -> WorkflowBody[tuple[Order, Colour]]:
        placed = yield from Step("order", order)
        colour = yield from Step("colour", later)
        yield Await("go")
        return placed, colour

    engine = bench.engine(typed)
    engine.run(typed, "1")
    engine.resolve(typed, "1", "go", None)
    assert engine.run(typed, "1") == Completed((ORDER, Colour.RED))


def test_what_is_declared_with_returns_wins_over_the_annotation(bench: Bench) -> None:
    def order() -> Any:
        return ORDER

    @workflow
    def typed() -> WorkflowBody[Order]:
        return (yield from Step("order", order).returns(Order))

    assert bench.engine(typed).run(typed, "1") == Completed(ORDER)


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ((1, (2, 3)), [1, [2, 3]]),
        ({"a": (1,)}, {"a": [1]}),
        ([1, 2.0, "x", None, True], [1, 2.0, "x", None, True]),
    ],
)
def test_an_undeclared_value_is_plain_json_on_the_first_run_too(
    bench: Bench, raw: Any, plain: Any
) -> None:
    seen = []

    @workflow
    def undeclared() -> WorkflowBody[Any]:
        seen.append((yield Step("a", bench.do, "a", raw)))
        yield Await("go")
        return seen[-1]

    engine = bench.engine(undeclared)
    engine.run(undeclared, "1")
    engine.resolve(undeclared, "1", "go", None)
    assert engine.run(undeclared, "1") == Completed(plain)
    assert repr(seen) == repr([plain, plain])


@pytest.mark.parametrize("raw", [{1: "a"}, {1, 2}, b"x", Decimal(1), float("inf")])
def test_what_plain_json_cannot_say_is_an_error_at_once(
    sqlite_bench: Bench, raw: Any
) -> None:
    @workflow
    def undeclared() -> WorkflowBody[None]:
        yield Step("a", sqlite_bench.do, "a", raw)

    ending = sqlite_bench.engine(undeclared).run(undeclared, "1")
    assert isinstance(ending, Failed)
    assert "step 'a': cannot record the value at $ as plain JSON" in ending.reason
    assert sqlite_bench.done == ["a"]


@pytest.mark.parametrize(
    ("declared", "raw"),
    [(int, 1.9), (int, "1"), (bool, "no"), (int, True), (str, None), (Line, {"a": 1})],
)
def test_a_result_of_another_type_fails_on_the_first_run(
    sqlite_bench: Bench, declared: Any, raw: Any
) -> None:
    @workflow
    def wrong() -> WorkflowBody[None]:
        yield Step("a", sqlite_bench.do, "a", raw).returns(declared)

    engine = sqlite_bench.engine(wrong)
    ending = engine.run(wrong, "1")
    assert isinstance(ending, Failed)
    assert f"at $ as {declared.__name__}" in ending.reason
    assert [entry.kind for entry in engine.journal(wrong, "1")] == ["failed"]


def test_changing_a_value_afterwards_changes_no_journal(bench: Bench) -> None:
    kept = [1]

    def give() -> list[int]:
        return kept

    @workflow
    def changing(given: list[int]) -> WorkflowBody[list[list[int]]]:
        given.append(0)
        result = yield from Step("a", give)
        result.append(2)
        kept.append(3)
        yield Step("b", bench.do, "b")
        return [given, result]

    given = [9]
    engine = bench.engine(changing)
    bench.crash(changing, "1", given, at="after_step", of="b")
    assert engine.journal(changing, "1")[0].value == [1]
    assert engine.run(changing, "1", [9]) == Completed([[9, 0], [1, 2]])
    assert given == [9]


def test_arguments_and_options_given_to_steps_are_left_as_they_are(
    bench: Bench,
) -> None:
    options = {"colour": "red", "extra": {"deep": [1]}}
    before = json.dumps(options)
    step = Step("a", bench.do, "a", options)

    @workflow
    def sharing() -> WorkflowBody[list[Any]]:
        first = yield step
        changed = step.returns(dict[str, Any]).raises(ValueError)
        assert changed != step
        assert (step.declared, step.raised) != (changed.declared, changed.raised)
        second = yield Step("b", bench.do, "b", options)
        first["colour"] = "blue"
        return [first, second]

    bench.engine(sharing).run(sharing, "1")
    assert json.dumps(options) == before


@pytest.mark.parametrize("value", [0, -0.0, "", "\0 \ud7ff \U0001f600 \u2028", [], {}])
def test_values_at_the_edge_of_json_survive_both_databases(
    bench: Bench, value: Any
) -> None:
    @workflow
    def edge(given: Any) -> WorkflowBody[Any]:
        result: Any = yield Step("a", bench.do, "a", given)
        return result

    engine = bench.engine(edge)
    engine.run(edge, "1", value)
    assert repr(bench.engine(edge).run(edge, "1")) == repr(Completed(value))


def test_everything_that_is_stored_is_ascii_json(bench: Bench) -> None:
    @workflow
    def order(order: Order) -> WorkflowBody[Parcel]:
        yield restore_seed(Colour.RED)
        yield Step("ok", bench.do, "ok", "é\0").returns(str)
        try:
            yield Step("no", bench.fail, "no", ValueError("é"))
        except Exception:  # noqa: BLE001 - the step's
            yield Await("wake", returns=set[int])
        return Parcel(1.0, (order,))

    engine = bench.engine(order)
    engine.run(order, "1", ORDER)
    engine.resolve(order, "1", "wake", {1}, returns=set[int])
    engine.run(order, "1")
    texts = [
        row[0]
        for row in bench.execute("SELECT payload FROM wf_journal ORDER BY position")
    ]
    texts += list(bench.execute("SELECT input, result, tags FROM wf_instances")[0])
    assert len(texts) == 8
    for text in texts:
        assert text is not None
        assert text.isascii()
        json.loads(text)


def test_a_payload_that_names_a_class_calls_nothing(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[Any]:
        result: Any = yield Step("a", bench.do, "a", 1)
        yield Await("go")
        return result

    named = {"$type": "os:system", "py/object": "os.system", "args": ["touch /x"]}
    engine = bench.engine(order)
    engine.run(order, "1")
    bench.overwrite("a", named)
    engine.resolve(order, "1", "go", None)
    assert engine.run(order, "1") == Completed(named)


def test_an_exception_named_by_a_record_is_looked_up_nowhere(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[str]:
        try:
            yield Step("a", bench.fail, "a", ValueError("x")).raises(ValueError)
        except Exception as error:  # noqa: BLE001 - whatever comes back
            yield Await("go")
            return type(error).__name__
        return "nothing"

    engine = bench.engine(order)
    engine.run(order, "1")
    record = json.loads(
        bench.execute("SELECT payload FROM wf_journal ORDER BY position")[0][0]
    )
    assert record["declared"] == "builtins:ValueError"
    bench.overwrite("a", record | {"declared": "os:system", "args": ["touch /x"]})
    engine.resolve(order, "1", "go", None)
    assert engine.run(order, "1") == Completed("StepFailed")
