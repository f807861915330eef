"""The schema of a database: which revision it has, and how it gets to ours.

SQLite is looked after: a fresh file is created, an older one upgraded when it is
opened. PostgreSQL is only looked at, since an engine may have no right to change it and
its operator decides when; it says which command to run. A schema newer than this code
is used as long as it says that this code still can.

Many processes may do any of this at once. Alembic is imported only by those that
migrate, compare or write scripts.
"""

from __future__ import annotations

import shlex
from typing import Any

from sqlalchemy import Connection, inspect, select

from workflow_engine import errors
from workflow_engine.store.database import DEFAULT_SCHEMA, Database
from workflow_engine.store.revisions import (
    HEAD,
    OLDEST_CODE,
    REVISIONS,
    migrations_dir,
)
from workflow_engine.store.tables import Tables, version_table_for

__all__ = [
    "HEAD",
    "LOCK_TIMEOUT",
    "OLDEST_CODE",
    "REVISIONS",
    "check",
    "current",
    "downgrade",
    "ensure",
    "exclude_workflow_tables",
    "migrations_dir",
    "sql",
    "upgrade",
]

LOCK_TIMEOUT = 30.0
"""Seconds that a migration waits for another session, on PostgreSQL."""


def ensure(database: Database) -> None:
    """See that this code can use the database. Called when an engine opens.

    Creates or upgrades an SQLite file; executes no DDL on PostgreSQL.

    Raises:
        SchemaOutOfDate: on PostgreSQL, the schema is missing or old.
        SchemaTooNew: this code cannot use so new a schema.
        StoreRefused: the database cannot be read, or on SQLite written.
    """
    found = current(database)
    if found == HEAD:
        return
    if database.dialect == "sqlite" and (found is None or found in REVISIONS):
        _create(database) if found is None else upgrade(database)
    else:
        _require(database, found)


def current(database: Database) -> str | None:
    """Read the revision of the database; None if it has no tables of ours."""
    with database.read() as connection:
        return _current(connection, database.schema)


def upgrade(
    database: Database, revision: str = "head", *, lock_timeout: float = LOCK_TIMEOUT
) -> None:
    """Migrate up to ``revision``, in one transaction; create the schema if missing.

    Takes the migration lock only if there is something to do.

    Raises:
        UnknownRevision: this code has no such revision.
        SchemaTooNew: the database is ahead, and this code cannot use it.
        MigrationLocked: another session kept the lock for ``lock_timeout`` seconds.
        StoreUnavailable: among others, when a table stayed locked as long.
    """
    target = _target(revision)
    found = current(database)
    if found is not None and found not in REVISIONS:
        _require(database, found)
    elif found is None or found < target:
        from workflow_engine.store import migrate

        migrate.upgrade(database, target, lock_timeout=lock_timeout)


def downgrade(
    database: Database, revision: str, *, lock_timeout: float = LOCK_TIMEOUT
) -> None:
    """Migrate down to ``revision``, or to ``base``, where no table is left.

    What the undone revisions brought is lost. Raises as `upgrade` does.
    """
    target = None if revision == "base" else _target(revision)
    found = current(database)
    if found is None:
        return
    if found not in REVISIONS:
        raise errors.SchemaTooNew(found=found, needed=HEAD)
    if target is None or target < found:
        from workflow_engine.store import migrate

        migrate.downgrade(database, revision, lock_timeout=lock_timeout)


def check(database: Database) -> list[str]:
    """Compare the tables in the database with those that this code expects.

    Returns one line a difference. Tables of other owners are not looked at.

    Raises:
        SchemaOutOfDate: the revision is not ours, so that a comparison is pointless.
    """
    from workflow_engine.store import migrate

    found = current(database)
    if found != HEAD:
        raise _out_of_date(database, found)
    return migrate.differences(database)


def sql(
    *, schema: str | None = None, start: str | None = None, revision: str = "head"
) -> str:
    """Write the PostgreSQL script that upgrades from ``start`` (or from nothing).

    Raises:
        UnknownRevision: this code has no such revision.
    """
    from workflow_engine.store import migrate

    return migrate.script(
        DEFAULT_SCHEMA if schema is None else schema,
        None if start is None else _target(start),
        _target(revision),
    )


def exclude_workflow_tables(
    _object: Any, name: str | None, type_: str, reflected: bool, compare_to: Any
) -> bool:
    """Keep our tables out of a user's own ``alembic revision --autogenerate``.

    Pass it as ``include_object`` to ``context.configure`` in the user's ``env.py``; or
    call it from a filter of the user's own. It leaves out what is in the database, is
    called ``wf_…`` and is not in the user's metadata, in any schema.
    """
    ours = type_ == "table" and name is not None and name.startswith("wf_")
    return not (ours and reflected and compare_to is None)


def _current(connection: Connection, schema: str | None) -> str | None:
    table = version_table_for(schema)
    if not inspect(connection).has_table(table.name, schema=schema):
        return None
    return connection.execute(select(table.c.version_num)).scalar()


def _create(database: Database) -> None:
    """Create the tables of `HEAD` at once, unless another process was faster."""
    version = version_table_for(database.schema)
    tables = database.tables
    with database.write() as connection:
        if _current(connection, database.schema) is None:
            if inspect(connection).has_table(tables.instances.name):
                problem = f"it has {tables.instances.name} but no {version.name}"
                raise errors.StoreRefused(problem=problem)
            tables.metadata.create_all(connection, checkfirst=False)
            version.create(connection, checkfirst=True)
            connection.execute(version.insert().values(version_num=HEAD))
            compat = tables.schema_compat.insert()
            connection.execute(compat.values(oldest_code=OLDEST_CODE))
            return
    ensure(database)


def _require(database: Database, found: str | None) -> None:
    """Raise unless ``found`` is newer than this code and lets it in."""
    if found is None or found in REVISIONS:
        raise _out_of_date(database, found)
    with database.read() as connection:
        oldest = _find_oldest_code(connection, database.tables)
    if oldest is None or oldest > HEAD:
        raise errors.SchemaTooNew(found=found, needed=HEAD)


def _find_oldest_code(connection: Connection, tables: Tables) -> str | None:
    table = tables.schema_compat
    if not inspect(connection).has_table(table.name, schema=table.schema):
        return None
    return connection.execute(select(table.c.oldest_code)).scalar()


def _out_of_date(database: Database, found: str | None) -> errors.SchemaOutOfDate:
    words = ["workflow-engine", "db", "upgrade", "--url", database.url]
    if database.schema not in (None, DEFAULT_SCHEMA):
        words += ["--schema", str(database.schema)]
    return errors.SchemaOutOfDate(
        found=found or "none", needed=HEAD, command=shlex.join(words)
    )


def _target(revision: str) -> str:
    if revision == "head":
        return HEAD
    if revision not in REVISIONS:
        known = ", ".join(REVISIONS)
        raise errors.UnknownRevision(revision=revision, known=known)
    return revision
