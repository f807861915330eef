"""What a body sees of a step that raised, and when that is recorded."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from workflow_engine import (
    Completed,
    Step,
    StepFailed,
    WorkflowBody,
    WorkflowFailed,
    workflow,
)

from .bench import Bench


class PaymentDeclined(Exception):
    """Its arguments rebuild it."""


class Refused(PaymentDeclined):
    """A subclass, which is not declared."""


class Demanding(Exception):
    """Its arguments do not rebuild it."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status


class Unshowable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def caught(
    bench: Bench, error: BaseException, *declared: type[Exception]
) -> tuple[BaseException, BaseException]:
    """What a body catches: on the first run, and on a replay after a crash."""
    seen: list[BaseException] = []

    @workflow
    def catching() -> WorkflowBody[None]:
        try:
            yield Step("a", bench.fail, "a", error).raises(*declared)
        except Exception as raised:  # noqa: BLE001 - all of them
            seen.append(raised)
        yield Step("b", bench.do, "b")

    bench.crash(catching, "1", at="after_step", of="b")
    assert bench.engine(catching).run(catching, "1") == Completed(None)
    assert bench.done == ["a", "b", "b"]
    first, again = seen
    return first, again


def test_a_failure_is_thrown_at_the_yield_as_type_message_and_traceback(
    bench: Bench,
) -> None:
    for error in caught(bench, ValueError("no stock")):
        assert isinstance(error, StepFailed)
        assert (error.step, error.type_name, error.message) == (
            "a",
            "ValueError",
            "no stock",
        )
        assert str(error) == "step 'a' failed: ValueError: no stock"
        assert "bench.py" in error.remote_traceback
        assert "raise error" in error.remote_traceback


def test_a_replay_is_thrown_the_same_text_byte_by_byte(bench: Bench) -> None:
    first, again = caught(bench, ValueError("no stock"))
    assert isinstance(first, StepFailed)
    assert isinstance(again, StepFailed)
    assert first.facts == again.facts
    assert repr(first) == repr(again)


def test_a_step_fed_with_a_failures_text_is_fed_the_same_after_a_crash(
    bench: Bench,
) -> None:
    sent: list[tuple[str, str]] = []

    def send(*texts: str) -> None:
        sent.append((texts[0], texts[1]))

    @workflow
    def reporting() -> WorkflowBody[None]:
        try:
            yield Step("a", bench.fail, "a", ValueError("x"))
        except StepFailed as error:
            yield Step("report", send, repr(error), error.remote_traceback)

    bench.crash(reporting, "1", at="after_step", of="report")
    bench.engine(reporting).run(reporting, "1")
    first, again = sent
    assert first == again


def test_a_declared_exception_comes_as_itself(bench: Bench) -> None:
    for error in caught(bench, PaymentDeclined("card", 7), PaymentDeclined):
        assert type(error) is PaymentDeclined
        assert error.args == ("card", 7)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("not declared"),
        Refused("a subclass of what is declared"),
        PaymentDeclined(object()),
        PaymentDeclined((1, 2)),
    ],
)
def test_every_other_exception_comes_as_step_failed(
    sqlite_bench: Bench, error: Exception
) -> None:
    for found in caught(sqlite_bench, error, PaymentDeclined):
        assert isinstance(found, StepFailed)
        assert found.type_name == type(error).__name__


def test_an_exception_that_cannot_be_rebuilt_comes_as_step_failed(bench: Bench) -> None:
    for error in caught(bench, Demanding(402, "card"), Demanding):
        assert isinstance(error, StepFailed)
        assert (error.type_name, error.message) == ("Demanding", "402: card")


def test_an_exception_that_cannot_be_rebuilt_can_be_shown_and_listed(
    bench: Bench,
) -> None:
    @workflow
    def demanding() -> WorkflowBody[None]:
        yield Step("a", bench.fail, "a", Demanding(402, "card"))

    engine = bench.engine(demanding)
    handle = engine.start(demanding, "1")
    engine.worker(max_attempts=1).run_once()
    assert (
        engine.list()[0].reason == "StepFailed: step 'a' failed: Demanding: 402: card"
    )
    with pytest.raises(WorkflowFailed, match="Demanding: 402: card"):
        handle.result()


def test_a_class_raised_without_a_text_shows_its_type(bench: Bench) -> None:
    for error in caught(bench, ValueError()):
        assert isinstance(error, StepFailed)
        assert (error.type_name, error.message) == ("ValueError", "")
        assert str(error) == "step 'a' failed: ValueError"


def test_an_exception_without_a_text_shows_its_type_in_the_reason(bench: Bench) -> None:
    @workflow
    def bare() -> WorkflowBody[None]:
        yield Step("a", bench.do, "a")
        raise KeyError

    engine = bench.engine(bare)
    engine.start(bare, "1")
    engine.worker(max_attempts=1).run_once()
    assert engine.describe(bare, "1").reason == "KeyError"


def test_an_exception_whose_text_raises_is_still_a_failure(bench: Bench) -> None:
    for error in caught(bench, Unshowable()):
        assert isinstance(error, StepFailed)
        assert error.type_name == "Unshowable"


def test_a_step_that_exits_fails_like_any_other(bench: Bench) -> None:
    for error in caught(bench, SystemExit(3)):
        assert isinstance(error, StepFailed)
        assert (error.type_name, error.message) == ("SystemExit", "3")


def itself() -> BaseException:
    error = ValueError("e")
    error.__cause__ = error
    return error


def a_pair() -> BaseException:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def a_long_chain() -> BaseException:
    last: BaseException = ValueError("first")
    for number in range(10_000):
        following = ValueError(f"number {number}")
        following.__cause__, last = last, following
    return last


def a_group() -> BaseException:
    deep = ExceptionGroup("deep", [ValueError("a"), KeyError("b")])
    return ExceptionGroup("wide", [deep, *(ValueError(str(n)) for n in range(1_000))])


def a_long_text() -> BaseException:
    return ValueError("x" * 1_000_000)


@pytest.mark.parametrize("make", [itself, a_pair, a_long_chain, a_group, a_long_text])
def test_what_is_recorded_of_an_error_is_bounded(
    sqlite_bench: Bench, make: Callable[[], BaseException]
) -> None:
    first, again = caught(sqlite_bench, make())
    assert isinstance(first, StepFailed)
    assert isinstance(again, StepFailed)
    assert first.facts == again.facts
    payload = sqlite_bench.execute("SELECT payload FROM wf_journal ORDER BY position")[
        0
    ][0]
    assert len(payload) < 50_000
    assert first.type_name in first.remote_traceback


def test_a_body_that_crashes_with_a_cyclic_cause_is_recorded(bench: Bench) -> None:
    @workflow
    def cyclic() -> WorkflowBody[None]:
        yield Step("a", bench.do, "a")
        raise itself()

    engine = bench.engine(cyclic)
    engine.start(cyclic, "1")
    assert engine.worker().run_once().paced == 1
    assert engine.describe(cyclic, "1").reason == "ValueError: e"


def test_an_observer_that_raises_changes_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def observer(event: Any) -> None:
        raise RuntimeError("watching")

    @workflow
    def order() -> WorkflowBody[int]:
        result: int = yield from Step("a", bench.do, "a", 1)
        return result

    engine = bench.engine(order, observer=observer)
    with caplog.at_level(logging.ERROR, "workflow_engine"):
        assert engine.run(order, "1") == Completed(1)
    assert "observer" in caplog.text


def test_a_failure_record_is_plain_json_with_its_parts(bench: Bench) -> None:
    caught(bench, PaymentDeclined("card"), PaymentDeclined)
    record = json.loads(
        bench.execute("SELECT payload FROM wf_journal ORDER BY position")[0][0]
    )
    assert (record["type"], record["message"]) == ("PaymentDeclined", "card")
    assert record["args"] == ["card"]
