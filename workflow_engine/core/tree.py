"""Drives the branches of a body: starts, resumes, cancels and drops them.

The tree knows who runs inside whom. What a command means, it asks its `Answerer`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, Protocol

import attrs

from workflow_engine.core.branches import (
    Branch,
    Cancellation,
    Compound,
    open_compound,
)
from workflow_engine.core.commands import Command
from workflow_engine.core.compounds import AllOf, AnyOf
from workflow_engine.core.outcome import Answer, Returned, Thrown
from workflow_engine.errors import CancelRequested

MAX_IGNORED_DROPS = 100
"""How many yields of a dropped body are ignored before it is kept aside for good."""

_undead: list[Generator[Any, Any, Any]] = []
"""Bodies that would not end. Kept, so that garbage collection never runs them."""


class BodyDropped(BaseException):
    """Thrown at a body's yields to end it when its run is over. Not for authors."""


class Answerer(Protocol):
    """Knows what commands mean."""

    def answer(self, branch: Branch, command: Any) -> Answer | None:
        """The answer to go on with at once, or None: the branch waits."""

    def withdraw(self, branch: Branch, command: Command[Any]) -> None:
        """The branch no longer waits for the command."""

    def branch_returned(self) -> None:
        """A branch ended with a value."""

    @property
    def is_halted(self) -> bool:
        """Whether no branch may run any more."""


@attrs.frozen
class Dropped:
    """What came to light while a body was dropped.

    Attributes:
        ignored: commands it yielded, which were not performed.
        undead: branches that would not end.
        raised: exceptions its cleanup raised.
        pending: exceptions it was raising or handling when it was dropped.
    """

    ignored: int = 0
    undead: int = 0
    raised: tuple[BaseException, ...] = ()
    pending: tuple[BaseException, ...] = ()

    def __add__(self, other: Dropped) -> Dropped:
        return Dropped(
            self.ignored + other.ignored,
            self.undead + other.undead,
            self.raised + other.raised,
            self.pending + other.pending,
        )


class Tree:
    """The branches of one body. ``ending`` is how the body itself ended, if it has."""

    def __init__(self, body: Generator[Any, Any, Any], answerer: Answerer) -> None:
        self.root = Branch(body)
        self.ending: Answer | None = None
        self._answerer = answerer

    def start(self) -> None:
        """Run the body to its first wait."""
        self._run(self.root, Returned(None))

    def resume(self, branch: Branch, answer: Answer) -> None:
        """Go on with a branch that waited for ``answer``."""
        self._run(branch, answer)

    def cancel(self) -> None:
        """Throw `CancelRequested` where the body stands, into each of its branches."""
        self._cancel(self.root)

    def drop(self) -> Dropped:
        """End every branch, the innermost first, whatever it yields."""
        dropped = Dropped()
        for branch in self._innermost_first(self.root):
            branch.ended = True
            dropped += _drop(branch.body)
        return dropped

    def _run(self, branch: Branch, answer: Answer | None) -> None:
        while answer is not None:
            if self._answerer.is_halted:
                return None
            branch.waits_for = None
            try:
                command = answer.send(branch.body)
            except StopIteration as stop:
                return self._end(branch, Returned(stop.value))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - the body's own failure
                return self._end(branch, Thrown(_without_engine_frames(error)))
            answer = self._take(branch, command)
        return None

    def _take(self, branch: Branch, command: Any) -> Answer | None:
        answer = self._answerer.answer(branch, command)
        if answer is None and isinstance(command, AllOf | AnyOf):
            return self._open(branch, command)
        if answer is None:
            branch.waits_for = command
        return answer

    def _open(self, parent: Branch, command: AllOf[Any] | AnyOf[Any]) -> Answer | None:
        compound = open_compound(command, parent)
        parent.waits_for = compound
        for branch in compound.branches:
            if compound.answer is None:
                self._run(branch, Returned(None))
            else:  # settled before its turn: it never starts
                branch.ended = True
                branch.body.close()
                compound.live -= 1
        compound.is_open = True
        if compound.live:
            return None
        return compound.answer or compound.answer_of_none()

    def _end(self, branch: Branch, ending: Answer) -> None:
        branch.ended = True
        branch.waits_for = None
        if isinstance(ending, Returned):
            self._answerer.branch_returned()
        compound = branch.compound
        if compound is None:
            self.ending = ending
            return
        if compound.branch_ended(branch, ending):
            self._cancel_all(compound)
        if compound.is_open and not compound.live:
            # Closed at once: cancelling a branch above may have come here first.
            compound.is_open = False
            self._run(compound.parent, compound.answer)

    def _cancel(self, branch: Branch) -> None:
        if branch.ended or branch.cancellation is not None:
            return
        branch.cancellation = Cancellation()
        waits_for = branch.waits_for
        if isinstance(waits_for, Compound):
            if waits_for.answer is None:
                waits_for.answer = Thrown(CancelRequested())
                self._cancel_all(waits_for)
        elif waits_for is not None:
            self._answerer.withdraw(branch, waits_for)
            self._run(branch, Thrown(CancelRequested()))

    def _cancel_all(self, compound: Compound) -> None:
        for branch in compound.branches:
            self._cancel(branch)

    def _innermost_first(self, branch: Branch) -> Iterator[Branch]:
        if isinstance(branch.waits_for, Compound):
            for inner in branch.waits_for.branches:
                yield from self._innermost_first(inner)
        if not branch.ended:
            yield branch


def _drop(body: Generator[Any, Any, Any]) -> Dropped:
    for ignored in range(MAX_IGNORED_DROPS + 1):
        try:
            body.throw(BodyDropped())
        except StopIteration:
            return Dropped(ignored)
        except KeyboardInterrupt:
            raise
        except BodyDropped as dropped:
            pending = dropped.__context__
            return Dropped(ignored, pending=() if pending is None else (pending,))
        except BaseException as error:  # noqa: BLE001 - reported by the driver
            return Dropped(ignored, raised=(error,))
    _undead.append(body)
    return Dropped(MAX_IGNORED_DROPS, undead=1)


def _without_engine_frames(error: BaseException) -> BaseException:
    """Cut this module's own frame from the traceback: it tells the author nothing."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next
    return error
