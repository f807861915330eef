"""``run``: what it runs, what it prints, how it exits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workflow_engine.cli.progress import LiveDisplay

from .conftest import CommandLine

ORDER = '{"id": "o-1", "price": "2.50"}'


def test_it_prints_each_step_and_the_result(on: CommandLine) -> None:
    result = on("run", "flows.py:fulfil", "1", ORDER, "true")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "recorded  reserve",
        "recorded  pay",
        "recorded  wrap",
        'completed {"id": "o-1", "price": "2.50"}',
    ]
    assert result.stderr == ""


def test_a_second_run_needs_no_arguments_and_repeats_nothing(
    on: CommandLine, effects: Callable[[], list[str]]
) -> None:
    on.ok("run", "flows:fulfil", "1", ORDER)
    assert on.ok("run", "flows:fulfil", "1").startswith("completed ")
    assert effects() == ["reserve", "pay"]


def test_other_arguments_than_the_first_are_refused(on: CommandLine) -> None:
    on.ok("run", "flows:fulfil", "1", ORDER)
    on.ok("run", "flows:fulfil", "1", ORDER)
    assert "was started with other arguments (order)" in on.refused(
        "run", "flows:fulfil", "1", '{"id": "o-2"}'
    )


def test_arguments_that_are_needed_are_asked_for(on: CommandLine) -> None:
    line = on.refused("run", "flows:fulfil", "1")
    assert "missing a required argument: 'order'" in line
    assert on.json("list")["instances"] == []


def test_the_document_has_every_key_at_every_ending(on: CommandLine) -> None:
    completed = on.json("run", "flows:fulfil", "1", ORDER)
    assert completed == {
        "workflow": "order-fulfilment",
        "id": "1",
        "ending": "completed",
        "result": {"id": "o-1", "price": "2.50"},
        "on": [],
        "reason": None,
        "recorded": 2,
    }
    suspended = on.json("run", "flows:approve", "1")
    assert suspended.keys() == completed.keys()
    assert (suspended["ending"], suspended["on"]) == ("suspended", ["answer"])


def test_a_workflow_that_waits_exits_with_3_and_says_what_for(on: CommandLine) -> None:
    result = on("run", "flows:approve", "my 1")
    assert result.exit_code == 3
    assert result.stdout.splitlines() == [
        "asking well?",
        "suspended waiting for answer",
    ]
    assert "workflow-engine resolve approve 'my 1' answer VALUE" in result.stderr


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("listen", "send listen 1 word VALUE"),
        ("snooze", "show snooze 1"),
        ("expense", "show expense 1"),
    ],
)
def test_a_command_is_told_that_goes_on_with_what_waits(
    on: CommandLine, target: str, command: str
) -> None:
    told = on("run", f"flows:{target}", "1").stderr.splitlines()
    assert [line.strip() for line in told] == [f"workflow-engine {command}"]


def test_a_cancelled_instance_exits_with_4(on: CommandLine) -> None:
    on("run", "flows:approve", "1")
    on.ok("cancel", "approve", "1")
    result = on("run", "flows:approve", "1")
    assert (result.exit_code, result.stdout) == (4, "cancelled\n")


def test_a_failed_instance_exits_with_5_and_says_what_to_do(
    on: CommandLine, place: Path
) -> None:
    (place / "declined").touch()
    result = on("run", "flows:fulfil", "1", ORDER)
    assert result.exit_code == 5
    assert result.stdout.splitlines() == [
        "recorded  reserve",
        "recorded  pay (failed)",
        "recorded  refund",
        "failed    StepFailed: step 'pay' failed: ValueError: no money at all",
    ]
    assert "workflow-engine resurrect order-fulfilment 1" in result.stderr
    assert on.json("run", "flows:fulfil", "1")["reason"].startswith("StepFailed: ")


def test_a_step_that_fails_is_told_in_a_line_and_tried_again_by_the_next_run(
    on: CommandLine, place: Path, effects: Callable[[], list[str]]
) -> None:
    (place / "declined").touch()
    line = on.refused("run", "flows.py:crash", "1", ORDER)
    assert line.startswith("step 'pay' failed: ValueError: no money at all (in pay, ")
    assert f"{place}/flows.py, line " in line
    assert line.endswith("Try again: workflow-engine run flows.py:crash 1")
    (place / "declined").unlink()
    assert on.ok("run", "flows.py:crash", "1").splitlines() == [
        "resumed   after 1 recorded entry",
        "recorded  pay",
        'completed "2.50"',
    ]
    assert effects() == ["reserve", "pay", "pay"]


def test_an_error_of_the_body_is_told_in_a_line_with_its_place(on: CommandLine) -> None:
    line = on.refused("run", "flows:divide", "1", "0")
    assert line.startswith(
        "workflow 'divide', instance '1': ZeroDivisionError: division by zero "
        "(in divide, "
    )


def test_debug_keeps_the_traceback(on: CommandLine) -> None:
    result = on("run", "flows:divide", "1", "0", "--debug")
    assert isinstance(result.exception, ZeroDivisionError)
    first = on("--debug", "run", "flows:fulfil", "1")
    assert type(first.exception).__name__ == "InvalidInput"


def test_a_document_is_alone_on_standard_output(on: CommandLine) -> None:
    result = on("run", "flows:echo", "1", "5", "--json")
    assert result.stdout.startswith('{"workflow": "echo"')
    assert result.stdout.count("\n") == 1
    assert result.stderr == "printed by a step\n"


def test_generations_are_told_and_followed(on: CommandLine) -> None:
    assert on.ok("run", "flows:count", "1", "2").splitlines() == [
        "recorded  note",
        "continued as generation 1",
        "recorded  note",
        "continued as generation 2",
        "recorded  note",
        "completed 2",
    ]


def test_a_long_result_is_cut_and_whole_as_json(on_sqlite: CommandLine) -> None:
    text = "x" * 5_000
    shown = on_sqlite.ok("run", "flows:echo", "1", text).splitlines()[-1]
    assert len(shown) < 2_100
    assert shown.endswith("(--json shows all of it)")
    assert on_sqlite.json("run", "flows:echo", "1")["result"] == [[text], {}]


def test_patches_are_given_by_option(on: CommandLine) -> None:
    assert on.json("run", "flows:patched", "1")["result"] is False
    assert on.json("run", "flows:patched", "2", "--patch", "new-tax")["result"] is True


def test_an_instance_with_patches_is_only_run_by_code_that_knows_them(
    on: CommandLine, place: Path
) -> None:
    (place / "declined").touch()
    on.refused("run", "flows:crash", "1", ORDER, "--patch", "a")
    assert "the patches a, which are neither" in on.refused("run", "flows:crash", "1")
    (place / "declined").unlink()
    on.ok("run", "flows:crash", "1", "--retired-patch", "a")


def test_a_step_that_is_tried_again_is_shown_once() -> None:
    progress = LiveDisplay()
    with progress.shown() as shown:
        display: Any = shown
        for step in ("pay", "pack", "pay"):
            progress.begin(step)
        assert [task.description for task in display.tasks] == ["pack", "pay"]
        progress.end(None)
        assert display.tasks == []
