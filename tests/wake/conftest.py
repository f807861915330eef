"""A bench for whole runs, on the databases of `tests/runtime`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from workflow_engine.testing import TestClock

from ..pools import pooled
from ..runtime.bench import Bench
from ..runtime.conftest import (
    clock,
    postgres_url,
    shared_postgres_url,
    sqlite_url,
    upgraded_file,
)

__all__ = [
    "clock",
    "postgres_url",
    "shared_postgres_url",
    "sqlite_url",
    "upgraded_file",
]


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
