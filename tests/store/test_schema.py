from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from click.testing import CliRunner
from sqlalchemy import make_url, select, text

from workflow_engine import errors
from workflow_engine.cli.db import db
from workflow_engine.store import migrate, schema
from workflow_engine.store.database import Database
from workflow_engine.store.schema import HEAD, OLDEST_CODE
from workflow_engine.store.tables import version_table_for

from .. import postgres

NEWER = "9999"


def _set_version(database: Database, version: str) -> None:
    with database.write() as connection:
        table = version_table_for(database.schema)
        connection.execute(table.update().values(version_num=version))


def _set_oldest_code(database: Database, revision: str) -> None:
    with database.write() as connection:
        table = database.tables.schema_compat
        connection.execute(table.update().values(oldest_code=revision))


# --- what opening does ----------------------------------------------------------------


def test_opening_creates_a_fresh_sqlite_file_at_head(sqlite_url: str) -> None:
    with Database.open(sqlite_url) as database:
        assert schema.current(database) is None
        schema.ensure(database)
        assert schema.current(database) == HEAD
        with database.read() as connection:
            compat = connection.execute(select(database.tables.schema_compat)).all()
        assert compat == [(1, OLDEST_CODE)]


def test_opening_creates_a_database_in_memory() -> None:
    with Database.open("sqlite://") as database:
        schema.ensure(database)
        assert schema.current(database) == HEAD


def test_opening_a_database_at_head_imports_no_alembic(database_url: str) -> None:
    script = (
        "import sys; from workflow_engine.store import schema;"
        "from workflow_engine.store.database import Database;"
        "database = Database.open(sys.argv[1]); schema.ensure(database);"
        "assert 'alembic' not in sys.modules; database.close()"
    )
    subprocess.run([sys.executable, "-c", script, database_url], check=True)


def test_opening_upgrades_an_older_sqlite_file(sqlite_url: str) -> None:
    with Database.open(sqlite_url) as database:
        schema.upgrade(database, "0001")
        schema.ensure(database)
        assert schema.current(database) == HEAD
        assert schema.check(database) == []


def test_opening_creates_again_what_was_downgraded_to_base(sqlite_url: str) -> None:
    with Database.open(sqlite_url) as database:
        schema.ensure(database)
        schema.downgrade(database, "base")
        schema.ensure(database)
        assert schema.check(database) == []


def test_a_file_with_our_tables_but_no_version_is_refused(sqlite_url: str) -> None:
    with Database.open(sqlite_url) as database:
        with database.write() as connection:
            database.tables.metadata.create_all(connection)
        with pytest.raises(errors.StoreRefused, match="no wf_schema_version"):
            schema.ensure(database)


@pytest.mark.postgres
@pytest.mark.parametrize("found", [None, "0001"])
def test_postgres_with_a_missing_or_old_schema_is_refused_with_what_to_do(
    blank_postgres_url: str, found: str | None
) -> None:
    with_password = make_url(blank_postgres_url).set(password="s3cr%t")
    with Database.open(with_password) as database:
        if found is not None:
            schema.upgrade(database, found)
        with pytest.raises(errors.SchemaOutOfDate) as caught:
            schema.ensure(database)
        assert caught.value.found == (found or "none")
        assert caught.value.needed == HEAD
        assert "s3cr" not in str(caught.value)
        program, *arguments = shlex.split(caught.value.command)
        assert program == "workflow-engine"
        done = CliRunner().invoke(db, arguments[1:])
        assert done.exit_code == 0, done.output
        schema.ensure(database)


@pytest.mark.postgres
def test_the_command_to_run_names_a_schema_that_is_not_the_default(
    blank_postgres_url: str,
) -> None:
    with (
        Database.open(blank_postgres_url, schema="Flow 1") as database,
        pytest.raises(errors.SchemaOutOfDate) as caught,
    ):
        schema.ensure(database)
    assert shlex.split(caught.value.command)[-2:] == ["--schema", "Flow 1"]


def test_a_newer_schema_is_used_while_it_lets_this_code_in(database: Database) -> None:
    _set_version(database, NEWER)
    schema.ensure(database)
    schema.upgrade(database)
    assert schema.current(database) == NEWER


def test_a_newer_schema_that_shuts_this_code_out_is_refused(database: Database) -> None:
    _set_version(database, NEWER)
    _set_oldest_code(database, "9998")
    with pytest.raises(errors.SchemaTooNew) as caught:
        schema.ensure(database)
    assert (caught.value.found, caught.value.needed) == (NEWER, HEAD)
    with pytest.raises(errors.SchemaTooNew):
        schema.upgrade(database)


def test_a_newer_schema_is_never_downgraded_by_code_that_does_not_know_it(
    database: Database,
) -> None:
    _set_version(database, NEWER)
    with pytest.raises(errors.SchemaTooNew):
        schema.downgrade(database, "base")


def test_an_unknown_revision_is_named_with_the_known_ones(database: Database) -> None:
    for move in (schema.upgrade, schema.downgrade):
        with pytest.raises(errors.UnknownRevision, match=r"'0bad'.*0001"):
            move(database, "0bad")
    with pytest.raises(errors.UnknownRevision):
        schema.sql(revision="+1")


def test_check_refuses_to_compare_another_revision(database: Database) -> None:
    schema.downgrade(database, "0001")
    with pytest.raises(errors.SchemaOutOfDate):
        schema.check(database)


def test_upgrading_down_and_downgrading_up_do_nothing(database: Database) -> None:
    schema.upgrade(database, "0001")
    assert schema.current(database) == HEAD
    schema.downgrade(database, "0001")
    schema.downgrade(database, HEAD)
    assert schema.current(database) == "0001"


# --- rights, locks, names -------------------------------------------------------------


@contextmanager
def _role(server: postgres.Server, url: str, attributes: str = "") -> Iterator[str]:
    """Create a role, give its name, drop it and what it owns in one database."""
    name = "t_role"
    server.execute(f"CREATE ROLE {name} LOGIN {attributes}")
    try:
        yield name
    finally:
        server.execute(f"DROP OWNED BY {name}", database=_name_in(url))
        server.execute(f"DROP ROLE {name}")


def _name_in(url: str) -> str:
    database = make_url(url).database
    assert database is not None
    return database


def _as(url: str, role: str, password: str | None = None) -> str:
    changed = make_url(url).set(username=role, password=password)
    return changed.render_as_string(hide_password=False)


@pytest.mark.postgres
def test_a_role_with_rights_on_rows_alone_can_open_and_write(
    postgres_server: postgres.Server, postgres_url: str
) -> None:
    with _role(postgres_server, postgres_url) as role:
        for statement in (
            f"GRANT USAGE ON SCHEMA workflow_engine TO {role}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES"
            f" IN SCHEMA workflow_engine TO {role}",
        ):
            postgres_server.execute(statement, database=_name_in(postgres_url))
        with Database.open(_as(postgres_url, role)) as database:
            schema.ensure(database)
            schema.upgrade(database)
            instances = database.tables.instances
            row = dict.fromkeys(("workflow_name", "workflow_id", "status"), "a")
            row |= {"incarnation": "0" * 32, "input": "{}"}
            with database.write() as connection:
                connection.execute(
                    instances.insert().values(created_at=1, updated_at=1, **row)
                )
            with database.read() as connection:
                assert connection.execute(select(instances.c.id)).scalar() is not None
            with (
                pytest.raises(errors.StoreRefused, match="permission denied"),
                database.write() as connection,
            ):
                connection.execute(text("CREATE TABLE workflow_engine.more (n int)"))


@pytest.mark.postgres
def test_a_role_without_rights_is_refused(
    postgres_server: postgres.Server, postgres_url: str, blank_postgres_url: str
) -> None:
    with _role(postgres_server, postgres_url) as role:
        with (
            Database.open(_as(postgres_url, role)) as database,
            pytest.raises(errors.StoreRefused, match="permission denied"),
        ):
            schema.ensure(database)
        with (
            Database.open(_as(blank_postgres_url, role)) as database,
            pytest.raises(errors.StoreRefused, match="permission denied"),
        ):
            schema.upgrade(database)


@pytest.mark.postgres
def test_the_owner_of_an_existing_schema_needs_no_right_to_create_schemas(
    postgres_server: postgres.Server, blank_postgres_url: str
) -> None:
    with _role(postgres_server, blank_postgres_url) as role:
        postgres_server.execute(
            f"CREATE SCHEMA workflow_engine AUTHORIZATION {role}",
            database=_name_in(blank_postgres_url),
        )
        with Database.open(_as(blank_postgres_url, role)) as database:
            schema.upgrade(database)
            assert schema.check(database) == []


@pytest.mark.postgres
def test_a_percent_sign_in_the_password_works(
    postgres_server: postgres.Server, blank_postgres_url: str
) -> None:
    password = "p%40%s:/@ %"
    attributes = f"PASSWORD '{password}' SUPERUSER"
    with _role(postgres_server, blank_postgres_url, attributes) as role:
        postgres_server.execute(f"GRANT {postgres.NEEDS_PASSWORD} TO {role}")
        url = _as(blank_postgres_url, role, password)
        done = CliRunner().invoke(db, ["upgrade", "--url", url])
        assert done.exit_code == 0, done.output
        with Database.open(url) as database:
            schema.ensure(database)
            assert schema.check(database) == []
        wrong = _as(blank_postgres_url, role, "p@")
        done = CliRunner().invoke(db, ["current", "--url", wrong])
        assert done.exit_code == 1
        assert "password authentication failed" in done.output


@pytest.mark.postgres
def test_a_migration_waits_for_the_lock_then_says_who_holds_it(
    blank_postgres_url: str,
) -> None:
    with Database.open(blank_postgres_url) as database:
        schema.upgrade(database, "0001")
        with _holding_the_migration_lock(blank_postgres_url) as pid:
            with pytest.raises(errors.MigrationLocked) as caught:
                schema.upgrade(database, lock_timeout=0.2)
            assert f"pid {pid}, t-holder, role postgres" in caught.value.holder
            assert caught.value.seconds == 0.2
            # There is nothing to migrate to here, so nobody asks for the lock.
            schema.upgrade(database, "0001", lock_timeout=0.2)
        schema.upgrade(database, lock_timeout=0.2)
        assert schema.current(database) == HEAD


@pytest.mark.postgres
def test_schemas_are_migrated_independently(blank_postgres_url: str) -> None:
    with (
        _holding_the_migration_lock(blank_postgres_url),
        Database.open(blank_postgres_url, schema="other") as other,
    ):
        schema.upgrade(other, lock_timeout=0.2)
        assert schema.current(other) == HEAD


@contextmanager
def _holding_the_migration_lock(url: str) -> Iterator[int]:
    parsed = make_url(url)
    with psycopg.connect(
        host=str(parsed.query["host"]),
        dbname=parsed.database,
        user="postgres",
        application_name="t-holder",
    ) as holder:
        key = migrate.lock_key("workflow_engine")
        holder.execute("SELECT pg_advisory_xact_lock(%s)", [key])
        yield holder.info.backend_pid


def test_the_migration_lock_is_frozen() -> None:
    # Two versions of this code that migrate at once must ask for the same lock.
    assert migrate.lock_key("workflow_engine") == 3448245888472579547


@pytest.mark.postgres
def test_a_migration_gives_up_on_a_table_that_stays_in_use(
    blank_postgres_url: str,
) -> None:
    with Database.open(blank_postgres_url) as database:
        schema.upgrade(database, "0001")
        with database.read() as worker:
            worker.execute(select(database.tables.instances.c.id))
            with pytest.raises(errors.StoreUnavailable, match="lock timeout"):
                schema.upgrade(database, lock_timeout=0.2)
        assert schema.current(database) == "0001"


@pytest.mark.postgres
@pytest.mark.parametrize("name", ["Flow-1", 'q"uo%te', "public", "select"])
@pytest.mark.parametrize("search_path", ["''", "the schema", "default"])
def test_any_schema_name_works_with_any_search_path(
    postgres_server: postgres.Server,
    blank_postgres_url: str,
    name: str,
    search_path: str,
) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    if search_path != "default":
        path = quoted if search_path == "the schema" else search_path
        postgres_server.execute(
            f"ALTER DATABASE {_name_in(blank_postgres_url)} SET search_path = {path}"
        )
    with Database.open(blank_postgres_url, schema=name) as database:
        schema.upgrade(database)
    with Database.open(blank_postgres_url, schema=name) as database:
        schema.ensure(database)
        assert schema.check(database) == []
        with database.read() as connection:
            assert connection.execute(select(database.tables.instances)).all() == []
        schema.downgrade(database, "base")


@pytest.mark.postgres
def test_two_schemas_in_one_process_do_not_mix(blank_postgres_url: str) -> None:
    with (
        Database.open(blank_postgres_url, schema="one") as one,
        Database.open(blank_postgres_url, schema="two") as two,
    ):
        schema.upgrade(one)
        schema.upgrade(two, "0001")
        assert (schema.current(one), schema.current(two)) == (HEAD, "0001")
        _set_oldest_code(one, "0042")
        with two.read() as connection:
            found = connection.execute(select(two.tables.schema_compat)).all()
        assert found == [(1, "0001")]
        schema.ensure(one)
        assert schema.check(one) == []
        with pytest.raises(errors.SchemaOutOfDate):
            schema.ensure(two)
