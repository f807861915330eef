"""What a driver's error means to whoever asked for the transaction.

Three classes of trouble are told apart:

- *unavailable*: the database is away, locked, full or out of connections, or it ended
  this transaction in favour of another. Trying again later may work.
- *refused*: it cannot be used as it is: read-only, damaged, missing, no rights.
- anything else, such as a broken constraint, is not trouble of the database and is left
  as the driver raised it.

Errors are recognised by code, never by text: SQLite's result code, PostgreSQL's
SQLSTATE. A PostgreSQL error without one comes from a connection that is gone, or was
never made. psycopg is not imported, since it may not be installed.
"""

from __future__ import annotations

import sqlite3

import attrs
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from workflow_engine import errors

_SQLITE_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_PROTOCOL,
}
_SQLITE_REFUSED = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_NOTADB,
}

_LOST = (
    "08",  # connection exceptions
    "57P01",  # admin_shutdown
    "57P02",  # crash_shutdown
    "57P03",  # cannot_connect_now
    "57P04",  # database_dropped
    "57P05",  # idle_session_timeout
    "25P03",  # idle_in_transaction_session_timeout
    "25P04",  # transaction_timeout
)
_POSTGRES_UNAVAILABLE = (
    *_LOST,
    "40",  # serialization_failure, deadlock_detected, statement_completion_unknown
    "53",  # disk_full, out_of_memory, too_many_connections
    "55P03",  # lock_not_available, also by lock_timeout
    "57014",  # query_canceled, also by statement_timeout
    "58",  # system_error, io_error
)
_POSTGRES_REFUSED = (
    "25006",  # read_only_sql_transaction
    "28",  # invalid authorization
    "3D",  # no such database
    "42501",  # insufficient_privilege
    "XX001",  # data_corrupted
    "XX002",  # index_corrupted
)
_COMPLETION_UNKNOWN = "40003"


@attrs.frozen
class Trouble:
    """One error of a driver, understood.

    Attributes:
        problem: the driver's words, on one line.
        refused: trying again will not help.
        lost: the connection is gone.
        unknown_at_commit: a commit that ended so may have happened.
    """

    problem: str
    refused: bool = False
    lost: bool = False
    unknown_at_commit: bool = False

    def as_error(self, *, committing: bool) -> errors.EngineError:
        """Build what the caller sees."""
        if self.refused:
            return errors.StoreRefused(problem=self.problem)
        return errors.StoreUnavailable(
            problem=self.problem, ambiguous=committing and self.unknown_at_commit
        )


def diagnose(error: BaseException) -> Trouble | None:
    """Understand an error of a driver or of SQLAlchemy; None if it is no trouble."""
    if isinstance(error, PoolTimeout):
        return Trouble("every connection is in use")
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return _diagnose_sqlite(cause)
    if cause is not None and type(cause).__module__.partition(".")[0] == "psycopg":
        return _diagnose_postgres(cause)
    return None


def is_unavailable(error: BaseException) -> bool:
    """Whether trying the whole transaction again later may work."""
    if isinstance(error, errors.StoreUnavailable):
        return True
    trouble = diagnose(error)
    return trouble is not None and not trouble.refused


def _diagnose_sqlite(error: sqlite3.Error) -> Trouble | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by the sqlite3 module, not by the database
        return None
    primary = code & 0xFF
    if primary in _SQLITE_UNAVAILABLE:
        # After a failed sync the log may or may not hold the commit.
        unknown = primary == sqlite3.SQLITE_IOERR
        return Trouble(_one_line(error), unknown_at_commit=unknown)
    if primary in _SQLITE_REFUSED:
        return Trouble(_one_line(error), refused=True)
    return None


def _diagnose_postgres(error: BaseException) -> Trouble | None:
    code: str | None = getattr(error, "sqlstate", None)
    if code is None:
        if not any(kind.__name__ == "OperationalError" for kind in type(error).mro()):
            return None
        return Trouble(_one_line(error), lost=True, unknown_at_commit=True)
    if code.startswith(_POSTGRES_REFUSED):
        return Trouble(_one_line(error), refused=True)
    if code.startswith(_POSTGRES_UNAVAILABLE):
        lost = code.startswith(_LOST)
        unknown = lost or code == _COMPLETION_UNKNOWN
        return Trouble(_one_line(error), lost=lost, unknown_at_commit=unknown)
    return None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
