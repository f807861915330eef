"""ContinueAsNew: the next generation, its seed, and what moves along."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    ContinueAsNew,
    ContinuedAsNew,
    CurrentGeneration,
    Failed,
    Status,
    Step,
    StepFailed,
    Suspended,
    Workflow,
    WorkflowBody,
    current_step,
    restore_seed,
    workflow,
)
from workflow_engine.runtime.points import Point, Points
from workflow_engine.testing import Crashes, ProcessDied

from .bench import LEASE, Bench, entries, kinds, steps


def counting(bench: Bench, upto: int = 5) -> Workflow[[], int]:
    """A long count, two steps a generation."""

    @workflow(name="count")
    def body() -> WorkflowBody[int]:
        total = yield from restore_seed(0)
        for name in ("a", "b"):
            total += yield from Step(name, bench.do, name, 1)
        if total < 2 * upto:
            yield ContinueAsNew(total)
        return total

    return body


def test_a_long_workflow_keeps_its_journals_short_and_its_total_right(
    bench: Bench,
) -> None:
    count = counting(bench)
    engine = bench.engine(count)
    assert engine.run(count, "1") == Completed(10)
    assert bench.calls("a") == bench.calls("b") == 5
    assert engine.describe(count, "1").generation == 4
    for generation in range(5):
        found = kinds(engine, count, "1", generation)
        marker = "completed" if generation == 4 else "continued_as_new"
        assert found == ["step_ok"] * 3 + [marker]
    assert engine.run(count, "1") == Completed(10)


def test_a_run_that_does_not_follow_stops_at_each_generation(bench: Bench) -> None:
    count = counting(bench, 3)
    engine = bench.engine(count, follow=False)
    assert engine.run(count, "1") == ContinuedAsNew(1)
    seen = engine.describe(count, "1")
    assert (seen.status, seen.generation, seen.owner) == (Status.RUNNING, 1, None)
    assert engine.with_options(follow=True).run(count, "1") == Completed(6)


def test_a_worker_finds_each_newest_generation(bench: Bench) -> None:
    count = counting(bench, 3)
    engine = bench.engine(count)
    handle = engine.start(count, "1")
    summary = engine.worker().drain()
    assert (summary.completed, summary.advanced) == (1, 3)
    assert handle.result() == 6


def test_the_seed_is_there_before_the_marker_or_neither_is(bench: Bench) -> None:
    count = counting(bench)
    bench.crash(count, "1", at="before_commit", of="rotate")
    engine = bench.engine(count)
    assert engine.describe(count, "1").generation == 0
    assert kinds(engine, count, "1") == ["step_ok"] * 3

    bench.crash(count, "1", at="after_commit", of="rotate")
    assert engine.describe(count, "1").generation == 1
    assert entries(engine, count, "1") == [("step_ok", "__workflow_seed__")]
    assert engine.journal(count, "1")[0].value == 2
    assert engine.run(count, "1") == Completed(10)
    assert bench.calls("a") == 5


def test_a_crash_in_any_generation_repeats_only_its_missing_work(bench: Bench) -> None:
    count = counting(bench, 3)
    points = Crashes().at("after_step", "b", nth=2)
    with pytest.raises(ProcessDied):
        bench.engine(count, points=points).run(count, "1")
    bench.clock.advance(LEASE)
    assert bench.engine(count).run(count, "1") == Completed(6)
    assert (bench.calls("a"), bench.calls("b")) == (3, 4)


def test_the_first_generations_seed_is_the_default(bench: Bench) -> None:
    @workflow
    def seeded() -> WorkflowBody[list[int]]:
        seed = yield from restore_seed([7])
        again = yield from restore_seed([8])
        return seed + again

    assert bench.engine(seeded).run(seeded, "1") == Completed([7, 7])


def test_the_default_of_a_seed_is_kept_when_the_code_changes(bench: Bench) -> None:
    def seeded(default: int) -> Workflow[[], int]:
        @workflow(name="seeded")
        def body() -> WorkflowBody[int]:
            seed = yield from restore_seed(default)
            yield Await("go")
            return seed

        return body

    before, after = seeded(1), seeded(2)
    bench.engine(before).run(before, "1")
    engine = bench.engine(after)
    engine.resolve(after, "1", "go", None)
    assert engine.run(after, "1") == Completed(1)


def test_every_generation_may_use_the_same_names_with_keys_of_their_own(
    bench: Bench,
) -> None:
    keys = []

    def note() -> None:
        keys.append(current_step().idempotency_key)

    @workflow
    def twice() -> WorkflowBody[None]:
        yield Step("a", note)
        if not (yield from CurrentGeneration()):
            yield ContinueAsNew(None)

    engine = bench.engine(twice)
    assert engine.run(twice, "1") == Completed(None)
    assert len(set(keys)) == 2


def test_nothing_after_a_rotation_runs(bench: Bench) -> None:
    @workflow
    def going_on() -> WorkflowBody[str]:
        if not (yield from CurrentGeneration()):
            try:
                yield ContinueAsNew(None)
            except BaseException:
                yield Step("after", bench.do, "after")
                raise
            bench.do("returned")
        return "done"

    assert bench.engine(going_on).run(going_on, "1") == Completed("done")
    assert bench.done == []


def test_a_body_that_catches_everything_rotates_all_the_same(bench: Bench) -> None:
    @workflow
    def stubborn() -> WorkflowBody[str]:
        generation = yield from CurrentGeneration()
        while not generation:
            with contextlib.suppress(BaseException):
                yield ContinueAsNew(None)
        return "done"

    assert bench.engine(stubborn).run(stubborn, "1") == Completed("done")


def test_a_rotation_in_a_finally_wins_and_the_error_is_reported(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @workflow
    def restless() -> WorkflowBody[str]:
        if (yield from CurrentGeneration()):
            return "second"
        try:
            raise RuntimeError("out of stock")
        finally:
            yield ContinueAsNew(1)

    engine = bench.engine(restless)
    with caplog.at_level(logging.WARNING, "workflow_engine"):
        assert engine.run(restless, "1") == Completed("second")
    assert "out of stock" in caplog.text
    assert kinds(engine, restless, "1", 0) == ["continued_as_new"]


def test_a_rotation_after_a_failed_step_records_the_failure_first(
    bench: Bench,
) -> None:
    @workflow
    def restless() -> WorkflowBody[str]:
        if (yield from CurrentGeneration()):
            return "second"
        try:
            yield Step("a", bench.fail, "a", ValueError("x"))
        except StepFailed as error:
            yield ContinueAsNew(error.message)
        return "first"

    engine = bench.engine(restless)
    assert engine.run(restless, "1") == Completed("second")
    assert kinds(engine, restless, "1", 0) == ["step_failed", "continued_as_new"]
    assert bench.done == ["a"]


# --- deliveries across a rotation ---


def taking(bench: Bench, per_generation: int) -> Workflow[[], list[Any]]:
    """Takes so many deliveries a generation, in order of their names."""

    @workflow(name="take")
    def body() -> WorkflowBody[list[Any]]:
        taken = yield from restore_seed(list[Any]())
        for _ in range(per_generation):
            taken.append((yield from Await(f"n{len(taken)}")))
        if len(taken) < 3:
            yield ContinueAsNew(taken)
        return taken

    return body


def test_deliveries_not_taken_move_along_in_order(bench: Bench) -> None:
    take = taking(bench, 1)
    engine = bench.engine(take)
    engine.start(take, "1")
    for number in (2, 0, 1):
        assert engine.resolve(take, "1", f"n{number}", f"value {number}")
    assert engine.run(take, "1") == Completed(["value 0", "value 1", "value 2"])
    assert entries(engine, take, "1", 1)[:3] == [
        ("step_ok", "__workflow_seed__"),
        ("wake", "n2"),
        ("wake", "n1"),
    ]
    assert not engine.resolve(take, "1", "n1", "again")


def test_a_delivery_taken_in_one_generation_is_pending_anew_in_the_next(
    bench: Bench,
) -> None:
    @workflow
    def rounds() -> WorkflowBody[list[int]]:
        taken = yield from restore_seed(list[int]())
        taken.append((yield from Await("n", returns=int)))
        if len(taken) < 2:
            yield ContinueAsNew(taken)
        return taken

    engine = bench.engine(rounds)
    engine.run(rounds, "1")
    assert engine.resolve(rounds, "1", "n", 1)
    assert engine.run(rounds, "1") == Suspended(("n",))
    assert engine.resolve(rounds, "1", "n", 2)
    assert engine.run(rounds, "1") == Completed([1, 2])


def test_a_delivery_during_the_rotation_is_not_lost(bench: Bench) -> None:
    class Delivering(Points):
        def reach(self, point: Point, subject: str) -> None:
            if (point, subject) == ("before_commit", "rotate"):
                name = f"n{len(delivered)}"
                delivered.append(name)
                assert engine.resolve(take, "1", name, name)

    delivered = ["n0"]
    take = taking(bench, 1)
    engine = bench.engine(take)
    engine.start(take, "1")
    engine.resolve(take, "1", "n0", "n0")
    running = bench.engine(take, points=Delivering())
    assert running.run(take, "1") == Completed(["n0", "n1", "n2"])


def test_a_delivery_for_an_older_generation_changes_nothing(bench: Bench) -> None:
    take = taking(bench, 1)
    engine = bench.engine(take)
    engine.run(take, "1")
    assert engine.resolve(take, "1", "n0", "x", generation=0)
    engine.run(take, "1")
    assert not engine.resolve(take, "1", "n1", "old", generation=0)
    assert not engine.resolve(take, "1", "n1", "early", generation=2)
    assert engine.resolve(take, "1", "n1", "new", generation=1)


def test_steps_do_not_move_along(bench: Bench) -> None:
    count = counting(bench, 2)
    engine = bench.engine(count)
    engine.run(count, "1")
    assert steps(engine, count, "1", 1) == ["__workflow_seed__", "a", "b"]


# --- where it cannot work ---


def test_a_bad_seed_may_be_caught_and_another_given(bench: Bench) -> None:
    @workflow
    def careful() -> WorkflowBody[Any]:
        if (yield from CurrentGeneration()):
            return (yield from restore_seed(None))
        try:
            yield ContinueAsNew(object())
        except ValueError:
            yield ContinueAsNew("a good one")

    assert bench.engine(careful).run(careful, "1") == Completed("a good one")


def test_a_cancelled_instance_does_not_rotate(bench: Bench) -> None:
    @workflow
    def rotating() -> WorkflowBody[None]:
        engine.cancel("rotating", "1")
        yield ContinueAsNew(None)

    engine = bench.engine(rotating)
    engine.start(rotating, "1")
    engine.run(rotating, "1")
    seen = engine.describe(rotating, "1")
    assert (seen.status, seen.generation) == (Status.CANCELLED, 0)


def test_a_rotation_sets_attempts_back(bench: Bench) -> None:
    left = [RuntimeError("twice"), RuntimeError("once")]

    @workflow
    def flaky() -> WorkflowBody[None]:
        if left:
            raise left.pop()
        if not (yield from CurrentGeneration()):
            left.append(RuntimeError("once more"))
            yield ContinueAsNew(None)

    engine = bench.engine(flaky)
    engine.start(flaky, "1")
    worker = engine.worker(max_attempts=3)
    for pause in (0, 2, 4):
        bench.clock.advance(pause)
        worker.run_once()
    assert engine.describe(flaky, "1").generation == 1
    worker.run_once()
    assert engine.describe(flaky, "1").attempts == 1
    bench.clock.advance(2)
    assert worker.run_once().completed == 1
    assert not isinstance(engine.run(flaky, "1"), Failed)
