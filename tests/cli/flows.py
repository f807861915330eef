"""Workflows that the tests of the command line run. Copied into a test's directory."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from workflow_engine import (
    Await,
    ContinueAsNew,
    Patch,
    RetryPolicy,
    Step,
    StepFailed,
    WorkflowBody,
    awakeable,
    receive,
    restore_seed,
    sleep,
    spawn_child,
    workflow,
)


@dataclass(frozen=True)
class Order:
    """What is shipped."""

    id: str
    price: Decimal = Decimal(1)


def note(text: str) -> str:
    """An effect that tests can see, and its name as the result."""
    with Path("effects.txt").open("a") as file:
        file.write(f"{text}\n")
    return text


def pay(order: Order) -> Decimal:
    """Fails while there is a file that says so."""
    note("pay")
    if Path("declined").exists():
        raise ValueError("no money\nat all")
    return order.price


@workflow(name="order-fulfilment")
def fulfil(order: Order, gift: bool = False) -> WorkflowBody[Order]:
    """Completes; or fails after a compensation."""
    yield from Step("reserve", note, "reserve")
    try:
        paid = yield from Step("pay", pay, order)
    except StepFailed:
        yield from Step("refund", note, "refund")
        raise
    if gift:
        yield Step("wrap", note, "wrap")
    return Order(order.id, paid)


@workflow
def crash(order: Order) -> WorkflowBody[Decimal]:
    """Crashes while there is a file that says so."""
    yield Step("reserve", note, "reserve")
    paid = yield from Step("pay", pay, order)
    return paid


@workflow
def retry(order: Order) -> WorkflowBody[Decimal]:
    """Tries again after an hour while there is a file that says so."""
    policy = RetryPolicy(initial=3630, maximum=9999, jitter=0)
    return (yield from Step("pay", pay, order).retry(policy))


@workflow
def divide(by: int) -> WorkflowBody[float]:
    """Crashes outside a step when it divides by nothing."""
    yield Step("reserve", note, "reserve")
    return 1 / by


@workflow
def approve(question: str = "well?") -> WorkflowBody[int]:
    """Waits for a number."""
    print("asking", question)
    number = yield from Await("answer", returns=int)
    return number


@workflow
def count(until: int) -> WorkflowBody[int]:
    """Goes through generations."""
    reached = yield from restore_seed(0)
    yield Step("note", note, f"generation {reached}")
    if reached < until:
        yield ContinueAsNew(reached + 1)
    return reached


@workflow
def patched() -> WorkflowBody[bool]:
    """Says whether its patch is on."""
    decided = yield from Patch("new-tax")
    return decided


@workflow
def expense(amount: int = 7) -> WorkflowBody[int]:
    """Waits for somebody who knows an id."""
    approval = yield from awakeable("approval", returns=int)
    yield Step("send", note, approval.id)
    approved = yield from approval
    return approved + amount


@workflow
def listen(seconds: float = 60) -> WorkflowBody[Any]:
    """Waits for a message, for some time."""
    word = yield from receive("word").timeout(seconds)
    return word


@workflow
def snooze(hours: float = 3) -> WorkflowBody[str]:
    """Sleeps."""
    yield sleep(hours * 3600 + 59, name="nap")
    return "rested"


@workflow
def household(child: str) -> WorkflowBody[int]:
    """Waits for a child."""
    approval = yield from spawn_child(approve, child)
    number = yield from approval
    return number


@workflow
def echo(*many: Any, **named: Any) -> WorkflowBody[Any]:
    """Returns its arguments."""
    yield Step("print", print, "printed by a step")
    return [list(many), named]


def wait_for_input(step: str) -> str:
    """Says that it began and goes on when the test says so, or goes away."""
    note(step)
    print(f"in {step}", flush=True)
    return sys.stdin.readline().strip()


@workflow
def long() -> WorkflowBody[list[str]]:
    """Two steps, the second of which lasts until a line arrives on standard input."""
    first = yield from Step("first", note, "first")
    second = yield from Step("second", wait_for_input, "second")
    third = yield from Step("third", note, "third")
    return [first, second, third]
