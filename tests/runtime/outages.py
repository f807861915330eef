"""A database that is away for a while, at a chosen moment."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy
from sqlalchemy import event


@contextmanager
def away(is_wanted: Callable[[str, Any], bool]) -> Iterator[list[str]]:
    """Lose the connection just before a statement or commit that is wanted.

    ``is_wanted`` is asked with the text, ``COMMIT`` for a commit, and the parameters.
    The list holds what was lost.
    """
    lost: list[str] = []

    def before_statement(
        connection: sqlalchemy.Connection,
        cursor: Any,
        statement: str,
        parameters: Any,
        *_: Any,
    ) -> None:
        if is_wanted(statement, parameters):
            lost.append(statement)
            _lose(connection)

    def before_commit(connection: sqlalchemy.Connection) -> None:
        if is_wanted("COMMIT", None):
            lost.append("COMMIT")
            _lose(connection)

    event.listen(sqlalchemy.Engine, "before_cursor_execute", before_statement)
    event.listen(sqlalchemy.Engine, "commit", before_commit)
    try:
        yield lost
    finally:
        event.remove(sqlalchemy.Engine, "before_cursor_execute", before_statement)
        event.remove(sqlalchemy.Engine, "commit", before_commit)


def _lose(connection: sqlalchemy.Connection) -> None:
    raw: Any = connection.connection.driver_connection
    if connection.dialect.name == "sqlite":
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error
    raw.close()


@contextmanager
def after_tries(number: int, then: Callable[[], object]) -> Iterator[list[str]]:
    """Do something when the engine has said so often that it tries again.

    The list holds what it said.
    """
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "trying again" in record.getMessage():
                said.append(record.getMessage())
                if len(said) == number:
                    then()

    listener = Listener()
    logger = logging.getLogger("workflow_engine")
    logger.addHandler(listener)
    try:
        yield said
    finally:
        logger.removeHandler(listener)
