"""What may be wrong in a database, and what a store says of it.

None of it happens while every change goes through a store. It happens to a database
that was restored in part, written to by hand, or left without workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol, TypeAlias

import attrs

from workflow_engine.core.lifecycle import Status


class FaultKind(StrEnum):
    """What is wrong. Frozen: scripts read the values."""

    UNKNOWN_STATUS = "unknown_status"
    BLOCKED = "blocked"
    OUT_OF_SIGHT = "out_of_sight"
    LEASE_LEFT = "lease_left"
    JOURNAL_BROKEN = "journal_broken"
    WAKE_LOST = "wake_lost"
    UNWAKEABLE = "unwakeable"
    TIMER_MISSING = "timer_missing"
    TIMER_OVERDUE = "timer_overdue"
    DEADLINE_MISSED = "deadline_missed"
    WAKES_LATE = "wakes_late"
    AWAKEABLE_UNTOLD = "awakeable_untold"
    CHILD_UNTOLD = "child_untold"
    MESSAGE_UNTOLD = "message_untold"


MENDABLE = frozenset(
    {
        FaultKind.OUT_OF_SIGHT,
        FaultKind.WAKE_LOST,
        FaultKind.TIMER_MISSING,
        FaultKind.TIMER_OVERDUE,
        FaultKind.WAKES_LATE,
        FaultKind.AWAKEABLE_UNTOLD,
        FaultKind.CHILD_UNTOLD,
        FaultKind.MESSAGE_UNTOLD,
    }
)
"""Kinds whose repair follows from what is recorded, and loses nothing."""

Fact: TypeAlias = str | int | None


@attrs.frozen
class Fault:
    """Something that is wrong with an instance.

    Attributes:
        facts: what was found; names that end in ``_at`` are instants, or None for
            never.
    """

    kind: FaultKind
    workflow: str
    id: str
    facts: Mapping[str, Fact]


@attrs.frozen
class Examined:
    """What a look at some instances found. ``last`` is where the next look goes on;
    None when there is nothing after it."""

    faults: Sequence[Fault]
    last: int | None


class Examining(Protocol):
    """The part of a store that looks for what is wrong. Each look is a transaction that
    reads, and is bounded by its ``limit``; ``patience`` is in microseconds."""

    def examine(
        self, status: Status, after: int, limit: int, patience: int
    ) -> Examined:
        """Look at up to ``limit`` instances of a status, by ascending number.

        ``patience`` is how long after its time a thing has to have happened.
        """

    def examine_at_large(self, limit: int, patience: int) -> Sequence[Fault]:
        """Look for what is found without looking at every instance: unknown statuses,
        ended instances that workers would claim, timers nobody has fired, deadlines
        nobody has kept."""

    def mend(self, kind: FaultKind, workflow: str, id: str) -> None:
        """Repair what is wrong in this way with an instance, if it still is.

        ``kind`` is one of `MENDABLE`. Doing it without need changes nothing that
        matters: at most the instance is run once more.
        """
