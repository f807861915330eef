"""INSERT with ON CONFLICT, which SQLAlchemy has once for each database.

What it has for a database is big. It is loaded with the engine that needs it; importing
it by name here would load that of both.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sqlalchemy import Table


def insert_into(table: Table, dialect: str) -> Any:
    """An insert that has ``on_conflict_do_nothing`` and ``on_conflict_do_update``."""
    return import_module(f"sqlalchemy.dialects.{dialect}").insert(table)
