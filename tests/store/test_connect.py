from __future__ import annotations

import subprocess
import sys

import pytest
from sqlalchemy import Engine, create_engine

from workflow_engine import errors
from workflow_engine.store.database import DEFAULT_SCHEMA, Database


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite+aiosqlite:///a.db", r"driver aiosqlite.*sqlite\+pysqlite://"),
        ("sqlite+pysqlcipher:///a.db", r"driver pysqlcipher.*sqlite\+pysqlite://"),
        ("postgresql+asyncpg://h/d", r"driver asyncpg.*postgresql\+psycopg://"),
        ("postgresql+psycopg2://h/d", r"driver psycopg2.*postgresql\+psycopg://"),
        ("mysql://h/d", "mysql is neither SQLite nor PostgreSQL"),
        ("orders.db", "not a database URL"),
        ("", "not a database URL"),
        ("postgresql://h:port/d", "not a database URL"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_what_to_write(
    url: str, words: str
) -> None:
    with pytest.raises(errors.StoreRefused, match=words):
        Database.open(url)


def test_a_url_that_is_none_is_not_repeated_since_it_may_hold_a_password() -> None:
    with pytest.raises(errors.StoreRefused) as caught:
        Database.open("me:hunter2@host/orders")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_spelling_of_postgresql_means_psycopg_3(scheme: str) -> None:
    with Database.open(f"{scheme}://me:p%25@host/orders") as database:
        assert database.dialect == "postgresql"
        assert database.engine.dialect.driver == "psycopg"
        assert database.engine.url.password == "p%"
        assert database.schema == DEFAULT_SCHEMA


def test_the_url_to_show_has_no_password() -> None:
    url = "postgresql://me:hunter2@host/orders?password=hunter2&sslmode=require"
    with Database.open(url) as database:
        shown = "postgresql+psycopg://me@host/orders?sslmode=require"
        assert database.url == shown
        assert "hunter2" not in repr(database)


def test_a_schema_for_sqlite_is_refused(sqlite_url: str) -> None:
    with pytest.raises(errors.StoreRefused, match="SQLite has no schemas"):
        Database.open(sqlite_url, schema="flow")


@pytest.mark.parametrize("name", ["", "x" * 64, "\N{SNOWMAN}" * 22, "a\0b"])
def test_a_schema_name_that_postgres_would_cut_or_refuse_is_refused(name: str) -> None:
    with pytest.raises(errors.StoreRefused, match="no schema name"):
        Database.open("postgresql://h/d", schema=name)


def test_something_that_is_no_engine_is_refused() -> None:
    with pytest.raises(errors.StoreRefused, match="int is neither a URL nor"):
        Database.open(5)  # type: ignore[arg-type]


def test_an_engine_in_memory_that_threads_do_not_share_is_refused() -> None:
    engine: Engine = create_engine("sqlite://")
    with pytest.raises(errors.StoreRefused, match="StaticPool"):
        Database.open(engine)


def test_without_psycopg_sqlite_works_and_postgresql_names_the_extra() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from workflow_engine import errors\n"
        "from workflow_engine.store import schema\n"
        "from workflow_engine.store.database import Database\n"
        "with Database.open('sqlite://') as database: schema.ensure(database)\n"
        "try: Database.open('postgresql://h/d')\n"
        "except errors.StoreRefused as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert "pip install 'workflow-engine[postgres]'" in done.stdout
