"""Help: it is there for everything, agrees with the documentation, and is quick."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from workflow_engine.cli.root import root

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
HEAVY = {"sqlalchemy", "alembic", "rich", "psycopg", "workflow_engine.runtime"}


def walk(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words that lead to it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from walk(found, (*path, name))


COMMANDS = dict(walk(root))
EACH = [pytest.param(path, id=" ".join(path)) for path in COMMANDS]


def section(path: tuple[str, ...]) -> str:
    """What the documentation says of a command."""
    sections = re.split(r"^## ", DOCUMENT.read_text(), flags=re.MULTILINE)
    title = f"`{' '.join(path)}`"
    (found,) = [text for text in sections if text.startswith(title)]
    return found


@pytest.mark.parametrize("path", EACH)
def test_a_command_and_its_options_have_help(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help
    assert command.get_short_help_str(80).endswith(".")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


@pytest.mark.parametrize("path", EACH)
def test_a_command_is_documented_with_its_options(path: tuple[str, ...]) -> None:
    shared = {"--url", "--schema", "--debug", "--json", "--help"}
    text = section(path)
    command = COMMANDS[path]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert set(parameter.opts) & {*re.findall(r"--[a-z-]+", text), *shared}
    documented = set(re.findall(r"^- `(--[a-z-]+)", text, re.MULTILINE))
    real = {option for parameter in command.params for option in parameter.opts}
    assert documented <= real


def test_what_prints_data_prints_json_too() -> None:
    without = {
        " ".join(path)
        for path, command in COMMANDS.items()
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == {"db sql"}


def test_every_document_key_is_documented() -> None:
    text = DOCUMENT.read_text()
    for key in (
        "standing",
        "advice",
        "leased_until",
        "recorded_at",
        "unregistered_names",
    ):
        assert f"`{key}`" in text


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_help_loads_no_database_library_and_no_engine(words: tuple[str, ...]) -> None:
    program = (
        "import sys\n"
        "from workflow_engine.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("Usage: workflow-engine ")
    assert not HEAVY & set(done.stderr.split())


def test_an_unknown_command_is_a_mistake_on_the_command_line() -> None:
    assert CliRunner().invoke(root, ["walk"]).exit_code == 2


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(root, ["--version"])
    assert result.exit_code == 0
    assert re.search(r"\d+\.\d+\.\d+", result.stdout)
