from __future__ import annotations

from workflow_engine.store import schema
from workflow_engine.store.database import Database


def test_an_opened_database_is_at_head(database: Database) -> None:
    assert schema.current(database) == schema.HEAD


def test_the_tables_are_those_of_this_code(database: Database) -> None:
    assert schema.check(database) == []
