"""``workflow-engine doctor``: what is wrong in the database, and what repairs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from workflow_engine.cli.options import Seconds, Where, json_option, where_options
from workflow_engine.cli.output import print_json
from workflow_engine.cli.report import ERROR, one_line

if TYPE_CHECKING:
    from workflow_engine.runtime.doctor import Finding
    from workflow_engine.runtime.engine import Engine


@click.command()
@click.option("--fix", is_flag=True, help="Repair what follows from what is recorded.")
@click.option(
    "--patience",
    type=Seconds(min=0),
    default=60.0,
    show_default=True,
    help="Seconds after their time that timers and leases may be left alone.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=2**31 - 1),
    default=1000,
    show_default=True,
    help="Findings at most.",
)
@where_options
@json_option
@click.pass_context
def doctor(
    ctx: click.Context,
    fix: bool,
    patience: float,
    limit: int,
    where: Where,
    as_json: bool,
) -> None:
    """Look for what is wrong in the database; exit 1 if anything is.

    Each finding names the command that repairs it. Workers may go on running.
    """
    with where.engine() as engine:
        found, repaired = _examine(engine, fix, patience, limit)
    if as_json:
        print_json(
            {
                "findings": [_document(each, where) for each in found],
                "repaired": [_document(each, where) for each in repaired],
            }
        )
    else:
        _print(found, repaired, where)
        if len(found) == limit:
            click.echo("there may be more: --limit", err=True)
    ctx.exit(ERROR if found else 0)


def _examine(
    engine: Engine, fix: bool, patience: float, limit: int
) -> tuple[list[Finding], list[Finding]]:
    """What is wrong, after what could be was repaired; and that."""
    tried: list[Finding] = []
    while True:
        found = engine.doctor(patience=patience, limit=limit)
        new = [each for each in found if each.is_mechanical and each not in tried]
        if not fix or not new:
            return found, [each for each in tried if each not in found]
        for each in new:
            engine.repair(each)
        tried += new


def _print(found: Sequence[Finding], repaired: Sequence[Finding], where: Where) -> None:
    for each in repaired:
        click.echo(f"repaired: {_told(each)}")
    for each in found:
        click.echo(_told(each))
        click.echo(f"  repair  {_command(each, where)}")
        click.echo(f"          ({each.purpose})")
    if not found:
        click.echo("nothing else is wrong" if repaired else "nothing is wrong")


def _told(finding: Finding) -> str:
    return one_line(f"{finding.workflow} {finding.id}: {finding.problem}")


def _command(finding: Finding, where: Where) -> str:
    if finding.is_mechanical:
        return where.command("doctor", flags=("--fix",))
    return where.command(*finding.words)


def _document(finding: Finding, where: Where) -> dict[str, Any]:
    return {
        "kind": finding.kind.value,
        "workflow": finding.workflow,
        "id": finding.id,
        "problem": finding.problem,
        "repair": _command(finding, where),
        "purpose": finding.purpose,
        "mechanical": finding.is_mechanical,
    }
