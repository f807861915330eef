"""What is done to an instance from outside. None of it needs the workflow's code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import CommandLine

ORDER = '{"id": "o-1"}'


def kinds(on: CommandLine, *name: str) -> list[str]:
    return [entry["kind"] for entry in on.json("journal", *name)["entries"]]


# --- send -----------------------------------------------------------------------------


def test_a_message_is_sent_once_a_key(on: CommandLine) -> None:
    on("run", "flows:listen", "1")
    assert on.ok("send", "listen", "1", "word", "five", "--key", "k") == (
        "listen 1: sent on word\n"
    )
    again = on("send", "listen", "1", "word", "six", "--key", "k")
    assert again.exit_code == 1
    assert "nothing was sent" in again.stderr
    assert on.ok("run", "flows:listen", "1").splitlines()[-1] == 'completed "five"'
    assert on.json("send", "listen", "1", "word", "7")["sent"] is False


# --- resolve --------------------------------------------------------------------------


def test_a_value_is_delivered_once(on: CommandLine) -> None:
    on("run", "flows:approve", "1")
    assert on.ok("resolve", "approve", "1", "answer", "5") == (
        "approve 1: answer is resolved\n"
    )
    again = on("resolve", "approve", "1", "answer", "6")
    assert (again.exit_code, again.stdout) == (1, "")
    assert "nothing was delivered" in again.stderr
    assert on.json("resolve", "approve", "1", "answer", "6")["resolved"] is False
    assert on.json("run", "flows:approve", "1")["result"] == 5


def test_a_value_that_nobody_waits_for_yet_is_kept(on: CommandLine) -> None:
    on.ok("start", "flows:approve", "1")
    assert on.json("resolve", "approve", "1", "answer", "5")["resolved"] is True
    assert on.json("run", "flows:approve", "1")["result"] == 5


def test_a_value_goes_only_to_the_generation_that_is_meant(on: CommandLine) -> None:
    on.ok("start", "flows:approve", "1")
    other = on("resolve", "approve", "1", "answer", "5", "--generation", "1")
    assert other.exit_code == 1
    on.ok("resolve", "approve", "1", "answer", "5", "--generation", "0")


def test_a_value_is_recorded_as_the_json_it_is(on: CommandLine) -> None:
    on.ok("start", "flows:approve", "1")
    values = {"a": '{"b": [1, 2.5, null]}', "c": "plain text", "d": '"5"'}
    for step, value in values.items():
        on.ok("resolve", "approve", "1", step, value)
    entries = on.json("journal", "approve", "1")["entries"]
    assert [(entry["step"], entry["value"]) for entry in entries] == [
        ("a", {"b": [1, 2.5, None]}),
        ("c", "plain text"),
        ("d", "5"),
    ]


# --- cancel ---------------------------------------------------------------------------


def test_an_instance_is_cancelled_and_cancelling_again_changes_nothing(
    on: CommandLine,
) -> None:
    on("run", "flows:approve", "1")
    assert on.ok("cancel", "approve", "1") == "approve 1 is cancelled\n"
    assert on.json("cancel", "approve", "1")["cancelled"] is True
    assert kinds(on, "approve", "1") == ["cancelled"]


def test_an_instance_that_has_ended_is_not_cancelled(on: CommandLine) -> None:
    on.ok("run", "flows:fulfil", "1", ORDER)
    result = on("cancel", "order-fulfilment", "1")
    assert result.exit_code == 1
    assert result.stderr == "order-fulfilment 1 was not cancelled: it is completed\n"


def test_an_instance_is_asked_to_end_and_ends_when_it_runs(on: CommandLine) -> None:
    on("run", "flows:approve", "1")
    told = on.ok("cancel", "approve", "1", "--cleanup", "--cascade")
    assert told == "approve 1 is asked to end: woken, and waiting for a worker\n"
    assert "  cancel      requested\n" in on.ok("show", "approve", "1")
    assert on.json("cancel", "approve", "1", "--cleanup")["cancelled"] is True
    assert on("run", "flows:approve", "1").exit_code == 4
    assert kinds(on, "approve", "1") == ["cancel", "cancelled"]
    assert "  cancel      requested" not in on.ok("show", "approve", "1")


# --- resurrect ------------------------------------------------------------------------


@pytest.fixture
def failed(on: CommandLine, place: Path) -> CommandLine:
    """An instance that failed after a compensation, whose cause is gone."""
    (place / "declined").touch()
    on("run", "flows:fulfil", "1", ORDER)
    (place / "declined").unlink()
    return on


def test_a_compensation_makes_resurrecting_ambiguous(failed: CommandLine) -> None:
    line = failed.refused("resurrect", "order-fulfilment", "1")
    assert "these steps were recorded after the failure: refund" in line
    assert "--rerun-none" in line
    assert failed.json("show", "order-fulfilment", "1")["status"] == "failed"


def test_the_failed_step_runs_again_and_the_rest_stays(
    failed: CommandLine, effects: Callable[[], list[str]]
) -> None:
    shown = failed.ok("resurrect", "order-fulfilment", "1", "--rerun-none")
    assert shown == "order-fulfilment 1 is resurrected: waiting for a worker\n"
    assert failed.json("worker", "flows.py", "--drain")["completed"] == 1
    assert effects() == ["reserve", "pay", "refund", "pay"]


def test_a_named_step_is_history_afterwards(failed: CommandLine) -> None:
    failed.json("resurrect", "order-fulfilment", "1", "--rerun", "refund")
    entries = failed.json("journal", "order-fulfilment", "1")["entries"]
    live = [entry["step"] for entry in entries if entry["live"]]
    assert live == ["reserve"]
    assert kinds(failed, "order-fulfilment", "1")[-1] == "resurrected"


def test_a_step_that_is_not_one_of_them_is_refused(failed: CommandLine) -> None:
    line = failed.refused("resurrect", "order-fulfilment", "1", "--rerun", "reserve")
    assert "reserve" in line


def test_both_answers_at_once_are_a_mistake(on_sqlite: CommandLine) -> None:
    result = on_sqlite("resurrect", "a", "1", "--rerun", "b", "--rerun-none")
    assert result.exit_code == 2


def test_a_cancellation_is_taken_back(on: CommandLine) -> None:
    on("run", "flows:approve", "1")
    on.ok("cancel", "approve", "1")
    assert "forget_cancel" in on.refused("resurrect", "approve", "1")
    shown = on.ok("resurrect", "approve", "1", "--forget-cancel")
    assert shown == "approve 1 is resurrected: waiting for a worker\n"
    assert on("run", "flows:approve", "1").exit_code == 3


def test_only_what_failed_is_resurrected(on: CommandLine) -> None:
    on.ok("run", "flows:fulfil", "1", ORDER)
    line = on.refused("resurrect", "order-fulfilment", "1")
    assert line.startswith("workflow 'order-fulfilment', instance '1' is completed: ")


# --- blocked instances and discard ----------------------------------------------------


@pytest.fixture
def blocked(on: CommandLine) -> CommandLine:
    """An instance that got a value which its code cannot read."""
    on("run", "flows:approve", "1")
    on.ok("resolve", "approve", "1", "answer", "five")
    line = on.refused("run", "flows:approve", "1")
    assert "cannot decode the recorded value" in line
    return on


def test_a_blocked_instance_says_what_it_cannot_read(blocked: CommandLine) -> None:
    shown = blocked.ok("show", "approve", "1")
    assert shown.startswith(
        "approve 1: blocked: the code that last ran it cannot read "
    )
    assert "  reason      StepDecodeError: " in shown
    assert "  next        workflow-engine discard approve 1 POSITION\n" in shown


def test_a_discarded_wake_can_be_delivered_anew(blocked: CommandLine) -> None:
    shown = blocked.ok("discard", "approve", "1", "1")
    assert shown == "approve 1: entry 1 is history now\n"
    assert "no wake at position 1" in blocked.refused("discard", "approve", "1", "1")
    (entry,) = blocked.json("journal", "approve", "1")["entries"]
    assert entry["live"] is False
    blocked.ok("resolve", "approve", "1", "answer", "5")
    assert blocked.json("run", "flows:approve", "1")["result"] == 5


def test_only_a_wake_of_a_blocked_instance_is_discarded(blocked: CommandLine) -> None:
    assert "no wake at position 7" in blocked.refused("discard", "approve", "1", "7")
    assert blocked.json("discard", "approve", "1", "1")["status"] == "blocked"
    blocked.ok("cancel", "approve", "1")
    assert "is cancelled: " in blocked.refused("discard", "approve", "1", "1")


# --- release, and what all of them say of an instance that is not there ---------------


def test_releasing_an_instance_that_nobody_runs_changes_nothing(
    on: CommandLine,
) -> None:
    on.ok("start", "flows:approve", "1")
    assert on.ok("release", "approve", "1") == "approve 1 was run by nobody\n"
    assert on.json("release", "approve", "1")["released"] is False


@pytest.mark.parametrize(
    "words",
    [
        ("resolve", "approve", "1", "answer", "5"),
        ("cancel", "approve", "1"),
        ("resurrect", "approve", "1"),
        ("release", "approve", "1"),
        ("discard", "approve", "1", "1"),
    ],
    ids=lambda words: words[0],
)
def test_an_instance_that_does_not_exist_is_told(
    on: CommandLine, words: tuple[str, ...]
) -> None:
    on.ok("db", "upgrade")
    assert on.refused(*words) == "workflow 'approve' has no instance '1'"
    shown = on(*words[:2], "\x1b[31m", *words[3:])
    assert (shown.exit_code, "\x1b" in shown.stderr) == (1, False)
