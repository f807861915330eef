"""Crashes: tried again with growing pauses, up to a ceiling."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    Engine,
    Failed,
    Status,
    Step,
    StepFailed,
    Worker,
    Workflow,
    WorkflowBody,
    WorkflowFailed,
    workflow,
)
from workflow_engine.testing import Crashes, ProcessDied

from .bench import LEASE, Bench, kinds, steps


def crashing(bench: Bench, times: int = 99) -> Workflow[[], int]:
    """A workflow whose second step crashes so many times."""
    left = [RuntimeError(f"crash {n}") for n in range(times, 0, -1)]

    def flaky() -> int:
        bench.do("flaky")
        if left:
            raise left.pop()
        return 2

    @workflow(name="crashing")
    def body() -> WorkflowBody[int]:
        a: int = yield from Step("a", bench.do, "a", 1)
        return a + (yield from Step("flaky", flaky))

    return body


def passes(bench: Bench, worker: Worker, *pauses: int) -> list[int]:
    """How many instances ran in a pass after each pause, in seconds."""
    ran = []
    for pause in pauses:
        bench.clock.advance(pause)
        ran.append(worker.run_once().resumed)
    return ran


def test_the_worker_runs_only_what_was_not_recorded(bench: Bench) -> None:
    crash = crashing(bench, 1)
    engine = bench.engine(crash)
    with pytest.raises(StepFailed, match="crash 1"):
        engine.run(crash, "1")
    assert engine.worker().run_once().completed == 1
    assert engine.handle(crash, "1").result() == 3
    assert bench.done == ["a", "flaky", "flaky"]


def test_pauses_double_from_two_seconds_to_sixty_four(bench: Bench) -> None:
    crash = crashing(bench)
    engine = bench.engine(crash)
    engine.start(crash, "1")
    worker = engine.worker(max_attempts=9)
    assert passes(bench, worker, 0) == [1]
    for pause in (2, 4, 8, 16, 32, 64, 64):
        before = engine.describe(crash, "1")
        assert before.next_attempt_at is not None
        assert (before.next_attempt_at - bench.clock.now).total_seconds() == pause
        assert passes(bench, worker, pause - 1, 1) == [0, 1]
    assert bench.calls("a") == 1


def test_each_crash_is_counted_and_kept_as_history(bench: Bench) -> None:
    crash = crashing(bench)
    engine = bench.engine(crash)
    engine.start(crash, "1")
    worker = engine.worker()
    for attempts, pause in enumerate([0, 2, 4], start=1):
        summary = worker.run_once() if not pause else None
        if pause:
            bench.clock.advance(pause)
            summary = worker.run_once()
        assert summary is not None
        assert (summary.paced, summary.failed, summary.completed) == (1, 0, 0)
        seen = engine.describe(crash, "1")
        assert (seen.status, seen.attempts) == (Status.RUNNING, attempts)
        assert seen.owner is None
        message = f"StepFailed: step 'flaky' failed: RuntimeError: crash {attempts}"
        assert seen.reason == message
    assert kinds(engine, crash, "1") == ["step_ok", "attempt", "attempt", "attempt"]


def test_the_last_attempt_fails_the_instance_for_good(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    crash = crashing(bench)
    engine = bench.engine(crash)
    handle = engine.start(crash, "1")
    worker = engine.worker(max_attempts=3)
    with caplog.at_level(logging.ERROR, "workflow_engine"):
        assert passes(bench, worker, 0, 2, 4, 64, 64) == [1, 1, 1, 0, 0]
    seen = engine.describe(crash, "1")
    assert (seen.status, seen.attempts) == (Status.FAILED, 3)
    assert "crash 3" in (seen.reason or "")
    assert "crash 3" in caplog.text
    with pytest.raises(WorkflowFailed, match="crash 3"):
        handle.result()
    assert engine.run(crash, "1") == Failed(seen.reason or "")
    assert bench.calls("flaky") == 3
    assert kinds(engine, crash, "1") == ["step_ok", "attempt", "attempt", "failed"]


def test_progress_sets_the_count_back(bench: Bench) -> None:
    """Each run records one more step, and then crashes: that is no crash in a row."""
    fresh = iter("abcdefghij")

    @workflow
    def creeping() -> WorkflowBody[None]:
        for name in "abcdefghij":
            performed = yield from Step(name, next, fresh)
            if name != "j" and performed == name and name not in bench.done:
                bench.do(name)
                raise RuntimeError("again")

    engine = bench.engine(creeping)
    engine.start(creeping, "1")
    worker = engine.worker(max_attempts=2)
    for _ in range(10):
        worker.run_once()
        assert engine.describe(creeping, "1").attempts <= 1
        bench.clock.advance(2)
    assert engine.describe(creeping, "1").status == Status.COMPLETED


def test_parking_sets_the_count_back(bench: Bench) -> None:
    crashes = [RuntimeError("one"), RuntimeError("two")]

    @workflow
    def order() -> WorkflowBody[None]:
        if crashes:
            raise crashes.pop()
        yield Await("go")

    engine = bench.engine(order)
    engine.start(order, "1")
    worker = engine.worker()
    passes(bench, worker, 0, 2)
    assert engine.describe(order, "1").attempts == 2
    passes(bench, worker, 4)
    seen = engine.describe(order, "1")
    assert (seen.status, seen.attempts, seen.reason) == (Status.SUSPENDED, 0, None)


def test_a_direct_run_counts_nothing_and_takes_no_notice_of_the_pause(
    bench: Bench,
) -> None:
    crash = crashing(bench, 3)
    engine = bench.engine(crash)
    engine.start(crash, "1")
    engine.worker().run_once()
    with pytest.raises(StepFailed, match="crash 2"):
        engine.run(crash, "1")
    assert engine.describe(crash, "1").attempts == 1
    with pytest.raises(StepFailed, match="crash 3"):
        engine.run(crash, "1")
    assert engine.run(crash, "1") == Completed(3)
    assert steps(engine, crash, "1") == ["a", "flaky"]


def test_a_crash_of_an_instance_just_cancelled_is_no_error(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("a", bench.do, "a")
        engine.cancel("order", "1")
        raise RuntimeError("a bug")

    engine = bench.engine(order)
    engine.start(order, "1")
    summary = engine.worker(max_attempts=1).run_once()
    assert (summary.paced, summary.failed, summary.transient_errors) == (0, 0, 0)
    assert engine.describe(order, "1").status == Status.CANCELLED
    assert kinds(engine, order, "1") == ["step_ok", "cancelled"]


def test_a_poison_instance_does_not_stop_the_others(bench: Bench) -> None:
    @workflow
    def mixed(poison: bool) -> WorkflowBody[int]:
        if poison:
            raise RuntimeError("poison")
        result: int = yield from Step("a", bench.do, "a", 1)
        return result

    engine = bench.engine(mixed)
    for number in range(6):
        engine.start(mixed, str(number), number % 2 == 0)
    summary = engine.worker(concurrency=1).run_once()
    assert (summary.completed, summary.paced) == (3, 3)


def test_a_crash_waits_for_no_commit_of_its_own_success(bench: Bench) -> None:
    """What was recorded before the crash stays, and is not done again."""

    @workflow
    def order() -> WorkflowBody[int]:
        a: int = yield from Step("a", bench.do, "a", 1)
        if bench.calls("crash") == 0:
            bench.do("crash")
            raise RuntimeError("once")
        return a

    engine = bench.engine(order)
    engine.start(order, "1")
    worker = engine.worker()
    assert passes(bench, worker, 0, 2) == [1, 1]
    assert engine.handle(order, "1").result() == 1
    assert bench.calls("a") == 1


def test_a_run_that_breaks_off_is_left_alone_for_a_while(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody's fault is counted, and the worker does not take it again at once."""

    @workflow
    def order() -> WorkflowBody[int]:
        if len(broken) == 1:
            broken.append(None)
            raise KeyboardInterrupt
        return 1
        yield

    broken = [None]
    engine = bench.engine(order)
    engine.start(order, "1")
    worker = engine.worker()
    assert worker.run_once().transient_errors == 1
    assert "the run broke off" in caplog.text
    seen = engine.describe(order, "1")
    assert (seen.owner, seen.attempts) == (None, 0)
    assert worker.run_once().discovered == 0
    bench.clock.advance(10)
    assert worker.run_once().completed == 1


# --- takeovers ---


def dying(bench: Bench, *workflows: Workflow[..., Any]) -> Engine:
    """An engine whose process dies in its next step."""
    return bench.engine(*workflows, points=Crashes().at("before_step"))


def abandoned(bench: Bench, waiting: Workflow[..., Any], times: int) -> None:
    """Let so many workers die while they run the instance."""
    for _ in range(times):
        with pytest.raises(ProcessDied):
            dying(bench, waiting).worker().run_once()
        bench.clock.advance(LEASE)


def plain(bench: Bench) -> Workflow[[], int]:
    @workflow(name="plain")
    def body() -> WorkflowBody[int]:
        a: int = yield from Step("a", bench.do, "a", 1)
        b: int = yield from Step("b", bench.do, "b", 2)
        return a + b

    return body


def test_a_lease_that_ran_out_is_taken_over_and_counted(bench: Bench) -> None:
    order = plain(bench)
    engine = bench.engine(order)
    engine.start(order, "1")
    abandoned(bench, order, 2)
    # The first claim takes over from nobody.
    assert engine.describe(order, "1").takeovers == 1
    assert engine.worker().run_once().completed == 1
    assert engine.describe(order, "1").attempts == 0


def test_too_many_takeovers_fail_the_instance_unrun(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    order = plain(bench)
    engine = bench.engine(order)
    engine.start(order, "1")
    abandoned(bench, order, 3)
    with caplog.at_level(logging.ERROR, "workflow_engine"):
        summary = engine.worker(max_takeovers=3).run_once()
    assert (summary.failed, summary.resumed, summary.advanced) == (1, 0, 1)
    seen = engine.describe(order, "1")
    assert (seen.status, seen.takeovers) == (Status.FAILED, 3)
    assert "taken over" in (seen.reason or "")
    assert "taken over" in caplog.text
    assert bench.done == []
    assert isinstance(engine.run(order, "1"), Failed)


def test_progress_sets_the_takeovers_back(bench: Bench) -> None:
    order = plain(bench)
    engine = bench.engine(order)
    engine.start(order, "1")
    abandoned(bench, order, 2)
    points = Crashes().at("before_step", "b")
    with pytest.raises(ProcessDied):
        bench.engine(order, points=points).worker().run_once()
    assert engine.describe(order, "1").takeovers == 0
    bench.clock.advance(LEASE)
    assert engine.worker(max_takeovers=2).run_once().completed == 1


def test_a_direct_run_counts_no_takeover(bench: Bench) -> None:
    order = plain(bench)
    bench.crash(order, "1", at="before_step", of="a")
    bench.crash(order, "1", at="before_step", of="a")
    assert bench.engine(order).describe(order, "1").takeovers == 0


def test_a_pass_that_gives_up_on_one_instance_runs_the_others(bench: Bench) -> None:
    order = plain(bench)
    engine = bench.engine(order)
    engine.start(order, "1")
    abandoned(bench, order, 1)
    engine.start(order, "2")
    summary = engine.worker(concurrency=1, max_takeovers=1).run_once()
    assert (summary.failed, summary.completed) == (1, 1)
