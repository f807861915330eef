"""Looking for what is wrong, and repairing what can be repaired without a loss."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import Row

from workflow_engine.core.failure import Reason
from workflow_engine.core.faults import Examined, Fact, Fault, FaultKind
from workflow_engine.core.identity import RETRY_PREFIX, SLEEP_PREFIX
from workflow_engine.core.lifecycle import LIVE, Status
from workflow_engine.core.rows import Key
from workflow_engine.store.findings import Findings
from workflow_engine.store.ledger import Ledger, Locked
from workflow_engine.store.repairs import Repairs
from workflow_engine.store.timers import Due
from workflow_engine.store.unit_of_work import UnitOfWork
from workflow_engine.store.waiting import Waiting


class Examination(Waiting):
    """The part of the store that knows what must be so."""

    @cached_property
    def _findings(self) -> Findings:
        tables, dialect = self._database.tables, self._database.dialect
        return Findings(tables, Ledger(tables, dialect), dialect)

    @cached_property
    def _repairs(self) -> Repairs:
        tables = self._database.tables
        return Repairs(tables, Ledger(tables, self._database.dialect))

    # --- looking ---

    def examine(
        self, status: Status, after: int, limit: int, patience: int
    ) -> Examined:
        """See `Examining.examine`."""
        with self._read() as work:
            last = self._findings.find_last(work, status, after, limit)
            if last is None:
                return Examined((), None)
            page = {
                "status_is": status.value,
                "after_is": after,
                "last_is": last,
                "limit_is": limit,
                "patience_is": patience,
            }
            return Examined(list(self._look_at(work, status, page)), last)

    def _look_at(
        self, work: UnitOfWork, status: Status, page: dict[str, Any]
    ) -> Iterator[Fault]:
        for kind, check in self._checks(status):
            for row in work.run(check, **page):
                yield _fault(kind, row)

    def _checks(self, status: Status) -> Iterator[tuple[FaultKind, Any]]:
        """What is looked at in the instances of a status."""
        findings = self._findings
        yield FaultKind.JOURNAL_BROKEN, findings.broken_journals
        if status not in LIVE:
            return
        yield FaultKind.OUT_OF_SIGHT, findings.out_of_sight
        yield FaultKind.AWAKEABLE_UNTOLD, findings.untold_awakeables
        yield FaultKind.CHILD_UNTOLD, findings.untold_children
        yield FaultKind.MESSAGE_UNTOLD, findings.untold_messages
        if status is Status.RUNNING:
            yield FaultKind.LEASE_LEFT, findings.leases_left
        if status is Status.BLOCKED:
            yield FaultKind.BLOCKED, findings.blocked
        if status is Status.SUSPENDED:
            yield FaultKind.WAKES_LATE, findings.late_wakes
            yield FaultKind.WAKE_LOST, findings.lost_wakes
            yield FaultKind.UNWAKEABLE, findings.unwakeable

    def examine_at_large(self, limit: int, patience: int) -> Sequence[Fault]:
        """See `Examining.examine_at_large`."""
        findings = self._findings
        bounds = {"limit_is": limit, "patience_is": patience}
        checks = (
            (FaultKind.UNKNOWN_STATUS, findings.unknown_statuses),
            (FaultKind.OUT_OF_SIGHT, findings.ended_in_sight),
            (FaultKind.TIMER_OVERDUE, findings.overdue_timers),
            (FaultKind.DEADLINE_MISSED, findings.missed_deadlines),
        )
        with self._read() as work:
            return [
                _fault(kind, row)
                for kind, check in checks
                for row in work.run(check, **bounds)
            ]

    # --- repairing ---

    def mend(self, kind: FaultKind, workflow: str, id: str) -> None:
        """See `Examining.mend`."""
        with self._write() as work:
            row = self._instances.lock(work, Key(workflow, id))
            if row is not None:
                _MEND[kind](self, work, row)

    def _find_again(self, work: UnitOfWork, row: Locked) -> None:
        self._repairs.bring_to_sight(work, row.instance.instance)
        work.woke = True

    def _wake_by_timers(self, work: UnitOfWork, row: Locked) -> None:
        self._repairs.wake_by_timers(work, row.instance.instance)
        work.woke = True

    def _wake(self, work: UnitOfWork, row: Locked) -> None:
        """Have it run again: it then sees what is recorded, and arms what it awaits."""
        if row.instance.status is Status.SUSPENDED:
            self._instances.wake(work, row, 0)

    def _tell(self, work: UnitOfWork, row: Locked) -> None:
        if not row.instance.status.is_ended:
            self._deliver_owed(work, row)
            self._wake(work, row)

    def _fire_overdue(self, work: UnitOfWork, row: Locked) -> None:
        number = row.instance.instance
        due = self._repairs.generations_overdue(work, number)
        self._fire(work, row)
        self._put_away(work, row, [Due(number, each, "") for each in due])


_MEND: dict[FaultKind, Callable[[Examination, UnitOfWork, Locked], None]] = {
    FaultKind.OUT_OF_SIGHT: Examination._find_again,
    FaultKind.WAKE_LOST: Examination._wake,
    FaultKind.TIMER_MISSING: Examination._wake,
    FaultKind.TIMER_OVERDUE: Examination._fire_overdue,
    FaultKind.WAKES_LATE: Examination._wake_by_timers,
    FaultKind.AWAKEABLE_UNTOLD: Examination._tell,
    FaultKind.CHILD_UNTOLD: Examination._tell,
    FaultKind.MESSAGE_UNTOLD: Examination._tell,
}


def _fault(kind: FaultKind, row: Row[Any]) -> Fault:
    facts: dict[str, Fact] = {
        name: fact
        for name, fact in row._asdict().items()
        if name not in ("workflow_name", "workflow_id")
    }
    if kind is FaultKind.BLOCKED:
        facts = {"reason": Reason.decode(row.last_error).reason}
    if kind is FaultKind.UNWAKEABLE:
        waits = json.loads(row.waits_on)
        facts = {"waits": ", ".join(waits)}
        if any(name.startswith((SLEEP_PREFIX, RETRY_PREFIX)) for name in waits):
            kind = FaultKind.TIMER_MISSING
    return Fault(kind, row.workflow_name, row.workflow_id, facts)
