from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import column, select, table, text

from workflow_engine.store import schema
from workflow_engine.store.database import Database
from workflow_engine.store.schema import HEAD, OLDEST_CODE, REVISIONS

from .. import postgres
from . import catalog
from .written_rows import ADDED, ROWS, Rows

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def blank(blank_url: str) -> Iterator[Database]:
    """Each database in turn, open, without any table."""
    with Database.open(blank_url) as database:
        yield database


# --- the scripts and the constants ----------------------------------------------------


def test_the_known_revisions_are_the_scripts_in_order() -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.migrations_dir()))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)
    in_order = [script.revision for script in scripts.walk_revisions()][::-1]
    assert tuple(in_order) == REVISIONS
    assert scripts.get_heads() == [HEAD]


def test_revisions_sort_as_text_because_compatibility_compares_them() -> None:
    assert list(REVISIONS) == sorted(REVISIONS)
    assert all(len(revision) == 4 and revision.isdigit() for revision in REVISIONS)


def test_the_migrated_database_says_which_code_may_use_it(blank: Database) -> None:
    schema.upgrade(blank)
    with blank.read() as connection:
        compat = connection.execute(select(blank.tables.schema_compat)).all()
    assert compat == [(1, OLDEST_CODE)]


# --- up and down ----------------------------------------------------------------------


def test_every_revision_goes_up_down_and_up_again(blank: Database) -> None:
    before = "base"
    for revision in REVISIONS:
        schema.upgrade(blank, revision)
        up = catalog.describe(blank)
        schema.downgrade(blank, before)
        assert schema.current(blank) == (None if before == "base" else before)
        schema.upgrade(blank, revision)
        assert catalog.describe(blank) == up
        assert schema.current(blank) == revision
        before = revision


def test_base_leaves_no_table_but_the_empty_version_table(blank: Database) -> None:
    schema.upgrade(blank)
    schema.downgrade(blank, "base")
    assert catalog.columns(blank) == {}
    assert schema.current(blank) is None


def test_head_equals_the_tables_that_the_code_declares(
    blank: Database, tmp_path: Path, postgres_server: postgres.Server
) -> None:
    schema.upgrade(blank)
    assert schema.check(blank) == []
    if blank.dialect == "sqlite":
        with Database.open(f"sqlite:///{tmp_path}/created.db") as created:
            schema.ensure(created)
            assert catalog.describe(created) == catalog.describe(blank)
    else:
        with Database.open(blank.engine, schema="created") as created:
            with created.write() as connection:
                connection.execute(text("CREATE SCHEMA created"))
                created.tables.metadata.create_all(connection)
            described = catalog.describe(created)
        assert described == _without_version_table(catalog.describe(blank))


def _without_version_table(described: dict[str, Any]) -> dict[str, Any]:
    return {
        part: [row for row in rows if not row[0].startswith("wf_schema_version")]
        for part, rows in described.items()
    }


def test_check_sees_what_is_missing_and_what_is_too_much(blank: Database) -> None:
    schema.upgrade(blank)
    prefix = f"{blank.schema}." if blank.schema else ""
    with blank.write() as connection:
        connection.exec_driver_sql(
            f"ALTER TABLE {prefix}wf_instances DROP COLUMN last_error"
        )
        connection.exec_driver_sql(f"DROP TABLE {prefix}wf_snapshots")
        connection.exec_driver_sql(f"ALTER TABLE {prefix}wf_journal ADD stray INTEGER")
        connection.exec_driver_sql(f"DROP INDEX {prefix}ix_wf_instances_status_id")
    differences = schema.check(blank)
    assert len(differences) == 4
    for part in ("last_error", "wf_snapshots", "stray", "ix_wf_instances_status_id"):
        assert any(part in line for line in differences)


def test_a_failing_migration_leaves_the_revision_before_it(blank: Database) -> None:
    schema.upgrade(blank, "0001")
    prefix = f"{blank.schema}." if blank.schema else ""
    with blank.write() as connection:
        # In the way of 0002, whose second statement updates it.
        connection.exec_driver_sql(f"DROP TABLE {prefix}wf_schema_compat")
    before = catalog.describe(blank)
    with pytest.raises(Exception, match="wf_schema_compat"):
        schema.upgrade(blank)
    assert schema.current(blank) == "0001"
    assert catalog.describe(blank) == before


# --- rows of every revision -----------------------------------------------------------


def test_there_are_rows_of_every_revision_in_every_column(blank: Database) -> None:
    assert set(ROWS) == set(ADDED) == set(REVISIONS)
    for revision in REVISIONS:
        schema.upgrade(blank, revision)
        expected = catalog.columns(blank)
        del expected["wf_schema_compat"]
        assert {name: set(rows[0]) for name, rows in ROWS[revision].items()} == expected


@pytest.mark.parametrize("revision", REVISIONS)
def test_rows_written_under_a_revision_survive_all_later_ones(
    blank: Database, revision: str
) -> None:
    schema.upgrade(blank, revision)
    _insert(blank, ROWS[revision])
    schema.upgrade(blank)
    _assert_rows(blank, _as_at_head(revision))


@pytest.mark.parametrize("revision", REVISIONS)
def test_rows_survive_the_way_back_to_a_revision(
    blank: Database, revision: str
) -> None:
    schema.upgrade(blank, revision)
    _insert(blank, ROWS[revision])
    schema.upgrade(blank)
    schema.downgrade(blank, revision)
    _assert_rows(blank, ROWS[revision])


@pytest.mark.parametrize("revision", [r for r in REVISIONS if r >= OLDEST_CODE])
def test_code_of_a_revision_still_allowed_can_write_at_head(
    blank: Database, revision: str
) -> None:
    schema.upgrade(blank)
    _insert(blank, ROWS[revision])
    _assert_rows(blank, _as_at_head(revision))


def _as_at_head(revision: str) -> Rows:
    rows = {name: [dict(row) for row in many] for name, many in ROWS[revision].items()}
    for later in REVISIONS[REVISIONS.index(revision) + 1 :]:
        for name, values in ADDED[later].items():
            for row in rows.get(name, []):
                row.update(values)
    return rows


def _insert(database: Database, rows: Rows) -> None:
    with database.write() as connection:
        for name, many in rows.items():
            target = table(name, *map(column, many[0]), schema=database.schema)
            connection.execute(target.insert(), many)


def _assert_rows(database: Database, rows: Rows) -> None:
    with database.read() as connection:
        for name, many in rows.items():
            source = table(name, *map(column, many[0]), schema=database.schema)
            found = connection.execute(select(source)).mappings().all()
            order = sorted(many[0])
            assert sorted(
                (str([row[key] for key in order]) for row in found),
            ) == sorted(str(_stored(database, row, order)) for row in many)


def _stored(database: Database, row: dict[str, Any], order: list[str]) -> list[Any]:
    """A row as a statement without types reads it: SQLite has no booleans."""
    values = [row[key] for key in order]
    if database.dialect == "sqlite":
        return [int(value) if isinstance(value, bool) else value for value in values]
    return values


# --- many at once ---------------------------------------------------------------------

UPGRADE_ON_SIGNAL = """
import sys
from workflow_engine.store import migrate, schema
from workflow_engine.store.database import Database
with Database.open(sys.argv[1]) as database:
    print("ready", flush=True)
    sys.stdin.readline()
    getattr(schema, sys.argv[2])(database)
    print(schema.current(database), flush=True)
"""


def _at_once(url: str, function: str, processes: int = 10) -> None:
    """Call a function of `schema` in many processes, released at one moment."""
    command = [sys.executable, "-c", UPGRADE_ON_SIGNAL, url, function]
    started = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=60) for process in started]
    assert [out for out, _ in answers] == [f"{HEAD}\n"] * processes, answers


def test_ten_processes_upgrade_a_fresh_database_at_once(blank: Database) -> None:
    _at_once(blank.engine.url.render_as_string(hide_password=False), "upgrade")
    assert schema.check(blank) == []


@pytest.mark.parametrize("start", [None, "0001"])
def test_ten_processes_open_a_fresh_or_old_sqlite_file_at_once(
    sqlite_url: str, start: str | None
) -> None:
    if start is not None:
        with Database.open(sqlite_url) as database:
            schema.upgrade(database, start)
    _at_once(sqlite_url, "ensure")
    with Database.open(sqlite_url) as database:
        assert schema.check(database) == []


# --- scripts and the alembic command --------------------------------------------------


@pytest.mark.parametrize("name", ["workflow_engine", "Flow-1", "%s"])
@pytest.mark.parametrize("start", [None, "0001"])
def test_the_sql_script_does_what_an_upgrade_does(
    blank_postgres_url: str,
    postgres_server: postgres.Server,
    name: str,
    start: str | None,
) -> None:
    with Database.open(blank_postgres_url, schema=name) as database:
        if start is not None:
            schema.upgrade(database, start)
        script = schema.sql(schema=name, start=start)
        dbname = database.engine.url.database
        assert dbname is not None
        postgres_server.execute(script, database=dbname)
        assert schema.current(database) == HEAD
        assert schema.check(database) == []


def _alembic(url: str, *arguments: str, schema_name: str = "") -> str:
    environment = os.environ | {
        "WORKFLOW_ENGINE_URL": url,
        "WORKFLOW_ENGINE_SCHEMA": schema_name,
    }
    done = subprocess.run(
        [sys.executable, "-m", "alembic", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_alembic_command_works_from_the_repository_root(blank_url: str) -> None:
    _alembic(blank_url, "upgrade", "head")
    _alembic(blank_url, "check")
    with Database.open(blank_url) as database:
        assert schema.current(database) == HEAD
        assert schema.check(database) == []
        _alembic(blank_url, "downgrade", "base")
        assert schema.current(database) is None


@pytest.mark.postgres
def test_the_alembic_command_takes_the_schema_and_writes_the_script(
    blank_postgres_url: str,
) -> None:
    script = _alembic(
        blank_postgres_url, "upgrade", "head", "--sql", schema_name="Flow-1"
    )
    assert script == schema.sql(schema="Flow-1")
    _alembic(blank_postgres_url, "upgrade", "head", schema_name="Flow-1")
    with Database.open(blank_postgres_url, schema="Flow-1") as database:
        assert schema.current(database) == HEAD
