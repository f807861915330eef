"""Waiting for another workflow.

A child is an instance of its own, recorded in the transaction that records the spawn.
It needs no parent to run, and ending the parent leaves it alone. Its end is delivered,
in the transaction that ends it, to the generation that attached to it; a later
generation may attach again, and gets the stored result.
"""

from __future__ import annotations

from typing import Any, ParamSpec, TypeVar

from workflow_engine.core.identity import check_name
from workflow_engine.core.waits import CancelChild, Child, Definition, SpawnChild

P = ParamSpec("P")
R = TypeVar("R")


def spawn_child(
    workflow: Definition[P, R], id: str, /, *args: P.args, **kwargs: P.kwargs
) -> SpawnChild[R]:
    """Start a child, or attach to it; ``yield from`` gives its handle.

    Yield the handle to wait for the result::

        shipment = yield from spawn_child(ship, f"ship-{order.id}", order)
        parcel = yield from shipment

    Args:
        workflow: the workflow, by itself; it need not be registered here to be started.
        id: the child's workflow id.

    Raises:
        InvalidName: the id cannot be one.
        InvalidInput: at the yield: the arguments do not fit.
        InputConflict: at the yield: it exists with other arguments.
        ChildOwned: at the yield: it is the child of another instance.
    """
    return SpawnChild(workflow, check_name(id, "workflow id"), args, kwargs)


def cancel_child(child: Child[Any]) -> CancelChild:
    """End a child now; whoever waits for it gets `ChildCancelled`.

    Does nothing to a child that has ended.
    """
    return CancelChild(child)
