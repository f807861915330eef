"""Failures as records: captured once, bounded, and always thrown from the record.

A record is a JSON object: ``type`` (class name), ``message``, ``traceback`` (text),
and, where they apply, ``args`` with ``declared`` (an exception declared with
``.raises``) or ``author`` with ``facts`` (a mistake of the author, such as a value that
cannot be recorded). Building the exception from the record on the first run too is what
makes the first run equal every replay.
"""

from __future__ import annotations

import traceback
from typing import Any

import attrs

from workflow_engine import errors
from workflow_engine.core import records
from workflow_engine.core.codec import Codec
from workflow_engine.core.commands import Command, Step
from workflow_engine.core.durations import to_datetime
from workflow_engine.errors import (
    AuthorError,
    StepFailed,
    StepTimeout,
    ValueProblem,
    WorkflowError,
)

MAX_MESSAGE = 8_192
MAX_TRACEBACK = 16_384
"""Characters kept of a message and of a traceback."""

MAX_CHAIN = 8
"""Exceptions of a cause chain, or members of a group, that a traceback shows."""

FRAMES = 20
"""Innermost frames that a traceback shows of each exception."""

_JSON = Codec()

RECORDED_ERRORS: dict[str, type[WorkflowError]] = {
    type_.__name__: type_
    for type_ in (
        errors.AwakeableCancelled,
        errors.AwakeableRejected,
        errors.ChildCancelled,
        errors.ChildFailed,
        errors.ChildOwned,
        errors.InputConflict,
        errors.InstanceNotFound,
        errors.JournalEncodeError,
        StepTimeout,
        errors.ForgottenYieldFrom,
        errors.UnresolvedAnnotation,
        errors.UnsupportedType,
    )
}
"""Our own errors that a record may name. Decoding looks only here."""


@attrs.frozen
class FailureRecord:
    """What a step raised."""

    type: str
    message: str
    traceback: str


@attrs.frozen
class DeclaredFailure(FailureRecord):
    """An exception that its step declared, with what it is built from."""

    declared: str
    args: list[Any]


@attrs.frozen
class AuthorFailure(FailureRecord):
    """An author's error, with its facts."""

    author: str
    facts: dict[str, Any]


def describe(error: BaseException) -> dict[str, Any]:
    """``type``, ``message`` and ``traceback`` of an error, each bounded."""
    return {
        "type": type(error).__name__,
        "message": _cut(_text_of(error), MAX_MESSAGE),
        "traceback": _cut(_traceback_of(error), MAX_TRACEBACK),
    }


def capture(error: BaseException, step: Step[Any]) -> str:
    """The record of what ``step`` raised, as ASCII JSON."""
    told, name = describe(error), type(error).__name__
    record = FailureRecord(**told)
    if isinstance(error, AuthorError | StepTimeout) and name in RECORDED_ERRORS:
        record = AuthorFailure(**told, author=name, facts=error.facts)
    elif type(error) in step.raised:
        arguments = _reproducible_arguments(error)
        if arguments is not None:
            declared = _qualified(type(error))
            record = DeclaredFailure(**told, declared=declared, args=arguments)
    return records.write(record)


def record_of(error: WorkflowError) -> str:
    """The record of one of our own errors, for a wake that failed."""
    name = type(error).__name__
    record = AuthorFailure(name, str(error), "", author=name, facts=error.facts)
    return records.write(record)


def rebuild(payload: str, name: str, command: Command[Any]) -> BaseException:
    """The exception of a record, for the body that yielded ``command``.

    Raises:
        ValueProblem: the record is not one.
    """
    record = _read(payload)
    if isinstance(record, AuthorFailure) and record.author in RECORDED_ERRORS:
        return RECORDED_ERRORS[record.author](**record.facts)
    if isinstance(record, DeclaredFailure) and isinstance(command, Step):
        for type_ in command.raised:
            if record.declared == _qualified(type_):
                error = _construct(type_, record.args)
                if error is not None:
                    return error
    return StepFailed(
        step=name,
        type=record.type,
        message=record.message,
        remote_traceback=record.traceback,
    )


def bounded(text: str) -> str:
    """``text``, or its beginning and end: what is kept of a message."""
    return _cut(text, MAX_MESSAGE)


def _read(payload: str) -> FailureRecord:
    fields = records.parse(payload, FailureRecord)
    type_: type[FailureRecord] = FailureRecord
    if "author" in fields:
        type_ = AuthorFailure
    elif "declared" in fields:
        type_ = DeclaredFailure
    return records.build(fields, type_)


def _reproducible_arguments(error: BaseException) -> list[Any] | None:
    try:
        arguments = _JSON.decode(_JSON.encode(list(error.args)))
    except ValueProblem:
        return None
    again = _construct(type(error), arguments)
    if again is None or list(again.args) != list(error.args):
        return None
    return list(arguments)


def _construct(
    type_: type[BaseException], arguments: list[Any]
) -> BaseException | None:
    """Build an exception, or None: its ``__init__`` is the user's and may refuse."""
    try:
        return type_(*arguments)
    except Exception:  # noqa: BLE001 - any refusal means the same: not reproducible
        return None


def _qualified(type_: type[BaseException]) -> str:
    return f"{type_.__module__}:{type_.__qualname__}"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide the failure
        return "<no text: its __str__ raised>"


def _traceback_of(error: BaseException) -> str:
    """Python's usual text, oldest cause first, of at most `MAX_CHAIN` exceptions."""
    blocks: list[str] = []
    for link in _chain(error):
        frames = traceback.extract_tb(link.__traceback__)[-FRAMES:]
        body = "".join(traceback.format_list(frames))
        blocks.append(f"Traceback (most recent call last):\n{body}{_headline(link)}\n")
    return "\n".join(reversed(blocks))


def _chain(error: BaseException) -> list[BaseException]:
    links: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo and len(links) < MAX_CHAIN:
        link = todo.pop(0)
        if link is None or any(link is other for other in links):
            continue
        links.append(link)
        shown = None if link.__suppress_context__ else link.__context__
        todo.append(link.__cause__ or shown)
        if isinstance(link, BaseExceptionGroup):
            todo += link.exceptions[:MAX_CHAIN]
    return links


def _headline(error: BaseException) -> str:
    text = _cut(_text_of(error), MAX_MESSAGE)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    # The end of a traceback says what happened, so the middle goes.
    head, tail = limit // 4, limit - limit // 4
    return (
        f"{text[:head]}\n[... {len(text) - limit} characters cut ...]\n{text[-tail:]}"
    )


@attrs.frozen
class Reason:
    """Why an instance failed, as its marker records it."""

    reason: str = ""
    type: str = ""
    message: str = ""
    traceback: str = ""
    entry: str | None = None

    @classmethod
    def of(cls, error: BaseException, entry: str | None) -> Reason:
        """The reason for an error that left the body."""
        told = describe(error)
        headline = told["type"] + (f": {told['message']}" if told["message"] else "")
        return cls(headline, told["type"], told["message"], told["traceback"], entry)

    @classmethod
    def of_deadline(cls, deadline: int) -> Reason:
        """The reason for having gone on until a deadline, in microseconds."""
        text = f"it had not ended by its deadline, {to_datetime(deadline).isoformat()}"
        return cls(text, errors.DeadlineExceeded.__name__, text)

    @property
    def is_deadline(self) -> bool:
        """Whether it is one of `of_deadline`.

        An error of the author's may have the same name; its reason begins with that.
        """
        named = self.type == errors.DeadlineExceeded.__name__
        return named and self.reason == self.message

    def encode(self) -> str:
        """As ASCII JSON."""
        return records.write(self)

    @classmethod
    def decode(cls, payload: str | None) -> Reason:
        """From a marker's payload, whatever version wrote it, and however damaged."""
        try:
            told = records.read(payload or "{}", cls)
        except ValueProblem as problem:
            return cls(f"the recorded reason is damaged: {problem}")
        reason = told.reason or told.message or "no reason was recorded"
        return attrs.evolve(told, reason=reason)
