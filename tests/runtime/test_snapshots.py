"""Snapshots are advisory: results and journals are the same under every policy."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    Every,
    Never,
    OnTerminal,
    Step,
    StepFailed,
    Suspended,
    WorkflowBody,
    workflow,
)
from workflow_engine.errors import StoreUnavailable

from .bench import Bench, entries
from .faults import failing


@workflow(name="order")
def order() -> WorkflowBody[list[Any]]:
    seen: list[Any] = []
    for name in "abc":
        seen.append((yield Step(name, str, name)))
    seen.append((yield Await("early")))
    try:
        yield Step("charge", int, "no number")
    except StepFailed as error:
        seen.append(error.message)
    seen.append((yield Await("late")))
    return seen


def snapshots(bench: Bench) -> list[tuple[int, str]]:
    found = bench.execute("SELECT position, entries FROM wf_snapshots")
    return [(position, text) for position, text in found]


def drive(bench: Bench, policy: Any) -> tuple[Any, list[tuple[str, str | None]]]:
    engine = bench.engine(order, snapshot_policy=policy)
    assert engine.run(order, "1") == Suspended(("early",))
    engine.resolve(order, "1", "early", 1)
    assert engine.run(order, "1") == Suspended(("late",))
    engine.resolve(order, "1", "late", 2)
    return engine.run(order, "1"), entries(engine, order, "1")


@pytest.mark.parametrize(
    ("policy", "positions"),
    [(Never(), []), (Every(2), [5]), (Every(1), [5]), (OnTerminal(), [6])],
    ids=str,
)
def test_results_and_journals_are_the_same_under_every_policy(
    bench: Bench, policy: Any, positions: list[int]
) -> None:
    ending, journal = drive(bench, policy)
    message = "invalid literal for int() with base 10: 'no number'"
    assert ending == Completed(["a", "b", "c", 1, message, 2])
    assert [kind for kind, _ in journal] == [
        *["step_ok"] * 3,
        "wake",
        "step_failed",
        "wake",
        "completed",
    ]
    assert [position for position, _ in snapshots(bench)] == positions


def test_a_run_begins_from_the_snapshot_and_the_tail(bench: Bench) -> None:
    engine = bench.engine(order, snapshot_policy=Every(3))
    engine.run(order, "1")
    assert [position for position, _ in snapshots(bench)] == [3]
    # Only the snapshot can tell of these.
    bench.execute("DELETE FROM wf_journal WHERE position <= 3")
    engine.resolve(order, "1", "early", 1)
    assert bench.engine(order).run(order, "1") == Suspended(("late",))


def test_a_snapshot_of_another_shape_is_not_read(bench: Bench) -> None:
    engine = bench.engine(order, snapshot_policy=Every(3))
    engine.run(order, "1")
    bench.execute("UPDATE wf_snapshots SET discriminator = 'x', entries = 'nonsense'")
    engine.resolve(order, "1", "early", 1)
    assert engine.run(order, "1") == Suspended(("late",))


@pytest.mark.parametrize("text", ["nonsense", "[]", "{}", "null", '[{"position": 1}]'])
def test_a_damaged_snapshot_is_not_read(bench: Bench, text: str) -> None:
    engine = bench.engine(order, snapshot_policy=Every(3))
    engine.run(order, "1")
    bench.execute("UPDATE wf_snapshots SET entries = :text", text=text)
    engine.resolve(order, "1", "early", 1)
    assert bench.engine(order).run(order, "1") == Suspended(("late",))


def test_a_snapshot_that_cannot_be_kept_fails_no_run(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    engine = bench.engine(order, snapshot_policy=Every(1))
    error = StoreUnavailable(problem="disk full")
    with (
        caplog.at_level(logging.WARNING, "workflow_engine"),
        failing("wf_snapshots (", error) as tried,
    ):
        assert engine.run(order, "1") == Suspended(("early",))
    assert len(tried) == 3
    assert "no snapshot was kept" in caplog.text
    assert "disk full" in caplog.text


def test_a_wait_stays_pending_under_every_one(bench: Bench) -> None:
    @workflow
    def waiting() -> WorkflowBody[list[int]]:
        yield Step("a", bench.do, "a")
        first = yield from Await("n", returns=int)
        yield Step("b", bench.do, "b")
        return [first, (yield from Await("m", returns=int))]

    engine = bench.engine(waiting, snapshot_policy=Every(1))
    for _ in range(2):
        assert engine.run(waiting, "1") == Suspended(("n",))
    engine.resolve(waiting, "1", "m", 2)
    assert engine.run(waiting, "1") == Suspended(("n",))
    engine.resolve(waiting, "1", "n", 1)
    assert engine.run(waiting, "1") == Completed([1, 2])
    assert bench.done == ["a", "b"]


def test_deliveries_between_the_steps_count_as_growth(bench: Bench) -> None:
    """Else a journal of steps and deliveries in turn would never be kept."""

    @workflow
    def turns() -> WorkflowBody[None]:
        for number in range(4):
            yield Step(f"s{number}", bench.do, f"s{number}")
            yield Await(f"n{number}")

    engine = bench.engine(turns, snapshot_policy=Every(2))
    kept = []
    for number in range(4):
        engine.run(turns, "1")
        engine.resolve(turns, "1", f"n{number}", None)
        kept.append([position for position, _ in snapshots(bench)])
    assert kept == [[], [3], [5], [7]]


def test_a_policy_must_make_sense() -> None:
    for number in (0, -1):
        with pytest.raises(ValueError, match=r"Every\("):
            Every(number)
    with pytest.raises(TypeError):
        Every("2")  # type: ignore[arg-type]
