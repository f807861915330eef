"""Real faults of a database, brought about at a chosen moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy
from sqlalchemy import event


@contextmanager
def answers_lost(wanted: Callable[[int], bool]) -> Iterator[list[int]]:
    """Commit, and then lose the connection before the answer comes.

    ``wanted`` chooses among the commits of this process, counted from 1. The list holds
    the numbers of those that were lost.
    """
    seen, lost = [0], list[int]()

    def lose(connection: sqlalchemy.Connection) -> None:
        seen[0] += 1
        if not wanted(seen[0]):
            return
        lost.append(seen[0])
        raw: Any = connection.connection.driver_connection
        raw.execute("COMMIT")
        if connection.dialect.name == "sqlite":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        raw.close()

    event.listen(sqlalchemy.Engine, "commit", lose)
    try:
        yield lost
    finally:
        event.remove(sqlalchemy.Engine, "commit", lose)


@contextmanager
def failing(part: str, error: Exception) -> Iterator[list[str]]:
    """Fail the statements that hold a text; the list has those that were tried."""
    tried: list[str] = []

    def fail(*given: Any) -> None:
        if part in given[2]:
            tried.append(given[2])
            raise error

    event.listen(sqlalchemy.Engine, "before_cursor_execute", fail)
    try:
        yield tried
    finally:
        event.remove(sqlalchemy.Engine, "before_cursor_execute", fail)
