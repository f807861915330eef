"""Fulfils orders: reserve, charge, ship; a declined card gives the goods back.

::

    python examples/order_fulfilment.py

It fulfils one order and declines another, and prints what happened outside. The shop
and the bank are stand-ins for services that know an idempotency key: a request that
comes again with the same key has no second effect. A step needs that, because it runs
again if the process dies after the effect and before the outcome is recorded.
"""

from __future__ import annotations

import sys
from decimal import Decimal

import attrs

from workflow_engine import (
    Completed,
    Ending,
    Engine,
    Step,
    WorkflowBody,
    current_step,
    workflow,
)


@attrs.frozen
class Order:
    """What a customer wants."""

    number: str
    card: str
    item: str
    quantity: int
    price: Decimal


@attrs.frozen
class Receipt:
    """What a customer gets: the parcel."""

    payment: str
    parcel: str


@attrs.frozen
class Declined:
    """What a customer is told instead."""

    reason: str


class PaymentDeclined(Exception):
    """The bank does not pay, and asking again would not change that."""


# --- the workflow ---------------------------------------------------------------------


@workflow(name="order-fulfilment")
def fulfil(order: Order) -> WorkflowBody[Receipt | Declined]:
    """Reserve, charge, ship.

    A declined card is an answer and not a failure, so the order completes, too. Any
    other error of a step leaves the body; then nothing is recorded for that step, and a
    worker tries again.
    """
    hold = yield from Step("reserve", reserve, order.item, order.quantity)
    charge_card = Step("charge", charge, order.card, order.price * order.quantity)
    try:
        payment = yield from charge_card.raises(PaymentDeclined)
    except PaymentDeclined as declined:
        yield Step("release", release, hold)
        return Declined(str(declined))
    parcel = yield from Step("ship", ship, hold)
    return Receipt(payment, parcel)


# --- its steps ------------------------------------------------------------------------


def reserve(item: str, quantity: int) -> str:
    """Put goods aside; the number of the hold."""
    return SHOP.ask(current_step().idempotency_key, "hold", f"{quantity} {item}")


def charge(card: str, amount: Decimal) -> str:
    """Take the money; the number of the payment."""
    if card == "4000-0002":
        raise PaymentDeclined("the card has no cover")
    return BANK.ask(current_step().idempotency_key, "payment", f"{amount} from {card}")


def ship(hold: str) -> str:
    """Send the goods of a hold; the number of the parcel."""
    return SHOP.ask(current_step().idempotency_key, "parcel", f"goods of {hold}")


def release(hold: str) -> None:
    """Put the goods of a hold back."""
    SHOP.ask(current_step().idempotency_key, "release", f"goods of {hold}")


# --- the world outside ----------------------------------------------------------------


class Service:
    """Does what it is asked, once for each key."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._answers: dict[str, str] = {}

    def ask(self, key: str, kind: str, what: str) -> str:
        """The number of what was done, now or when this key came first."""
        if key not in self._answers:
            self._answers[key] = f"{kind}-{len(self._answers) + 1}"
            print(f"  {self._name}: {self._answers[key]}, {what}")
        return self._answers[key]


SHOP = Service("shop")
BANK = Service("bank")


# --- the command ----------------------------------------------------------------------


def main(url: str = "sqlite:///orders.db") -> int:
    """Run two orders; the exit code."""
    paid = Order("1001", "4000-0001", "lamp", 2, Decimal("19.50"))
    unpaid = Order("1002", "4000-0002", "desk", 1, Decimal("240.00"))
    with Engine(url, workflows=[fulfil]) as engine:
        for order in (paid, unpaid):
            print(f"order {order.number}")
            ending = engine.run(fulfil, f"order-{order.number}", order)
            print(f"  {told(ending)}")
    return 0


def told(ending: Ending[Receipt | Declined]) -> str:
    """The outcome in a sentence."""
    match ending:
        case Completed(Receipt(payment, parcel)):
            return f"fulfilled: {payment}, {parcel}"
        case Completed(Declined(reason)):
            return f"declined: {reason}"
        case _:
            return f"not done: {ending}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
