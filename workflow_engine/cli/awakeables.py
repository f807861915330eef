"""Awakeables: looking at those of an instance, and completing one by its id."""

from __future__ import annotations

import click

from workflow_engine.cli.arguments import parse_value
from workflow_engine.cli.options import (
    Where,
    instance_arguments,
    json_option,
    where_options,
)
from workflow_engine.cli.output import instant, print_columns, print_json
from workflow_engine.cli.report import ERROR
from workflow_engine.cli.words import database_now, relative


@click.command()
@instance_arguments
@where_options
@json_option
def awakeables(name: str, id: str, where: Where, as_json: bool) -> None:
    """List the awakeables of an instance.

    NAME is the instance's workflow. Those of the current generation, oldest first.
    Whoever knows the id of a pending one may signal, reject or cancel it.
    """
    with where.engine() as engine:
        found = engine.awakeables(name, id)
    if as_json:
        print_json(
            {
                "workflow": name,
                "id": id,
                "awakeables": [
                    {
                        "label": each.label,
                        "id": each.id,
                        "status": each.status.value,
                        "created_at": instant(each.created_at),
                        "settled_at": instant(each.settled_at),
                    }
                    for each in found
                ],
            }
        )
        return
    if not found:
        click.echo("no awakeables", err=True)
        return
    now = database_now(where)
    rows = [
        (
            each.label,
            each.status.value,
            relative(each.created_at, now),
            relative(each.settled_at, now) if each.settled_at else "",
            each.id,
        )
        for each in found
    ]
    print_columns(("LABEL", "STATUS", "OPENED", "SETTLED", "ID"), rows)


@click.command()
@click.argument("id")
@click.argument("value")
@where_options
@json_option
@click.pass_context
def signal(
    ctx: click.Context, id: str, value: str, where: Where, as_json: bool
) -> None:
    """Complete the awakeable ID with VALUE.

    VALUE is JSON; text that is not JSON is taken as text. The first signal, rejection
    or cancellation wins: if it is settled already, or its workflow has gone on without
    it, nothing changes and the exit code is 1.
    """
    with where.engine() as engine:
        settled = engine.signal(id, parse_value(value))
    _tell(ctx, id, "signalled", settled, as_json)


@click.command()
@click.argument("id")
@click.argument("reason")
@where_options
@json_option
@click.pass_context
def reject(
    ctx: click.Context, id: str, reason: str, where: Where, as_json: bool
) -> None:
    """Refuse the awakeable ID; its workflow gets an error with REASON.

    If it is settled already, or its workflow has gone on without it, nothing changes
    and the exit code is 1.
    """
    with where.engine() as engine:
        settled = engine.reject(id, reason)
    _tell(ctx, id, "rejected", settled, as_json)


@click.command("cancel-awakeable")
@click.argument("id")
@where_options
@json_option
@click.pass_context
def cancel_awakeable(ctx: click.Context, id: str, where: Where, as_json: bool) -> None:
    """Withdraw the awakeable ID; its workflow gets an error.

    If it is settled already, or its workflow has gone on without it, nothing changes
    and the exit code is 1.
    """
    with where.engine() as engine:
        settled = engine.cancel_awakeable(id)
    _tell(ctx, id, "cancelled", settled, as_json)


def _tell(ctx: click.Context, id: str, how: str, settled: bool, as_json: bool) -> None:
    if as_json:
        print_json({"id": id, how: settled})
    elif settled:
        click.echo(f"{id} is {how}")
    else:
        click.echo(
            f"{id} was not {how}: it is settled already, or its workflow has ended or "
            "gone on without it",
            err=True,
        )
    ctx.exit(0 if settled else ERROR)
