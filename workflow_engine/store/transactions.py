"""Transactions in which the author's own code runs.

The code comes first and the entry after it, so nothing of ours is locked on PostgreSQL
while it runs: others may claim the instance meanwhile, and then the condition on the
lease, which comes last, rolls everything back. On SQLite the transaction holds the
write lock from its beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from workflow_engine.core.journal import Draft
from workflow_engine.core.requests import Appended
from workflow_engine.core.rows import Lease, Raised, Refusal
from workflow_engine.errors import StoreUnavailable
from workflow_engine.store.commits import Commits, entries_of
from workflow_engine.store.journal import NameTaken
from workflow_engine.store.ledger import Locked
from workflow_engine.store.protocol import Advanced, Commit
from workflow_engine.store.trouble import diagnose
from workflow_engine.store.unit_of_work import UNIT_OF_WORK, UnitOfWork

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

MOST_CONFLICTS = 10
"""How often work that lost against other transactions is done, before that counts as
its failure: it may be in its own way."""

_NO_TRANSACTION = 0  # PQTRANS_IDLE of libpq


class _Undone(Exception):
    """Rolls the transaction back; ``answer`` is what came of it."""

    def __init__(self, answer: Appended | Raised | Refusal) -> None:
        super().__init__(answer)
        self.answer = answer


class Transactions(Commits):
    """The part of the store that lets others write within a commit."""

    def transact(
        self,
        lease: Lease,
        name: str,
        known: int,
        work: Callable[[Any], Draft | BaseException],
        tried: int = 0,
        isolation: str | None = None,
    ) -> Appended | Raised | Refusal:
        """See `Store.transact`."""
        if tried:
            # An earlier try may have been committed, though its answer was lost.
            found = self._find_recorded(lease, name, known)
            if found is not None:
                return found
        try:
            with self._write() as unit:
                if isolation and self._database.dialect == "postgresql":
                    unit.connection.exec_driver_sql(
                        f"SET TRANSACTION ISOLATION LEVEL {isolation}"
                    )
                draft = self._work(unit, work, tried)
                return self._record(unit, lease, draft, known)
        except _Undone as undone:
            answer = undone.answer
        except DBAPIError as error:  # such as a constraint that is checked at the end
            answer = Raised(error)
        if isinstance(answer, Raised):
            # What another runner committed may be just what was in the way.
            return self._find_recorded(lease, name, known) or answer
        return answer

    def _work(
        self,
        unit: UnitOfWork,
        work: Callable[[Any], Draft | BaseException],
        tried: int,
    ) -> Draft:
        with _session(unit) as session:
            came = work(session)
        if isinstance(came, BaseException):
            if _is_passing(came, tried):
                raise came
            raise _Undone(Raised(came))
        if not _is_open(unit.connection):
            problem = "the function has ended the transaction that it was called in"
            raise _Undone(Raised(RuntimeError(problem)))
        return came

    def _record(
        self, unit: UnitOfWork, lease: Lease, draft: Draft, known: int
    ) -> Appended:
        """Add the entry to what was written.

        Raises:
            _Undone: the lease is not good, or somebody else has recorded the name.
        """
        name = frozenset({draft.name or ""})

        def taken(work: UnitOfWork, row: Locked) -> Appended | None:
            if self._journal.find_absent(work, row.stream, [draft]):
                return None
            return attrs.evolve(self._look(work, lease, row, known), performed=name)

        commit = Commit[Appended](
            lease, [draft], known, self._advance(lease), objection=taken
        )
        try:
            answer: Advanced | Appended | Refusal | None = self._hope(unit, commit)
            if answer is None:
                answer = self._settle(unit, commit)
        except NameTaken as error:
            raise StoreUnavailable(problem="the name was just taken") from error
        if not isinstance(answer, Advanced):
            raise _Undone(answer)
        tail = entries_of([draft], known) if answer.tail is None else answer.tail
        return Appended(tail, answer.position, answer.cancel_requested, name)

    def _find_recorded(
        self, lease: Lease, name: str, known: int
    ) -> Appended | Refusal | None:
        """What was recorded under a name meanwhile, or why the lease is not good.

        It waits for the row, which a commit of ours that nobody has answered may hold.
        """
        with self._write() as unit:
            row = self._hold(unit, lease)
            if not isinstance(row, Locked):
                return row
            look = self._look(unit, lease, row, known)
        if not any(entry.live and entry.name == name for entry in look.entries):
            return None
        return attrs.evolve(look, performed=frozenset({name}))


def _session(unit: UnitOfWork) -> Session:
    """A session of the author's, within a savepoint: it can commit nothing itself."""
    from sqlalchemy.orm import Session

    return Session(
        unit.connection,
        join_transaction_mode="create_savepoint",
        info={UNIT_OF_WORK: unit},
    )


def _is_passing(error: BaseException, tried: int) -> bool:
    """Whether doing all of it again may help."""
    if isinstance(error, StoreUnavailable):
        return tried + 1 < MOST_CONFLICTS
    trouble = diagnose(error)
    if trouble is None or trouble.refused:
        return False
    return trouble.lost or tried + 1 < MOST_CONFLICTS


def _is_open(connection: Connection) -> bool:
    """Whether the transaction is still open, which raw SQL may have ended."""
    raw: Any = connection.connection.driver_connection
    if connection.dialect.name == "sqlite":
        return bool(raw.in_transaction)
    return bool(raw.info.transaction_status != _NO_TRANSACTION)
