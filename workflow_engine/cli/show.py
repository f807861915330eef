"""``workflow-engine show``: how one instance stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from workflow_engine.cli.options import (
    Where,
    instance_arguments,
    json_option,
    where_options,
)
from workflow_engine.cli.output import (
    describe_entry,
    describe_instance,
    instant,
    print_entries,
    print_json,
)
from workflow_engine.cli.report import one_line
from workflow_engine.cli.waits import Sources, WaitInWords, waits_in_words
from workflow_engine.cli.words import advice, database_now, dated, relative, standing
from workflow_engine.core.journal import Kind
from workflow_engine.core.lifecycle import Status

if TYPE_CHECKING:
    from workflow_engine.runtime.views import Description, JournalEntry

RECENT = 10
"""Journal entries, and waits, that are shown."""

TITLE = 12
"""Columns of what a line is about."""


@click.command()
@instance_arguments
@where_options
@json_option
def show(name: str, id: str, where: Where, as_json: bool) -> None:
    """Show how an instance stands.

    NAME is the instance's workflow. What it does or waits for, who runs it, why it
    failed and what to do about it, and the last entries of its journal.
    """
    with where.engine() as engine:
        found = engine.describe(name, id)
        entries = engine.journal(name, id, found.generation)[-RECENT:]
        sources = Sources.of(engine, found)
    now = database_now(where)
    waits = waits_in_words(found, sources, now, where)
    if as_json:
        document = describe_instance(found)
        document["standing"] = standing(found, now)
        document["waits"] = [wait.document() for wait in waits]
        commands = [command for command, _ in advice(found, where)]
        commands += [wait.command for wait in waits if wait.command]
        document["advice"] = commands
        document["journal"] = [describe_entry(entry) for entry in entries]
        print_json(document)
        return
    click.echo(f"{found.workflow} {found.id}: {standing(found, now)}")
    for title, fact in (*_waits(waits), *_facts(found, entries, now)):
        click.echo(f"  {title:<{TITLE}}{fact}")
    for command, purpose in advice(found, where):
        click.echo(f"  {'next':<{TITLE}}{command}")
        click.echo(f"  {'':<{TITLE}}({purpose})")
    if entries:
        click.echo(
            "  journal" if len(entries) == found.position else "  journal, its end"
        )
        print_entries(entries, indent="    ")


def _waits(waits: Sequence[WaitInWords]) -> Iterator[tuple[str, str]]:
    """The first waits, each with what ends it."""
    for wait in waits[:RECENT]:
        if wait.command is None:
            yield "waits for", wait.words
        else:
            yield "waits for", f"{wait.words},"
            yield "", f"{wait.ends_by}: {wait.command}"
    if len(waits) > RECENT:
        yield "", f"and {len(waits) - RECENT} more"


def _facts(
    found: Description, entries: Sequence[JournalEntry], now: datetime
) -> Iterator[tuple[str, str]]:
    """What is worth a line, and only that."""
    if found.reason:
        is_live = found.status is Status.RUNNING
        yield "last crash" if is_live else "reason", one_line(found.reason)
    cause = _find_cause(entries)
    if cause and found.status is Status.FAILED:
        yield "because of", f"the recorded outcome of {cause}"
    counts = (("attempts", found.attempts), ("takeovers", found.takeovers))
    yield from ((t, f"{count} since it last moved on") for t, count in counts if count)
    yield "started", f"{relative(found.created_at, now)} ({instant(found.created_at)})"
    yield "changed", f"{relative(found.updated_at, now)} ({instant(found.updated_at)})"
    if found.deadline_at is not None and not found.status.is_ended:
        yield "deadline", dated(found.deadline_at, now)
    texts = (
        ("cancel", "requested" if found.is_called_off else ""),
        ("generation", str(found.generation or "")),
        ("tags", ", ".join(f"{k}={v}" for k, v in sorted(found.tags.items()))),
        ("patches", ", ".join(sorted(found.patches or ()))),
    )
    yield from ((title, text) for title, text in texts if text)


def _find_cause(entries: Sequence[JournalEntry]) -> str | None:
    """The entry that the last failed marker names."""
    for entry in reversed(entries):
        if entry.kind == Kind.FAILED and isinstance(entry.value, dict):
            return entry.value.get("entry")
    return None
