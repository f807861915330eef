"""``gc``: what would be deleted is shown, and deleted when that is asked for."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from workflow_engine.cli.options import Duration

from .conftest import CommandLine

ORDER = '{"id": "o-1"}'


@pytest.fixture
def ended(on: CommandLine) -> CommandLine:
    """Three instances that have ended, and one that waits."""
    for id in ("1", "2"):
        on.ok("run", "flows:fulfil", id, ORDER)
    on.ok("start", "flows:approve", "gone")
    on.ok("cancel", "approve", "gone")
    on("run", "flows:approve", "waits")
    return on


def test_without_force_it_shows_what_it_would_delete(ended: CommandLine) -> None:
    assert ended.ok("gc", "--older-than", "0").splitlines() == [
        "WORKFLOW          STATUS     INSTANCES",
        "approve           cancelled  1",
        "order-fulfilment  completed  2",
        "3 instances would be deleted; --force does it",
    ]
    assert ended.ok("gc", "--older-than", "30d") == "nothing to delete\n"
    shown = ended.json("gc", "--older-than", "0", "--workflow", "approve")
    assert shown == {
        "collectable": [{"workflow": "approve", "status": "cancelled", "count": 1}],
        "deleted": 0,
        "failed": 0,
    }
    assert len(ended.json("list")["instances"]) == 4


def test_with_force_it_deletes_them(ended: CommandLine) -> None:
    words = ("gc", "--older-than", "0", "--force")
    assert ended.json(*words, "--workflow", "approve")["deleted"] == 1
    shown = ended.ok(*words, "--batch", "1")
    assert shown.splitlines()[-1] == "2 instances deleted"
    assert ended.ok(*words) == "0 instances deleted\n"
    (left,) = ended.json("list")["instances"]
    assert left["id"] == "waits"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--older-than", "soon"),
        ("--older-than", "-1d"),
        ("--older-than", "nand"),
        ("--older-than", "40000d"),
        ("--older-than", "d"),
        ("--older-than", "1d", "--batch", "0"),
    ],
    ids=str,
)
def test_a_mistake_deletes_nothing(
    on_sqlite: CommandLine, words: tuple[str, ...]
) -> None:
    on_sqlite.ok("db", "upgrade")
    assert on_sqlite("gc", "--force", *words).exit_code == 2


def test_a_duration_has_a_unit_or_is_in_seconds() -> None:
    read = Duration(min=0)
    texts = {"90": 90, "1.5": 1.5, "45s": 45, "90m": 5400, "12h": 43200}
    texts |= {"30d": 2592000, "2w": 1209600, "0": 0}
    assert {text: read.convert(text, None, None) for text in texts} == texts


def test_what_the_database_refuses_is_told_and_the_rest_goes(
    on_sqlite: CommandLine,
) -> None:
    for id in ("1", "2"):
        on_sqlite.ok("start", "flows:approve", id)
        on_sqlite.ok("cancel", "approve", id)
    path = on_sqlite.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TRIGGER keep BEFORE DELETE ON wf_instances "
            "WHEN OLD.workflow_id = '2' BEGIN SELECT RAISE(ABORT, 'it is kept'); END"
        )
    result = on_sqlite("gc", "--older-than", "0", "--force")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "1 instance deleted"
    assert result.stderr.splitlines()[-1] == "1 instance could not be deleted"
