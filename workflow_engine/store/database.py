"""Transactions on one database, and what becomes of them.

A unit of work is `Database.write`; a look that sees one moment is `Database.read`. Each
call is a fresh transaction. Nothing is tried again here, with one exception that cannot
do harm: a pooled connection that turns out dead at BEGIN is replaced once.

No transaction may be open while a user's code runs, but the one that the code is asked
to write in. None is left open: a connection goes back to its pool idle.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool, StaticPool

from workflow_engine import errors
from workflow_engine.store import connect
from workflow_engine.store.connect import ConnectOptions
from workflow_engine.store.tables import Tables, tables_for
from workflow_engine.store.trouble import diagnose, is_unavailable

__all__ = ["DEFAULT_SCHEMA", "ConnectOptions", "Database", "Source", "is_unavailable"]

Source: TypeAlias = str | URL | Engine
"""What says which database is meant: a URL, or an engine that stays the caller's."""

DEFAULT_SCHEMA = "workflow_engine"
"""Where the tables live on PostgreSQL when nothing else is said."""

_IN_ERROR = 3  # PQTRANS_INERROR of libpq

_BEGIN = {
    # (dialect, writing): SQLite takes the write lock at once, since a transaction that
    # starts by reading cannot wait for it. PostgreSQL is told the isolation level in
    # the statement, so that a role's defaults do not matter.
    ("sqlite", True): "BEGIN IMMEDIATE",
    ("sqlite", False): "BEGIN DEFERRED",
    ("postgresql", True): "BEGIN ISOLATION LEVEL READ COMMITTED",
    ("postgresql", False): "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}


class Database:
    """One database and, on PostgreSQL, one schema in it.

    May be used from every thread. After a fork, a database opened by URL works in the
    child on connections of its own; one made from a caller's engine is refused there.

    Attributes:
        engine: the SQLAlchemy engine, in driver autocommit.
        tables: the tables, in this schema.
        schema: the schema's name; None on SQLite.
        dialect: ``sqlite`` or ``postgresql``.
        owned: whether the engine is ours to close. A caller's engine is never disposed
            of and nothing is attached to it.
    """

    engine: Engine
    tables: Tables
    schema: str | None
    dialect: str
    owned: bool

    def __init__(
        self,
        source: URL | Engine,
        *,
        schema: str | None,
        options: ConnectOptions,
    ) -> None:
        self._source = source
        self._options = options
        self._closed: str | None = None
        self.owned = isinstance(source, URL)
        self.engine = self._make_engine()
        self.dialect = self.engine.dialect.name
        self.schema = schema
        self.tables = tables_for(schema)
        self._turns = self._make_turns()
        self._busy_at_fork = False
        self._file: connect.FileIdentity | None = None
        _open_databases.add(self)

    @classmethod
    def open(
        cls,
        url_or_engine: Source,
        *,
        schema: str | None = None,
        options: ConnectOptions | None = None,
    ) -> Database:
        """Open a database by URL, or on an engine that stays the caller's.

        Connects lazily: an SQLite file is created, and a server spoken to, by the first
        transaction. ``schema`` is for PostgreSQL alone. ``options`` apply to a URL.

        Raises:
            StoreRefused: a database, driver, pool or schema name that cannot be used.
        """
        source: URL | Engine
        if isinstance(url_or_engine, str | URL):
            url = source = connect.parse(url_or_engine)
        else:
            connect.check_engine(url_or_engine)
            source, url = url_or_engine, url_or_engine.url
        return cls(
            source,
            schema=_schema_for(url, schema),
            options=options or ConnectOptions(),
        )

    @property
    def url(self) -> str:
        """The URL without its password, to be shown."""
        return connect.without_password(self.engine.url)

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a unit of work; commit it, or roll back when an exception leaves.

        On PostgreSQL it is READ COMMITTED. On SQLite it holds the write lock, for which
        it waits as long as the busy timeout.

        Raises:
            StoreUnavailable: nothing happened, unless its ``ambiguous`` is set.
            StoreRefused: the database cannot be written.
            EngineClosed: after `close`, or across a fork.
        """
        with self._turns.writing() if self._turns else contextlib.nullcontext():
            connection = self._begin(writing=True)
            committing = False
            try:
                yield connection
                committing = True
                self._see_that_nothing_failed(connection)
                connection.commit()
            except BaseException as error:
                self._abandon(connection, error, committing=committing)
                raise
            finally:
                connection.close()

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Look at one moment of the database: every statement sees the same one.

        Raises as `write` does.
        """
        with self._turns.reading() if self._turns else contextlib.nullcontext():
            connection = self._begin(writing=False)
            try:
                yield connection
                # By hand: an engine may be told to skip the rollback of autocommit.
                _raw(connection).rollback()
            except BaseException as error:
                self._abandon(connection, error, committing=False)
                raise
            finally:
                connection.close()

    def close(self) -> None:
        """Close the connections, if they are ours. Safe to repeat."""
        if self._closed is None:
            self._closed = "it was closed before"
            if self.owned:
                self.engine.dispose()

    def when_committed(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` after a unit of work. Each commits when it ends, so it has."""
        tell()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the life of one transaction ---

    def _begin(self, *, writing: bool) -> Connection:
        if self._closed:
            raise errors.EngineClosed(problem=self._closed)
        statement = _BEGIN[self.dialect, writing]
        try:
            try:
                return self._connect_and(statement)
            except _DeadOnArrival:
                # By now everything that the pool opened earlier has left it.
                return self._connect_and(statement)
        except Exception as error:
            cause = error.__cause__ if isinstance(error, _DeadOnArrival) else error
            trouble = diagnose(cause) if cause else None
            if trouble is None:
                raise
            raise trouble.as_error(committing=False) from cause

    def _connect_and(self, statement: str) -> Connection:
        connection = self.engine.connect()
        try:
            connection.begin()
            raw = _raw(connection)
            if self.dialect == "sqlite" and raw.in_transaction:
                # A caller's engine may have listeners that begin on their own.
                raw.execute("ROLLBACK")
            raw.execute(statement)
            if self.dialect == "sqlite":
                self._see_that_the_file_is_there(raw)
        except BaseException as error:
            _put_away(connection, error)
            connection.close()
            trouble = diagnose(error)
            if trouble and trouble.lost:
                raise _DeadOnArrival from error
            raise
        return connection

    def _see_that_the_file_is_there(self, raw: Any) -> None:
        # SQLite would go on writing to a deleted file and report every commit.
        if self._file is None:
            self._file = connect.FileIdentity.of(raw)
        if not self._file.is_current():
            problem = f"{self._file.path} was deleted or replaced while in use"
            raise errors.StoreRefused(problem=problem)

    def _see_that_nothing_failed(self, connection: Connection) -> None:
        # PostgreSQL answers the COMMIT of a failed transaction with a rollback and
        # without an error: whoever swallowed the failure would believe in a commit.
        if self.dialect == "postgresql":
            status = _raw(connection).info.transaction_status
            if status == _IN_ERROR:
                raise RuntimeError("a statement failed and its error was swallowed")

    def _abandon(
        self, connection: Connection, error: BaseException, *, committing: bool
    ) -> None:
        _put_away(connection, error)
        trouble = diagnose(error)
        if trouble is not None:
            raise trouble.as_error(committing=committing) from error

    # --- engines and forks ---

    def _make_engine(self) -> Engine:
        if isinstance(self._source, URL):
            return connect.make_engine(self._source, self._options)
        return self._source.execution_options(isolation_level="AUTOCOMMIT")

    def _make_turns(self) -> _Turns | None:
        if self.dialect != "sqlite":
            return None
        single = isinstance(self.engine.pool, StaticPool)
        return _Turns(self._options.busy_timeout, single=single)

    def before_fork(self) -> None:
        """Leave no idle SQLite connection for the child.

        SQLite keeps its file locks in a table a process. A child that inherits open
        connections would believe that it holds locks which are its parent's.
        """
        pool = self.engine.pool
        if self.owned and self.dialect == "sqlite" and isinstance(pool, QueuePool):
            self._busy_at_fork = pool.checkedout() > 0
            self.engine.dispose()

    def after_fork_in_child(self) -> None:
        """Start over with connections and locks of this process, or refuse to."""
        # Kept for ever: closing an inherited connection would speak to its server, or
        # drop its locks, in the parent's name.
        _inherited.append(self.engine)
        if self._closed:
            return
        self._closed = self._fork_problem()
        if self._closed is None:
            self.engine = self._make_engine()
            self._turns = self._make_turns()

    def _fork_problem(self) -> str | None:
        if not self.owned:
            return (
                "this process was forked from the one that opened it; "
                "open another here, on an engine made after the fork"
            )
        if self.dialect != "sqlite":
            return None
        pool = self.engine.pool
        if not isinstance(pool, QueuePool):
            return "a database in memory stays with the process that made it"
        # The second: another thread was quick enough to come in between.
        if self._busy_at_fork or pool.checkedin() or pool.checkedout():
            return (
                "this process was forked while another thread had a transaction open, "
                "which SQLite does not survive; start it with the spawn method"
            )
        return None


class _DeadOnArrival(Exception):
    """A pooled connection was gone before anything was asked of it."""


class _Turns:
    """Lets the threads of a process write to an SQLite file one after the other.

    They would otherwise poll for the lock of the file, and the unlucky one would time
    out. With ``single``, when one connection serves all, readers take turns too.
    """

    def __init__(self, patience: float, *, single: bool) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._patience = patience
        self._single = single

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        me = threading.get_ident()
        if self._owner == me:
            # Waiting for oneself would be a deadlock.
            raise RuntimeError("a unit of work is open in this thread already")
        if not self._lock.acquire(timeout=self._patience):
            raise errors.StoreUnavailable(
                problem=f"other threads have been writing for {self._patience:g} s"
            )
        self._owner = me
        try:
            yield
        finally:
            self._owner = None
            self._lock.release()

    def reading(self) -> contextlib.AbstractContextManager[None]:
        return self.writing() if self._single else contextlib.nullcontext()


def _schema_for(url: URL, schema: str | None) -> str | None:
    if url.get_backend_name() == "sqlite":
        if schema is not None:
            problem = f"SQLite has no schemas, so none can be called {schema!r}"
            raise errors.StoreRefused(problem=problem)
        return None
    name = DEFAULT_SCHEMA if schema is None else schema
    if not 0 < len(name.encode()) <= 63 or "\0" in name:
        problem = f"{name!r} is no schema name; PostgreSQL takes 1 to 63 bytes"
        raise errors.StoreRefused(problem=problem)
    return name


def _raw(connection: Connection) -> Any:
    return connection.connection.driver_connection


def _put_away(connection: Connection, error: BaseException) -> None:
    """Leave the connection idle, or out of its pool if it is gone."""
    if connection.invalidated:
        return
    trouble = diagnose(error)
    try:
        if trouble and trouble.lost:
            # A statement of SQLAlchemy's own lets it notice, so that everything which
            # the pool opened before now is replaced as well.
            connection.exec_driver_sql("SELECT 1")
        _raw(connection).rollback()
    except DBAPIError:
        connection.invalidate()
    except Exception as broken:
        if diagnose(broken) is None:
            raise
        connection.invalidate()


_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: list[Engine] = []


def _before_fork() -> None:
    for database in list(_open_databases):
        database.before_fork()


def _after_fork_in_child() -> None:
    for database in list(_open_databases):
        database.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
