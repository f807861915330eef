"""``workflow-engine timers``: what an instance sleeps on."""

from __future__ import annotations

import click

from workflow_engine.cli.options import (
    Where,
    instance_arguments,
    json_option,
    where_options,
)
from workflow_engine.cli.output import instant, print_columns, print_json
from workflow_engine.cli.words import database_now, dated, relative


@click.command()
@instance_arguments
@where_options
@json_option
def timers(name: str, id: str, where: Where, as_json: bool) -> None:
    """List the timers that run for an instance.

    NAME is the instance's workflow. The first due comes first.
    """
    with where.engine() as engine:
        found = engine.timers(name, id)
    if as_json:
        print_json(
            {
                "workflow": name,
                "id": id,
                "timers": [
                    {
                        "name": each.name,
                        "due_at": instant(each.due_at),
                        "created_at": instant(each.created_at),
                    }
                    for each in found
                ],
            }
        )
        return
    if not found:
        click.echo("no timers", err=True)
        return
    now = database_now(where)
    rows = [
        (each.name, dated(each.due_at, now), relative(each.created_at, now))
        for each in found
    ]
    print_columns(("NAME", "DUE", "STARTED"), rows)
