"""What a pass of a worker did."""

from __future__ import annotations

import attrs

from workflow_engine.core.outcome import Completed, Failed, Suspended
from workflow_engine.runtime.endings import Blocked, Crashed, Lost, RunEnding


@attrs.frozen
class PassSummary:
    """Counts of one pass; summaries add up.

    Attributes:
        discovered: runnable instances seen, whether or not they could be run here.
        advanced: runs that moved something durable: a recorded entry, an ending, a new
            generation. A pass that advances nothing need not be repeated at once.
        resumed: runs begun.
        completed: runs that completed their instance.
        still_suspended: runs that parked.
        unknown_name: instances left alone because this engine has no such workflow, or
            does not know a patch in their set.
        blocked: runs that met a recorded value they could not read.
        failed: instances that ended as failed.
        transient_errors: runs and claims given up because the database was away.
        lease_skipped: runs that found their lease gone.
        paced: runs that crashed and are tried again later.
        timers_fired: timers that fell due.
        collected: ended instances that were deleted, as the worker's retention says.
        unregistered_names: the unknown workflow names, each once.
    """

    discovered: int = 0
    advanced: int = 0
    resumed: int = 0
    completed: int = 0
    still_suspended: int = 0
    unknown_name: int = 0
    blocked: int = 0
    failed: int = 0
    transient_errors: int = 0
    lease_skipped: int = 0
    paced: int = 0
    timers_fired: int = 0
    collected: int = 0
    unregistered_names: frozenset[str] = frozenset()

    def __add__(self, other: PassSummary) -> PassSummary:
        mine, theirs = attrs.asdict(self), attrs.asdict(other)
        names = mine.pop("unregistered_names") | theirs.pop("unregistered_names")
        sums = {field: mine[field] + theirs[field] for field in mine}
        return PassSummary(**sums, unregistered_names=names)


def count(ending: RunEnding) -> PassSummary:
    """What one run adds to a summary."""
    match ending:
        case Completed():
            return PassSummary(completed=1)
        case Suspended():
            return PassSummary(still_suspended=1)
        case Failed():
            return PassSummary(failed=1)
        case Blocked():
            return PassSummary(blocked=1)
        case Crashed():
            return PassSummary(paced=1)
        case Lost():
            return PassSummary(lease_skipped=1)
        case _:
            return PassSummary()
