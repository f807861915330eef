"""Makes the SQLAlchemy engine for a URL, and checks one that a caller made.

Every connection is in driver autocommit: `Database` begins its transactions in so many
words, and neither the driver's nor the server's defaults decide what they are. On
PostgreSQL nothing is left behind in a session, so a pooler that hands out connections
by transaction works.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import attrs
from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import QueuePool, SingletonThreadPool, StaticPool

from workflow_engine import errors

_DRIVERS = {"sqlite": "pysqlite", "postgresql": "psycopg"}
_SECRETS = {"password", "sslpassword"}
_ADVICE = "give a URL like sqlite:///orders.db or postgresql://user@host/database"


@attrs.frozen
class ConnectOptions:
    """How an engine of ours connects.

    Attributes:
        busy_timeout: seconds to wait for SQLite's write lock.
        connect_timeout: seconds to wait for PostgreSQL to answer; the URL's wins.
        pool_size: connections kept open; as many again may be opened for a moment.
        prepare_threshold: psycopg's, for statements prepared in the session. None
            prepares none, which poolers that hand out connections by transaction need.
    """

    busy_timeout: float = 10.0
    connect_timeout: int = 10
    pool_size: int = 10
    prepare_threshold: int | None = None


def parse(url: str | URL) -> URL:
    """Read a database URL and choose its driver.

    Raises:
        StoreRefused: not a URL, or a database or driver that cannot be used.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # a port that is no number is the latter
        # Without the text, which may hold a password.
        raise errors.StoreRefused(problem=f"not a database URL; {_ADVICE}") from None
    dialect, _, driver = parsed.drivername.partition("+")
    dialect = "postgresql" if dialect == "postgres" else dialect
    wanted = _DRIVERS.get(dialect)
    if wanted is None:
        problem = f"{dialect} is neither SQLite nor PostgreSQL; {_ADVICE}"
        raise errors.StoreRefused(problem=problem)
    if driver not in ("", wanted):
        problem = f"driver {driver} cannot be used; write {dialect}+{wanted}://"
        raise errors.StoreRefused(problem=problem)
    parsed = parsed.set(drivername=f"{dialect}+{wanted}")
    if dialect == "sqlite" and not is_memory(parsed) and "uri" not in parsed.query:
        # Another working directory later must not mean another file.
        parsed = parsed.set(database=str(Path(parsed.database or "").absolute()))
    return parsed


def without_password(url: URL) -> str:
    """Write a URL so that it can be shown, and typed by somebody who has the rest."""
    return URL.create(
        url.drivername,
        username=url.username,
        host=url.host,
        port=url.port,
        database=url.database,
        query={k: v for k, v in url.query.items() if k not in _SECRETS},
    ).render_as_string()


def is_memory(url: URL) -> bool:
    """Whether the URL names an SQLite database in memory."""
    database = url.database or ""
    return (
        not database or ":memory:" in database or url.query.get("mode") == "memory"
    ) and url.get_backend_name() == "sqlite"


def make_engine(url: URL, options: ConnectOptions) -> Engine:
    """Make the engine of a parsed URL. Connects to nothing yet.

    Raises:
        StoreRefused: the driver is not installed.
    """
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url, options)
    return _postgres_engine(url, options)


def check_engine(engine: Engine) -> None:
    """See that an engine which a caller made can be used, without touching it.

    Raises:
        StoreRefused: another database or driver, or memory that threads do not share.
    """
    if not isinstance(engine, Engine):
        problem = f"{type(engine).__name__} is neither a URL nor a sqlalchemy.Engine"
        raise errors.StoreRefused(problem=problem)
    parse(engine.url)
    if is_memory(engine.url) and isinstance(engine.pool, SingletonThreadPool):
        raise errors.StoreRefused(
            problem="each thread would have its own database in memory; make the "
            "engine with poolclass=StaticPool and check_same_thread=False"
        )


@attrs.frozen
class FileIdentity:
    """Which file a path named when an SQLite database was first used.

    Attributes:
        path: empty for a database in memory.
        inode: device and number; a number is not used again while the file is open.
    """

    path: str
    inode: tuple[int, int] | None

    @classmethod
    def of(cls, connection: sqlite3.Connection) -> FileIdentity:
        """Ask a connection which file it has open."""
        path = connection.execute("PRAGMA database_list").fetchone()[2] or ""
        return cls(path, _find_inode(path))

    def is_current(self) -> bool:
        """Whether the path still names that file."""
        return _find_inode(self.path) == self.inode


def _find_inode(path: str) -> tuple[int, int] | None:
    if not path:
        return None
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _sqlite_engine(url: URL, options: ConnectOptions) -> Engine:
    shared: dict[str, Any] = {
        "isolation_level": "AUTOCOMMIT",
        "connect_args": {
            "check_same_thread": False,
            "timeout": options.busy_timeout,
        },
    }
    if is_memory(url):
        return create_engine(url, poolclass=StaticPool, **shared)
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=options.pool_size,
        max_overflow=-1,  # threads wait for the write lock, never for a file handle
        **shared,
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA synchronous=FULL")
        _write_ahead(connection, options.busy_timeout)

    return engine


def _write_ahead(connection: sqlite3.Connection, patience: float) -> None:
    """Put the file into WAL mode, where readers and the writer do not block each other.

    The mode stays with the file, so this changes something once in its life. SQLite
    does not apply its busy timeout to the change, hence the loop.
    """
    give_up = time.monotonic() + patience
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() >= give_up:
                raise
            time.sleep(0.01)
        else:
            return


def _postgres_engine(url: URL, options: ConnectOptions) -> Engine:
    connect_args: dict[str, Any] = {"prepare_threshold": options.prepare_threshold}
    if "connect_timeout" not in url.query:
        connect_args["connect_timeout"] = options.connect_timeout
    if "application_name" not in url.query:
        connect_args["application_name"] = "workflow_engine"
    try:
        return create_engine(
            url,
            isolation_level="AUTOCOMMIT",
            pool_size=options.pool_size,
            max_overflow=options.pool_size,
            connect_args=connect_args,
        )
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise errors.StoreRefused(
            problem="PostgreSQL needs psycopg 3; "
            "pip install 'workflow-engine[postgres]' brings it"
        ) from error
