"""Reads back, from the database's own catalog, what a set of tables really is."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, inspect, text

from workflow_engine.store.database import Database


def describe(database: Database) -> dict[str, Any]:
    """Every table, column, constraint and index of ours, in comparable form."""
    with database.read() as connection:
        if database.dialect == "sqlite":
            return _sqlite(connection)
        assert database.schema is not None
        return _postgres(connection, database.schema)


def columns(database: Database) -> dict[str, set[str]]:
    """The names of the columns of every table but Alembic's."""
    with database.read() as connection:
        inspector = inspect(connection)
        names = inspector.get_table_names(schema=database.schema)
        return {
            name: {c["name"] for c in inspector.get_columns(name, database.schema)}
            for name in names
            if name.startswith("wf_") and name != "wf_schema_version"
        }


def _sqlite(connection: Connection) -> dict[str, Any]:
    def pragma(name: str, of: str) -> list[tuple[Any, ...]]:
        statement = text(f"SELECT * FROM pragma_{name}(:of)")
        return [tuple(row) for row in connection.execute(statement, {"of": of})]

    found: dict[str, Any] = {}
    rows = connection.execute(
        text("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name")
    ).all()
    for kind, name, table, sql in rows:
        if kind == "index":
            words = " ".join((sql or "").split())
            found[f"index {name}"] = (table, pragma("index_xinfo", name), words)
        elif kind == "table":
            flags = ["AUTOINCREMENT" in sql, "WITHOUT ROWID" in sql, "CHECK" in sql]
            indexes = sorted(row[1:] for row in pragma("index_list", name))
            found[f"table {name}"] = (pragma("table_xinfo", name), indexes, flags)
    return found


def _postgres(connection: Connection, schema: str) -> dict[str, Any]:
    statements = {
        "columns": "SELECT c.relname, a.attname, a.attnum,"
        " format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,"
        " pg_get_expr(d.adbin, d.adrelid), l.collname"
        " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
        " LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum"
        " LEFT JOIN pg_collation l ON l.oid = a.attcollation"
        " WHERE c.relnamespace = {} AND c.relkind = 'r' AND a.attnum > 0"
        " AND NOT a.attisdropped ORDER BY 1, 3",
        "constraints": "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = {} ORDER BY 1",
        "indexes": "SELECT c.relname, pg_get_indexdef(c.oid) FROM pg_class c"
        " WHERE c.relnamespace = {} AND c.relkind = 'i' ORDER BY 1",
    }
    namespace = "(SELECT oid FROM pg_namespace WHERE nspname = :schema)"
    found: dict[str, Any] = {}
    for name, statement in statements.items():
        rows = connection.execute(
            text(statement.format(namespace)), {"schema": schema}
        ).all()
        found[name] = [
            # Two schemas must be comparable, and so must the numbers of columns
            # after one of them was dropped.
            tuple(
                value.replace(f"{schema}.", "") if isinstance(value, str) else value
                for position, value in enumerate(row)
                if not (name == "columns" and position == 2)
            )
            for row in rows
        ]
    return found
