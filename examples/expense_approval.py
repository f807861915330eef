"""Expenses: a person decides, is reminded each day, and the money is paid once.

::

    python examples/expense_approval.py taxi 42.50

Ada is asked by mail, and reminded each day. When that does not help, the decision
passes on to Grace, who is asked by a workflow of its own; what Ada answers then comes
too late. Stop it whenever you like: when you run it again, it goes on where it was. For
those in a hurry, a day of half a second, and somebody who approves at the third mail::

    python examples/expense_approval.py taxi 42.50 --day 0.5 --answer 3

Mail and bank are stand-ins for services that know an idempotency key.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal

import attrs

from workflow_engine import (
    CurrentWorkflow,
    Engine,
    Step,
    WaitTimeout,
    WorkflowBody,
    awakeable,
    current_step,
    spawn_child,
    workflow,
)

DAY = 86_400.0
"""Seconds."""

REMINDERS = 3
"""Mails to one person after the first, before somebody else is asked."""


@attrs.frozen
class Expense:
    """What somebody wants to have paid."""

    what: str
    amount: Decimal
    employee: str = "Tom"
    approver: str = "Ada"
    manager: str = "Grace"

    def __str__(self) -> str:
        return f"{self.what}, {self.amount}"


@attrs.frozen
class Decision:
    """What a person says to it."""

    approved: bool
    by: str
    reason: str = ""


NOBODY = Decision(False, "nobody", "no answer in all that time")


# --- the workflows --------------------------------------------------------------------


@workflow(name="expense-approval")
def approve_expense(expense: Expense, day: float) -> WorkflowBody[str]:
    """Have it decided, then pay or say why not."""
    decision = yield from ask_daily(expense, expense.approver, day)
    if decision is None:
        passed_on = f"{expense.manager} decides on {expense} now"
        yield Step("pass on", mail, expense.approver, passed_on)
        _, id = yield from CurrentWorkflow()
        escalation = yield from spawn_child(escalate, id, expense, day)
        decision = yield from escalation
    if not decision.approved:
        told = f"{expense} is not paid, says {decision.by}: {decision.reason}"
    else:
        payment = yield from Step("pay", pay, expense)
        told = f"{expense} is paid, says {decision.by}: {payment}"
    yield Step("tell", mail, expense.employee, told)
    return told


@workflow(name="expense-escalation")
def escalate(expense: Expense, day: float) -> WorkflowBody[Decision]:
    """Have the manager decide; without an answer nothing is paid."""
    decision = yield from ask_daily(expense, expense.manager, day)
    return decision or NOBODY


def ask_daily(
    expense: Expense, person: str, day: float
) -> WorkflowBody[Decision | None]:
    """Ask one person again each day; None when all that was in vain."""
    approval = yield from awakeable("decision", returns=Decision)
    for number in range(REMINDERS + 1):
        text = f"reminder {number}" if number else f"please decide on {expense}"
        yield Step(f"mail {number}", mail, person, text, approval.id)
        with suppress(WaitTimeout):
            return (yield from approval.timeout(day))
    return None


# --- their steps ----------------------------------------------------------------------


def mail(to: str, text: str, approval: str = "") -> None:
    """Send a mail; with ``approval`` it asks for a decision."""
    POST.send(current_step().idempotency_key, to, text, approval)


def pay(expense: Expense) -> str:
    """Transfer the money; the number of the payment."""
    return BANK.transfer(current_step().idempotency_key, expense)


# --- the world outside ----------------------------------------------------------------


class Post:
    """Delivers mail, once for each key.

    Attributes:
        read: called with the recipient and the approval of a mail that asks for one.
    """

    def __init__(self) -> None:
        self.read: Callable[[str, str], None] = lambda to, approval: None
        self._sent: set[str] = set()

    def send(self, key: str, to: str, text: str, approval: str) -> None:
        """Deliver a mail."""
        if key in self._sent:
            return
        self._sent.add(key)
        print(f"to {to}: {text}" + (f" [{approval}]" if approval else ""), flush=True)
        if approval:
            self.read(to, approval)


class Bank:
    """Transfers money, once for each key."""

    def __init__(self) -> None:
        self._payments: dict[str, str] = {}

    def transfer(self, key: str, expense: Expense) -> str:
        """The number of the payment, made now or when this key came first."""
        if key not in self._payments:
            payment = f"payment-{len(self._payments) + 1}"
            self._payments[key] = payment
            print(f"bank: {payment}, {expense.amount} to {expense.employee}")
        return self._payments[key]


POST = Post()
BANK = Bank()


# --- the command ----------------------------------------------------------------------

YES = """'{"approved": true, "by": "Ada"}'"""
"""An answer, as a shell takes it."""


def answer(engine: Engine, nth: int) -> Callable[[str, str], None]:
    """A reader of mail who approves when the ``nth`` comes that asks."""
    mails = 0

    def read(to: str, approval: str) -> None:
        nonlocal mails
        mails += 1
        if mails == nth:
            engine.signal(approval, Decision(True, to))

    return read


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Have an expense approved and paid.")
    parser.add_argument("what")
    parser.add_argument("amount", type=Decimal)
    parser.add_argument("--day", type=float, default=DAY, help="seconds of a day")
    parser.add_argument("--answer", type=int, default=0, help="the mail approved")
    parser.add_argument("--database", default="expenses.db")
    given = parser.parse_args()
    url = f"sqlite:///{given.database}"
    with Engine(url, workflows=[approve_expense, escalate]) as engine:
        POST.read = answer(engine, given.answer)
        if not given.answer:
            print(f"answer: workflow-engine signal --url {url} ID {YES}", flush=True)
        expense = Expense(given.what, given.amount)
        handle = engine.start(approve_expense, given.what, expense, given.day)
        worker = engine.worker()
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        try:
            handle.result()
        finally:
            worker.stop()
            thread.join()


if __name__ == "__main__":
    main()
