"""What real errors of real databases become."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, make_url, text

from workflow_engine import errors
from workflow_engine.store import schema
from workflow_engine.store.database import ConnectOptions, Database, is_unavailable

from .. import postgres

IMPATIENT = ConnectOptions(busy_timeout=0.05)


def _run(database: Database, *statements: str) -> None:
    with database.write() as connection:
        for statement in statements:
            connection.execute(text(statement))


def _unavailable(use: Callable[[], None]) -> errors.StoreUnavailable:
    with pytest.raises(errors.StoreUnavailable) as caught:
        use()
    assert is_unavailable(caught.value)
    assert caught.value.__cause__ is not None
    assert is_unavailable(caught.value.__cause__)
    return caught.value


# --- SQLite ---------------------------------------------------------------------------


@contextlib.contextmanager
def _write_lock(path: Path) -> Iterator[sqlite3.Connection]:
    """Hold the write lock of a file on a connection of somebody else."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield other
    finally:
        other.close()


def test_a_lock_that_somebody_holds_for_three_seconds_is_waited_for(
    sqlite_url: str, tmp_path: Path
) -> None:
    with Database.open(sqlite_url) as database:
        _run(database, "CREATE TABLE notes (n INTEGER)")
        with _write_lock(tmp_path / "test.db") as other:
            release = threading.Timer(3, other.rollback)
            release.start()
            _run(database, "INSERT INTO notes (n) VALUES (1)")
            assert release.finished.is_set()


def test_a_lock_held_too_long_is_unavailable_and_nothing_happened(
    sqlite_url: str, tmp_path: Path
) -> None:
    with Database.open(sqlite_url, options=IMPATIENT) as database:
        _run(database, "CREATE TABLE notes (n INTEGER)")
        with _write_lock(tmp_path / "test.db"):
            error = _unavailable(lambda: _run(database, "INSERT INTO notes VALUES (1)"))
            assert not error.ambiguous
            assert "database is locked" in str(error)
        _run(database, "INSERT INTO notes (n) VALUES (2)")


def test_a_fresh_file_that_somebody_locks_is_unavailable(
    sqlite_url: str, tmp_path: Path
) -> None:
    with _write_lock(tmp_path / "test.db") as other:
        other.execute("CREATE TABLE notes (n INTEGER)")
        with Database.open(sqlite_url, options=IMPATIENT) as database:
            _unavailable(lambda: _run(database, "SELECT 1"))


def test_a_full_disk_is_unavailable_and_the_next_try_works(sqlite_url: str) -> None:
    big = "INSERT INTO notes VALUES (zeroblob(1000000))"
    with Database.open(sqlite_url) as database:
        _run(database, "CREATE TABLE notes (n BLOB)")
        # The limit belongs to the connection, and the pool has but one.
        error = _unavailable(lambda: _run(database, "PRAGMA max_page_count = 10", big))
        assert "full" in str(error)
        assert not error.ambiguous
        _run(database, "PRAGMA max_page_count = 100000")
        _run(database, big)
        with database.read() as connection:
            count = connection.execute(text("SELECT count(*) FROM notes")).scalar()
        assert count == 1


def test_a_read_only_file_is_refused_for_writing_and_can_be_read(
    sqlite_url: str, tmp_path: Path
) -> None:
    with Database.open(sqlite_url) as database:
        schema.ensure(database)
    url = f"sqlite:///file:{tmp_path}/test.db?mode=ro&uri=true"
    with Database.open(url) as database:
        schema.ensure(database)
        with pytest.raises(errors.StoreRefused, match="readonly") as caught:
            _run(database, "DELETE FROM wf_journal")
        assert not is_unavailable(caught.value)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_deleted_or_replaced_under_us_is_refused(
    sqlite_url: str, tmp_path: Path, replaced: bool
) -> None:
    with Database.open(sqlite_url) as database:
        _run(database, "CREATE TABLE notes (n INTEGER)")
        for path in tmp_path.glob("test.db*"):
            path.unlink()
        if replaced:
            (tmp_path / "test.db").touch()
        with pytest.raises(errors.StoreRefused, match="deleted or replaced"):
            _run(database, "INSERT INTO notes (n) VALUES (1)")
        with pytest.raises(errors.StoreRefused), database.read():
            pass


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with Database.open(f"sqlite:///{tmp_path}/nowhere/test.db") as database:
        with pytest.raises(errors.StoreRefused, match="unable to open"):
            schema.ensure(database)
        assert not (tmp_path / "nowhere").exists()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test.db").write_bytes(b"a photograph of a cat" * 1000)
    with (
        Database.open(f"sqlite:///{tmp_path}/test.db") as database,
        pytest.raises(errors.StoreRefused, match="not a database"),
    ):
        schema.ensure(database)


def test_a_damaged_file_is_refused(sqlite_url: str, tmp_path: Path) -> None:
    with Database.open(sqlite_url) as database:
        _run(database, "CREATE TABLE notes (n BLOB)")
        _run(database, "INSERT INTO notes VALUES (zeroblob(100000))")
    with (tmp_path / "test.db").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    with (
        Database.open(sqlite_url) as database,
        pytest.raises(errors.StoreRefused, match="malformed"),
    ):
        _run(database, "INSERT INTO notes SELECT n FROM notes")


def test_a_broken_statement_is_no_trouble_of_the_database(sqlite_url: str) -> None:
    with Database.open(sqlite_url) as database:
        with pytest.raises(Exception, match="no such table") as caught:
            _run(database, "SELECT * FROM nowhere")
        assert not isinstance(caught.value, errors.WorkflowError)
        assert not is_unavailable(caught.value)


# --- PostgreSQL -----------------------------------------------------------------------


@pytest.fixture
def database(blank_postgres_url: str) -> Iterator[Database]:
    """A PostgreSQL database with a table of numbers."""
    with Database.open(blank_postgres_url) as database:
        _run(database, "CREATE TABLE notes (n INTEGER PRIMARY KEY)")
        yield database


def _pid(connection: Connection) -> int:
    pid: int = connection.connection.driver_connection.info.backend_pid  # type: ignore[union-attr]
    return pid


def _terminate(server: postgres.Server, pid: int) -> None:
    """End a backend, and wait until it is gone."""
    server.execute(f"SELECT pg_terminate_backend({pid}, 30000)")


@pytest.mark.postgres
def test_a_pooled_connection_that_died_is_replaced_unnoticed(
    postgres_server: postgres.Server, database: Database
) -> None:
    for use in (database.write, database.read):
        # Two idle connections, both dead afterwards.
        with database.write() as one, database.write() as two:
            pids = _pid(one), _pid(two)
        for pid in pids:
            _terminate(postgres_server, pid)
        with use() as connection:
            assert connection.execute(text("SELECT 1")).scalar() == 1
            assert _pid(connection) not in pids


@pytest.mark.postgres
def test_a_pooled_connection_of_a_caller_that_died_is_replaced_unnoticed(
    postgres_server: postgres.Server, blank_postgres_url: str
) -> None:
    url = make_url(blank_postgres_url).set(drivername="postgresql+psycopg")
    engine: Engine = create_engine(url)
    with Database.open(engine) as database:
        with database.write() as one, database.write() as two:
            pids = _pid(one), _pid(two)
        for pid in pids:
            _terminate(postgres_server, pid)
        for _ in range(2):
            _run(database, "SELECT 1")
    engine.dispose()


@pytest.mark.postgres
@pytest.mark.parametrize("on_the_driver", [False, True])
def test_a_connection_lost_in_the_middle_is_unavailable_and_nothing_happened(
    postgres_server: postgres.Server, database: Database, on_the_driver: bool
) -> None:
    def lose() -> None:
        with database.write() as connection:
            connection.execute(text("INSERT INTO notes (n) VALUES (1)"))
            _terminate(postgres_server, _pid(connection))
            if on_the_driver:
                driver: Any = connection.connection.driver_connection
                driver.execute("INSERT INTO notes (n) VALUES (2)")
            else:
                connection.execute(text("INSERT INTO notes (n) VALUES (2)"))

    assert not _unavailable(lose).ambiguous
    with database.read() as connection:
        assert connection.execute(text("SELECT n FROM notes")).all() == []


@pytest.mark.postgres
def test_a_connection_lost_while_committing_is_ambiguous(database: Database) -> None:
    _run(
        database,
        "CREATE FUNCTION hang_up() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON notes"
        " INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hang_up()",
    )
    error = _unavailable(lambda: _run(database, "INSERT INTO notes (n) VALUES (1)"))
    assert error.ambiguous
    with database.read() as connection:
        assert connection.execute(text("SELECT n FROM notes")).all() == []


@pytest.mark.postgres
def test_a_constraint_broken_at_commit_is_no_trouble_of_the_database(
    database: Database,
) -> None:
    _run(
        database,
        "CREATE TABLE pairs (n INTEGER REFERENCES notes INITIALLY DEFERRED)",
    )
    with pytest.raises(Exception, match="foreign key"):
        _run(database, "INSERT INTO pairs (n) VALUES (1)")
    _run(database, "INSERT INTO notes (n) VALUES (1)")


@pytest.mark.postgres
def test_of_two_in_a_deadlock_one_is_unavailable(database: Database) -> None:
    _run(database, "INSERT INTO notes (n) VALUES (1), (2)")
    met = threading.Barrier(2)
    troubles: list[errors.StoreUnavailable] = []

    def lock(first: int, second: int) -> None:
        statement = text("SELECT 1 FROM notes WHERE n = :n FOR UPDATE")
        try:
            with database.write() as connection:
                connection.execute(text("SET LOCAL deadlock_timeout = '10ms'"))
                connection.execute(statement, {"n": first})
                met.wait(30)
                connection.execute(statement, {"n": second})
        except errors.StoreUnavailable as error:
            troubles.append(error)

    other = threading.Thread(target=lock, args=(2, 1))
    other.start()
    lock(1, 2)
    other.join()
    (trouble,) = troubles
    assert "deadlock" in str(trouble)
    assert not trouble.ambiguous


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (["SET LOCAL statement_timeout = '20ms'", "SELECT pg_sleep(30)"], "timeout"),
        (["DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"], "40001"),
        (["DO $$ BEGIN RAISE SQLSTATE '53100'; END $$"], "53100"),
        (["DO $$ BEGIN RAISE SQLSTATE '58030'; END $$"], "58030"),
    ],
)
def test_what_may_pass_is_unavailable(
    database: Database, statements: list[str], words: str
) -> None:
    error = _unavailable(lambda: _run(database, *statements))
    assert words in str(error) or words in str(error.__cause__)
    assert not error.ambiguous


@pytest.mark.postgres
def test_a_role_that_may_only_read_is_refused_for_writing(
    postgres_server: postgres.Server, database: Database
) -> None:
    _name = database.engine.url.database
    postgres_server.execute(
        f"ALTER DATABASE {_name} SET default_transaction_read_only = on"
    )
    with Database.open(database.engine.url) as reading:
        with pytest.raises(errors.StoreRefused, match="read-only"):
            _run(reading, "INSERT INTO notes (n) VALUES (1)")
        with reading.read() as connection:
            assert connection.execute(text("SELECT n FROM notes")).all() == []


@pytest.mark.postgres
def test_too_many_connections_are_unavailable(
    postgres_server: postgres.Server, blank_postgres_url: str
) -> None:
    postgres_server.execute("CREATE ROLE t_few LOGIN CONNECTION LIMIT 1")
    url = make_url(blank_postgres_url).set(username="t_few")
    with Database.open(url) as database, database.read():
        error = _unavailable(lambda: _run(database, "SELECT 1"))
        assert "too many connections" in str(error)
    postgres_server.execute("DROP ROLE t_few")


@pytest.mark.postgres
def test_a_pool_that_is_exhausted_is_unavailable(blank_postgres_url: str) -> None:
    url = make_url(blank_postgres_url).set(drivername="postgresql+psycopg")
    engine = create_engine(url, pool_size=1, max_overflow=0, pool_timeout=0.01)
    with Database.open(engine) as database, database.read():
        error = _unavailable(lambda: _run(database, "SELECT 1"))
        assert "every connection is in use" in str(error)
    engine.dispose()


def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    url = f"postgresql://me:hunter2@/orders?host={tmp_path}"
    with Database.open(url) as database:
        error = _unavailable(lambda: _run(database, "SELECT 1"))
        assert not error.ambiguous
        assert "hunter2" not in str(error)
