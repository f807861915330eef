"""A worker in another process notices at once; a deaf one only waits for its poll.

Polls are ten minutes unless a test is about them: what happens within a test's patience
happened because the worker was told.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from workflow_engine import Engine, Status

from .processes import Process, Processes, eventually, processes
from .program import everything, one_step

NEVER = '{"poll": 600}'
LISTENERS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
    "AND query LIKE 'LISTEN %'"
)


@contextmanager
def opened(url: str, folder: Path) -> Iterator[tuple[Processes, Engine]]:
    """Processes and an engine, for tests that choose database or environment."""
    with (
        processes(url, folder) as others,
        Engine(url, workflows=[everything, one_step]) as engine,
    ):
        yield others, engine


def started(others: Processes, options: str = NEVER) -> Process:
    worker = others.start("worker", options)
    worker.expect("working")
    return worker


def park(engine: Engine, worker: Process, id: str) -> None:
    engine.start(everything, id, 0)
    worker.expect(f"ended {id} suspended")


def sockets(folder: Path) -> set[Path]:
    """The sockets of listeners."""
    return {path for path in folder.rglob("*") if path.is_socket()}


def owners(folder: Path) -> set[int]:
    return {int(path.name.partition(".")[0]) for path in sockets(folder)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where listeners of this test bind. A socket's path must be short."""
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "run")
    return folder


def test_another_process_notices_a_start_and_a_wake(
    others: Processes, engine: Engine
) -> None:
    worker = started(others)
    park(engine, worker, "1")
    engine.resolve(everything, "1", "word", 5)
    worker.expect("ended 1 completed")
    assert engine.handle(everything, "1").result() == 17


def test_of_several_workers_somebody_notices_each_wake(
    others: Processes, engine: Engine
) -> None:
    workers = [started(others) for _ in range(2)]
    handles = [engine.start(one_step, str(number), number) for number in range(10)]
    assert [handle.result(30) for handle in handles] == list(range(10))
    assert others.repeats() == 0
    for worker in workers:
        worker.signal(signal.SIGTERM)
        worker.expect("stopped")


# --- deaf workers ---------------------------------------------------------------------


def test_a_worker_that_cannot_listen_notices_at_its_poll(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no folder").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "no folder"))
    with opened(sqlite_url, tmp_path) as (others, engine):
        worker = started(others, '{"poll": 0.1}')
        worker.expect("log not listening for")
        park(engine, worker, "1")
        engine.resolve(everything, "1", "word", 5)
        worker.expect("ended 1 completed")


@pytest.fixture
def server(postgres_url: str) -> Iterator[psycopg.Connection]:
    """Somebody at the console of the test's database."""
    url = make_url(postgres_url)
    with psycopg.connect(
        host=str(url.query["host"]),
        user=url.username,
        dbname=url.database,
        autocommit=True,
    ) as connection:
        yield connection


@pytest.mark.postgres
def test_a_listener_whose_connection_is_killed_connects_again(
    postgres_url: str, tmp_path: Path, server: psycopg.Connection
) -> None:
    with opened(postgres_url, tmp_path) as (others, engine):
        worker = started(others)
        park(engine, worker, "1")
        eventually(lambda: server.execute(LISTENERS).fetchone(), "it listens")
        (before,) = server.execute(LISTENERS).fetchone() or (0,)
        server.execute("SELECT pg_terminate_backend(%s)", [before])
        worker.expect("log not listening for")

        def listens_again() -> bool:
            return server.execute(LISTENERS).fetchone() not in (None, (before,))

        eventually(listens_again, "it listens again")
        engine.resolve(everything, "1", "word", 5)
        worker.expect("ended 1 completed")


@pytest.mark.postgres
def test_what_came_while_nobody_listened_is_found_when_somebody_does(
    postgres_url: str, tmp_path: Path, server: psycopg.Connection
) -> None:
    with opened(postgres_url, tmp_path) as (others, engine):
        worker = started(others)
        park(engine, worker, "1")
        eventually(lambda: server.execute(LISTENERS).fetchone(), "it listens")
        worker.pause()
        (pid,) = server.execute(LISTENERS).fetchone() or (0,)
        server.execute("SELECT pg_terminate_backend(%s)", [pid])
        eventually(lambda: not server.execute(LISTENERS).fetchone(), "it is gone")
        engine.resolve(everything, "1", "word", 5)
        worker.signal(signal.SIGCONT)
        worker.expect("ended 1 completed")


@pytest.mark.postgres
def test_a_worker_told_not_to_listen_holds_no_connection_for_it(
    postgres_url: str, tmp_path: Path, server: psycopg.Connection
) -> None:
    with opened(postgres_url, tmp_path) as (others, engine):
        worker = started(others, '{"poll": 0.1, "listen": false}')
        park(engine, worker, "1")
        engine.resolve(everything, "1", "word", 5)
        worker.expect("ended 1 completed")
        assert server.execute(LISTENERS).fetchall() == []


# --- sockets beside an SQLite file ----------------------------------------------------


def test_a_worker_that_stops_takes_its_socket_away(
    sqlite_url: str, tmp_path: Path, folder: Path
) -> None:
    with opened(sqlite_url, tmp_path) as (others, engine):
        worker = started(others)
        park(engine, worker, "1")
        eventually(lambda: owners(folder) == {worker.pid}, "it listens")
        worker.signal(signal.SIGTERM)
        worker.expect("stopped")
        assert sockets(folder) == set()


def test_the_socket_of_a_killed_worker_is_removed_by_whoever_finds_it(
    sqlite_url: str, tmp_path: Path, folder: Path
) -> None:
    with opened(sqlite_url, tmp_path) as (others, engine):
        killed, alive = started(others), started(others)
        eventually(lambda: owners(folder) == {killed.pid, alive.pid}, "they listen")
        killed.kill()
        assert owners(folder) == {killed.pid, alive.pid}
        engine.start(one_step, "1", 1)
        alive.expect("ended 1 completed")
        assert owners(folder) == {alive.pid}


def test_sockets_are_nobody_elses_business(
    sqlite_url: str, tmp_path: Path, folder: Path
) -> None:
    with opened(sqlite_url, tmp_path) as (others, _):
        started(others)
        eventually(lambda: sockets(folder), "it listens")
        (socket,) = sockets(folder)
        for directory in (socket.parent, socket.parent.parent):
            assert directory.stat().st_mode & 0o077 == 0


def test_sockets_are_not_put_where_somebody_else_leads_them(
    sqlite_url: str, tmp_path: Path, folder: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / f"workflow-engine-{os.getuid()}").symlink_to(elsewhere)
    with opened(sqlite_url, tmp_path) as (others, engine):
        worker = started(others, '{"poll": 0.1}')
        worker.expect("log not listening for")
        park(engine, worker, "1")
        assert list(elsewhere.iterdir()) == []


def test_a_worker_that_stands_still_does_not_hold_up_whoever_tells_it(
    sqlite_url: str, tmp_path: Path, folder: Path
) -> None:
    with opened(sqlite_url, tmp_path) as (others, engine):
        worker = started(others)
        eventually(lambda: sockets(folder), "it listens")
        worker.pause()
        # More hints than its socket has room for.
        for number in range(1000):
            engine.start(one_step, str(number), number)
        assert engine.describe(one_step, "999").status == Status.RUNNING
        worker.signal(signal.SIGCONT)
        assert engine.handle(one_step, "999").result(60) == 999
