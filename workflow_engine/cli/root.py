"""The command ``workflow-engine`` itself. Other commands load when asked for."""

from __future__ import annotations

import sys
from importlib import import_module
from io import TextIOWrapper

import click

from workflow_engine.cli.options import debug_option
from workflow_engine.cli.report import ReportingGroup

_COMMANDS = {
    "run": "run:run",
    "start": "start:start",
    "worker": "worker:worker",
    "list": "listing:list_instances",
    "show": "show:show",
    "journal": "journal:journal",
    "awakeables": "awakeables:awakeables",
    "timers": "timers:timers",
    "resolve": "actions:resolve",
    "send": "actions:send",
    "signal": "awakeables:signal",
    "reject": "awakeables:reject",
    "cancel-awakeable": "awakeables:cancel_awakeable",
    "cancel": "actions:cancel",
    "resurrect": "actions:resurrect",
    "release": "actions:release",
    "discard": "actions:discard",
    "doctor": "doctor:doctor",
    "gc": "gc:gc",
    "db": "db:db",
}
"""Where each command lives, in the order in which help shows them."""


class _LazyGroup(ReportingGroup):
    """Imports a command's module when the command is looked up."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        loaded = import_module(f"workflow_engine.cli.{module}")
        command: click.Command = getattr(loaded, attribute)
        return command


@click.group(cls=_LazyGroup)
@click.version_option(package_name="workflow-engine")
@debug_option
def root() -> None:
    """Run durable workflows, and look after them.

    The database is the one of --url or WORKFLOW_ENGINE_URL; without either it is the
    SQLite file workflow_engine.db in the current directory.
    """


def main() -> None:
    """Run the command line and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names may hold any character
            stream.reconfigure(errors="backslashreplace")
    root(prog_name="workflow-engine")
