"""``workflow-engine db``: the tables, looked after from the command line.

Nothing here imports SQLAlchemy or Alembic until a command runs.
"""

from __future__ import annotations

import click

from workflow_engine.cli.options import (
    Seconds,
    Where,
    json_option,
    schema_option,
    where_options,
)
from workflow_engine.cli.output import print_json
from workflow_engine.cli.report import ReportingGroup

timeout_option = click.option(
    "--lock-timeout",
    type=Seconds(min=0.001),
    default=30.0,
    show_default=True,
    help="Seconds to wait for another session that migrates (PostgreSQL).",
)


@click.group(cls=ReportingGroup)
def db() -> None:
    """Create, upgrade and check the tables."""


@db.command()
@click.argument("revision", default="head")
@where_options
@timeout_option
@json_option
def upgrade(revision: str, where: Where, lock_timeout: float, as_json: bool) -> None:
    """Migrate up to REVISION, the newest by default.

    Does nothing if the database is there already. Workers may go on running.
    """
    from workflow_engine.store import schema as schemas

    with where.database(may_create=True) as database:
        before = schemas.current(database)
        schemas.upgrade(database, revision, lock_timeout=lock_timeout)
        _print_move(before, schemas.current(database), as_json=as_json)


@db.command()
@click.argument("revision")
@where_options
@timeout_option
@json_option
def downgrade(revision: str, where: Where, lock_timeout: float, as_json: bool) -> None:
    """Migrate down to REVISION, or to "base", where no table is left.

    What the undone revisions brought is lost.
    """
    from workflow_engine.store import schema as schemas

    with where.database() as database:
        before = schemas.current(database)
        schemas.downgrade(database, revision, lock_timeout=lock_timeout)
        _print_move(before, schemas.current(database), as_json=as_json)


@db.command()
@where_options
@json_option
def current(where: Where, as_json: bool) -> None:
    """Show the revision of the database, and the one that this code needs."""
    from workflow_engine.store import schema as schemas

    with where.database() as database:
        found = schemas.current(database)
    if as_json:
        print_json({"revision": found, "needed": schemas.HEAD})
    else:
        click.echo(f"{found or 'none'} (this code needs {schemas.HEAD})")


@db.command()
@where_options
@json_option
@click.pass_context
def check(ctx: click.Context, where: Where, as_json: bool) -> None:
    """Compare the tables with those that this code expects; exit 1 if they differ."""
    from workflow_engine.store import schema as schemas

    with where.database() as database:
        differences = schemas.check(database)
    if as_json:
        print_json({"differences": differences})
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


def _print_move(before: str | None, after: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"before": before, "after": after})
    elif before == after:
        click.echo(f"at {after or 'none'} already")
    else:
        click.echo(f"{before or 'none'} -> {after or 'none'}")
