"""Failure records: bounded, frozen at capture, thrown from the record."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from workflow_engine.core.chains import chain_of
from workflow_engine.core.commands import Step
from workflow_engine.core.failure import (
    MAX_MESSAGE,
    MAX_TRACEBACK,
    Reason,
    capture,
    rebuild,
)
from workflow_engine.errors import JournalEncodeError, StepFailed, ValueProblem


def noop() -> None:
    """Do nothing."""


PLAIN = Step("pay", noop)


class PaymentDeclined(Exception):
    """Declared by some steps."""


class WithCode(Exception):
    """Its ``__init__`` takes other arguments than it passes on."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")


class Silent(Exception):
    """Has a broken ``__str__``."""

    def __str__(self) -> str:
        raise RuntimeError


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001
        return caught


def test_an_undeclared_exception_becomes_step_failed_with_its_text() -> None:
    failure = rebuild(capture(raised(KeyError("x")), PLAIN), "pay", PLAIN)
    assert isinstance(failure, StepFailed)
    assert (failure.step, failure.type_name, failure.message) == (
        "pay",
        "KeyError",
        "'x'",
    )
    assert "test_failure.py" in failure.remote_traceback
    assert "raise error" in failure.remote_traceback


def test_a_rebuilt_failure_has_the_same_text_every_time() -> None:
    record = capture(raised(ValueError("x")), PLAIN)
    one, other = (rebuild(record, "pay", PLAIN) for _ in range(2))
    assert repr(one) == repr(other)
    assert str(one) == "step 'pay' failed: ValueError: x"


def test_a_bare_exception_class_keeps_its_type_and_an_empty_message() -> None:
    failure = rebuild(capture(raised(ValueError()), PLAIN), "pay", PLAIN)
    assert isinstance(failure, StepFailed)
    assert (failure.type_name, failure.message) == ("ValueError", "")
    assert str(failure) == "step 'pay' failed: ValueError"


def test_a_declared_exception_is_thrown_as_its_own_class() -> None:
    step = PLAIN.raises(PaymentDeclined)
    error = rebuild(capture(raised(PaymentDeclined("no", 7)), step), "pay", step)
    assert type(error) is PaymentDeclined
    assert error.args == ("no", 7)


@pytest.mark.parametrize(
    "error",
    [
        WithCode(402, "card"),
        PaymentDeclined(object()),
        PaymentDeclined((1, 2)),
        type("PaymentDeclined", (PaymentDeclined,), {})("subclass"),
    ],
    ids=["other-arguments", "not-json", "tuple", "subclass"],
)
def test_a_declared_exception_that_cannot_be_rebuilt_is_step_failed(
    error: Exception,
) -> None:
    step = PLAIN.raises(PaymentDeclined, WithCode)
    assert isinstance(rebuild(capture(raised(error), step), "pay", step), StepFailed)


def test_a_record_builds_no_class_that_the_step_did_not_declare() -> None:
    declared = PLAIN.raises(PaymentDeclined)
    record = capture(raised(PaymentDeclined("no")), declared)
    assert isinstance(rebuild(record, "pay", PLAIN), StepFailed)
    forged = json.loads(record) | {"declared": "os:system", "args": ["true"]}
    assert isinstance(rebuild(json.dumps(forged), "pay", declared), StepFailed)


def test_an_authors_error_is_rebuilt_as_itself() -> None:
    error = JournalEncodeError(
        workflow="w", where="step 'pay'", path="$", expected="int", problem="it is str"
    )
    again = rebuild(capture(raised(error), PLAIN), "pay", PLAIN)
    assert isinstance(again, JournalEncodeError)
    assert str(again) == str(error)


def self_caused() -> BaseException:
    error = ValueError("x")
    error.__cause__ = error
    return error


def two_cycle() -> BaseException:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def long_chain() -> BaseException:
    error: BaseException = ValueError("0")
    for number in range(10_000):
        outer = ValueError(str(number))
        outer.__cause__ = error
        error = outer
    return error


def group() -> BaseException:
    return ExceptionGroup("many", [ValueError(str(n)) for n in range(1000)])


@pytest.mark.parametrize("make", [self_caused, two_cycle, long_chain, group])
def test_cyclic_and_endless_causes_are_recorded_and_bounded(
    make: Callable[[], BaseException],
) -> None:
    error = raised(make())
    record = json.loads(capture(error, PLAIN))
    assert record["message"] == str(error)
    assert 0 < len(record["traceback"]) <= MAX_TRACEBACK + 100
    assert len(chain_of(error)) >= 1


def test_long_texts_are_cut_in_the_middle() -> None:
    record = json.loads(capture(raised(ValueError("x" * 10**6)), PLAIN))
    assert len(record["message"]) < MAX_MESSAGE + 100
    assert "characters cut" in record["message"]


def test_an_error_that_cannot_be_printed_is_still_recorded() -> None:
    assert "__str__ raised" in json.loads(capture(raised(Silent()), PLAIN))["message"]


TOLD = '{"type":"T","message":"m","traceback":"t"'


@pytest.mark.parametrize(
    "payload",
    [
        "[]",
        "{}",
        "nonsense",
        '{"type":1}',
        TOLD + ',"author":"UnsupportedType"}',
        TOLD + ',"author":"UnsupportedType","facts":[]}',
        TOLD + ',"declared":"a:B"}',
        TOLD + ',"declared":"a:B","args":"x"}',
    ],
)
def test_a_record_that_is_none_is_a_value_problem(payload: str) -> None:
    with pytest.raises(ValueProblem):
        rebuild(payload, "pay", PLAIN)


def test_a_reason_survives_its_record() -> None:
    reason = Reason.of(raised(ValueError("x")), "charge")
    assert Reason.decode(reason.encode()) == reason
    assert reason.reason == "ValueError: x"
    assert Reason.decode(None).reason == "no reason was recorded"
    assert Reason.decode('{"message":"m","entry":"a"}') == Reason(
        reason="m", message="m", entry="a"
    )


@pytest.mark.parametrize("payload", ["nonsense", "[]", '{"reason":1}'])
def test_a_damaged_reason_says_that_it_is(payload: str) -> None:
    assert Reason.decode(payload).reason.startswith("the recorded reason is damaged: ")
