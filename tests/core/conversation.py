"""Talks with an interpreter by hand, one answer at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from workflow_engine.core.attempts import record_attempt
from workflow_engine.core.codec import Codec
from workflow_engine.core.commands import Step
from workflow_engine.core.context import Context
from workflow_engine.core.failure import capture
from workflow_engine.core.interpreter import Interpreter
from workflow_engine.core.journal import Draft, Entry, Kind, Prefix
from workflow_engine.core.outcome import Again, Error, Value
from workflow_engine.core.requests import Append, Appended, Performed, Request

R = TypeVar("R", bound=Any)


def ok(name: str, value: object = None) -> Draft:
    return Draft(Kind.STEP_OK, name, json.dumps(value))


def failed(name: str, error: Exception) -> Draft:
    return Draft(Kind.STEP_FAILED, name, capture(error, Step(name, print)))


def wake(name: str, value: object = None) -> Draft:
    return Draft(Kind.WAKE, name, json.dumps(value))


def entries(drafts: Sequence[Draft], after: int = 0) -> tuple[Entry, ...]:
    return tuple(
        Entry(position, draft.kind, draft.name, draft.payload, draft.is_live)
        for position, draft in enumerate(drafts, after + 1)
    )


class Conversation:
    """An interpreter of ``body`` on a journal of ``drafts``."""

    def __init__(
        self,
        body: Callable[[], Generator[Any, Any, Any]],
        *drafts: Draft,
        result_type: Any = Any,
        patches: frozenset[str] = frozenset(),
        cancel_requested: bool = False,
    ) -> None:
        self.interpreter = Interpreter(
            body(),
            Context("w", "1", 0, Codec(), result_type, patches),
            Prefix(entries(drafts), len(drafts), {}),
            cancel_requested=cancel_requested,
        )
        self.asked: list[Request] = self.interpreter.requests()

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self.interpreter.drop()

    def only(self, type_: type[R]) -> R:
        """The one request there is."""
        (request,) = self.asked
        assert isinstance(request, type_), request
        return request

    def names(self, type_: type[Any]) -> list[str]:
        return [request.name for request in self.asked if isinstance(request, type_)]

    def perform(self, name: str, value: object = None) -> None:
        """The step succeeds."""
        self._feed(Performed(name, Value(json.dumps(value))))

    def fail(self, name: str, error: Exception) -> None:
        """The step raises."""
        self._feed(Performed(name, Error(capture(error, Step(name, print)))))

    def try_again(self, name: str, pause: int) -> None:
        """An attempt fails, and another one is due after so many microseconds."""
        failure = capture(OSError(name), Step(name, print))
        self._feed(Performed(name, Again(record_attempt(failure, pause))))

    def give_up(self, name: str) -> None:
        """The last attempt fails."""
        failure = capture(OSError(name), Step(name, print))
        self._feed(Performed(name, Error(failure, is_final=True)))

    def append(self, *before: Draft, cancel_requested: bool = False) -> None:
        """The commit is made, after ``before`` came from elsewhere."""
        commits = [request for request in self.asked if isinstance(request, Append)]
        (commit,) = commits
        self.tail(*before, *commit.drafts, cancel_requested=cancel_requested)

    def tail(self, *drafts: Draft, cancel_requested: bool = False) -> None:
        """A commit is answered with these new entries."""
        position = self.interpreter.position
        new = entries(drafts, position)
        self._feed(Appended(new, position + len(new), cancel_requested))

    def answer(self, answer: Any) -> None:
        self._feed(answer)

    def _feed(self, answer: Any) -> None:
        self.interpreter.feed(answer)
        self.asked = self.interpreter.requests()
