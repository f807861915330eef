"""Waiting for another party that knows an id.

Registered in the transaction that records its id, before the id can reach anybody.
The row in ``wf_awakeables`` is the authority: signal, rejection and cancellation have
one winner there, which delivers to the generation that opened it. Belongs to its
generation; after a rotation the same label gets a new id, and the old one wakes nobody.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from workflow_engine.core.identity import AWAKEABLE_ID_PREFIX, check_name
from workflow_engine.core.waits import OpenAwakeable

T = TypeVar("T")


@overload
def awakeable(label: str, returns: type[T]) -> OpenAwakeable[T]: ...


@overload
def awakeable(label: str, returns: Any = ...) -> OpenAwakeable[Any]: ...


def awakeable(label: str, returns: Any = Any) -> OpenAwakeable[Any]:
    """Register an awakeable; ``yield from`` gives a handle with ``.id``.

    Yield the handle to wait for the value::

        approval = yield from awakeable("approval", returns=Decision)
        yield Step("send link", send_link, approval.id)
        decision = yield from approval

    Args:
        label: unique among the awakeables of a generation.
        returns: the type the value is decoded as.

    Raises:
        InvalidName: a label that cannot be one.
    """
    check_name(label, "awakeable label")
    check_name(AWAKEABLE_ID_PREFIX + label, "awakeable label")
    return OpenAwakeable(label, returns)
