"""``workflow-engine list``: instances, page by page."""

from __future__ import annotations

import click

from workflow_engine.cli.options import Where, json_option, split_pairs, where_options
from workflow_engine.cli.output import (
    describe_instance,
    print_columns,
    print_json,
    shorten,
)
from workflow_engine.cli.words import database_now, relative, waits_listed
from workflow_engine.core.lifecycle import Status


@click.command("list")
@click.option(
    "--status",
    "statuses",
    type=click.Choice([status.value for status in Status]),
    multiple=True,
    help="Only of this status. May be repeated.",
)
@click.option("--name", help="Only of this workflow.")
@click.option("--prefix", help="Only ids that begin so.")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only with this tag. May be repeated.",
)
@click.option(
    "--after",
    type=click.IntRange(max=2**63 - 1),
    help="Go on where the last page ended.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=2**31 - 1),
    default=100,
    show_default=True,
    help="Instances on a page.",
)
@where_options
@json_option
def list_instances(
    statuses: tuple[str, ...],
    name: str | None,
    prefix: str | None,
    tags: tuple[str, ...],
    after: int | None,
    limit: int,
    where: Where,
    as_json: bool,
) -> None:
    """List instances, in the order in which they were started."""
    with where.engine() as engine:
        page = engine.list(
            status=statuses or None,
            name=name,
            prefix=prefix,
            tags=split_pairs(tags, "NAME"),
            after=after,
            limit=limit,
        )
    if as_json:
        instances = [describe_instance(found) for found in page]
        print_json({"instances": instances, "after": page.after})
        return
    if not page:
        click.echo("no instances", err=True)
        return
    now = database_now(where)
    rows = [
        (
            found.status.value,
            found.workflow,
            found.id,
            str(found.position),
            relative(found.updated_at, now),
            shorten(found.reason or found.owner or waits_listed(found.waits_on)),
        )
        for found in page
    ]
    print_columns(("STATUS", "NAME", "ID", "ENTRIES", "CHANGED", "NOTE"), rows)
    if page.after is not None:
        click.echo(f"there may be more: --after {page.after}", err=True)
