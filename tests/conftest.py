"""Databases for the tests: real SQLite files, and a real PostgreSQL server.

No test is skipped because a server is missing: the first one that needs it starts it,
and it serves the whole run. Each test has a database of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from workflow_engine.store import schema
from workflow_engine.store.database import Database

from . import postgres

ON_BOTH = [
    pytest.param("sqlite", id="sqlite"),
    pytest.param("postgresql", id="postgresql", marks=pytest.mark.postgres),
]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """The server of this run."""
    with postgres.running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: postgres.Server) -> Iterator[str]:
    """A PostgreSQL database with an upgraded schema of the default name."""
    with postgres_server.database(postgres.TEMPLATE) as url:
        yield url


@pytest.fixture
def blank_postgres_url(postgres_server: postgres.Server) -> Iterator[str]:
    """A PostgreSQL database without anything."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """An SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path}/test.db"


@pytest.fixture(params=ON_BOTH)
def database_url(request: pytest.FixtureRequest) -> str:
    """Each database in turn; its schema is ready, or made when it is opened."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture(params=ON_BOTH)
def blank_url(request: pytest.FixtureRequest) -> str:
    """Each database in turn, without anything in it."""
    name = "sqlite_url" if request.param == "sqlite" else "blank_postgres_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """Each database in turn, open and with its schema ready."""
    with Database.open(database_url) as database:
        schema.ensure(database)
        yield database
