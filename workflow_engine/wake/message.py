"""Messages from anybody who knows the instance.

Recorded in the receiver's journal by whoever sends, under the lock of its row; so there
is no mailbox to look into, and commits say what came first. Kept until a wait takes it,
also over `ContinueAsNew`, and while the instance has failed. Each is taken once, the
first of its topic first, by the wait that was reached first.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from workflow_engine.core.identity import check_name
from workflow_engine.core.waits import Receive

T = TypeVar("T")


@overload
def receive(topic: str, returns: type[T]) -> Receive[T]: ...


@overload
def receive(topic: str, returns: Any = ...) -> Receive[Any]: ...


def receive(topic: str, returns: Any = Any) -> Receive[Any]:
    """Take the next message on a topic, waiting for one if there is none::

        order = yield from receive("orders", returns=Order)

    Args:
        topic: any number of waits may name it, one after the other or side by side.
        returns: the type the value is decoded as.

    Raises:
        InvalidName: a topic that cannot be one.
    """
    return Receive(check_name(topic, "topic"), returns)
