"""What the end of a body means: its value as recorded, or whose error it was."""

from __future__ import annotations

from collections.abc import Mapping
from types import GeneratorType

import attrs

from workflow_engine.core.attempts import attempt_name, step_tried
from workflow_engine.core.chains import chain_of
from workflow_engine.core.context import Context
from workflow_engine.core.journal import Draft, Entry, Kind
from workflow_engine.core.outcome import Again, Error, Outcome, Value
from workflow_engine.errors import AuthorError, ForgottenYieldFrom, JournalDecodeError


@attrs.define
class Tried:
    """A failure that was thrown into the body and is not recorded.

    Recorded only if the body goes on, and only if the journal still is at ``position``.
    """

    name: str
    payload: str
    error: BaseException
    position: int


def encode_result(context: Context, value: object) -> str:
    """The body's value as JSON.

    Raises:
        ForgottenYieldFrom: it is a generator.
        JournalEncodeError: it cannot be recorded as the declared type.
    """
    if isinstance(value, GeneratorType):
        raise ForgottenYieldFrom(
            workflow=context.workflow, where="its result", found=value.__qualname__
        )
    return context.encode(value, context.result_type, "its result")


def finality(
    error: BaseException, recorded: Mapping[int, tuple[BaseException, str]]
) -> tuple[bool, str | None]:
    """Whether no retry can change that ``error`` came out, and whose it is.

    It is final when it is, or comes from, an author's error or the exception of a
    recorded entry; then the entry's name is the second answer.

    Args:
        recorded: the exceptions of recorded entries and their names, by identity.
    """
    final = False
    for link in chain_of(error):
        if id(link) in recorded:
            return True, recorded[id(link)][1]
        final |= isinstance(link, AuthorError)
    return final, None


def recorded_as(name: str, outcome: Outcome, attempts: int) -> tuple[Kind, str]:
    """The kind and the name of the entry that records a step's outcome.

    Args:
        attempts: how many have failed before.
    """
    if isinstance(outcome, Again):
        return Kind.STEP_ATTEMPT, attempt_name(name, attempts + 1)
    return Kind.STEP_OK if isinstance(outcome, Value) else Kind.STEP_FAILED, name


def outcome_of(draft: Draft) -> tuple[str, Outcome]:
    """The step and the outcome that a draft would record."""
    name, payload = draft.name or "", draft.payload or "null"
    if draft.kind == Kind.STEP_ATTEMPT:
        return step_tried(name), Again(payload)
    if draft.kind == Kind.STEP_FAILED:
        return name, Error(payload, is_final=True)
    return name, Value(payload)


def unreadable(context: Context, entry: Entry) -> JournalDecodeError:
    """Why a run stops at an entry of a kind or version from another time."""
    return JournalDecodeError(
        workflow=context.workflow,
        position=entry.position,
        kind=entry.kind,
        version=entry.format,
    )
