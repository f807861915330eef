"""The tree of a body and its branches: who waits for what, and who ends when.

A branch is a generator that is driven until it waits. The body is the root branch;
`AllOf` and `AnyOf` open more. A compound ends when all of its branches have ended; what
it ends with is decided by the first branch that settles it.
"""

from __future__ import annotations

from collections.abc import Generator
from types import FrameType, GeneratorType
from typing import Any

import attrs

from workflow_engine.core.commands import Command
from workflow_engine.core.compounds import AllOf, AnyOf, Member
from workflow_engine.core.outcome import Answer, Returned, Thrown
from workflow_engine.errors import CancelRequested

MAX_CANCEL_THROWS = 10
"""How often `CancelRequested` is thrown at waits before the instance fails."""


@attrs.define
class Cancellation:
    """A cancellation at work in a branch and in everything it opens from then on."""

    throws: int = 1


@attrs.define(eq=False)
class Branch:
    """A generator being driven.

    ``waits_for`` is the command whose answer it needs, or the compound it opened; None
    while it runs, before it starts and after it ended. ``name`` is the journal name
    under which the answer will come, and ``limit_name`` that under which the end of the
    wait comes, if it is timed. ``path`` tells it from all other branches, and is
    empty for the root: ``1.0/`` is the first branch of the root's second compound.
    """

    body: Generator[Any, Any, Any]
    compound: Compound | None = None
    index: int = 0
    waits_for: Command[Any] | Compound | None = None
    name: str = ""
    limit_name: str = ""
    path: str = ""
    opened: int = 0
    cancellation: Cancellation | None = None
    ended: bool = False

    @property
    def is_root(self) -> bool:
        """Whether this is the workflow's own body."""
        return self.compound is None


@attrs.define(eq=False)
class Compound:
    """An `AllOf` or `AnyOf` that is running."""

    command: AllOf[Any] | AnyOf[Any]
    parent: Branch
    branches: list[Branch] = attrs.field(factory=list)
    live: int = 0
    is_open: bool = False
    answer: Answer | None = None
    _results: dict[int, Any] = attrs.field(factory=dict)
    _errors: dict[int, BaseException] = attrs.field(factory=dict)

    def branch_ended(self, branch: Branch, ending: Answer) -> bool:
        """Take note of a branch's end; whether that settled the compound just now."""
        self.live -= 1
        if self.answer is None:
            self.answer = self._settled_by(branch, ending)
            return self.answer is not None
        cleanup_failed = isinstance(ending, Thrown) and not isinstance(
            ending.error, CancelRequested
        )
        if cleanup_failed and isinstance(self.answer, Returned):
            # An error in a loser's cleanup must not vanish behind the winner's value.
            self.answer = ending
        return False

    def _settled_by(self, branch: Branch, ending: Answer) -> Answer | None:
        if isinstance(self.command, AnyOf):
            if isinstance(ending, Thrown):
                return ending
            return Returned((branch.index, ending.value))
        if isinstance(ending, Returned):
            self._results[branch.index] = ending.value
        elif self.command.all_errors:
            self._errors[branch.index] = ending.error
        else:
            return ending
        if len(self._results) + len(self._errors) < len(self.command.members):
            return None
        return self._all_of(self.command)

    def answer_of_none(self) -> Answer:
        """What it ends with if it has no members."""
        assert isinstance(self.command, AllOf)  # another one needs some
        return self._all_of(self.command)

    def _all_of(self, command: AllOf[Any]) -> Answer:
        if self._errors:
            errors = [self._errors[index] for index in sorted(self._errors)]
            failed, members = len(errors), len(command.members)
            words = f"{failed} of {members} members failed"
            return Thrown(BaseExceptionGroup(words, errors))
        values = [self._results[index] for index in sorted(self._results)]
        return Returned(tuple(values) if command.is_tuple else values)


def open_compound(command: AllOf[Any] | AnyOf[Any], parent: Branch) -> Compound:
    """A compound with its branches, none of them started."""
    compound = Compound(command, parent)
    for index, member in enumerate(command.members):
        branch = Branch(
            _body_of(member),
            compound,
            index,
            path=f"{parent.path}{parent.opened}.{index}/",
            cancellation=parent.cancellation,
        )
        compound.branches.append(branch)
    parent.opened += 1
    compound.live = len(compound.branches)
    return compound


def _body_of(member: Member[Any]) -> Generator[Any, Any, Any]:
    return iter(member) if isinstance(member, Command) else member


def whereabouts(body: Generator[Any, Any, Any]) -> str:
    """The line at which ``body`` stands, in its innermost generator: ``file.py:12``."""
    frame = _innermost_frame(body)
    if frame is None:
        return "an unknown line"
    file = frame.f_code.co_filename.rsplit("/", 1)[-1]
    return f"{file}:{frame.f_lineno}"


def _innermost_frame(body: Generator[Any, Any, Any]) -> FrameType | None:
    frame: FrameType | None = None
    current: Any = body
    while isinstance(current, GeneratorType):
        if current.gi_frame is not None and current.gi_code is not _COMMAND_ITER:
            frame = current.gi_frame
        current = current.gi_yieldfrom
    return frame


_COMMAND_ITER = Command.__iter__.__code__
