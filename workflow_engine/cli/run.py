"""``workflow-engine run``: one instance, here and now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TextIO

import click

from workflow_engine.cli import report
from workflow_engine.cli.arguments import call_options, read_arguments
from workflow_engine.cli.interruption import telling_how_to_go_on
from workflow_engine.cli.options import (
    Where,
    json_option,
    patch_options,
    where_options,
)
from workflow_engine.cli.output import print_json, quiet_output
from workflow_engine.cli.progress import WIDTH, watch
from workflow_engine.cli.targets import load_target
from workflow_engine.cli.words import delivery

if TYPE_CHECKING:
    from workflow_engine.core.outcome import Ending
    from workflow_engine.runtime.registry import Workflow

LONGEST_RESULT = 2_000
"""Characters of a result that are shown; ``--json`` shows all of it."""


@click.command()
@call_options
@patch_options
@where_options
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    target: str,
    id: str,
    arguments: tuple[str, ...],
    named: tuple[str, ...],
    file: TextIO | None,
    patches: tuple[str, ...],
    retired: tuple[str, ...],
    where: Where,
    as_json: bool,
) -> None:
    """Start or resume an instance, here, until it ends or waits.

    TARGET is module:attribute or path/to/file.py:attribute. ARGS are the workflow's
    arguments, each as JSON or as text; put -- before those that begin with a dash. A
    later run of the same ID needs none: it goes on with those of the first one, and
    recorded steps are not run again.

    The exit code is 0 when the workflow completed, 3 suspended, 4 cancelled, 5 failed;
    1 is an error, 2 a mistake on the command line, 130 Ctrl-C.
    """
    with quiet_output(as_json):
        found = load_target(target)
        workflow = found.get_workflow()
        args, kwargs = read_arguments(workflow, arguments, named, file)
    from workflow_engine.runtime.options import RunOptions

    options = RunOptions(
        active_patches=frozenset(patches), retired_patches=frozenset(retired)
    )
    progress = watch(as_json=as_json)
    again = where.command("run", target, id)
    with (
        where.engine(
            found.all, may_create=True, options=options, observer=progress
        ) as engine,
        telling_how_to_go_on(workflow.name, id, again),
        progress.shown(),
    ):
        ending = engine.run(workflow, id, *args, **kwargs)
    document = describe_ending(workflow, id, ending)
    document["recorded"] = progress.recorded
    if as_json:
        print_json(document)
    else:
        _print_ending(document, where)
    ctx.exit(_EXIT_CODES[document["ending"]])


_EXIT_CODES = {
    "completed": 0,
    "suspended": report.SUSPENDED,
    "cancelled": report.CANCELLED,
    "failed": report.FAILED,
}


def describe_ending(
    workflow: Workflow[..., Any], id: str, ending: Ending[Any]
) -> dict[str, Any]:
    """The JSON of an ending. The keys are always there."""
    from workflow_engine.core import outcome
    from workflow_engine.core.codec import Codec

    document: dict[str, Any] = {
        "workflow": workflow.name,
        "id": id,
        "ending": type(ending).__name__.lower(),
        "result": None,
        "on": [],
        "reason": None,
    }
    match ending:
        case outcome.Completed(result):
            document["result"] = json.loads(
                Codec().encode(result, workflow.result_type)
            )
        case outcome.Suspended(names):
            document["on"] = list(names)
        case outcome.Failed(reason):
            document["reason"] = reason
    return document


def _print_ending(document: dict[str, Any], where: Where) -> None:
    name = document["workflow"], document["id"]
    rest = ""
    advice = []
    match document["ending"]:
        case "completed" if document["result"] is not None:
            rest = json.dumps(document["result"], ensure_ascii=False)
            if len(rest) > LONGEST_RESULT:
                rest = f"{rest[:LONGEST_RESULT]}… (--json shows all of it)"
        case "suspended":
            rest = f"waiting for {', '.join(document['on'])}"
            told = [delivery(where, *name, on) for on in document["on"]]
            advice = [command for command in told if command is not None]
            if None in told:
                advice.append(where.command("show", *name))
        case "failed":
            rest = report.one_line(document["reason"])
            advice = [where.command("resurrect", *name)]
    click.echo(f"{document['ending']:<{WIDTH}}{rest}".rstrip())
    for command in advice:
        click.echo(f"{'':<{WIDTH}}{command}", err=True)
