"""Looking for what is wrong in the database, and naming a repair for each.

A healthy database has no findings, whatever its instances do.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import timedelta

import attrs

from workflow_engine.core.durations import microseconds, to_datetime
from workflow_engine.core.faults import MENDABLE, Fact, Fault, FaultKind
from workflow_engine.core.lifecycle import Status
from workflow_engine.runtime.outside import Outside
from workflow_engine.runtime.owner import shown

PAGE = 500
"""Instances looked at in one transaction."""

EXAMINED = (Status.RUNNING, Status.SUSPENDED, Status.BLOCKED, Status.FAILED)
"""What may go on. Nothing reads the journals of the others any more."""

NAME, ID = "NAME", "ID"

_FIX = ("doctor", "--fix")


@attrs.frozen
class _Words:
    """How a kind is told: a sentence with facts, the repair, and what that does."""

    problem: str
    repair: tuple[str, ...]
    purpose: str


WORDS: Mapping[FaultKind, _Words] = {
    FaultKind.UNKNOWN_STATUS: _Words(
        "its status is {status!r}, which this code does not know",
        ("db", "current"),
        "see whether newer code has written to this database",
    ),
    FaultKind.BLOCKED: _Words(
        "it is blocked: {reason}",
        ("resurrect", NAME, ID),
        "run it again with code that reads what is recorded",
    ),
    FaultKind.OUT_OF_SIGHT: _Words(
        "workers find it {found_at}, and should {right_at}",
        _FIX,
        "set the time by the rest of its row",
    ),
    FaultKind.LEASE_LEFT: _Words(
        "the lease of {owner} ran out {until_at}, and nobody has taken it over",
        ("worker", "TARGET"),
        "start a worker that has this workflow",
    ),
    FaultKind.JOURNAL_BROKEN: _Words(
        "its journal holds {entries} entries, the last at position {last}; its row "
        "counts {position}",
        ("journal", NAME, ID),
        "see what is there; only a backup has the rest",
    ),
    FaultKind.WAKE_LOST: _Words(
        "it waits for {wait!r}, which is recorded, and was not woken",
        _FIX,
        "wake it",
    ),
    FaultKind.UNWAKEABLE: _Words(
        "it waits for {waits}, and nothing is left that could deliver that",
        ("cancel", NAME, ID),
        "end it; it would wait for ever",
    ),
    FaultKind.TIMER_MISSING: _Words(
        "it waits for {waits}, and no timer runs",
        _FIX,
        "run it again, which starts the timer anew",
    ),
    FaultKind.TIMER_OVERDUE: _Words(
        "its timer {step_name!r} was due {due_at}, and nobody has fired it",
        _FIX,
        "fire it; if there are more, see that workers run",
    ),
    FaultKind.DEADLINE_MISSED: _Words(
        "its deadline was {deadline_at}, and nobody has ended it",
        ("worker", "TARGET"),
        "start a worker, which ends it",
    ),
    FaultKind.WAKES_LATE: _Words(
        "its first timer is due {due_at}, and it wakes {wake_at}",
        _FIX,
        "let it wake when the timer is due",
    ),
    FaultKind.AWAKEABLE_UNTOLD: _Words(
        "its awakeable {label!r} was {status} {settled_at}, and it was not told",
        _FIX,
        "deliver what was kept",
    ),
    FaultKind.CHILD_UNTOLD: _Words(
        "its child {child_workflow} {child_id} was {status} {ended_at}, and it was "
        "not told",
        _FIX,
        "deliver how the child ended",
    ),
    FaultKind.MESSAGE_UNTOLD: _Words(
        "it was sent a message on {topic!r} {sent_at}, and was not told",
        _FIX,
        "deliver what was kept",
    ),
}


@attrs.frozen
class Finding:
    """Something that is wrong with an instance.

    Attributes:
        problem: what is wrong, in a sentence.
        words: the command that repairs it, after ``workflow-engine``.
        purpose: what that command does.
    """

    kind: FaultKind
    workflow: str
    id: str
    problem: str
    words: tuple[str, ...]
    purpose: str

    @property
    def repair(self) -> str:
        """The command that repairs it, to be copied."""
        return shlex.join(["workflow-engine", *self.words])

    @property
    def is_mechanical(self) -> bool:
        """Whether `Engine.repair` can do it: it follows from what is recorded."""
        return self.kind in MENDABLE

    @classmethod
    def of(cls, fault: Fault) -> Finding:
        """A fault in words."""
        words = WORDS[fault.kind]
        stands_for = {NAME: fault.workflow, ID: fault.id}
        return cls(
            kind=fault.kind,
            workflow=fault.workflow,
            id=fault.id,
            problem=words.problem.format_map(_shown(fault.facts)),
            words=tuple(stands_for.get(word, word) for word in words.repair),
            purpose=words.purpose,
        )


class Doctor(Outside):
    """The part of `Engine` that looks for what is wrong."""

    def doctor(
        self, *, patience: timedelta | float = 60, limit: int = 1000
    ) -> list[Finding]:
        """What is wrong in the database; nothing, in a healthy one.

        Looks at every instance that may go on, some hundreds in a transaction, and
        changes nothing. What happens meanwhile is seen or not, but never by halves.

        Args:
            patience: how long (a timedelta, or seconds) after its time a timer has to
                have fired, a lease to have been taken over and a deadline to be kept.
            limit: findings at most.

        Raises:
            InvalidDuration: ``patience`` is none.
            ValueError: a limit below 1.
        """
        if limit < 1:
            raise ValueError(f"limit must be 1 or more, not {limit}")
        longest = microseconds(patience, "patience")
        faults = list(self._store.examine_at_large(limit, longest))
        for status in EXAMINED:
            last: int | None = 0
            while last is not None and len(faults) < limit:
                examined = self._store.examine(status, last, PAGE, longest)
                faults += examined.faults
                last = examined.last
        return [Finding.of(fault) for fault in faults[:limit]]

    def repair(self, finding: Finding) -> None:
        """Repair what is wrong, if it still is and the repair is mechanical.

        What is recorded is delivered, and times that follow from other facts are set
        by them. Nothing is lost; at most the instance is run once more.

        Raises:
            ValueError: the repair of a finding of this kind is for people to decide.
        """
        if not finding.is_mechanical:
            raise ValueError(
                f"{finding.kind} is not repaired by itself; see: {finding.repair}"
            )
        self._store.mend(finding.kind, finding.workflow, finding.id)


def _shown(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    return {name: _fact(name, fact) for name, fact in facts.items()}


def _fact(name: str, fact: Fact) -> Fact:
    if name.endswith("_at"):
        return "never" if fact is None else f"at {to_datetime(int(fact)).isoformat()}"
    return shown(str(fact)) if name == "owner" else fact
