"""A database after a fork of its process."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable

import pytest
from sqlalchemy import create_engine, text

from workflow_engine import errors
from workflow_engine.store.database import ConnectOptions, Database

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def _in_a_child(action: Callable[[], str | None]) -> str:
    """Fork, run the action in the child, and return what it says."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Newer versions of Python warn of what is tested here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            said = action() or "fine"
        except BaseException:  # noqa: BLE001 - the parent reports it
            said = traceback.format_exc()
        os.write(writing, said.encode())
        # Nothing of the test run may happen twice.
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def _wait_for(pipe: int) -> None:
    assert select.select([pipe], [], [], 30)[0], "the child did not come so far"


def _add(database: Database, number: int) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT INTO notes (n) VALUES (:n)"), {"n": number})


def _refusal(database: Database) -> str:
    problem = ""
    for use in (database.read, database.write):
        try:
            with use():
                return "it was not refused"
        except errors.EngineClosed as error:
            problem = str(error)
    return problem


@pytest.fixture
def notes(blank_url: str) -> str:
    """The URL of a database with a table of numbers."""
    with Database.open(blank_url) as database, database.write() as connection:
        connection.execute(text("CREATE TABLE notes (n INTEGER PRIMARY KEY)"))
    return blank_url


def test_a_database_of_ours_works_in_the_child_and_in_the_parent(notes: str) -> None:
    with Database.open(notes) as database:
        _add(database, 0)

        def in_child() -> None:
            for number in range(1, 20):
                _add(database, number)
            database.close()

        assert _in_a_child(in_child) == "fine"
        _add(database, 20)
        assert _in_a_child(lambda: _add(database, 21)) == "fine"
        with database.read() as connection:
            found = connection.execute(text("SELECT n FROM notes ORDER BY n"))
            assert list(found.scalars()) == list(range(22))


@pytest.mark.postgres
def test_parent_and_child_have_connections_of_their_own(
    blank_postgres_url: str,
) -> None:
    def pid() -> str:
        with database.read() as connection:
            answer = connection.execute(text("SELECT pg_backend_pid()"))
            return str(answer.scalar())

    with Database.open(blank_postgres_url) as database:
        before = pid()
        assert _in_a_child(pid) != before
        assert pid() == before


def test_parent_and_child_respect_each_others_lock_on_a_file(sqlite_url: str) -> None:
    impatient = ConnectOptions(busy_timeout=0.05)
    with Database.open(sqlite_url, options=impatient) as database:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE notes (n INTEGER PRIMARY KEY)"))
        up, locked, said = os.pipe(), os.pipe(), []

        def in_child() -> str:
            os.write(up[1], b"x")
            os.read(locked[0], 1)
            try:
                _add(database, 1)
            except errors.StoreUnavailable as error:
                return str(error)
            return "it was not locked"

        forking = threading.Thread(target=lambda: said.append(_in_a_child(in_child)))
        forking.start()
        _wait_for(up[0])
        with database.write():
            os.write(locked[1], b"x")
            forking.join()
        assert "database is locked" in said[0]
        for end in (*up, *locked):
            os.close(end)


def test_nothing_is_lost_when_the_parent_leaves_and_the_child_goes_on(
    sqlite_url: str,
) -> None:
    # The last connection to close a file removes its log. A child that believed in
    # the locks of its parent would go on writing to the removed one.
    parent = Database.open(sqlite_url)
    with parent.write() as connection:
        connection.execute(text("CREATE TABLE notes (n INTEGER PRIMARY KEY)"))
    up, left, said = os.pipe(), os.pipe(), []

    def in_child() -> None:
        _add(parent, 1)
        os.write(up[1], b"x")
        os.read(left[0], 1)
        _add(parent, 3)

    forking = threading.Thread(target=lambda: said.append(_in_a_child(in_child)))
    forking.start()
    _wait_for(up[0])
    parent.close()
    script = (
        "import sys; from sqlalchemy import text\n"
        "from workflow_engine.store.database import Database\n"
        "with Database.open(sys.argv[1]) as database, database.write() as connection:\n"
        "    connection.execute(text('INSERT INTO notes VALUES (2)'))\n"
    )
    subprocess.run([sys.executable, "-c", script, sqlite_url], check=True)
    os.write(left[1], b"x")
    forking.join()
    assert said == ["fine"]
    with Database.open(sqlite_url) as database, database.read() as connection:
        found = connection.execute(text("SELECT n FROM notes ORDER BY n"))
        assert list(found.scalars()) == [1, 2, 3]
    for end in (*up, *left):
        os.close(end)


def test_an_engine_of_the_callers_is_refused_in_the_child(notes: str) -> None:
    engine = create_engine(notes.replace("postgresql:", "postgresql+psycopg:"))
    with Database.open(engine) as database:
        _add(database, 1)
        assert "made after the fork" in _in_a_child(lambda: _refusal(database))
        _add(database, 2)
    engine.dispose()


def test_a_database_in_memory_is_refused_in_the_child() -> None:
    with Database.open("sqlite://") as database:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE notes (n INTEGER PRIMARY KEY)"))
        assert "in memory" in _in_a_child(lambda: _refusal(database))
        _add(database, 1)


def test_a_fork_amid_an_sqlite_transaction_is_refused_in_the_child(
    sqlite_url: str,
) -> None:
    inside, leave = threading.Event(), threading.Event()
    with Database.open(sqlite_url) as database:

        def stay() -> None:
            with database.write():
                inside.set()
                leave.wait(30)

        thread = threading.Thread(target=stay)
        thread.start()
        inside.wait(30)
        assert "spawn" in _in_a_child(lambda: _refusal(database))
        leave.set()
        thread.join()
        with database.write():
            pass


def test_a_closed_database_stays_closed_in_the_child(notes: str) -> None:
    database = Database.open(notes)
    database.close()
    assert "closed before" in _in_a_child(lambda: _refusal(database))
