"""What a recorded entry answers to a command, and what a wait asks of the outside."""

from __future__ import annotations

from typing import Any

from workflow_engine.core.commands import Chosen, Command, Step
from workflow_engine.core.identity import TIMEOUT_PREFIX
from workflow_engine.core.requests import Wait
from workflow_engine.core.waits import (
    Await,
    Awakeable,
    CancelChild,
    Child,
    OpenAwakeable,
    Receive,
    Send,
    Sleep,
    SpawnChild,
)

WAITS = (Await, Sleep, Awakeable, Child, Receive)
"""Commands that are answered from outside."""


def type_of(command: Command[Any]) -> Any:
    """What the answer to a command is decoded as."""
    if isinstance(command, Step):
        return command.result_type
    if isinstance(command, Await | Awakeable | Child | Receive):
        return command.returns
    if isinstance(command, Send):
        return bool
    if isinstance(command, OpenAwakeable):
        return str
    if isinstance(command, Sleep | SpawnChild | CancelChild):
        return type(None)
    assert isinstance(command, Chosen)
    return command.declared


def handle_of(value: Any, command: Command[Any]) -> Any:
    """What a body gets of a recorded value: a handle, for what is waited for later."""
    if isinstance(command, OpenAwakeable):
        return Awakeable(value, command.label, command.returns)
    if isinstance(command, SpawnChild):
        return command.child
    return value


def wait_of(name: str, command: Command[Any]) -> Wait:
    """What a branch that yielded ``command`` waits for under a name."""
    if isinstance(command, Sleep):
        return Wait(name, command.timer)
    if name.startswith(TIMEOUT_PREFIX):
        return Wait(name, getattr(command, "limit", None))
    return Wait(name, getattr(command, "arm", None))
