"""The command line in this process, in a directory of the test's own."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

import workflow_engine
from workflow_engine.cli.root import root

FLOWS = Path(__file__).with_name("flows.py")


@attrs.frozen
class CommandLine:
    """Runs commands against one database, named by the environment."""

    url: str

    def __call__(self, *words: str, input: str = "", **environment: str) -> Result:
        """The result of a command, whatever it is."""
        return CliRunner().invoke(
            root,
            words,
            input=input,
            env={"WORKFLOW_ENGINE_URL": self.url, **environment},
            prog_name="workflow-engine",
        )

    def ok(self, *words: str) -> str:
        """What a command that succeeds prints."""
        result = self(*words)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *words: str) -> Any:
        """The only document that a command prints, whatever its exit code."""
        result = self(*words, "--json")
        assert result.stdout.count("\n") == 1, result.output
        return json.loads(result.stdout)

    def refused(self, *words: str) -> str:
        """The line with which a command ends in an error."""
        result = self(*words)
        assert result.exit_code == 1, result.output
        (line,) = result.stderr.splitlines()
        assert line.startswith("Error: ")
        return line.removeprefix("Error: ")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory, with ``flows.py``; what is imported is forgotten again."""
    place = tmp_path / "place"
    place.mkdir()
    shutil.copy(FLOWS, place / "flows.py")
    monkeypatch.chdir(place)
    for name in ("WORKFLOW_ENGINE_URL", "WORKFLOW_ENGINE_SCHEMA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield place
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(place)):
            del sys.modules[name]


@pytest.fixture
def on(place: Path, database_url: str) -> CommandLine:
    """The command line on each database in turn."""
    return CommandLine(database_url)


@pytest.fixture
def on_sqlite(place: Path, sqlite_url: str) -> CommandLine:
    """The command line on an SQLite file, where the database makes no difference."""
    return CommandLine(sqlite_url)


@pytest.fixture
def effects(place: Path) -> Callable[[], list[str]]:
    """What the steps did, in order."""

    def read() -> list[str]:
        path = place / "effects.txt"
        return path.read_text().splitlines() if path.exists() else []

    return read


@pytest.fixture
def environment(on: CommandLine) -> dict[str, str]:
    """The environment of real processes that work on each database in turn."""
    return _environment(on.url)


@pytest.fixture
def sqlite_environment(on_sqlite: CommandLine) -> dict[str, str]:
    """The environment of real processes that work on an SQLite file."""
    return _environment(on_sqlite.url)


def _environment(url: str) -> dict[str, str]:
    package = Path(workflow_engine.__file__).parents[1]
    return {
        **os.environ,
        "WORKFLOW_ENGINE_URL": url,
        "PYTHONPATH": str(package),
        "PYTHONUNBUFFERED": "1",
    }
