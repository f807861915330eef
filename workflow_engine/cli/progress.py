"""What ``run`` shows while it runs."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import click

from workflow_engine.cli.output import quiet_output
from workflow_engine.cli.report import one_line
from workflow_engine.core import identity
from workflow_engine.telemetry.events import (
    Event,
    RunEnded,
    RunStarted,
    StepRecorded,
    StepStarted,
)

if TYPE_CHECKING:
    from rich.progress import Progress as Display
    from rich.progress import TaskID

WIDTH = 10
"""Columns of the word that begins a line."""


def watch(*, as_json: bool) -> Progress:
    """What suits where the output goes: nothing, a live display, or plain lines."""
    if as_json:
        return Progress()
    return LiveDisplay() if _is_terminal() else PlainLines()


class Progress:
    """An observer that shows nothing, and counts.

    Attributes:
        recorded: outcomes of steps that became durable.
    """

    def __init__(self) -> None:
        self.recorded = 0
        self._generation: int | None = None

    def shown(self) -> AbstractContextManager[object]:
        """Own the output while the run lasts."""
        return quiet_output(True)

    def __call__(self, event: Event) -> None:
        """Take note of an event of the run."""
        match event:
            case RunStarted(_, _, generation, replayed):
                if self._generation is None and replayed:
                    entries = "entry" if replayed == 1 else "entries"
                    self.say("resumed", f"after {replayed} recorded {entries}")
                elif self._generation not in (None, generation):
                    self.say("continued", f"as generation {generation}")
                self._generation = generation
            case StepStarted(step=step):
                self.begin(step)
            case StepRecorded(step=identity.SEED):
                pass  # the engine's own, recorded when a generation begins
            case StepRecorded(step=step, ok=ok):
                self.recorded += 1
                self.end(step)
                self.say("recorded", step if ok else f"{step} (failed)")
            case RunEnded():
                self.end(None)

    def say(self, word: str, rest: str) -> None:
        """Show a line that stays."""

    def begin(self, step: str) -> None:
        """Show that a step runs."""

    def end(self, step: str | None) -> None:
        """Show that a step, or everything, runs no more."""


class PlainLines(Progress):
    """A line an event, without decoration; each is written at once."""

    def shown(self) -> AbstractContextManager[object]:
        """Leave the output as it is."""
        return nullcontext()

    def say(self, word: str, rest: str) -> None:
        """Write the line. A reader that has gone does not stop the run."""
        try:
            click.echo(f"{word:<{WIDTH}}{one_line(rest)}")
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())


class LiveDisplay(Progress):
    """Recorded steps scroll by; below them, the running ones with their time."""

    def __init__(self) -> None:
        super().__init__()
        self._display = _make_display()
        self._tasks: dict[str, TaskID] = {}

    def shown(self) -> AbstractContextManager[object]:
        """Show the display; what the workflow prints appears above it."""
        return self._display

    def say(self, word: str, rest: str) -> None:
        """Write the line above the running steps."""
        from rich.text import Text

        style = "red" if rest.endswith(" (failed)") else "green"
        line = Text.assemble((f"{word:<{WIDTH}}", style), one_line(rest))
        self._display.console.print(line, soft_wrap=True)

    def begin(self, step: str) -> None:
        """Add the step to the running ones; an earlier attempt of it runs no more."""
        self.end(step)
        self._tasks[step] = self._display.add_task(one_line(step), total=None)

    def end(self, step: str | None) -> None:
        """Take it away again."""
        for name in [step] if step is not None else list(self._tasks):
            task = self._tasks.pop(name, None)
            if task is not None:
                self._display.remove_task(task)


def _make_display() -> Display:
    from rich.progress import Progress as Display
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    return Display(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        transient=True,
    )


def _is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") not in (None, "", "dumb")
