"""Runs Alembic: for `schema`, and for ``alembic/env.py`` when the command line asks.

Importing this module imports Alembic, which takes longer than opening a database. Only
those who migrate should.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Iterator, Mapping
from typing import Any

from alembic import command, context
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, MetaData, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateSchema

from workflow_engine import errors
from workflow_engine.store.database import Database
from workflow_engine.store.revisions import migrations_dir
from workflow_engine.store.tables import (
    NAMING_CONVENTION,
    VERSION_TABLE,
    tables_for,
)

_LOCK_NOT_AVAILABLE = "55P03"


def upgrade(database: Database, revision: str, *, lock_timeout: float) -> None:
    """Run the scripts up to ``revision``, in one transaction."""
    with exclusive(database, lock_timeout=lock_timeout) as connection:
        command.upgrade(_config(connection, database.schema), revision)


def downgrade(database: Database, revision: str, *, lock_timeout: float) -> None:
    """Run the scripts down to ``revision``, in one transaction."""
    with exclusive(database, lock_timeout=lock_timeout) as connection:
        command.downgrade(_config(connection, database.schema), revision)


def differences(database: Database) -> list[str]:
    """Compare the tables of the database with those of this code, a line each."""
    with database.read() as connection:
        options = _options(connection, database.schema)
        migration = MigrationContext.configure(connection, opts=dict(options))
        found = compare_metadata(migration, options["target_metadata"])
    # A changed column comes as a list of changes.
    flat = [part for diff in found for part in (diff if _is_group(diff) else [diff])]
    return [" ".join(str(part) for part in diff) for diff in flat]


def script(schema: str, start: str | None, revision: str) -> str:
    """Write what an upgrade from ``start`` would execute on PostgreSQL."""
    config = _config(None, schema)
    config.output_buffer = io.StringIO()
    command.upgrade(config, f"{start}:{revision}" if start else revision, sql=True)
    return config.output_buffer.getvalue()


@contextlib.contextmanager
def exclusive(database: Database, *, lock_timeout: float) -> Iterator[Connection]:
    """Open a unit of work in which nobody else migrates; make the schema if missing.

    ``lock_timeout`` seconds are waited for another session that migrates, and by each
    statement for one that uses a table.

    Raises:
        MigrationLocked: another session held the lock all the time.
    """
    try:
        with database.write() as connection:
            if database.schema is not None:
                _lock(connection, database.schema, lock_timeout)
                _create_schema(connection, database.schema)
            yield connection
    except _LockTimeout:
        raise errors.MigrationLocked(
            holder=_find_holder(database), seconds=lock_timeout
        ) from None


def run(connection: Connection, schema: str | None) -> None:
    """Run what Alembic was asked to, inside the caller's transaction."""
    context.configure(connection=connection, **_options(connection, schema))
    context.run_migrations()


def run_offline(dialect: str, schema: str | None) -> None:
    """Write what Alembic was asked to run, for the given SQL dialect."""
    context.configure(
        dialect_name=dialect,
        dialect_opts={"paramstyle": "named"},  # a percent sign stays one
        literal_binds=True,
        transactional_ddl=True,
        version_table=VERSION_TABLE,
        version_table_schema=schema,
        target_metadata=tables_for(schema).metadata,
    )
    with context.begin_transaction():
        if schema is not None and context.get_starting_revision_argument() is None:
            context.execute(CreateSchema(schema, if_not_exists=True))
        context.run_migrations()


def _config(connection: Connection | None, schema: str | None) -> Config:
    config = Config()
    # The value is interpolated when it is read.
    location = str(migrations_dir()).replace("%", "%%")
    config.set_main_option("script_location", location)
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, schema=schema, dialect="postgresql")
    return config


def _options(connection: Connection, schema: str | None) -> Mapping[str, Any]:
    """What Alembic must know to see our tables, all of them, and nothing else."""
    # Alembic reports the session's first schema as None, whatever its name.
    default = connection.dialect.default_schema_name
    shown = None if schema == default else schema
    metadata = MetaData(schema=shown, naming_convention=NAMING_CONVENTION)
    for table in tables_for(schema).metadata.sorted_tables:
        # None, for the metadata's own, is documented but not typed.
        table.to_metadata(metadata, schema=None)  # type: ignore[arg-type]
    names = {table.name for table in metadata.sorted_tables}

    def include_name(name: str | None, type_: str, parents: Mapping[str, Any]) -> bool:
        if type_ == "schema":
            return name == shown
        if type_ == "table":
            return name in names and parents.get("schema_name") == shown
        return True

    return {
        "target_metadata": metadata,
        "version_table": VERSION_TABLE,
        "version_table_schema": schema,
        "include_schemas": schema is not None,
        "include_name": include_name,
        "compare_server_default": True,
        "render_as_batch": schema is None,
    }


def _is_group(diff: Any) -> bool:
    return isinstance(diff, list)


# --- the migration lock of PostgreSQL -------------------------------------------------


class _LockTimeout(Exception):
    """Somebody else held the migration lock all the time."""


def lock_key(schema: str) -> int:
    """Derive the advisory lock of a schema, a signed number of 64 bits. Frozen."""
    digest = hashlib.sha256(f"workflow_engine:{schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _lock(connection: Connection, schema: str, timeout: float) -> None:
    # Both last for this transaction only. The first also bounds the wait for tables
    # that running workers use: a migration that waits makes them queue behind it.
    limits = text(
        "SELECT set_config('lock_timeout', :wait, true),"
        " set_config('statement_timeout', '0', true)"
    )
    connection.execute(limits, {"wait": f"{max(1, round(timeout * 1000))}ms"})
    try:
        connection.execute(
            text("SELECT pg_advisory_xact_lock(:key)"), {"key": lock_key(schema)}
        )
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            raise _LockTimeout from None
        raise


def _find_holder(database: Database) -> str:
    """Say who holds the migration lock, in words."""
    assert database.schema is not None
    key = lock_key(database.schema) & (2**64 - 1)
    statement = text(
        "SELECT l.pid, a.application_name, a.usename"
        " FROM pg_catalog.pg_locks l"
        " JOIN pg_catalog.pg_database d ON d.oid = l.database"
        " LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid"
        " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
        " AND d.datname = current_database()"
        " AND l.classid::bigint = :high AND l.objid::bigint = :low"
    )
    with database.read() as connection:
        row = connection.execute(
            statement, {"high": key >> 32, "low": key & (2**32 - 1)}
        ).first()
    if row is None:
        return "which has ended just now"
    return f"pid {row.pid}, {row.application_name or 'unnamed'}, role {row.usename}"


def _create_schema(connection: Connection, schema: str) -> None:
    # Looked up first: IF NOT EXISTS asks for the right to create even if it exists.
    exists = text("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :name")
    if connection.execute(exists, {"name": schema}).first() is None:
        connection.execute(CreateSchema(schema))
