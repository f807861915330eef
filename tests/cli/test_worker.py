"""``worker``: a pass, or passes until nothing moves. Signals are in test_processes."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from pathlib import Path

from workflow_engine import Engine, PassSummary
from workflow_engine.cli.worker import worker

from .conftest import CommandLine

ORDER = '{"id": "o-1"}'


def test_it_runs_what_is_due_and_says_what_it_did(
    on: CommandLine, effects: Callable[[], list[str]]
) -> None:
    on.ok("start", "flows:fulfil", "1", ORDER)
    on.ok("start", "flows:approve", "2")
    result = on("worker", "flows.py", "--once")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == (
        "2 discovered, 1 advanced, 2 resumed, 1 completed, 1 still suspended"
    )
    assert effects() == ["reserve", "pay"]
    assert on.ok("worker", "flows.py", "--once") == "nothing to do\n"


def test_draining_goes_on_until_nothing_moves(on: CommandLine) -> None:
    on.ok("start", "flows:count", "1", "3")
    summary = on.json("worker", "flows.py", "--drain")
    assert (summary["completed"], summary["resumed"]) == (1, 4)


def test_the_document_has_every_count(on: CommandLine) -> None:
    on.ok("start", "flows:fulfil", "1", ORDER)
    (Path.cwd() / "other.py").write_text(
        "from workflow_engine import workflow\n"
        "@workflow\ndef other():\n    yield from ()\n"
    )
    summary = on.json("worker", "other.py", "--once")
    assert summary.keys() == {field.name for field in PassSummary.__attrs_attrs__}
    assert summary["unregistered_names"] == ["order-fulfilment"]
    assert (
        "left for other workers: order-fulfilment"
        in on("worker", "other.py", "--once").stderr
    )


def test_several_targets_work_together(on: CommandLine, place: Path) -> None:
    (place / "other.py").write_text(
        "from workflow_engine import workflow\nfrom flows import fulfil\n"
        "@workflow\ndef other():\n    yield from ()"
    )
    on.ok("start", "other:other", "1")
    on.ok("start", "flows:fulfil", "1", ORDER)
    assert on.json("worker", "other.py", "flows", "--drain")["completed"] == 2


def test_two_workflows_of_one_name_are_refused(
    on_sqlite: CommandLine, place: Path
) -> None:
    for name in ("one", "two"):
        (place / f"{name}.py").write_text(
            "from workflow_engine import workflow\n@workflow\ndef job():\n    yield"
        )
    result = on_sqlite("worker", "one.py", "two.py", "--once")
    assert result.exit_code == 1
    assert "two workflows are called 'job': one.job and two.job" in result.stderr


def test_attempts_are_limited_by_option(on: CommandLine, place: Path) -> None:
    (place / "declined").touch()
    on.ok("start", "flows:crash", "1", ORDER)
    assert on.json("worker", "flows.py", "--once", "--max-attempts", "1")["failed"] == 1


def test_it_logs_to_standard_error_in_utc_and_leaves_logging_as_it_was(
    on: CommandLine,
) -> None:
    root = logging.getLogger()
    before = (root.level, root.handlers[:])
    on.ok("start", "flows:fulfil", "1", ORDER)
    log = on("worker", "flows.py", "--once").stderr
    assert " INFO working on " in log
    assert "Z INFO order-fulfilment 1: completed" in log
    assert (root.level, root.handlers[:]) == before
    on.ok("start", "flows:fulfil", "2", ORDER)
    assert on("worker", "flows.py", "--once", "--log-level", "error").stderr == ""


def test_its_patches_are_those_of_its_options(on: CommandLine) -> None:
    on.ok("start", "flows:patched", "1")
    on.ok("worker", "flows.py", "--once", "--patch", "new-tax")
    assert on.json("run", "flows:patched", "1")["result"] is True


def test_its_defaults_are_those_of_the_engine() -> None:
    engine = inspect.signature(Engine.worker).parameters
    options = {parameter.name: parameter.default for parameter in worker.params}
    for name in ("concurrency", "max_attempts"):
        assert options[name] == engine[name].default
    assert options["listen"] is engine["listen"].default is True
    for name in ("lease", "poll", "grace"):
        assert options[name] == engine[name].default.total_seconds()


def test_what_ended_long_ago_is_deleted_when_it_is_told_to(on: CommandLine) -> None:
    on.ok("run", "flows:fulfil", "1", ORDER)
    on.ok("run", "flows:count", "1", "0")
    keep = ("worker", "flows.py", "--drain", "--retention")
    assert on.json(*keep, "30d")["collected"] == 0
    assert on.ok(*keep, "order-fulfilment=30d", "--retention", "count=0s") == (
        "1 collected\n"
    )
    (left,) = on.json("list")["instances"]
    assert left["workflow"] == "order-fulfilment"
    assert on.json(*keep, "0")["collected"] == 1
    unknown = on(*keep, "fulfil=1d")
    assert unknown.exit_code == 1
    assert "no workflow is called 'fulfil'" in unknown.stderr
    for mistake in (("soon",), ("1d", "--retention", "2d"), ("count=1d=2",)):
        assert on(*keep, *mistake).exit_code == 2


def test_it_can_be_told_not_to_listen() -> None:
    given = worker.make_context("worker", ["flows.py", "--no-listen"])
    assert given.params["listen"] is False


def test_once_and_drain_exclude_each_other(on_sqlite: CommandLine) -> None:
    result = on_sqlite("worker", "flows.py", "--once", "--drain")
    assert (result.exit_code, "exclude each other" in result.stderr) == (2, True)
