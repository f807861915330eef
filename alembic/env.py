"""Alembic's way in.

The library calls with a connection and a schema in the attributes. The ``alembic``
command, used in a checkout, finds its database in WORKFLOW_ENGINE_URL and
WORKFLOW_ENGINE_SCHEMA, or in ``alembic.ini``. No logging is configured here: that
belongs to whoever calls.
"""

from __future__ import annotations

import os

from alembic import context

from workflow_engine.store import migrate, schema
from workflow_engine.store.database import Database

config = context.config
attributes = config.attributes


def open_configured() -> Database:
    """Open the database that the environment or the ini file names."""
    url = os.environ.get("WORKFLOW_ENGINE_URL") or config.get_main_option(
        "sqlalchemy.url"
    )
    if not url:
        raise SystemExit("set WORKFLOW_ENGINE_URL, or sqlalchemy.url in alembic.ini")
    return Database.open(url, schema=os.environ.get("WORKFLOW_ENGINE_SCHEMA") or None)


if attributes.get("connection") is not None:
    migrate.run(attributes["connection"], attributes["schema"])
elif "dialect" in attributes:
    migrate.run_offline(attributes["dialect"], attributes["schema"])
else:
    with open_configured() as database:
        if context.is_offline_mode():
            migrate.run_offline(database.dialect, database.schema)
        else:
            with migrate.exclusive(
                database, lock_timeout=schema.LOCK_TIMEOUT
            ) as connection:
                migrate.run(connection, database.schema)
