"""``start``: an instance is recorded and not run."""

from __future__ import annotations

from collections.abc import Callable

from .conftest import CommandLine

ORDER = '{"id": "o-1"}'


def test_it_records_and_does_not_run(
    on: CommandLine, effects: Callable[[], list[str]]
) -> None:
    shown = on.ok("start", "flows.py:fulfil", "1", ORDER, "--tag", "shop=north")
    assert shown == "order-fulfilment 1 is recorded: waiting for a worker\n"
    assert effects() == []
    (found,) = on.json("list")["instances"]
    assert (found["status"], found["position"]) == ("running", 0)
    assert found["tags"] == {"shop": "north"}


def test_it_leaves_an_instance_that_exists_as_it_is(on: CommandLine) -> None:
    on.ok("run", "flows:fulfil", "1", ORDER)
    again = on.json("start", "flows:fulfil", "1", ORDER, "--tag", "late=yes")
    assert (again["status"], again["tags"]) == ("completed", {})
    assert on.ok("start", "flows:fulfil", "1").startswith(
        "order-fulfilment 1 is recorded: completed "
    )
    line = on.refused("start", "flows:fulfil", "1", '{"id": "o-2"}')
    assert "other arguments (order)" in line


def test_an_instance_that_exists_is_rejected_or_started_afresh_when_told_so(
    on: CommandLine,
) -> None:
    on.ok("run", "flows:fulfil", "1", ORDER)
    words = ("start", "flows:fulfil", "1", '{"id": "o-2"}', "--on-conflict")
    line = on.refused(*words, "reject")
    assert line.startswith("workflow 'order-fulfilment' has had an instance '1' since ")
    assert line.endswith("; it is completed")
    assert on.json(*words, "restart")["status"] == "running"
    assert on.json("journal", "order-fulfilment", "1")["entries"] == []
    assert on("start", "flows:fulfil", "1", "--on-conflict", "replace").exit_code == 2


def test_its_arguments_are_checked_before_anything_is_recorded(on: CommandLine) -> None:
    assert "parameter order" in on.refused("start", "flows:fulfil", "1", "5")
    assert "missing a required argument" in on.refused("start", "flows:fulfil", "1")
    assert on.json("list")["instances"] == []


def test_a_delay_keeps_workers_away_until_it_is_over(on: CommandLine) -> None:
    shown = on.ok("start", "flows:fulfil", "1", ORDER, "--delay", "7200")
    assert shown.startswith(
        "order-fulfilment 1 is recorded: delayed; workers take it up in "
    )
    assert on.json("worker", "flows.py", "--drain")["completed"] == 0
    assert on("start", "flows:fulfil", "2", ORDER, "--delay", "-1").exit_code == 2


def test_it_may_be_told_how_long_it_has(on: CommandLine) -> None:
    timed = on.json("start", "flows:approve", "1", "--timeout", "7200")
    assert timed["deadline_at"] > timed["created_at"]
    assert "  deadline    " in on.ok("show", "approve", "1")
    late = "2020-01-31T13:00:00+01:00"
    over = on.json("start", "flows:approve", "2", "--deadline", late)
    assert over["deadline_at"] == "2020-01-31T12:00:00.000000Z"
    assert on("run", "flows:approve", "2").exit_code == 5
    assert on.json("worker", "flows.py", "--drain")["failed"] == 0
    on.ok("start", "flows:approve", "3", "--deadline", "2020-01-31T12:00:00Z")
    assert on.json("worker", "flows.py", "--drain")["failed"] == 1


def test_a_limit_is_one_of_two_and_an_instant_has_a_zone(
    on_sqlite: CommandLine,
) -> None:
    at = ("--deadline", "2030-01-31T12:00:00Z")
    for words in ((*at, "--timeout", "1"), ("--deadline", "2030-01-31T12:00:00")):
        assert on_sqlite("start", "flows:approve", "1", *words).exit_code == 2


def test_a_tag_needs_a_value(on_sqlite: CommandLine) -> None:
    result = on_sqlite("start", "flows:fulfil", "1", ORDER, "--tag", "north")
    assert result.exit_code == 2
    assert "'north' is not NAME=VALUE" in result.stderr
