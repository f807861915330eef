"""``workflow-engine journal``: what was recorded of one instance."""

from __future__ import annotations

import click

from workflow_engine.cli.options import (
    COUNTED,
    Where,
    instance_arguments,
    json_option,
    where_options,
)
from workflow_engine.cli.output import describe_entry, print_entries, print_json


@click.command()
@instance_arguments
@click.option(
    "--generation",
    type=COUNTED,
    help="Of this generation.  [default: the current one]",
)
@where_options
@json_option
def journal(
    name: str, id: str, generation: int | None, where: Where, as_json: bool
) -> None:
    """Print the journal of an instance.

    NAME is the instance's workflow. History, marked with a minus, answers nothing: the
    ends of generations, crashes, resurrections, and entries that were superseded.
    """
    with where.engine() as engine:
        if generation is None:
            generation = engine.describe(name, id).generation
        entries = engine.journal(name, id, generation)
    if as_json:
        print_json(
            {
                "workflow": name,
                "id": id,
                "generation": generation,
                "entries": [describe_entry(entry) for entry in entries],
            }
        )
    elif entries:
        print_entries(entries)
    else:
        click.echo(f"generation {generation} has no entries", err=True)
