"""``doctor``: what it prints, what it repairs, and that its repairs exist."""

from __future__ import annotations

import re

import click
import pytest
import sqlalchemy

from workflow_engine.cli.root import root
from workflow_engine.core.faults import MENDABLE, FaultKind
from workflow_engine.runtime.doctor import WORDS

from .conftest import CommandLine
from .test_help import section


def tamper(on: CommandLine, statement: str) -> None:
    """Change the database behind everybody's back."""
    url = re.sub(r"^postgres(ql)?:", "postgresql+psycopg:", on.url)
    engine = sqlalchemy.create_engine(url)
    if engine.dialect.name == "postgresql":
        statement = re.sub(r"\bwf_", "workflow_engine.wf_", statement)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(statement))
    engine.dispose()


@pytest.fixture
def ill(on: CommandLine) -> CommandLine:
    """A database with one fault that is repaired by itself, and one that is not."""
    on.ok("start", "flows:echo", "1")
    on("run", "flows:expense", "--", "-1")
    tamper(on, "UPDATE wf_instances SET runnable_at = NULL")
    tamper(on, "DELETE FROM wf_awakeables")
    return on


def test_a_healthy_database_is_told_in_a_line(on: CommandLine) -> None:
    on.ok("start", "flows:echo", "1")
    on("run", "flows:expense", "1")
    assert on.ok("doctor") == "nothing is wrong\n"
    assert on.json("doctor") == {"findings": [], "repaired": []}
    assert on.ok("doctor", "--fix") == "nothing is wrong\n"


def test_each_finding_comes_with_a_command(ill: CommandLine) -> None:
    result = ill("doctor")
    assert (result.exit_code, result.stderr) == (1, "")
    first, *lines = result.stdout.splitlines()
    assert first.startswith("echo 1: workers find it never, and should at ")
    assert lines == [
        "  repair  workflow-engine doctor --fix",
        "          (set the time by the rest of its row)",
        "expense -1: it waits for awk:approval, and nothing is left that could "
        "deliver that",
        "  repair  workflow-engine cancel -- expense -1",
        "          (end it; it would wait for ever)",
    ]


def test_what_can_be_is_repaired_and_the_rest_is_told(ill: CommandLine) -> None:
    result = ill("doctor", "--fix")
    assert result.exit_code == 1
    first, second, repair, _ = result.stdout.splitlines()
    assert first.startswith("repaired: echo 1: workers find it never")
    assert second.startswith("expense -1: it waits for ")
    *_, command, dashes, name, id = repair.split()
    ill.ok(command, dashes, name, id)
    assert ill.ok("doctor") == "nothing is wrong\n"
    assert ill.json("worker", "flows.py", "--drain")["completed"] == 1


def test_when_all_is_repaired_the_exit_code_says_so(on: CommandLine) -> None:
    on.ok("start", "flows:echo", "1")
    tamper(on, "UPDATE wf_instances SET runnable_at = NULL")
    lines = on.ok("doctor", "--fix").splitlines()
    assert lines[1:] == ["nothing else is wrong"]


def test_findings_as_a_document(ill: CommandLine) -> None:
    document = ill.json("doctor", "--fix")
    (repaired,), (left,) = document["repaired"], document["findings"]
    assert (repaired["kind"], repaired["mechanical"]) == ("out_of_sight", True)
    assert left == {
        "kind": "unwakeable",
        "workflow": "expense",
        "id": "-1",
        "problem": "it waits for awk:approval, and nothing is left that could "
        "deliver that",
        "repair": "workflow-engine cancel -- expense -1",
        "purpose": "end it; it would wait for ever",
        "mechanical": False,
    }


def test_findings_are_limited_and_all_are_repaired_nevertheless(
    on: CommandLine,
) -> None:
    for number in range(3):
        on.ok("start", "flows:echo", f"{number}")
    tamper(on, "UPDATE wf_instances SET runnable_at = NULL")
    result = on("doctor", "--limit", "2")
    assert result.stdout.count("repair ") == 2
    assert result.stderr == "there may be more: --limit\n"
    assert len(on.json("doctor", "--limit", "2", "--fix")["repaired"]) == 3
    assert on.ok("doctor") == "nothing is wrong\n"


def test_patience_is_a_duration(on: CommandLine) -> None:
    on("run", "flows:snooze", "1", "0")
    tamper(on, "UPDATE wf_timers SET due_at = due_at - 600000000")
    tamper(
        on,
        "UPDATE wf_instances SET wake_after = wake_after - 600000000, "
        "runnable_at = runnable_at - 600000000",
    )
    assert on.ok("doctor", "--patience", "1000") == "nothing is wrong\n"
    (finding,) = on.json("doctor")["findings"]
    assert finding["kind"] == "timer_overdue"
    assert on("doctor", "--patience", "-1").exit_code == 2
    on.ok("doctor", "--fix")
    assert on.json("run", "flows:snooze", "1")["result"] == "rested"


def test_the_command_names_the_database_that_was_meant(ill: CommandLine) -> None:
    result = ill("doctor", "--url", ill.url)
    commands = re.findall(r"repair  workflow-engine (\S+) --(\S+)", result.stdout)
    assert [command for command, _ in commands] == ["doctor", "cancel"]
    assert result.stdout.count("--url") == 2
    assert "--fix --url" in result.stdout


@pytest.mark.parametrize("kind", FaultKind)
def test_every_repair_is_a_command_that_exists(kind: FaultKind) -> None:
    words = list(WORDS[kind].repair)
    found: click.Command = root
    while isinstance(found, click.Group):
        command = found.get_command(click.Context(found), words.pop(0))
        assert command is not None
        found = command
    options = {name for each in found.params for name in each.opts}
    arguments = [each for each in found.params if isinstance(each, click.Argument)]
    assert {word for word in words if word.startswith("--")} <= options
    assert len([w for w in words if not w.startswith("--")]) == len(arguments)
    assert (words == ["--fix"]) == (kind in MENDABLE)


@pytest.mark.parametrize("kind", FaultKind)
def test_every_kind_is_documented_with_its_repair(kind: FaultKind) -> None:
    text = section(("doctor",))
    (row,) = re.findall(rf"^\| `{kind}` \|.*$", text, re.MULTILINE)
    assert ("`--fix`" in row) == (kind in MENDABLE)
