"""Values of classes that only a cattrs converter knows."""

from __future__ import annotations

from collections import OrderedDict, deque
from pathlib import Path
from typing import Any

import attrs
import cattrs
import pytest

from workflow_engine import (
    Await,
    Completed,
    ContinueAsNew,
    CurrentGeneration,
    Failed,
    Step,
    Suspended,
    UnsupportedType,
    Workflow,
    WorkflowBody,
    restore_seed,
    workflow,
)
from workflow_engine.testing import Crashes, ProcessDied

from .bench import LEASE, Bench


class Money:
    """Somebody's class, without declared fields."""

    def __init__(self, amount: int, currency: str) -> None:
        self.amount, self.currency = amount, currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"Money({self.amount}, {self.currency})"


@attrs.frozen
class Bill:
    total: Money
    scan: Path | None = None


def read(plain: Any, _: Any) -> Money:
    amount, _, currency = plain.partition(" ")
    return Money(int(amount), currency)


def hooked(read: Any = read) -> cattrs.Converter:
    converter = cattrs.Converter()
    converter.register_unstructure_hook(Money, lambda m: f"{m.amount} {m.currency}")
    converter.register_structure_hook(Money, read)
    return converter


FIVE, SEVEN = Money(5, "EUR"), Money(7, "USD")
CARRIED: dict[str, tuple[Any, Any]] = {
    "own": (Money, FIVE),
    "path": (Path, Path("/a/b")),
    "deque": (deque[Money], deque([FIVE, SEVEN])),
    "ordered": (OrderedDict[str, Path], OrderedDict(b=Path("b"), a=Path("a"))),
    "field": (Bill, Bill(FIVE, Path("scan.pdf"))),
    "item": (list[Money], [FIVE, SEVEN]),
    "value": (dict[str, Money | None], {"a": FIVE, "b": None}),
    "union": (Money | Path | str, Path("a")),
}


def carrying(type_: Any, value: Any, seen: list[str], name: str) -> Workflow[..., Any]:
    """A workflow that records the value in every place, and notes what it sees."""

    def body(given: Any) -> Any:
        seen.append(repr(given))
        seen.append(repr((yield restore_seed(value, returns=type_))))
        seen.append(repr((yield Step("first", lambda: value).returns(type_))))
        seen.append(repr((yield Await("wake", returns=type_))))
        yield Step("second", lambda: None)
        if not (yield CurrentGeneration()):
            yield ContinueAsNew(value, returns=type_)
        return value

    body.__annotations__ = {"given": type_, "return": WorkflowBody[type_]}
    return workflow(name=name)(body)


def test_foreign_values_survive_everywhere_live_and_after_a_crash(bench: Bench) -> None:
    seen: list[str] = []
    flows = [carrying(*CARRIED[name], seen, name) for name in CARRIED]
    engine = bench.engine(*flows, converter=hooked())
    crashes = Crashes()
    dying = bench.engine(*flows, converter=hooked(), points=crashes)

    def saw(value: Any, places: int) -> bool:
        shown = list(seen)
        seen.clear()
        return shown == [repr(value)] * places

    for name, (type_, value) in CARRIED.items():
        assert engine.run(name, "1", value) == Suspended(("wake",))
        assert saw(value, 3)
        assert engine.resolve(name, "1", "wake", value, returns=type_)
        crashes.at("after_step", "second")
        with pytest.raises(ProcessDied):
            dying.run(name, "1")
        assert saw(value, 4)
    bench.clock.advance(LEASE)
    again = bench.engine(*flows, converter=hooked()).with_options(page_size=3)
    for name, (type_, value) in CARRIED.items():
        assert again.run(name, "1", value) == Suspended(("wake",))
        assert saw(value, 4 + 3)
        assert again.resolve(name, "1", "wake", value, returns=type_)
        assert again.run(name, "1") == Completed(value)
        assert saw(value, 4)
        assert again.handle(name, "1").result() == value


def test_a_class_without_hooks_is_found_before_anything_runs(bench: Bench) -> None:
    @workflow
    def paying() -> WorkflowBody[Money]:
        return (yield from Step("pay", bench.do, "pay", FIVE).returns(Money))

    bare = bench.engine(paying, converter=cattrs.Converter())
    for engine in (bench.engine(paying), bare):
        with pytest.raises(UnsupportedType, match=r"pass Engine\(converter=\.\.\.\)"):
            engine.run(paying, "1")
    assert bench.done == []


def test_a_hook_that_lies_fails_the_step_that_returned_the_value(bench: Bench) -> None:
    @workflow
    def paying() -> WorkflowBody[None]:
        yield Step("pay", bench.do, "pay", FIVE).returns(Money)

    lying = hooked(lambda plain, _: Money(0, plain))
    ending = bench.engine(paying, converter=lying).run(paying, "1")
    assert isinstance(ending, Failed)
    assert "step 'pay': cannot record the value at $ as Money" in ending.reason
    assert "read back as another Money" in ending.reason
