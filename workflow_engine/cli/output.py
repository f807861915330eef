"""How answers are written: JSON documents, columns, instants."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from workflow_engine.cli.report import one_line
from workflow_engine.core.journal import Kind

if TYPE_CHECKING:
    from workflow_engine.runtime.views import Description, JournalEntry

COLORS = {
    "running": "cyan",
    "suspended": "blue",
    "blocked": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "magenta",
}


def print_json(document: object) -> None:
    """Print one JSON document on one line."""
    click.echo(json.dumps(document))


def quiet_output(wanted: bool) -> AbstractContextManager[object]:
    """Send what a user's code prints to standard error, so that a document is alone."""
    return redirect_stdout(sys.stderr) if wanted else nullcontext()


def instant(at: datetime | None) -> str | None:
    """An instant as ISO 8601 in UTC, always with microseconds and a Z."""
    if at is None:
        return None
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def describe_instance(found: Description) -> dict[str, Any]:
    """The JSON of an instance."""
    return {
        "number": found.number,
        "workflow": found.workflow,
        "id": found.id,
        "status": found.status.value,
        "generation": found.generation,
        "position": found.position,
        "attempts": found.attempts,
        "takeovers": found.takeovers,
        "owner": found.owner,
        "leased_until": instant(found.leased_until),
        "next_attempt_at": instant(found.next_attempt_at),
        "wake_after": instant(found.wake_after),
        "cancel_requested": found.cancel_requested,
        "patches": None if found.patches is None else sorted(found.patches),
        "tags": dict(found.tags),
        "reason": found.reason,
        "waits_on": list(found.waits_on),
        "created_at": instant(found.created_at),
        "updated_at": instant(found.updated_at),
        "ended_at": instant(found.ended_at),
        "stream": found.stream,
        "deadline_at": instant(found.deadline_at),
    }


def describe_entry(entry: JournalEntry) -> dict[str, Any]:
    """The JSON of a journal entry."""
    return {
        "position": entry.position,
        "kind": entry.kind,
        "step": entry.step,
        "live": entry.live,
        "value": entry.value,
        "recorded_at": instant(entry.recorded_at),
        "entry_id": entry.entry_id,
    }


def print_entries(entries: Sequence[JournalEntry], indent: str = "") -> None:
    """Print journal entries in columns. History is marked with a minus."""
    rows = [
        (
            "" if entry.live else "-",
            str(entry.position),
            f"{entry.recorded_at:%Y-%m-%d %H:%M:%S}",
            entry.kind,
            entry.step or "",
            shorten(in_a_line(entry)),
        )
        for entry in entries
    ]
    print_columns(
        ("", "POSITION", "RECORDED (UTC)", "KIND", "STEP", "VALUE"), rows, indent
    )


def in_a_line(entry: JournalEntry) -> str:
    """What an entry holds: the reason of a failure, else the value as JSON."""
    value = entry.value
    if value is None:
        return ""
    if entry.kind == Kind.STEP_ATTEMPT and isinstance(value, dict):
        seconds = value.get("pause", 0) / 1e6
        return f"{_failure(value.get('failure', {}))}; again after {seconds:g} s"
    if isinstance(value, dict) and "traceback" in value:
        return _failure(value)
    return json.dumps(value, ensure_ascii=False)


def _failure(record: dict[str, Any]) -> str:
    kind, message = record.get("type", ""), record.get("message", "")
    return one_line(f"{kind}: {message}" if message else str(kind))


def shorten(text: str, limit: int = 60) -> str:
    """Text that fits into a column, on one line."""
    line = one_line(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def print_columns(
    titles: Sequence[str], rows: Sequence[Sequence[str]], indent: str = ""
) -> None:
    """Print rows under titles, each column as wide as it must be."""
    from rich.cells import cell_len

    table = [titles, *rows]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    for number, row in enumerate(table):
        cells = [
            _colored(cell) + " " * (width - cell_len(cell))
            for cell, width in zip(row, widths, strict=True)
        ]
        line = (indent + "  ".join(cells)).rstrip()
        click.echo(click.style(line, bold=True) if number == 0 else line)


def _colored(cell: str) -> str:
    return click.style(cell, fg=COLORS[cell]) if cell in COLORS else cell
