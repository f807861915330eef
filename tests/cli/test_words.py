"""How instances stand, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from workflow_engine import Description, Status
from workflow_engine.cli.options import Where
from workflow_engine.cli.words import advice, database_now, relative, standing
from workflow_engine.store.database import Database

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SOON, BEFORE = NOW + timedelta(seconds=90), NOW - timedelta(hours=2)
AT_SOON, AT_BEFORE = "(2030-01-01T00:01:30.000000Z)", "(2029-12-31T22:00:00.000000Z)"

INSTANCE = Description(
    number=1,
    workflow="ship",
    id="1",
    status=Status.RUNNING,
    generation=0,
    position=0,
    attempts=0,
    takeovers=0,
    owner=None,
    leased_until=None,
    next_attempt_at=None,
    wake_after=None,
    cancel_requested=False,
    patches=None,
    tags={},
    reason=None,
    waits_on=(),
    created_at=BEFORE,
    updated_at=BEFORE,
    ended_at=None,
    stream="wf:ship-1",
)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "now"),
        (0.9, "now"),
        (-0.9, "now"),
        (1, "in 1 second"),
        (-59, "59 seconds ago"),
        (60, "in 1 minute"),
        (-3_599, "59 minutes ago"),
        (7_200, "in 2 hours"),
        (-86_400, "1 day ago"),
        (864_000, "in 10 days"),
    ],
)
def test_an_instant_is_told_as_people_say_it(seconds: float, words: str) -> None:
    assert relative(NOW + timedelta(seconds=seconds), NOW) == words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "waiting for a worker"),
        ({"attempts": 1}, "crashed once; it waits for a worker to try again"),
        (
            {"attempts": 3, "next_attempt_at": SOON},
            f"crashed 3 times in a row; workers try again in 1 minute {AT_SOON}",
        ),
        (
            {"next_attempt_at": SOON},
            f"delayed; workers take it up in 1 minute {AT_SOON}",
        ),
        ({"next_attempt_at": BEFORE}, "waiting for a worker"),
        (
            {"owner": "host pid 7", "leased_until": SOON},
            f"being run by host pid 7, whose lease ends in 1 minute {AT_SOON} "
            "unless renewed",
        ),
        (
            {"owner": "host pid 7", "leased_until": BEFORE},
            f"left by host pid 7, whose lease ended 2 hours ago {AT_BEFORE}; "
            "a worker takes it over",
        ),
        (
            {"status": Status.SUSPENDED},
            "suspended until something it awaits is resolved",
        ),
        (
            {"status": Status.SUSPENDED, "wake_after": SOON},
            f"suspended; it wakes in 1 minute {AT_SOON}",
        ),
        (
            {"status": Status.SUSPENDED, "wake_after": BEFORE},
            "woken, and waiting for a worker",
        ),
        (
            {"status": Status.SUSPENDED, "waits_on": ("go",)},
            "waiting for a resolve of 'go' since "
            "2029-12-31T22:00:00.000000Z (2 hours ago)",
        ),
        (
            {"status": Status.SUSPENDED, "waits_on": ("sleep:nap",)}
            | {"wake_after": SOON},
            "sleeping until 2030-01-01T00:01:30.000000Z (in 1 minute)",
        ),
        (
            {"status": Status.SUSPENDED, "waits_on": ("stepretry:a%3Ab:2",)}
            | {"wake_after": SOON},
            "waiting until 2030-01-01T00:01:30.000000Z (in 1 minute) for the next "
            "attempt of step 'a:b'",
        ),
        (
            {"status": Status.SUSPENDED, "waits_on": ("awk:ok", "sleep:nap")}
            | {"wake_after": SOON},
            "waiting for the awakeable 'ok' and 1 other since "
            "2029-12-31T22:00:00.000000Z (2 hours ago), at the latest until "
            "2030-01-01T00:01:30.000000Z (in 1 minute)",
        ),
        (
            {"status": Status.SUSPENDED, "waits_on": ("child:ship:a%3A7", "a", "b")},
            "waiting for the child ship a:7 and 2 others since "
            "2029-12-31T22:00:00.000000Z (2 hours ago)",
        ),
        (
            {"status": Status.SUSPENDED, "waits_on": ("go",), "wake_after": BEFORE},
            "woken, and waiting for a worker",
        ),
        (
            {"status": Status.BLOCKED, "next_attempt_at": SOON},
            "blocked: the code that last ran it cannot read what is recorded; "
            f"workers look again in 1 minute {AT_SOON}",
        ),
        (
            {"status": Status.BLOCKED, "next_attempt_at": BEFORE},
            "blocked: the code that last ran it cannot read what is recorded; "
            "workers look again soon",
        ),
        (
            {"status": Status.COMPLETED, "ended_at": BEFORE},
            f"completed 2 hours ago {AT_BEFORE}",
        ),
        (
            {"status": Status.FAILED, "ended_at": BEFORE},
            f"failed 2 hours ago {AT_BEFORE}",
        ),
        (
            {"status": Status.CANCELLED, "ended_at": BEFORE},
            f"cancelled 2 hours ago {AT_BEFORE}",
        ),
    ],
)
def test_an_instance_stands_in_a_sentence(changes: dict[str, Any], words: str) -> None:
    assert standing(attrs.evolve(INSTANCE, **changes), NOW) == words


@pytest.mark.parametrize(
    ("changes", "commands"),
    [
        ({}, []),
        ({"owner": "host pid 7", "leased_until": SOON}, ["release ship 1"]),
        ({"status": Status.SUSPENDED}, ["resolve ship 1 STEP VALUE"]),
        ({"status": Status.SUSPENDED, "wake_after": SOON}, []),
        ({"status": Status.SUSPENDED, "waits_on": ("go",)}, []),
        (
            {"status": Status.BLOCKED},
            ["resurrect ship 1", "discard ship 1 POSITION"],
        ),
        ({"status": Status.FAILED}, ["resurrect ship 1"]),
        ({"status": Status.COMPLETED}, []),
    ],
)
def test_what_can_be_done_is_a_command(
    changes: dict[str, Any], commands: list[str]
) -> None:
    found = advice(attrs.evolve(INSTANCE, **changes), Where(None, None))
    assert [command for command, _ in found] == [
        f"workflow-engine {c}" for c in commands
    ]


def test_now_is_told_by_the_database(database: Database, database_url: str) -> None:
    before = database_now(Where(database_url, None))
    assert before.tzinfo == UTC
    assert before <= database_now(Where(database_url, None))
