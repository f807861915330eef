"""Two sessions on one database, one of them stopped where a test wants it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs
from sqlalchemy import event

from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

PATIENCE = 30.0
"""Seconds after which something that should have happened has not."""

T = TypeVar("T")


@attrs.frozen
class Session:
    """A store with connections of its own, as another process has them."""

    database: Database
    store: SqlStore


class Pause:
    """A point at which a session waits until it is told to go on."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._go = threading.Event()

    def here(self) -> None:
        """Called by the session: wait."""
        self._reached.set()
        assert self._go.wait(PATIENCE), "nobody said to go on"

    def wait_reached(self) -> None:
        """Called by the test: wait until the session waits."""
        assert self._reached.wait(PATIENCE), "the session never came here"

    def go_on(self) -> None:
        """Called by the test: let it go on."""
        self._go.set()


WRITES = r"INSERT|UPDATE|DELETE"


@contextmanager
def paused_after_writing(
    database: Database, statement: str = WRITES
) -> Iterator[Pause]:
    """Stop the first transaction that has written, before it commits.

    ``statement`` is a pattern of what it has to have executed.
    """
    pause = Pause()
    first = threading.Lock()

    def after(*given: Any) -> None:
        writes = re.match(statement, given[2])
        if writes and first.acquire(blocking=False):
            pause.here()

    event.listen(database.engine, "after_cursor_execute", after)
    try:
        yield pause
    finally:
        pause.go_on()
        event.remove(database.engine, "after_cursor_execute", after)


@contextmanager
def in_thread(call: Callable[[], T]) -> Iterator[Future[T]]:
    """Run something beside the test."""
    with ThreadPoolExecutor(1) as executor:
        yield executor.submit(call)


def wait_until_blocked(database: Database) -> None:
    """Wait until a session waits for another's row.

    SQLite shows nobody who waits for its lock; there it is enough that the other is
    first.
    """
    if database.dialect == "sqlite":
        return
    for _ in range(10_000):
        with database.read() as connection:
            (blocked,) = connection.exec_driver_sql(
                "SELECT count(*) FROM pg_stat_activity WHERE "
                "cardinality(pg_blocking_pids(pid)) > 0 AND datname = "
                "current_database()"
            ).one()
        if blocked:
            return
    raise AssertionError("no session is blocked")


class Killed(BaseException):
    """The process is gone, as far as a transaction can tell."""


def dies_before(database: Database, number: int, call: Callable[[], object]) -> bool:
    """Kill the call before it executes the statement of this number, from 0.

    False if it came to its end without executing so many.
    """
    done: list[str] = []

    def before(*given: Any) -> None:
        if len(done) == number:
            raise Killed
        done.append(given[2])

    event.listen(database.engine, "before_cursor_execute", before)
    try:
        call()
    except Killed:
        return True
    finally:
        event.remove(database.engine, "before_cursor_execute", before)
    return False
