"""Transactions that belong to the caller.

What is done in one is done on the connection of the caller's session, each call within
a savepoint of its own. The caller commits it, or rolls it back, and nobody else sees
anything before.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from sqlalchemy import Connection, Pool, event, text
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.orm import Session, scoped_session

from workflow_engine import errors
from workflow_engine.store import connect
from workflow_engine.store.database import Database
from workflow_engine.store.trouble import diagnose
from workflow_engine.store.unit_of_work import UNIT_OF_WORK

CallersSession: TypeAlias = Session | scoped_session[Any]
"""What says in which transaction something is done."""

_HINTS = "workflow_engine.hints"
_IDLE = 0  # PQTRANS_IDLE of libpq

_SAME_DATABASE = text(
    "SELECT oid, (SELECT system_identifier FROM pg_control_system())"
    " FROM pg_database WHERE datname = current_database()"
)


class CallersTransaction:
    """The transaction that a session of the caller's has open, or begins now.

    It takes the place of a `Database` in a store.

    Raises:
        TypeError: it is no session.
    """

    def __init__(self, database: Database, session: CallersSession) -> None:
        plain = session() if isinstance(session, scoped_session) else session
        if not isinstance(plain, Session):
            raise TypeError(f"session= takes a sqlalchemy.orm.Session, not {session!r}")
        self._database = database
        self._session = plain

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """A savepoint, released at the end, or rolled back to when an exception leaves.

        Raises:
            StoreRefused: the session cannot be used: it has another database, commits
                by itself, or has the only connection of a database in memory.
            StoreUnavailable: nothing happened; the caller's transaction is to be rolled
                back, and may be tried again.
        """
        with _translated():
            connection = self._connection()
            with connection.begin_nested():
                yield connection

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A look from within the transaction. Raises as `write` does."""
        with _translated():
            yield self._connection()

    def when_committed(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` when the caller has committed; perhaps also without need."""
        info = self._session.info
        if UNIT_OF_WORK in info:
            info[UNIT_OF_WORK].woke = True
            return
        if _HINTS not in info:
            info[_HINTS] = set()
            event.listen(self._session, "after_commit", _tell)
        info[_HINTS].add(tell)

    def _connection(self) -> Connection:
        try:
            connection = self._session.connection()
        except UnboundExecutionError as error:
            raise errors.StoreRefused(
                problem="the session has no engine of its own to begin a transaction on"
            ) from error
        self._see_that_it_fits(connection)
        raw: Any = connection.connection.driver_connection
        if self._database.dialect == "sqlite":
            if not raw.in_transaction:
                # Else the release of the first savepoint would be a commit.
                raw.execute("BEGIN IMMEDIATE")
        elif raw.autocommit and raw.info.transaction_status == _IDLE:
            raise errors.StoreRefused(
                problem="the session's connection is in autocommit, so that nothing "
                "would wait for the session's commit"
            )
        return connection

    def _see_that_it_fits(self, connection: Connection) -> None:
        ours, theirs = self._database.engine, connection.engine
        shared = ours.pool is theirs.pool
        in_memory = connect.is_memory(theirs.url)
        if in_memory and shared and UNIT_OF_WORK not in self._session.info:
            raise errors.StoreRefused(
                problem="a database in memory has one connection, which the engine "
                "does not share with a caller's transaction"
            )
        if not shared and (in_memory or not self._is_ours(connection)):
            raise errors.StoreRefused(
                problem="the session is bound to another database, "
                f"{connect.without_password(theirs.url)}, and not to "
                f"{self._database.url}"
            )

    def _is_ours(self, connection: Connection) -> bool:
        if connection.dialect.name != self._database.dialect:
            return False
        ours = _known.get(self._database.engine.pool)
        if ours is None:
            with self._database.read() as own:
                ours = _identity_of(own)
        return _identity_of(connection) == ours


def _identity_of(connection: Connection) -> object:
    """What tells a database from all others, by whatever address it is reached."""
    pool = connection.engine.pool
    known = _known.get(pool)
    if known is None:
        if connection.dialect.name == "sqlite":
            raw: Any = connection.connection.driver_connection
            known = connect.FileIdentity.of(raw)
        else:
            known = tuple(connection.execute(_SAME_DATABASE).one())
        _known[pool] = known
    return known


_known: weakref.WeakKeyDictionary[Pool, object] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        trouble = diagnose(error)
        if trouble is None:
            raise
        raise trouble.as_error(committing=False) from error


def _tell(session: Session) -> None:
    if session.in_nested_transaction():
        return  # a savepoint was released, and nothing committed
    due, session.info[_HINTS] = session.info[_HINTS], set()
    for tell in due:
        tell()
