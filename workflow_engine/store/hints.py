"""Hints that something became runnable, so that workers need not wait for their poll.

A hint promises nothing and carries nothing: whoever hears it looks at the database, and
whoever misses it looks a poll later. Within a process a hint is a call. Between
processes it is, on PostgreSQL, a NOTIFY in the transaction that made something
runnable, heard on a connection of its own; on SQLite, a datagram to each listener's
socket, which lie in a directory of the user's own, named after the file. An in-memory
database has no others.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import selectors
import socket
import stat
import tempfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, text

from workflow_engine.store import connect
from workflow_engine.store.database import Database

logger = logging.getLogger("workflow_engine")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Seconds before a lost listener is opened again; each pause doubles the last."""


class Ear(Protocol):
    """Hears hints of other processes."""

    def open(self) -> Any:
        """Begin to listen; what can be waited on until it is readable."""

    def take(self) -> bool:
        """Take what has come; whether it was a hint."""

    def close(self) -> None:
        """Listen no more."""


class Hints:
    """Hints about one database and schema."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ears: set[Callable[[], None]] = set()
        self._lock = threading.Lock()
        self._notify = text("SELECT pg_notify(:channel, '')")
        self._channel = _channel(database.schema or "")

    def within(self, connection: Connection) -> None:
        """Part of the transaction that makes something runnable."""
        if self._database.dialect == "postgresql":
            connection.execute(self._notify, {"channel": self._channel})

    def after(self) -> None:
        """After that transaction's commit: tell this process, and SQLite's others."""
        self._tell_this_process()
        if self._database.dialect == "sqlite":
            for path in _sockets(self._database):
                _send(path)

    def listen(self, heard: Callable[[], None], *, others: bool = True) -> Listener:
        """Call ``heard`` at each hint, from any thread, until closed.

        Without ``others`` only at those of this process.
        """
        with self._lock:
            self._ears.add(heard)
        ear = self._ear() if others else None
        return Listener(ear, heard, lambda: self._forget(heard))

    def _ear(self) -> Ear | None:
        if self._database.dialect == "postgresql":
            return NotifyEar(self._database, self._channel)
        directory = _directory(self._database)
        return None if directory is None else SocketEar(directory)

    def _forget(self, heard: Callable[[], None]) -> None:
        with self._lock:
            self._ears.discard(heard)

    def _tell_this_process(self) -> None:
        with self._lock:
            ears = list(self._ears)
        for heard in ears:
            heard()


class Listener:
    """A thread that listens for other processes. Trouble only makes it deaf a while."""

    def __init__(
        self, ear: Ear | None, heard: Callable[[], None], forget: Callable[[], None]
    ) -> None:
        self._ear = ear
        self._heard = heard
        self._forget = forget
        self._stop = threading.Event()
        self._waker, self._woken = socket.socketpair()
        self._thread: threading.Thread | None = None
        if ear is not None:
            self._thread = threading.Thread(
                target=self._listen, name="workflow-engine-listener", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Stop listening. May be called twice."""
        self._forget()
        self._stop.set()
        with contextlib.suppress(OSError):
            self._waker.send(b".")
        if self._thread is not None:
            self._thread.join(timeout=5)
            self._thread = None
        self._waker.close()
        self._woken.close()

    def _listen(self) -> None:
        assert self._ear is not None
        pause = FIRST_PAUSE
        while not self._stop.is_set():
            try:
                readable = self._ear.open()
                self._heard()  # something may have come while nobody listened
                pause = FIRST_PAUSE
                self._attend(readable)
            except Exception as error:  # noqa: BLE001 - whatever it is, polling goes on
                logger.warning("not listening for %.2g s: %s", pause, error)
                self._stop.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            finally:
                with contextlib.suppress(Exception):
                    self._ear.close()

    def _attend(self, readable: Any) -> None:
        assert self._ear is not None
        with selectors.DefaultSelector() as selector:
            selector.register(readable, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._stop.is_set():
                selector.select()
                if not self._stop.is_set() and self._ear.take():
                    self._heard()


class NotifyEar:
    """LISTEN, on a connection that belongs to no pool."""

    def __init__(self, database: Database, channel: str) -> None:
        self._database = database
        self._channel = channel
        self._raw: Any = None

    def open(self) -> Any:
        """Connect and LISTEN."""
        connection = self._database.engine.connect()
        # Asked for first: a detached connection does not tell its driver's any more.
        self._raw = connection.connection.driver_connection
        connection.detach()
        self._raw.rollback()
        self._raw.autocommit = True
        self._raw.execute(f'LISTEN "{self._channel}"')
        return self._raw.fileno()

    def take(self) -> bool:
        """Take all notifications that have come."""
        connection = self._raw.pgconn
        connection.consume_input()
        heard = False
        while connection.notifies() is not None:
            heard = True
        return heard

    def close(self) -> None:
        """Close the connection."""
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()


class SocketEar:
    """A datagram socket in the directory of an SQLite file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._socket: socket.socket | None = None
        self._path: Path | None = None

    def open(self) -> Any:
        """Bind a socket under a name of its own."""
        _make_private(self._directory)
        self._path = self._directory / f"{os.getpid()}.{secrets.token_hex(4)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(str(self._path))
        return self._socket

    def take(self) -> bool:
        """Take all datagrams that have come."""
        assert self._socket is not None
        heard = False
        with contextlib.suppress(BlockingIOError):
            while self._socket.recv(16):
                heard = True
        return heard

    def close(self) -> None:
        """Close the socket and remove its name."""
        if self._socket is not None:
            self._socket.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _channel(schema: str) -> str:
    return f"workflow_engine_{zlib.crc32(schema.encode()):08x}"


def _directory(database: Database) -> Path | None:
    """Where listeners of an SQLite file bind; None for an in-memory database."""
    if connect.is_memory(database.engine.url):
        return None
    file = str(Path(database.engine.url.database or "").resolve())
    name = hashlib.sha256(file.encode()).hexdigest()[:16]
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(base) / f"workflow-engine-{os.getuid()}" / name


def _sockets(database: Database) -> list[Path]:
    directory = _directory(database)
    if directory is None:
        return []
    try:
        return list(directory.iterdir()) if _is_ours(directory.parent) else []
    except OSError:
        return []


def _make_private(directory: Path) -> None:
    """Make a directory, and the one it is in, for this user alone.

    Raises:
        PermissionError: somebody else was there first, as may happen in a directory of
            temporary files.
    """
    for each in (directory.parent, directory):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(each):
            raise PermissionError(f"{each} is not a directory of this user")


def _is_ours(directory: Path) -> bool:
    found = directory.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _send(path: Path) -> None:
    """Send a hint to a listener; remove the name of one that is gone."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(b".", str(path))
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
    except OSError:
        pass  # full, or just closed: it will look anyway
