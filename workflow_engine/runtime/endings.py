"""How a run can end, beyond the endings that users see."""

from __future__ import annotations

import logging
from typing import Any, TypeAlias

import attrs

from workflow_engine.core.codec import Codec
from workflow_engine.core.failure import Reason
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.outcome import Cancelled, Completed, Ending, Failed
from workflow_engine.core.rows import Instance
from workflow_engine.errors import EngineError, StepDecodeError, ValueProblem
from workflow_engine.runtime.registry import Workflow

logger = logging.getLogger("workflow_engine")


@attrs.frozen
class Crashed:
    """An error left the body; a worker tries again later."""

    error: BaseException


@attrs.frozen
class Blocked:
    """A recorded value cannot be read by this code; other code may."""

    error: EngineError


@attrs.frozen
class Lost:
    """The lease is somebody else's; nothing more may be done here."""


@attrs.frozen
class Interrupted:
    """The run was told to stop, and released its lease at a boundary."""


RunEnding: TypeAlias = Ending[Any] | Crashed | Blocked | Lost | Interrupted

_WORDS: dict[type, str] = {
    Crashed: "crashed",
    Blocked: "blocked",
    Lost: "lease_lost",
    Interrupted: "interrupted",
}


def in_a_word(ending: RunEnding) -> str:
    """An ending for events and listings."""
    name = type(ending).__name__
    return _WORDS.get(type(ending)) or {"ContinuedAsNew": "continued_as_new"}.get(
        name, name.lower()
    )


def decode_result(
    payload: str | None, workflow: Workflow[..., object], codec: Codec
) -> object:
    """A completed instance's result.

    Raises:
        StepDecodeError: it does not fit the declared type any more.
    """
    try:
        return codec.decode(payload or "null", workflow.result_type)
    except ValueProblem as problem:
        raise StepDecodeError(
            workflow=workflow.name,
            step="its result",
            path=problem.path,
            expected=problem.expected,
            problem=problem.problem,
        ) from None


def ending_of(
    instance: Instance, workflow: Workflow[..., object], codec: Codec
) -> Ending[Any] | None:
    """The ending an instance row tells of; None while it has not ended.

    Raises:
        StepDecodeError: as `decode_result`.
    """
    match instance.status:
        case Status.COMPLETED:
            return Completed(decode_result(instance.result, workflow, codec))
        case Status.FAILED:
            return Failed(Reason.decode(instance.last_error).reason)
        case Status.CANCELLED:
            return Cancelled()
        case _:
            return None


def log_ending(workflow: str, id: str, ending: RunEnding) -> None:
    """Say how a run of a worker ended."""
    match ending:
        case Crashed(error):
            logger.warning(
                "workflow %r, instance %r crashed and is tried again",
                workflow,
                id,
                exc_info=error,
            )
        case Blocked(error):
            logger.error("blocked: %s", error)
        case Failed(reason):
            logger.error("workflow %r, instance %r failed: %s", workflow, id, reason)
        case Lost():
            logger.warning("workflow %r, instance %r: the lease is gone", workflow, id)
        case Cancelled() | Interrupted() | _:
            logger.debug("workflow %r, instance %r: %r", workflow, id, ending)
