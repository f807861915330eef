"""What each command means: one performer a command type, in `PERFORMERS`.

A performer answers at once, or lets the branch wait for a name. A new command is a new
row in the table.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from typing import Any

from workflow_engine.core import commands, waits
from workflow_engine.core.answers import type_of
from workflow_engine.core.branches import MAX_CANCEL_THROWS, Branch
from workflow_engine.core.commands import Chosen, Command, Step
from workflow_engine.core.compounds import AllOf, AnyOf
from workflow_engine.core.desk import Desk, Performer
from workflow_engine.core.identity import (
    AWAKEABLE_ID_PREFIX,
    AWAKEABLE_PREFIX,
    CHILD_CANCEL_PREFIX,
    CHILD_ID_PREFIX,
    CHILD_PREFIX,
    MESSAGE_SEND_PREFIX,
    PATCH_PREFIX,
    SLEEP_PREFIX,
)
from workflow_engine.core.inference import infer_type
from workflow_engine.core.journal import (
    Deed,
    Draft,
    EndChild,
    Kind,
    NewAwakeable,
    NewChild,
    NewMessage,
)
from workflow_engine.core.outcome import Answer, Returned, Thrown
from workflow_engine.core.topics import topic_name
from workflow_engine.core.transaction import Transaction
from workflow_engine.core.waits import Await, Receive, Send
from workflow_engine.errors import (
    CancelRequested,
    DeclarationError,
    EmptyCompound,
    ForgottenYieldFrom,
    IgnoredCancellation,
    IllegalRotation,
)

# --- steps and values that are chosen ---


def _step(desk: Desk, branch: Branch, step: Step[Any]) -> None:
    kind, _ = desk.used.get(step.name, ("a step", ""))
    if kind != "a step":
        raise desk.mismatch(step.name, step, kind)
    if step.name not in desk.used:
        _check(desk, step, f"step {step.name!r}")
    desk.use_once(step.name, branch, "a step")
    desk.send(step)
    desk.wait(branch, step.name)


def _check(
    desk: Desk, command: Step[Any] | Await[Any] | Receive[Any], where: str
) -> None:
    """See before anything happens that its value can be recorded."""
    workflow = desk.context.workflow
    if isinstance(command, Step) and inspect.isgeneratorfunction(command.function):
        raise ForgottenYieldFrom(
            workflow=workflow, where=where, found=command.function.__name__
        )
    try:
        desk.context.codec.check(type_of(command))
    except DeclarationError as error:
        raise error.placed(workflow, where) from None


def _chosen(desk: Desk, branch: Branch, chosen: Chosen[Any]) -> None:
    name = chosen.name
    if not desk.has_recorded(name) and name not in desk.used:
        payload = desk.context.encode(chosen.value, chosen.declared, name)
        desk.chosen.append(Draft(Kind.STEP_OK, name, payload))
    desk.use_again(name, branch, "a step", chosen)
    desk.wait(branch, name)


def _choose_deed(desk: Desk, name: str, payload: str | None, deed: Deed) -> None:
    if not desk.has_recorded(name):
        desk.chosen.append(Draft(Kind.STEP_OK, name, payload, deed=deed))


# --- waits ---


def _await(desk: Desk, branch: Branch, wait: Await[Any]) -> Answer | None:
    if branch.cancellation is not None:
        return _cancel_again(desk, branch)
    desk.use_again(wait.name, branch, "a wait", wait)
    _check(desk, wait, f"await {wait.name!r}")
    desk.wait_outside(branch, wait.name, wait.limit)
    return None


def _sleep(desk: Desk, branch: Branch, sleep: waits.Sleep) -> Answer | None:
    if branch.cancellation is not None:
        return _cancel_again(desk, branch)
    name = sleep.name
    if name is None:  # numbered where it stands; names are for what may move
        name = f"{branch.path}{desk.count(SLEEP_PREFIX + branch.path)}"
    desk.use_once(SLEEP_PREFIX + name, branch, "a wait")
    desk.wait_outside(branch, SLEEP_PREFIX + name)
    return None


def _open_awakeable(
    desk: Desk, branch: Branch, command: waits.OpenAwakeable[Any]
) -> None:
    name = AWAKEABLE_ID_PREFIX + command.label
    desk.context.codec.check(command.returns)
    desk.use_once(name, branch, "a step")
    _choose_deed(desk, name, None, NewAwakeable(command.label))
    desk.wait(branch, name)


def _awakeable(
    desk: Desk, branch: Branch, awakeable: waits.Awakeable[Any]
) -> Answer | None:
    if branch.cancellation is not None:
        return _cancel_again(desk, branch)
    desk.wait_outside(branch, AWAKEABLE_PREFIX + awakeable.label, awakeable.limit)
    return None


def _spawn_child(desk: Desk, branch: Branch, command: waits.SpawnChild[Any]) -> None:
    child = command.child
    name = CHILD_ID_PREFIX + child.key
    desk.context.codec.check(child.returns)
    desk.use_once(name, branch, "a step")
    if not desk.has_recorded(name):
        parameters, codec = command.definition.parameters, desk.context.codec
        text = parameters.encode(codec, child.workflow, command.args, command.kwargs)
        deed = NewChild(
            child.workflow,
            child.id,
            text,
            CHILD_PREFIX + child.key,
            lambda started_with: parameters.differing(codec, started_with, text),
        )
        _choose_deed(desk, name, "null", deed)
    desk.wait(branch, name)


def _child(desk: Desk, branch: Branch, child: waits.Child[Any]) -> Answer | None:
    if branch.cancellation is not None:
        return _cancel_again(desk, branch)
    desk.wait_outside(branch, CHILD_PREFIX + child.key, child.limit)
    return None


def _cancel_child(desk: Desk, branch: Branch, command: waits.CancelChild) -> None:
    child = command.child
    name = CHILD_CANCEL_PREFIX + child.key
    if name not in desk.used:
        _choose_deed(desk, name, "null", EndChild(child.workflow, child.id))
    desk.use_again(name, branch, "a step", command)
    desk.wait(branch, name)


def _receive(desk: Desk, branch: Branch, receive: Receive[Any]) -> Answer | None:
    if branch.cancellation is not None:
        return _cancel_again(desk, branch)
    _check(desk, receive, f"topic {receive.topic!r}")
    desk.wait_outside(branch, topic_name(receive.topic), receive.limit)
    return None


def _send(desk: Desk, branch: Branch, send: Send) -> None:
    name = send.name
    if name is None:
        name = f"{branch.path}{desk.count(MESSAGE_SEND_PREFIX + branch.path)}"
    name = MESSAGE_SEND_PREFIX + name
    desk.use_once(name, branch, "a step")
    if not desk.has_recorded(name):
        declared = send.returns
        if declared is commands.UNDECLARED:
            declared = infer_type(send.value)
        where = f"the message on {send.topic!r}"
        text = desk.context.encode(send.value, declared, where)
        deed = NewMessage(send.workflow, send.id, send.topic, text, send.key)
        _choose_deed(desk, name, "true", deed)
    desk.wait(branch, name)


def _cancel_again(desk: Desk, branch: Branch) -> Answer | None:
    assert branch.cancellation is not None
    branch.cancellation.throws += 1
    if branch.cancellation.throws > MAX_CANCEL_THROWS:
        desk.fatal = IgnoredCancellation(
            workflow=desk.context.workflow, times=MAX_CANCEL_THROWS
        )
        return None
    return Thrown(CancelRequested())


# --- asking about itself, branching, rotating ---


def _patch(desk: Desk, branch: Branch, patch: commands.Patch) -> Answer:
    decision = patch.patch_id in desk.context.patches
    name = PATCH_PREFIX + patch.patch_id
    if name not in desk.patched:
        desk.patched.add(name)
        payload = "true" if decision else "false"
        desk.records.append(Draft(Kind.PATCH, name, payload))
    return Returned(decision)


def _current_workflow(desk: Desk, branch: Branch, _: object) -> Answer:
    return Returned((desk.context.workflow, desk.context.id))


def _current_generation(desk: Desk, branch: Branch, _: object) -> Answer:
    return Returned(desk.context.generation)


def _fresh_ordinal(
    desk: Desk, branch: Branch, command: commands.FreshOrdinal
) -> Answer:
    return Returned(desk.count(command.namespace))


def _continue_as_new(
    desk: Desk, branch: Branch, command: commands.ContinueAsNew
) -> None:
    if not branch.is_root or branch.cancellation is not None:
        where = "in a branch" if not branch.is_root else "after its cancellation"
        raise IllegalRotation(workflow=desk.context.workflow, where=where)
    declared = command.returns
    if declared is commands.UNDECLARED:
        declared = infer_type(command.seed)
    desk.rotation = desk.context.encode(command.seed, declared, "ContinueAsNew")


def _compound(desk: Desk, branch: Branch, command: AllOf[Any] | AnyOf[Any]) -> None:
    if isinstance(command, AnyOf) and not command.members:
        raise EmptyCompound(workflow=desk.context.workflow)
    for member in command.members:
        if not isinstance(member, Command | Generator):
            raise desk.not_a_command(member)


PERFORMERS: dict[type, Performer] = {
    Step: _step,
    Transaction: _step,
    Chosen: _chosen,
    Await: _await,
    waits.Sleep: _sleep,
    waits.OpenAwakeable: _open_awakeable,
    waits.Awakeable: _awakeable,
    waits.SpawnChild: _spawn_child,
    waits.Child: _child,
    waits.CancelChild: _cancel_child,
    Receive: _receive,
    Send: _send,
    commands.Patch: _patch,
    commands.CurrentWorkflow: _current_workflow,
    commands.CurrentGeneration: _current_generation,
    commands.FreshOrdinal: _fresh_ordinal,
    commands.ContinueAsNew: _continue_as_new,
    AllOf: _compound,
    AnyOf: _compound,
}
