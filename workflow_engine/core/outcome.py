"""What a step leaves behind and how a run ends.

An outcome travels encoded: ``Value`` and ``Error`` hold the JSON that the journal
holds. `Returned` and `Thrown` are their decoded twins, which can enter a generator.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

R = TypeVar("R")


@attrs.frozen
class Value:
    """A step returned; ``payload`` is its result as ASCII JSON."""

    payload: str


@attrs.frozen
class Error:
    """A step raised; ``payload`` is the failure record as ASCII JSON.

    ``is_final`` says that its retry policy is exhausted: then it is recorded before the
    body is told. Without a policy, it is recorded if the body goes on.
    """

    payload: str
    is_final: bool = False


@attrs.frozen
class Again:
    """A step raised, and is tried again; ``payload`` is the record of the attempt."""

    payload: str


Outcome: TypeAlias = Value | Error | Again


@attrs.frozen
class Returned:
    """A value to send into a body."""

    value: Any

    def send(self, body: Generator[Any, Any, Any]) -> Any:
        """Continue ``body`` with the value; what it yields next."""
        return body.send(self.value)


@attrs.frozen(eq=False)
class Thrown:
    """An exception to throw into a body."""

    error: BaseException

    def send(self, body: Generator[Any, Any, Any]) -> Any:
        """Continue ``body`` with the exception; what it yields next."""
        return body.throw(self.error)


Answer: TypeAlias = Returned | Thrown


# --- endings, made for ``match`` ------------------------------------------------------


@attrs.frozen
class Completed(Generic[R]):
    """The body returned; ``result`` is its value as the journal gives it back."""

    result: R


@attrs.frozen
class Suspended:
    """The run parked; ``on`` are the names it waits for, in the order reached."""

    on: tuple[str, ...]


@attrs.frozen
class Cancelled:
    """The instance was cancelled."""


@attrs.frozen
class Failed:
    """The instance failed for good; ``reason`` says why in a sentence."""

    reason: str


@attrs.frozen
class ContinuedAsNew:
    """The generation ended with a seed for the next, which is ``generation``."""

    generation: int


Ending: TypeAlias = Completed[R] | Suspended | Cancelled | Failed | ContinuedAsNew
