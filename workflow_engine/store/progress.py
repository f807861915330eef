"""What the commits of a run do to its row in ``wf_instances``.

Each is one conditional update, which advances the position by the number of entries
that go with it. It answers None when the lease is not good, the status does not allow
it, or the position is not what it was said to be; the caller then locks the row and
looks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Integer,
    Row,
    Text,
    Update,
    bindparam,
    or_,
    update,
)

from workflow_engine.core.lifecycle import Event, Status
from workflow_engine.core.rows import Lease
from workflow_engine.store.ledger import Ledger, held
from workflow_engine.store.unit_of_work import UnitOfWork


class Progress:
    """Statements by which the holder of a lease changes its row."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._c = ledger.c

    # --- going on ---

    def append(
        self,
        work: UnitOfWork,
        lease: Lease,
        position: int,
        count: int,
        *,
        progress: bool,
    ) -> bool | None:
        """Advance the position; whether a cancellation was requested.

        With ``progress``, what was tried before does not count any more.
        """
        statement = self._append_progress if progress else self._append
        row = _run(work, statement, lease, count_is=count, position_is=position)
        return None if row is None else row.cancel_requested

    @cached_property
    def _append(self) -> Update:
        return self._commit(Event.APPEND).returning(self._c.cancel_requested)

    @cached_property
    def _append_progress(self) -> Update:
        return self._append.values(self._ledger.progressed)

    def park(
        self,
        work: UnitOfWork,
        lease: Lease,
        position: int,
        count: int,
        *,
        cancel_seen: bool,
        waits_on: Sequence[str],
        wake_after: int | None = None,
    ) -> bool | None:
        """Suspend until ``wake_after`` or a wake, and release, unless a cancellation
        came that was not seen."""
        work.woke |= wake_after is not None
        return _happened(
            work,
            self._park,
            lease,
            count_is=count,
            position_is=position,
            seen_is=cancel_seen,
            waits_are=json.dumps(list(waits_on)),
            wake_is=wake_after,
        )

    @cached_property
    def _park(self) -> Update:
        changes = self._ledger.paced(
            status=Status.SUSPENDED,
            wake_after=bindparam("wake_is", type_=BigInteger),
            waits_on=bindparam("waits_are", type_=Text),
            next_attempt_at=None,
            **self._ledger.released,
            **self._ledger.progressed,
        )
        seen = bindparam("seen_is", type_=Boolean)
        unknown = self._c.cancel_requested.is_(False)
        return self._commit(Event.PARK).where(or_(unknown, seen)).values(changes)

    def rotate(
        self, work: UnitOfWork, lease: Lease, position: int, carried: int, patches: str
    ) -> bool | None:
        """Open the next generation with its seed and ``carried`` wakes; release.

        ``position`` is that of the generation which ends.
        """
        work.woke = True
        return _happened(
            work,
            self._rotate,
            lease,
            count_is=0,
            position_is=position,
            opened_at_is=1 + carried,
            patches_are=patches,
        )

    @cached_property
    def _rotate(self) -> Update:
        changes = self._ledger.paced(
            status=Status.RUNNING,
            next_attempt_at=None,
            **self._ledger.released,
            **self._ledger.progressed,
            generation=self._c.generation + 1,
            position=bindparam("opened_at_is", type_=Integer),
            patches=bindparam("patches_are", type_=Text),
        )
        return self._commit(Event.ROTATE).values(changes)

    # --- stopping for a while ---

    def block(
        self, work: UnitOfWork, lease: Lease, position: int, error: str, delay: int
    ) -> bool | None:
        """Set why it is blocked, and when to look again; release."""
        return _happened(
            work,
            self._block,
            lease,
            count_is=0,
            position_is=position,
            error_is=error,
            delay_is=delay,
        )

    @cached_property
    def _block(self) -> Update:
        return self._commit(Event.BLOCK).values(self._later(Status.BLOCKED))

    def crash(
        self, work: UnitOfWork, lease: Lease, position: int, error: str, delay: int
    ) -> int | None:
        """Count an attempt, set when to try again, release; that instant."""
        row = _run(
            work,
            self._crash,
            lease,
            count_is=1,
            position_is=position,
            error_is=error,
            delay_is=delay,
        )
        return None if row is None else row.next_attempt_at

    @cached_property
    def _crash(self) -> Update:
        counted = {"attempts": self._c.attempts + 1}
        return (
            self._commit(Event.CRASH)
            .values(self._later(Status.RUNNING) | counted)
            .returning(self._c.next_attempt_at)
        )

    def _later(self, status: Status) -> dict[str, Any]:
        pause = bindparam("delay_is", type_=BigInteger)
        return self._ledger.paced(
            status=status,
            last_error=bindparam("error_is", type_=Text),
            next_attempt_at=self._ledger.now + pause,
            **self._ledger.released,
        )

    # --- ending ---

    def complete(
        self, work: UnitOfWork, lease: Lease, count: int, result: str | None
    ) -> int | None:
        """Set the result, end the instance, release; its last position."""
        row = _run(work, self._complete, lease, count_is=count, result_is=result)
        return None if row is None else row.position

    @cached_property
    def _complete(self) -> Update:
        changes = self._ledger.ended(
            Status.COMPLETED, result=bindparam("result_is", type_=Text), last_error=None
        )
        return self._end(Event.COMPLETE).values(changes)

    def cancel(self, work: UnitOfWork, lease: Lease, count: int) -> int | None:
        """End the instance as cancelled, release; its last position."""
        row = _run(work, self._cancel, lease, count_is=count)
        return None if row is None else row.position

    @cached_property
    def _cancel(self) -> Update:
        return self._end(Event.CANCEL).values(self._ledger.ended(Status.CANCELLED))

    def fail(
        self,
        work: UnitOfWork,
        lease: Lease,
        position: int,
        count: int,
        error: str,
        *,
        attempts: int = 0,
    ) -> bool | None:
        """End the instance as failed, counting so many more attempts; release."""
        return _happened(
            work,
            self._fail,
            lease,
            count_is=count,
            position_is=position,
            error_is=error,
            attempts_are=attempts,
        )

    @cached_property
    def _fail(self) -> Update:
        changes = self._ledger.ended(
            Status.FAILED,
            last_error=bindparam("error_is", type_=Text),
            attempts=self._c.attempts + bindparam("attempts_are", type_=Integer),
        )
        return self._commit(Event.FAIL).values(changes)

    # --- what they are made of ---

    def _end(self, event: Event) -> Update:
        """A commit at whatever position it finds, which it answers."""
        count = bindparam("count_is", type_=Integer)
        return (
            update(self._ledger.table)
            .where(*self._ledger.is_held, self._ledger.may(event))
            .values(position=self._c.position + count, updated_at=self._ledger.now)
            .returning(self._c.position)
        )

    def _commit(self, event: Event) -> Update:
        """A commit on condition of the position."""
        count = bindparam("count_is", type_=Integer)
        return (
            update(self._ledger.table)
            .where(
                *self._ledger.is_held,
                self._ledger.may(event),
                self._c.position == bindparam("position_is"),
            )
            .values(position=self._c.position + count, updated_at=self._ledger.now)
        )


def _run(
    work: UnitOfWork, statement: Update, lease: Lease, **parameters: Any
) -> Row[Any] | None:
    return work.run(statement, **held(lease), **parameters).one_or_none()


def _happened(
    work: UnitOfWork, statement: Update, lease: Lease, **parameters: Any
) -> bool | None:
    updated = work.run(statement, **held(lease), **parameters).rowcount
    return True if updated else None
