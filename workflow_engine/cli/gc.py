"""``workflow-engine gc``: delete what ended long ago."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from workflow_engine.cli.options import Duration, Where, json_option, where_options
from workflow_engine.cli.output import print_columns, print_json
from workflow_engine.cli.report import ERROR

if TYPE_CHECKING:
    from workflow_engine.core.collecting import Collectable


@click.command()
@click.option(
    "--older-than",
    type=Duration(min=0),
    required=True,
    metavar="DURATION",
    help="How long ago an instance has to have ended, such as 30d, 12h, 90m or 45s.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=1, max=2**31 - 1),
    default=100,
    show_default=True,
    help="Instances deleted in one transaction, at most.",
)
@click.option(
    "--workflow",
    "workflows",
    multiple=True,
    metavar="NAME",
    help="Only instances of this workflow. May be repeated.",
)
@click.option("--force", is_flag=True, help="Delete them.")
@where_options
@json_option
@click.pass_context
def gc(
    ctx: click.Context,
    older_than: float,
    batch: int,
    workflows: tuple[str, ...],
    force: bool,
    where: Where,
    as_json: bool,
) -> None:
    """Show what ended long ago and can be deleted; delete it with --force.

    With an instance goes all that belongs to it. A child stays while its parent may ask
    for it again. The exit code is 1 if the database refused to delete some.
    """
    names = workflows or None
    deleted = failed = 0
    with where.engine() as engine:
        found = engine.collectable(older_than, workflows=names)
        if force:
            done = engine.gc(older_than, batch=batch, workflows=names)
            deleted, failed = done.deleted, done.failed
    if as_json:
        print_json(
            {
                "collectable": [
                    {
                        "workflow": each.workflow,
                        "status": each.status.value,
                        "count": each.count,
                    }
                    for each in found
                ],
                "deleted": deleted,
                "failed": failed,
            }
        )
    else:
        _print(found)
        _say(sum(each.count for each in found), force, deleted, failed)
    ctx.exit(ERROR if failed else 0)


def _print(found: Sequence[Collectable]) -> None:
    if found:
        rows = [(each.workflow, each.status.value, str(each.count)) for each in found]
        print_columns(("WORKFLOW", "STATUS", "INSTANCES"), rows)


def _say(count: int, force: bool, deleted: int, failed: int) -> None:
    if force:
        click.echo(f"{_instances(deleted)} deleted")
        if failed:
            click.echo(f"{_instances(failed)} could not be deleted", err=True)
    elif count:
        click.echo(f"{_instances(count)} would be deleted; --force does it")
    else:
        click.echo("nothing to delete")


def _instances(count: int) -> str:
    return f"{count} instance{'' if count == 1 else 's'}"
