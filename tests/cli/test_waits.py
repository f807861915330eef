"""What an instance waits for, and the commands that end it. None needs its code."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

from workflow_engine import AwakeableStatus, AwakeableView, ChildView, Status, TimerView
from workflow_engine.cli.options import Where
from workflow_engine.cli.waits import Sources, WaitInWords, waits_in_words

from .conftest import CommandLine
from .test_words import BEFORE, INSTANCE, NOW, SOON

AT_BEFORE = "2029-12-31T22:00:00.000000Z (2 hours ago)"
AT_SOON = "2030-01-01T00:01:30.000000Z (in 1 minute)"


def the_id(on: CommandLine, name: str = "1") -> str:
    """The id of the only awakeable of an instance."""
    (found,) = on.json("awakeables", "expense", name)["awakeables"]
    return str(found["id"])


@pytest.fixture
def open_(on: CommandLine) -> CommandLine:
    """An instance that waits for an awakeable."""
    assert on("run", "flows:expense", "1").exit_code == 3
    return on


# --- in words -------------------------------------------------------------------------


def told(name: str, sources: Sources, **changes: Any) -> WaitInWords:
    changes = {"status": Status.SUSPENDED, "waits_on": (name,)} | changes
    found = attrs.evolve(INSTANCE, **changes)
    (wait,) = waits_in_words(found, sources, NOW, Where(None, None))
    return wait


def test_a_sleep_is_told_with_its_end() -> None:
    sources = Sources(timers=[TimerView("sleep:nap", SOON, BEFORE)])
    wait = told("sleep:nap", sources)
    assert wait == WaitInWords(
        "sleep:nap", "sleep", f"the sleep 'nap', until {AT_SOON}", BEFORE, SOON
    )
    over = told("sleep:nap", Sources(), wake_after=BEFORE)
    assert over.words == "the sleep 'nap', which is over"
    lost = told("sleep:nap", Sources())
    assert lost.words == "the sleep 'nap', for which no timer runs"


def test_a_pause_between_attempts_is_told_with_its_end() -> None:
    sources = Sources(timers=[TimerView("stepretry:pay:1", SOON, BEFORE)])
    wait = told("stepretry:pay:1", sources)
    words = f"the next attempt of step 'pay', due {AT_SOON}"
    assert wait == WaitInWords("stepretry:pay:1", "retry", words, BEFORE, SOON)


def test_an_awakeable_is_told_with_the_command_that_signals_it() -> None:
    open_ = AwakeableView("ok", "a-1", AwakeableStatus.PENDING, BEFORE, None)
    wait = told("awk:ok", Sources(awakeables=[open_]))
    assert wait.words == f"the awakeable 'ok', open since {AT_BEFORE}"
    assert wait.ends_by == "signal it with"
    assert wait.command == "workflow-engine signal a-1 VALUE"
    settled = attrs.evolve(open_, status=AwakeableStatus.REJECTED, settled_at=BEFORE)
    wait = told("awk:ok", Sources(awakeables=[settled]))
    assert wait.words == f"the awakeable 'ok', rejected since {AT_BEFORE}"
    assert wait.command is None
    assert told("awk:ok", Sources()).words == "the awakeable 'ok', which is gone"


def test_a_child_is_told_with_how_it_stands() -> None:
    child = ChildView("child:ship:s%3A1", "ship", "s:1", Status.SUSPENDED, BEFORE)
    wait = told("child:ship:s%3A1", Sources(children=[child]))
    assert wait.words == "the child ship s:1, which is suspended"
    assert wait.command == "workflow-engine show ship s:1"
    lost = told("child:ship:s%3A1", Sources())
    assert lost.words == "the child ship s:1, which is gone"


def test_any_other_name_is_for_somebody_to_resolve() -> None:
    wait = told("go", Sources())
    assert (wait.words, wait.since) == ("a resolve of 'go'", BEFORE)
    assert wait.command == "workflow-engine resolve ship 1 go VALUE"
    assert told("go", Sources(), wake_after=BEFORE).command is None


def test_a_message_is_told_with_the_command_that_sends_it() -> None:
    wait = told("message:a%3Ab", Sources())
    assert (wait.kind, wait.words) == ("message", "a message on 'a:b'")
    assert wait.command == "workflow-engine send ship 1 a:b VALUE"


def test_a_timed_wait_is_told_with_its_end() -> None:
    limits = [
        TimerView("timeout:message%3Aword:1", SOON, BEFORE),
        TimerView("timeout:message%3Aword:0", SOON + timedelta(hours=1), BEFORE),
    ]
    wait = told("message:word", Sources(timers=limits))
    assert wait.words == f"a message on 'word', at the latest until {AT_SOON}"
    assert wait.until == SOON


# --- show -----------------------------------------------------------------------------


def test_show_says_how_long_an_instance_sleeps(on: CommandLine) -> None:
    on("run", "flows:snooze", "1")
    first, second, *_ = on.ok("show", "snooze", "1").splitlines()
    assert re.fullmatch(r"snooze 1: sleeping until \S+Z \(in 3 hours\)", first)
    assert re.fullmatch(
        r"  waits for   the sleep 'nap', until \S+Z \(in 3 hours\)", second
    )
    (wait,) = on.json("show", "snooze", "1")["waits"]
    due = datetime.fromisoformat(wait["until"])
    assert (due.tzinfo, wait["kind"], wait["command"]) == (UTC, "sleep", None)
    slept = timedelta(hours=3, seconds=59)
    assert due - datetime.fromisoformat(wait["since"]) == slept


def test_what_is_tried_again_is_shown_with_its_attempts(
    on: CommandLine, place: Path
) -> None:
    (place / "declined").touch()
    on("run", "flows:retry", "1", '{"id": "o", "price": "1"}')
    assert on.ok("list").endswith("the next attempt of step 'pay'\n")
    first, second, *_ = on.ok("show", "retry", "1").splitlines()
    assert re.search(r"waiting until \S+Z \(in 1 hour\) for the next attempt", first)
    assert re.search(r"the next attempt of step 'pay', due \S+ \(in 1 hour\)", second)
    _, attempt = on.ok("journal", "retry", "1").splitlines()
    assert "step_attempt  stepattempt:pay:1" in attempt
    assert attempt.endswith("ValueError: no money at all; again after 3630 s")


def test_show_gives_the_command_that_signals(open_: CommandLine) -> None:
    shown = open_.ok("show", "expense", "1").splitlines()
    assert shown[0].startswith("expense 1: waiting for the awakeable 'approval' since ")
    assert shown[1].startswith("  waits for   the awakeable 'approval', open since ")
    _, _, command = shown[2].partition("signal it with: ")
    assert command == f"workflow-engine signal {the_id(open_)} VALUE"
    document = open_.json("show", "expense", "1")
    assert document["advice"] == [command]
    assert document["waits_on"] == ["awk:approval"]
    assert document["waits"][0].keys() == {
        "name",
        "kind",
        "words",
        "since",
        "until",
        "command",
    }


def test_show_says_how_a_child_stands(on: CommandLine) -> None:
    on("run", "flows:household", "1", "c-1")
    shown = on.ok("show", "household", "1")
    assert "  waits for   the child approve c-1, which is running,\n" in shown
    on("run", "flows:approve", "c-1")
    shown = on.ok("show", "household", "1")
    assert "  waits for   the child approve c-1, which is suspended,\n" in shown
    assert "look at it with: workflow-engine show approve c-1\n" in shown
    (wait,) = on.json("show", "household", "1")["waits"]
    assert wait["words"] == "the child approve c-1, which is suspended"


def test_show_says_what_woke_an_instance(open_: CommandLine) -> None:
    open_.ok("signal", the_id(open_), "5")
    shown = open_.ok("show", "expense", "1")
    assert shown.startswith("expense 1: woken, and waiting for a worker\n")
    assert "  waits for   the awakeable 'approval', resolved since " in shown


def test_list_names_what_is_waited_for(open_: CommandLine) -> None:
    _, row = open_.ok("list").splitlines()
    assert row.endswith("the awakeable 'approval'")


def test_show_says_for_which_message_and_how_long(on: CommandLine) -> None:
    on("run", "flows:listen", "1")
    first, second, third, *_ = on.ok("show", "listen", "1").splitlines()
    assert first.startswith("listen 1: waiting for a message on 'word' since ")
    assert re.match(r"  waits for   a message on 'word', at the latest until ", second)
    assert third.endswith("workflow-engine send listen 1 word VALUE")


# --- awakeables and timers ------------------------------------------------------------


def test_awakeables_are_listed_with_their_ids(open_: CommandLine) -> None:
    titles, row = open_.ok("awakeables", "expense", "1").splitlines()
    assert titles.split() == ["LABEL", "STATUS", "OPENED", "SETTLED", "ID"]
    assert row.split()[:2] == ["approval", "pending"]
    assert row.endswith(the_id(open_))
    open_.ok("signal", the_id(open_), "5")
    document = open_.json("awakeables", "expense", "1")
    assert (document["workflow"], document["id"]) == ("expense", "1")
    (found,) = document["awakeables"]
    assert (found["label"], found["status"]) == ("approval", "resolved")
    assert found["created_at"] <= found["settled_at"]


def test_timers_are_listed_with_their_end(on: CommandLine) -> None:
    on("run", "flows:snooze", "1")
    titles, row = on.ok("timers", "snooze", "1").splitlines()
    assert titles.split() == ["NAME", "DUE", "STARTED"]
    assert re.fullmatch(r"sleep:nap  \S+Z \(in 3 hours\)  \S.*", row)
    document = on.json("timers", "snooze", "1")
    (found,) = document["timers"]
    assert found.keys() == {"name", "due_at", "created_at"}
    assert (document["id"], found["name"]) == ("1", "sleep:nap")


@pytest.mark.parametrize("command", ["awakeables", "timers"])
def test_an_instance_that_has_none_says_so(on: CommandLine, command: str) -> None:
    on.ok("start", "flows:approve", "1")
    result = on(command, "approve", "1")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"no {command}\n"
    assert on.json(command, "approve", "1")[command] == []


@pytest.mark.parametrize("command", ["awakeables", "timers"])
def test_the_waits_of_nobody_are_told_as_such(on: CommandLine, command: str) -> None:
    on.ok("db", "upgrade")
    assert on.refused(command, "a", "1") == "workflow 'a' has no instance '1'"


# --- signal, reject, cancel-awakeable -------------------------------------------------


def test_a_signal_completes_a_wait_once(open_: CommandLine) -> None:
    id = the_id(open_)
    assert open_.ok("signal", id, "5") == f"{id} is signalled\n"
    again = open_("signal", id, "6")
    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr.startswith(f"{id} was not signalled: it is settled already")
    assert open_.json("signal", id, "6") == {"id": id, "signalled": False}
    assert open_.json("run", "flows:expense", "1")["result"] == 12


def test_a_signal_carries_json_or_text(open_: CommandLine) -> None:
    for name, value in {"2": '{"b": [1, 2.5, null]}', "3": "plain text"}.items():
        open_("run", "flows:expense", name)
        document = open_.json("signal", the_id(open_, name), value)
        assert document["signalled"] is True
    values = [
        open_.json("journal", "expense", name)["entries"][-1]["value"] for name in "23"
    ]
    assert values == [{"b": [1, 2.5, None]}, "plain text"]


@pytest.mark.parametrize(
    ("words", "how", "error"),
    [
        (("reject", "no budget"), "rejected", "no budget"),
        (("cancel-awakeable",), "cancelled", "cancelled"),
    ],
)
def test_a_wait_that_will_not_come_fails_its_workflow(
    open_: CommandLine, words: tuple[str, ...], how: str, error: str
) -> None:
    command, *reason = words
    id = the_id(open_)
    assert open_.ok(command, id, *reason) == f"{id} is {how}\n"
    assert open_.json(command, id, *reason) == {"id": id, how: False}
    assert open_(command, id, *reason).exit_code == 1
    (found,) = open_.json("awakeables", "expense", "1")["awakeables"]
    assert found["status"] == how
    result = open_("run", "flows:expense", "1")
    assert result.exit_code == 5
    assert error in result.output


@pytest.mark.parametrize(
    "words", [("signal", "x", "1"), ("reject", "x", "no"), ("cancel-awakeable", "x")]
)
def test_an_id_that_nobody_has_given_out_is_told(
    on: CommandLine, words: tuple[str, ...]
) -> None:
    on.ok("db", "upgrade")
    assert "'x'" in on.refused(*words)
