"""Journal entries: what was decided, in the order it was decided.

An entry is *live* when its name can answer a command: a step's outcome, a wake, the
cancellation delivered to the body. All others are history: markers, attempts,
resurrections, superseded entries. History is never deleted while its instance exists.

Frozen: the values of `Kind` and `FORMAT` are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

import attrs

from workflow_engine.core import identity

FORMAT = 1
"""Version of the payload layouts below. Readers refuse versions they do not know."""


class Kind(StrEnum):
    """What an entry records."""

    STEP_OK = "step_ok"
    STEP_FAILED = "step_failed"
    STEP_ATTEMPT = "step_attempt"
    WAKE = "wake"
    WAKE_FAILED = "wake_failed"
    MESSAGE = "message"
    CANCEL = "cancel"
    PATCH = "patch"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CONTINUED_AS_NEW = "continued_as_new"
    ATTEMPT = "attempt"
    RESURRECTED = "resurrected"


ANSWERING = frozenset(
    {
        Kind.STEP_OK,
        Kind.STEP_FAILED,
        Kind.WAKE,
        Kind.WAKE_FAILED,
        Kind.MESSAGE,
        Kind.CANCEL,
    }
)
"""Kinds whose live entries a body is answered from."""

STEP_KINDS = frozenset({Kind.STEP_OK, Kind.STEP_FAILED})
WAKE_KINDS = frozenset({Kind.WAKE, Kind.WAKE_FAILED, Kind.MESSAGE})
"""What came from outside."""

MARKERS = frozenset(
    {Kind.COMPLETED, Kind.FAILED, Kind.CANCELLED, Kind.CONTINUED_AS_NEW}
)
"""Kinds that end a generation. The first marker of a generation wins."""

MARKER_NAMES = {
    Kind.COMPLETED: identity.COMPLETED,
    Kind.FAILED: identity.FAILED,
    Kind.CANCELLED: identity.CANCELLED,
    Kind.CONTINUED_AS_NEW: identity.CONTINUED_AS_NEW,
}
"""How markers are shown where others show a step name."""

KNOWN = frozenset(kind.value for kind in Kind)


@attrs.frozen
class NewAwakeable:
    """An entry's other half: an awakeable is registered, and its id is the payload."""

    label: str
    id: str = ""


@attrs.frozen
class NewChild:
    """An entry's other half: an instance is started, or attached to.

    ``result_name`` is the journal name under which its end is delivered. ``differing``
    names the arguments that are others than these in what an instance was started with.
    """

    workflow: str
    id: str
    input: str
    result_name: str
    differing: Callable[[str], Sequence[str]] = attrs.field(eq=False, repr=False)
    incarnation: str = ""


@attrs.frozen
class EndChild:
    """An entry's other half: an instance is cancelled."""

    workflow: str
    id: str


@attrs.frozen
class NewMessage:
    """An entry's other half: a message is put into another instance's journal.

    ``key`` tells it from all other messages to that instance; without one it is drawn
    at random when it is sent.
    """

    workflow: str
    id: str
    topic: str
    payload: str
    key: str | None = None
    drawn: str = ""


Deed: TypeAlias = NewAwakeable | NewChild | EndChild | NewMessage


@attrs.frozen
class Draft:
    """An entry to append: it has no position yet.

    Attributes:
        kind: what it records.
        name: the step name it answers; None for history.
        payload: ASCII JSON, or None.
        superseded: how often this name was superseded before, for its entry id.
        deed: what is done in the same transaction if the entry is recorded.
    """

    kind: Kind
    name: str | None
    payload: str | None
    superseded: int = 0
    deed: Deed | None = None

    @property
    def is_live(self) -> bool:
        """Whether the entry takes its name in the generation."""
        return self.name is not None


@attrs.frozen
class Entry:
    """A recorded entry.

    ``kind`` is text and not a `Kind`, since a later version of this code may have
    written it. ``position`` counts from 1 within a generation, without gaps.
    """

    position: int
    kind: str
    name: str | None
    payload: str | None
    live: bool
    format: int = FORMAT

    @property
    def is_known(self) -> bool:
        """Whether this code can interpret the entry."""
        return self.kind in KNOWN and self.format == FORMAT

    @property
    def answers(self) -> bool:
        """Whether a body may be answered from this entry, or must stop at it."""
        if not self.is_known:
            return True
        return self.live and self.kind in ANSWERING


@attrs.frozen
class Prefix:
    """All entries of positions 1..``position`` that matter to a run, in order.

    Live entries, and entries of a kind or format this code does not know.
    ``superseded`` counts superseded entries by name.
    """

    entries: tuple[Entry, ...]
    position: int
    superseded: Mapping[str, int]
