"""What may happen to an instance: status and event to status.

The table is the whole truth; the drawing in ``docs/lifecycle.md`` is printed from it.
A store asks `move` before it changes a status.
"""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Where an instance stands. Frozen: the values are stored."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_ended(self) -> bool:
        """Whether nothing happens any more, short of a resurrection."""
        return self in ENDED


ENDED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
LIVE = frozenset(Status) - ENDED


class Event(StrEnum):
    """What can happen to an instance."""

    CLAIM = "claim"
    RELEASE = "release"
    APPEND = "append"
    WAKE = "wake"
    PARK = "park"
    CRASH = "crash"
    BLOCK = "block"
    ROTATE = "rotate"
    COMPLETE = "complete"
    FAIL = "fail"
    REQUEST_CANCEL = "request cancel"
    CANCEL = "cancel"
    RESURRECT = "resurrect"


R, S, B = Status.RUNNING, Status.SUSPENDED, Status.BLOCKED

MOVES: dict[tuple[Status, Event], Status] = {
    **{(status, Event.CLAIM): R for status in (R, S, B)},
    (R, Event.RELEASE): R,
    (R, Event.APPEND): R,
    # A wake changes when the instance may run, never what it is.
    **{(status, Event.WAKE): status for status in (R, S, B)},
    # Likewise: what becomes of it is the run's business.
    **{(status, Event.REQUEST_CANCEL): status for status in (R, S, B)},
    (R, Event.PARK): S,
    (R, Event.CRASH): R,
    (R, Event.BLOCK): B,
    (R, Event.ROTATE): R,
    (R, Event.COMPLETE): Status.COMPLETED,
    (R, Event.FAIL): Status.FAILED,
    # The ceiling of takeovers is reached at a claim, whatever the status was.
    (S, Event.FAIL): Status.FAILED,
    (B, Event.FAIL): Status.FAILED,
    **{(status, Event.CANCEL): Status.CANCELLED for status in (R, S, B)},
    (Status.FAILED, Event.RESURRECT): R,
    # Only if its cancellation is to be forgotten.
    (Status.CANCELLED, Event.RESURRECT): R,
    (B, Event.RESURRECT): R,
}


class IllegalTransition(ValueError):
    """A move that the table does not have."""


def move(status: Status, event: Event) -> Status:
    """The status after ``event``.

    Raises:
        IllegalTransition: a sentence naming both.
    """
    try:
        return MOVES[status, event]
    except KeyError:
        allowed = sorted(e.value for s, e in MOVES if s is status)
        raise IllegalTransition(
            f"an instance that is {status} cannot {event}; it can "
            f"{', '.join(allowed) if allowed else 'do nothing more'}"
        ) from None
