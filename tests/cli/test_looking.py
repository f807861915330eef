"""``list``, ``show`` and ``journal``: they need no code of a workflow."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest

from workflow_engine import Description

from .conftest import CommandLine

ORDER = '{"id": "o-1"}'


@pytest.fixture
def filled(on: CommandLine, place: Path) -> CommandLine:
    """Instances of every kind that needs no worker; their code is gone."""
    on.ok("start", "flows:fulfil", "north-1", ORDER, "--tag", "shop=north")
    on.ok("start", "flows:fulfil", "north_2", ORDER, "--tag", "shop=north")
    on.ok("run", "flows:fulfil", "south-1", ORDER)
    on("run", "flows:approve", "north-1")
    (place / "declined").touch()
    on("run", "flows:fulfil", "south-2", ORDER)
    (place / "flows.py").unlink()
    return on


def ids(on: CommandLine, *words: str) -> list[str]:
    return [f"{i['workflow']} {i['id']}" for i in on.json("list", *words)["instances"]]


def test_list_shows_instances_in_the_order_of_their_start(filled: CommandLine) -> None:
    titles, *rows = filled.ok("list").splitlines()
    assert titles.split() == ["STATUS", "NAME", "ID", "ENTRIES", "CHANGED", "NOTE"]
    assert [row.split()[:4] for row in rows] == [
        ["running", "order-fulfilment", "north-1", "0"],
        ["running", "order-fulfilment", "north_2", "0"],
        ["completed", "order-fulfilment", "south-1", "3"],
        ["suspended", "approve", "north-1", "0"],
        ["failed", "order-fulfilment", "south-2", "4"],
    ]
    assert rows[3].endswith("a resolve of 'answer'")
    assert rows[-1].endswith(
        "StepFailed: step 'pay' failed: ValueError: no money at all"
    )


def test_list_is_narrowed_by_its_options(filled: CommandLine) -> None:
    south = ["order-fulfilment south-1", "order-fulfilment south-2"]
    assert ids(filled, "--prefix", "south") == south
    assert ids(filled, "--status", "completed", "--status", "failed") == south
    assert ids(filled, "--name", "approve") == ["approve north-1"]
    assert len(ids(filled, "--tag", "shop=north")) == 2
    assert ids(filled, "--tag", "shop=south") == []
    assert ids(filled, "--prefix", "north_") == ["order-fulfilment north_2"]


def test_list_pages_by_number(filled: CommandLine) -> None:
    first = filled.json("list", "--limit", "3")
    second = filled.json("list", "--limit", "3", "--after", str(first["after"]))
    assert len(first["instances"]) == 3
    assert [found["id"] for found in second["instances"]] == ["north-1", "south-2"]
    assert second["after"] is None
    told = filled("list", "--limit", "3").stderr
    assert told == f"there may be more: --after {first['after']}\n"


def test_list_tells_when_there_is_nothing(on: CommandLine) -> None:
    on.ok("db", "upgrade")
    result = on("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no instances\n"
    assert on.json("list") == {"instances": [], "after": None}


def test_list_knows_only_real_statuses(on_sqlite: CommandLine) -> None:
    result = on_sqlite("list", "--status", "asleep")
    assert result.exit_code == 2
    assert "'running', 'suspended', 'blocked'" in result.stderr


def test_an_instance_as_a_document_has_every_fact(filled: CommandLine) -> None:
    found = filled.json("show", "order-fulfilment", "south-1")
    facts = [field.name for field in attrs.fields(Description)]
    assert list(found) == [*facts, "standing", "waits", "advice", "journal"]
    (listed,) = filled.json("list", "--status", "completed")["instances"]
    assert list(listed) == facts
    created = datetime.fromisoformat(found["created_at"])
    assert created.tzinfo == UTC
    assert found["created_at"].endswith("Z")


def test_show_says_why_an_instance_failed_and_what_to_do(filled: CommandLine) -> None:
    shown = filled.ok("show", "order-fulfilment", "south-2").splitlines()
    assert shown[0].startswith("order-fulfilment south-2: failed ")
    assert shown[1:3] == [
        "  reason      StepFailed: step 'pay' failed: ValueError: no money at all",
        "  because of  the recorded outcome of pay",
    ]
    assert "  next        workflow-engine resurrect order-fulfilment south-2" in shown
    rows = [line.split() for line in shown[shown.index("  journal") + 2 :]]
    assert [row[0] for row in rows] == ["1", "2", "3", "-"]
    assert rows[1][3:] == [
        "step_failed",
        "pay",
        "ValueError:",
        "no",
        "money",
        "at",
        "all",
    ]


def test_show_says_what_an_instance_waits_for(filled: CommandLine) -> None:
    waiting, *facts = filled.ok("show", "approve", "north-1").splitlines()
    assert waiting.startswith(
        "approve north-1: waiting for a resolve of 'answer' since "
    )
    assert facts[:2] == [
        "  waits for   a resolve of 'answer',",
        "              deliver it with: "
        "workflow-engine resolve approve north-1 answer VALUE",
    ]
    ready = filled.ok("show", "order-fulfilment", "north-1")
    assert ready.startswith("order-fulfilment north-1: waiting for a worker\n")
    assert "  tags        shop=north\n" in ready
    filled.ok("resolve", "approve", "north-1", "answer", "5")
    woken = filled.json("show", "approve", "north-1")
    assert (woken["standing"], woken["advice"]) == (
        "woken, and waiting for a worker",
        [],
    )


def test_show_tells_of_crashes_and_of_the_next_attempt(
    on: CommandLine, place: Path
) -> None:
    on.ok("start", "flows:divide", "1", "0")
    on.ok("worker", "flows.py", "--once")
    shown = on.ok("show", "divide", "1")
    assert "ZeroDivisionError: division by zero\n" in shown
    found = on.json("show", "divide", "1")
    assert found["attempts"] == 1
    assert found["standing"].startswith("crashed once; ")
    assert "  attempts    1 since it last moved on\n" in shown


def test_show_prints_the_end_of_a_long_journal(on: CommandLine, place: Path) -> None:
    (place / "many.py").write_text(
        "from workflow_engine import Step, workflow\n@workflow\ndef many():\n"
        "    for i in range(12):\n        yield Step(f's{i}', str, i)\n"
    )
    on.ok("run", "many.py", "1")
    assert "\n  journal, its end\n" in on.ok("show", "many", "1")
    steps = [entry["step"] for entry in on.json("show", "many", "1")["journal"]]
    assert steps == [*(f"s{i}" for i in range(3, 12)), None]


def test_journal_prints_every_entry_and_marks_history(filled: CommandLine) -> None:
    titles, *rows = filled.ok("journal", "order-fulfilment", "south-1").splitlines()
    assert titles.split() == ["POSITION", "RECORDED", "(UTC)", "KIND", "STEP", "VALUE"]
    assert [row.split()[0] for row in rows] == ["1", "2", "-"]
    assert rows[0].endswith('step_ok    reserve  "reserve"')


def test_journal_as_a_document(filled: CommandLine) -> None:
    document = filled.json("journal", "order-fulfilment", "south-1")
    assert (document["workflow"], document["id"]) == ("order-fulfilment", "south-1")
    assert document["generation"] == 0
    first, _, last = document["entries"]
    assert first.keys() == {
        "position",
        "kind",
        "step",
        "live",
        "value",
        "recorded_at",
        "entry_id",
    }
    assert (first["kind"], first["value"], first["live"]) == (
        "step_ok",
        "reserve",
        True,
    )
    assert (last["kind"], last["step"], last["live"]) == ("completed", None, False)


def test_journal_shows_any_generation(on: CommandLine) -> None:
    on.ok("run", "flows:count", "1", "1")
    old = on.json("journal", "count", "1", "--generation", "0")["entries"]
    assert old[-1]["kind"] == "continued_as_new"
    assert on.json("journal", "count", "1")["generation"] == 1
    assert "  generation  1\n" in on.ok("show", "count", "1")
    nothing = on("journal", "count", "1", "--generation", "7")
    assert (nothing.stdout, nothing.stderr) == ("", "generation 7 has no entries\n")


@pytest.mark.parametrize("command", ["show", "journal"])
def test_an_instance_that_does_not_exist_is_told(on: CommandLine, command: str) -> None:
    on.ok("db", "upgrade")
    line = on.refused(command, "order-fulfilment", "1")
    assert line == "workflow 'order-fulfilment' has no instance '1'"
