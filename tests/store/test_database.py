from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, StaticPool, create_engine, event, text
from sqlalchemy.exc import IntegrityError

from workflow_engine import errors
from workflow_engine.store import schema
from workflow_engine.store.database import ConnectOptions, Database

from .. import postgres


@pytest.fixture
def notes(blank_url: str) -> Iterator[Database]:
    """Each database in turn, with a table of numbers."""
    with Database.open(blank_url) as database:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE notes (n INTEGER PRIMARY KEY)"))
        yield database


def _add(database: Database, number: int) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT INTO notes (n) VALUES (:n)"), {"n": number})


def _add_and_raise(database: Database, error: BaseException) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT INTO notes (n) VALUES (1)"))
        raise error


def _all(database: Database) -> list[int]:
    with database.read() as connection:
        return list(
            connection.execute(text("SELECT n FROM notes ORDER BY n")).scalars()
        )


# --- one transaction ------------------------------------------------------------------


def test_a_unit_of_work_commits_when_it_ends(notes: Database) -> None:
    _add(notes, 1)
    assert _all(notes) == [1]


def test_a_unit_of_work_rolls_back_when_an_exception_leaves_it(notes: Database) -> None:
    with pytest.raises(KeyboardInterrupt):
        _add_and_raise(notes, KeyboardInterrupt())
    assert _all(notes) == []


def test_a_broken_constraint_passes_through_and_rolls_back(notes: Database) -> None:
    _add(notes, 1)
    with pytest.raises(IntegrityError), notes.write() as connection:
        connection.execute(text("INSERT INTO notes (n) VALUES (2), (1)"))
    assert _all(notes) == [1]


def test_statements_on_the_driver_share_the_transaction(notes: Database) -> None:
    with notes.write() as connection:
        driver: Any = connection.connection.driver_connection
        driver.execute("INSERT INTO notes (n) VALUES (1)")
        found = connection.execute(text("SELECT n FROM notes")).all()
        assert found == [(1,)]
    with contextlib.suppress(ZeroDivisionError), notes.write() as connection:
        driver = connection.connection.driver_connection
        driver.execute("INSERT INTO notes (n) VALUES (2)")
        raise ZeroDivisionError
    assert _all(notes) == [1]


def test_a_savepoint_inside_a_unit_of_work_works(notes: Database) -> None:
    with notes.write() as connection:
        connection.execute(text("INSERT INTO notes (n) VALUES (1)"))
        nested = connection.begin_nested()
        connection.execute(text("INSERT INTO notes (n) VALUES (2)"))
        nested.rollback()
    assert _all(notes) == [1]


def test_a_read_sees_one_moment(notes: Database) -> None:
    count = text("SELECT count(*) FROM notes")
    with notes.read() as connection:
        assert connection.execute(count).scalar() == 0
        _add(notes, 1)
        assert connection.execute(count).scalar() == 0
    assert _all(notes) == [1]


def test_a_read_keeps_nothing(notes: Database) -> None:
    if notes.dialect == "postgresql":
        with pytest.raises(errors.StoreRefused), notes.read() as connection:
            connection.execute(text("INSERT INTO notes (n) VALUES (1)"))
    else:
        with notes.read() as connection:
            connection.execute(text("INSERT INTO notes (n) VALUES (1)"))
    assert _all(notes) == []


def test_nothing_works_after_close_and_closing_twice_is_fine(notes: Database) -> None:
    notes.close()
    notes.close()
    for use in (notes.read, notes.write):
        with pytest.raises(errors.EngineClosed, match="closed"), use():
            pass


# --- PostgreSQL -----------------------------------------------------------------------


@pytest.mark.postgres
def test_isolation_is_what_we_say_whatever_the_role_prefers(
    postgres_server: postgres.Server, blank_postgres_url: str
) -> None:
    name = blank_postgres_url.rpartition("/")[2].partition("?")[0]
    postgres_server.execute(
        f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
    )
    show = text("SHOW transaction_isolation")
    with Database.open(blank_postgres_url) as database:
        with database.write() as connection:
            assert connection.execute(show).scalar() == "read committed"
        with database.read() as connection:
            assert connection.execute(show).scalar() == "repeatable read"


@pytest.mark.postgres
def test_a_swallowed_failure_is_not_taken_for_a_commit(blank_postgres_url: str) -> None:
    def swallow(database: Database) -> None:
        with database.write() as connection:
            connection.execute(text("INSERT INTO notes (n) VALUES (2)"))
            with contextlib.suppress(IntegrityError):
                connection.execute(text("INSERT INTO notes (n) VALUES (1)"))

    with Database.open(blank_postgres_url) as database:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE notes (n INTEGER PRIMARY KEY)"))
        _add(database, 1)
        with pytest.raises(RuntimeError, match="swallowed"):
            swallow(database)
        assert _all(database) == [1]


@pytest.mark.postgres
def test_nothing_is_left_behind_in_a_session(blank_postgres_url: str) -> None:
    # But for what the transaction that asks was told in its own BEGIN.
    settings = text(
        "SELECT name, setting FROM pg_settings WHERE source = 'session'"
        " AND name NOT LIKE 'transaction_%'"
    )
    locks = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
    prepared = text("SELECT count(*) FROM pg_prepared_statements")
    with Database.open(blank_postgres_url) as database:
        schema.upgrade(database)
        for number in range(20):
            with database.write() as connection:
                connection.execute(text("SELECT :n"), {"n": number})
        with database.read() as connection:
            assert connection.execute(settings).all() == []
            assert connection.execute(prepared).scalar() == 0
            assert connection.execute(locks).scalar() == 0


@pytest.mark.postgres
def test_statements_are_prepared_where_the_caller_asks(blank_postgres_url: str) -> None:
    prepared = text("SELECT count(*) FROM pg_prepared_statements")
    options = ConnectOptions(prepare_threshold=0)
    with (
        Database.open(blank_postgres_url, options=options) as database,
        database.read() as connection,
    ):
        connection.execute(text("SELECT 1"))
        count = connection.execute(prepared).scalar()
        assert count is not None
        assert count > 0


@pytest.mark.postgres
def test_no_session_is_left_idle_in_a_transaction(
    postgres_server: postgres.Server, blank_postgres_url: str
) -> None:
    def idle_in_transaction() -> int:
        rows = postgres_server.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in trans%'"
        )
        count: int = rows[0][0]
        return count

    with Database.open(blank_postgres_url) as database:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE notes (n INTEGER)"))
            assert idle_in_transaction() == 1
        with pytest.raises(ZeroDivisionError):
            _add_and_raise(database, ZeroDivisionError())
        assert idle_in_transaction() == 0


# --- SQLite ---------------------------------------------------------------------------


def test_a_file_of_ours_is_in_wal_mode_and_synced_at_each_commit(
    sqlite_url: str,
) -> None:
    with Database.open(sqlite_url) as database, database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


def test_a_unit_of_work_takes_the_write_lock_before_it_reads(
    sqlite_url: str, tmp_path: Path
) -> None:
    with Database.open(sqlite_url) as database, database.write():
        other = sqlite3.connect(tmp_path / "test.db", timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()


def test_readers_go_on_while_somebody_writes(sqlite_url: str) -> None:
    with Database.open(sqlite_url) as database:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE notes (n INTEGER)"))
        with database.write() as connection:
            connection.execute(text("INSERT INTO notes (n) VALUES (1)"))
            assert _all(database) == []


def test_a_unit_of_work_inside_another_is_refused_rather_than_hanging(
    sqlite_url: str,
) -> None:
    with (
        Database.open(sqlite_url) as database,
        database.write(),
        pytest.raises(RuntimeError, match="in this thread"),
        database.write(),
    ):
        pass


def test_another_working_directory_later_means_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Database.open("sqlite:///here.db") as database:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        with database.write() as connection:
            connection.execute(text("CREATE TABLE notes (n INTEGER)"))
    assert (tmp_path / "here.db").exists()
    assert not (tmp_path / "elsewhere" / "here.db").exists()


# --- threads --------------------------------------------------------------------------


def test_threads_take_turns_without_an_error(notes: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: _add(notes, n), range(100)))
    assert _all(notes) == list(range(100))


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_threads_share_one_database_in_memory(url: str) -> None:
    with Database.open(url) as database:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE notes (n INTEGER PRIMARY KEY)"))

        def add_and_look(number: int) -> bool:
            _add(database, number)
            return number in _all(database)

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(add_and_look, range(100)))
        assert _all(database) == list(range(100))


def test_a_thread_waits_for_another_no_longer_than_the_busy_timeout(
    sqlite_url: str,
) -> None:
    options = ConnectOptions(busy_timeout=0.05)
    inside, leave = threading.Event(), threading.Event()
    with Database.open(sqlite_url, options=options) as database:

        def stay() -> None:
            with database.write():
                inside.set()
                leave.wait(30)

        thread = threading.Thread(target=stay)
        thread.start()
        inside.wait(30)
        with (
            pytest.raises(errors.StoreUnavailable, match="other threads"),
            database.write(),
        ):
            pass
        leave.set()
        thread.join()


# --- a caller's engine ----------------------------------------------------------------


@pytest.fixture(params=["usual", "NullPool"])
def theirs(blank_url: str, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine that somebody else made, on each database in turn."""
    url = blank_url.replace("postgresql:", "postgresql+psycopg:")
    pool = NullPool if request.param == "NullPool" else None
    engine = create_engine(url, poolclass=pool)
    yield engine
    engine.dispose()


def test_a_callers_engine_is_used_but_never_changed_or_disposed(
    theirs: Engine,
) -> None:
    disposed: list[Engine] = []
    event.listen(theirs, "engine_disposed", disposed.append)
    pool = theirs.pool
    with theirs.begin() as connection:
        connection.execute(text("CREATE TABLE notes (n INTEGER PRIMARY KEY)"))
        usual = connection.get_isolation_level()
    with Database.open(theirs) as database:
        assert not database.owned
        _add(database, 1)
        assert _all(database) == [1]
        assert database.engine.pool is pool
    assert disposed == []
    assert theirs.pool is pool
    assert not theirs.dispatch.begin
    assert not theirs.dispatch.engine_connect
    assert not theirs.pool.dispatch.checkout
    with theirs.connect() as connection:
        assert connection.get_isolation_level() == usual
        connection.execute(text("INSERT INTO notes (n) VALUES (2)"))
        connection.rollback()
        assert connection.execute(text("SELECT n FROM notes")).all() == [(1,)]


def test_an_engine_that_begins_transactions_by_itself_still_takes_the_write_lock(
    sqlite_url: str, tmp_path: Path
) -> None:
    engine = create_engine(sqlite_url, connect_args={"timeout": 0})

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    with Database.open(engine) as database:
        with database.write():
            other = sqlite3.connect(tmp_path / "test.db", timeout=0)
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
            other.close()
        with database.read() as connection:
            connection.execute(text("SELECT 1"))
    engine.dispose()


def test_an_engine_that_skips_rollbacks_does_not_keep_a_transaction(
    blank_url: str,
) -> None:
    url = blank_url.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    # The argument of this name came after SQLAlchemy 2.0.
    engine.dialect.skip_autocommit_rollback = True
    with Database.open(engine) as database:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE notes (n INTEGER PRIMARY KEY)"))
        with pytest.raises(ZeroDivisionError):
            _add_and_raise(database, ZeroDivisionError())
        _add(database, 2)
        assert _all(database) == [2]
        _add(database, 3)
        assert _all(database) == [2, 3]
    engine.dispose()


def test_an_engine_in_memory_is_used_if_its_threads_share_it() -> None:
    engine = create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )
    with Database.open(engine) as database:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE notes (n INTEGER PRIMARY KEY)"))
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: _add(database, n), range(20)))
        assert _all(database) == list(range(20))
    engine.dispose()
