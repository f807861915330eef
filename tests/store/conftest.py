"""Stores for the tests, on each database in turn."""

from __future__ import annotations

import pytest

from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from .actors import BoundClock


@pytest.fixture
def clock() -> BoundClock:
    return BoundClock()


@pytest.fixture
def store(database: Database, clock: BoundClock) -> SqlStore:
    return SqlStore(database, clock)
