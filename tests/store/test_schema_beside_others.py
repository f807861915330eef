"""Our tables and a user's own, with the user's own Alembic, in one database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import inspect, text

from workflow_engine.store import schema
from workflow_engine.store.database import Database

ENV = """
from alembic import context
from sqlalchemy import Column, Integer, MetaData, Table
from workflow_engine.store.schema import exclude_workflow_tables

metadata = MetaData()
Table("orders", metadata, Column("id", Integer, primary_key=True))
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    include_schemas=True,
    include_object=exclude_workflow_tables if FILTERED else None,
)
context.run_migrations()
"""

TEMPLATE = """
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
from alembic import op
import sqlalchemy as sa

def upgrade():
    ${upgrades or "pass"}

def downgrade():
    ${downgrades or "pass"}
"""


@pytest.fixture(params=["the default", "public"])
def shared(database_url: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database of ours where a user's tables live too, in two arrangements."""
    name = None
    if request.param == "public" and not database_url.startswith("sqlite"):
        name = "public"
    with Database.open(database_url, schema=name) as database:
        schema.upgrade(database)
        yield database


def _autogenerate(database: Database, folder: Path, *, filtered: bool) -> str:
    """Let the user's Alembic write a revision; its text, without comments."""
    (folder / "versions").mkdir(parents=True)
    env = ENV.replace("FILTERED", str(filtered))
    (folder / "env.py").write_text(env)
    (folder / "script.py.mako").write_text(TEMPLATE)
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.set_main_option("path_separator", "os")
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.revision(config, autogenerate=True)
        command.upgrade(config, "head")
    (written,) = (folder / "versions").glob("*.py")
    lines = written.read_text().splitlines()
    return "\n".join(line for line in lines if not line.strip().startswith("#"))


def test_the_users_autogenerate_leaves_our_tables_alone(
    shared: Database, tmp_path: Path
) -> None:
    written = _autogenerate(shared, tmp_path / "theirs", filtered=True)
    assert "orders" in written
    assert "wf_" not in written
    assert schema.check(shared) == []
    with shared.read() as connection:
        assert inspect(connection).has_table("alembic_version")


def test_without_the_filter_it_would_drop_them(
    shared: Database, tmp_path: Path
) -> None:
    written = _autogenerate(shared, tmp_path / "theirs", filtered=False)
    assert "op.drop_table('wf_journal'" in written
    assert "op.drop_table('wf_schema_version'" in written


def test_our_migrations_leave_the_users_tables_and_version_alone(
    shared: Database, tmp_path: Path
) -> None:
    _autogenerate(shared, tmp_path / "theirs", filtered=True)
    with shared.write() as connection:
        connection.execute(text("INSERT INTO orders (id) VALUES (41)"))
        theirs = connection.execute(text("SELECT * FROM alembic_version")).all()
    schema.downgrade(shared, "base")
    schema.upgrade(shared)
    assert schema.check(shared) == []
    with shared.read() as connection:
        assert connection.execute(text("SELECT id FROM orders")).all() == [(41,)]
        assert connection.execute(text("SELECT * FROM alembic_version")).all() == theirs


def test_a_table_of_the_users_that_looks_like_ours_stays_the_users() -> None:
    # Reflected and in the user's metadata too, so there is something to compare with.
    assert schema.exclude_workflow_tables(None, "wf_mine", "table", True, object())
    assert schema.exclude_workflow_tables(None, "wf_mine", "table", False, None)
    assert schema.exclude_workflow_tables(None, "orders", "table", True, None)
    assert schema.exclude_workflow_tables(None, "wf_note", "column", True, None)
    assert not schema.exclude_workflow_tables(None, "wf_mine", "table", True, None)
