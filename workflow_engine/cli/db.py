"""``workflow-engine db``: the tables, looked after from the command line.

Nothing here imports SQLAlchemy or Alembic until a command runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from workflow_engine import errors

if TYPE_CHECKING:
    from workflow_engine.store.database import Database

Command = TypeVar("Command", bound=Callable[..., Any])


class _Reporting(click.Group):
    """A group that reports our errors in one line, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except errors.WorkflowError as error:
            raise click.ClickException(str(error)) from error


url_option = click.option(
    "--url",
    envvar="WORKFLOW_ENGINE_URL",
    show_envvar=True,
    required=True,
    help="The database, such as sqlite:///orders.db or postgresql://me@host/orders.",
)
schema_option = click.option(
    "--schema",
    envvar="WORKFLOW_ENGINE_SCHEMA",
    show_envvar=True,
    help="The PostgreSQL schema of the tables.  [default: workflow_engine]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
timeout_option = click.option(
    "--lock-timeout",
    type=click.FloatRange(min=0.001),
    default=30.0,
    show_default=True,
    help="Seconds to wait for another session that migrates (PostgreSQL).",
)


def database_options(command: Command) -> Command:
    """Add the options that say which database and schema are meant."""
    return url_option(schema_option(command))


@click.group(cls=_Reporting)
def db() -> None:
    """Create, upgrade and check the tables."""


@db.command()
@click.argument("revision", default="head")
@database_options
@timeout_option
@json_option
def upgrade(
    revision: str, url: str, schema: str | None, lock_timeout: float, as_json: bool
) -> None:
    """Migrate up to REVISION, the newest by default.

    Does nothing if the database is there already. Workers may go on running.
    """
    from workflow_engine.store import schema as schemas

    with _open(url, schema) as database:
        before = schemas.current(database)
        schemas.upgrade(database, revision, lock_timeout=lock_timeout)
        _print_move(before, schemas.current(database), as_json=as_json)


@db.command()
@click.argument("revision")
@database_options
@timeout_option
@json_option
def downgrade(
    revision: str, url: str, schema: str | None, lock_timeout: float, as_json: bool
) -> None:
    """Migrate down to REVISION, or to "base", where no table is left.

    What the undone revisions brought is lost.
    """
    from workflow_engine.store import schema as schemas

    with _open(url, schema) as database:
        before = schemas.current(database)
        schemas.downgrade(database, revision, lock_timeout=lock_timeout)
        _print_move(before, schemas.current(database), as_json=as_json)


@db.command()
@database_options
@json_option
def current(url: str, schema: str | None, as_json: bool) -> None:
    """Show the revision of the database, and the one that this code needs."""
    from workflow_engine.store import schema as schemas

    with _open(url, schema) as database:
        found = schemas.current(database)
    if as_json:
        click.echo(json.dumps({"revision": found, "needed": schemas.HEAD}))
    else:
        click.echo(f"{found or 'none'} (this code needs {schemas.HEAD})")


@db.command()
@database_options
@json_option
@click.pass_context
def check(ctx: click.Context, url: str, schema: str | None, as_json: bool) -> None:
    """Compare the tables with those that this code expects; exit 1 if they differ."""
    from workflow_engine.store import schema as schemas

    with _open(url, schema) as database:
        differences = schemas.check(database)
    if as_json:
        click.echo(json.dumps({"differences": differences}))
    else:
        for line in differences or ["the tables are as they should be"]:
            click.echo(line)
    ctx.exit(1 if differences else 0)


@db.command()
@click.argument("revision", default="head")
@click.option("--from", "start", help="The revision to start from.  [default: none]")
@schema_option
def sql(revision: str, start: str | None, schema: str | None) -> None:
    """Print the PostgreSQL script that migrates up to REVISION, and run nothing."""
    from workflow_engine.store import schema as schemas

    script = schemas.sql(schema=schema, start=start, revision=revision)
    click.echo(script, nl=False)


def _open(url: str, schema: str | None) -> Database:
    from workflow_engine.store.database import Database

    return Database.open(url, schema=schema)


def _print_move(before: str | None, after: str | None, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"before": before, "after": after}))
    elif before == after:
        click.echo(f"at {after or 'none'} already")
    else:
        click.echo(f"{before or 'none'} -> {after or 'none'}")
