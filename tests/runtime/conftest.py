"""A bench for whole runs: engines on one database, a clock that stands still.

A run leaves its database in good order, so these tests share one on PostgreSQL and are
given a copy of one on SQLite; making each a new one would take longer than the tests.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy

from workflow_engine import Engine
from workflow_engine.testing import TestClock

from .. import postgres
from ..pools import pooled
from .bench import Bench, engine_of

TABLES = (
    "instances",
    "journal",
    "snapshots",
    "timers",
    "awakeables",
    "children",
    "messages",
)


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def bench(database_url: str, clock: TestClock) -> Iterator[Bench]:
    """Each database in turn."""
    with pooled(database_url), Bench.on(database_url, clock) as bench:
        yield bench


@pytest.fixture
def sqlite_bench(sqlite_url: str, clock: TestClock) -> Iterator[Bench]:
    """SQLite alone, for what has nothing to do with the database."""
    with pooled(sqlite_url), Bench.on(sqlite_url, clock) as bench:
        yield bench


@pytest.fixture(scope="session")
def upgraded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file as an engine makes it."""
    path = tmp_path_factory.mktemp("upgraded") / "upgraded.db"
    with Engine(f"sqlite:///{path}"):
        return path


@pytest.fixture
def sqlite_url(upgraded_file: Path, tmp_path: Path) -> str:
    """A copy of the file."""
    path = shutil.copy(upgraded_file, tmp_path / "test.db")
    return f"sqlite:///{path}"


@pytest.fixture(scope="session")
def shared_postgres_url(postgres_server: postgres.Server) -> Iterator[str]:
    """A database for all of these tests."""
    with postgres_server.database(postgres.TEMPLATE) as url, pooled(url):
        yield url


@pytest.fixture
def postgres_url(shared_postgres_url: str) -> str:
    """The database, empty."""
    with engine_of(shared_postgres_url).begin() as connection:
        for table in TABLES:
            statement = f"DELETE FROM workflow_engine.wf_{table}"
            connection.execute(sqlalchemy.text(statement))
    return shared_postgres_url
