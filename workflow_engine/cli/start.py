"""``workflow-engine start``: record an instance, for a worker to run."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, TextIO

import click

from workflow_engine.cli.arguments import call_options, read_arguments
from workflow_engine.cli.options import (
    INSTANT,
    Seconds,
    Where,
    json_option,
    split_pairs,
    where_options,
)
from workflow_engine.cli.output import describe_instance, print_json, quiet_output
from workflow_engine.cli.targets import load_target
from workflow_engine.cli.words import database_now, standing

if TYPE_CHECKING:
    from workflow_engine.runtime.starting import OnConflict


@click.command()
@call_options
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="NAME=VALUE",
    help="A short text to find the instance by. May be repeated.",
)
@click.option(
    "--delay",
    type=Seconds(min=0),
    default=0.0,
    show_default=True,
    help="Seconds that workers leave it alone.",
)
@click.option(
    "--on-conflict",
    type=click.Choice(("attach", "reject", "restart")),
    default="attach",
    show_default=True,
    help="What to do if the instance exists. restart deletes one that has ended, with "
    "its history, and starts it afresh.",
)
@click.option(
    "--timeout",
    type=Seconds(min=0),
    help="Seconds from now after which it fails, if it has not ended.",
)
@click.option(
    "--deadline",
    type=INSTANT,
    help="When it fails, if it has not ended; such as 2030-01-31T12:00:00Z.",
)
@where_options
@json_option
def start(
    target: str,
    id: str,
    arguments: tuple[str, ...],
    named: tuple[str, ...],
    file: TextIO | None,
    tags: tuple[str, ...],
    delay: float,
    on_conflict: OnConflict,
    timeout: float | None,
    deadline: datetime | None,
    where: Where,
    as_json: bool,
) -> None:
    """Record an instance without running it; a worker will.

    TARGET and ARGS are as in run. An instance that exists is left as it is, unless
    --on-conflict says otherwise; other arguments than it was started with are an error.
    """
    if timeout is not None and deadline is not None:
        raise click.UsageError("--timeout and --deadline exclude each other")
    with quiet_output(as_json):
        found = load_target(target)
        workflow = found.get_workflow()
        args, kwargs = read_arguments(workflow, arguments, named, file)
    texts = split_pairs(tags, "NAME")
    with where.engine(found.all, may_create=True) as engine:
        starting = engine.starting(
            tags=texts,
            delay=delay,
            on_conflict=on_conflict,
            timeout=timeout,
            deadline=deadline,
        )
        starting.start(workflow, id, *args, **kwargs)
        instance = engine.describe(workflow, id)
    if as_json:
        print_json(describe_instance(instance))
    else:
        stands = standing(instance, database_now(where))
        click.echo(f"{workflow.name} {id} is recorded: {stands}")
