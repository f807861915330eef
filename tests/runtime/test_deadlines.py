"""Workflow deadlines: an instance that has not ended by then fails."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

import pytest

from workflow_engine import (
    Await,
    ChildFailed,
    Completed,
    ContinueAsNew,
    DeadlineExceeded,
    Failed,
    InvalidDuration,
    LeaseHeld,
    Status,
    Step,
    Suspended,
    WorkflowBody,
    WorkflowFailed,
    restore_seed,
    sleep,
    spawn_child,
    workflow,
)
from workflow_engine.core.durations import to_datetime
from workflow_engine.runtime import upkeep
from workflow_engine.testing import Crashes, ProcessDied

from ..wholeness import check_whole
from .bench import Bench, Meanwhile, kinds


@workflow
def patient() -> WorkflowBody[str]:
    return (yield from Await("go", returns=str))


@workflow
def sleeper() -> WorkflowBody[None]:
    yield sleep(1000, name="nap")


def overdue(bench: Bench, definition: Any = patient) -> Any:
    """An engine with a suspended instance that has just become overdue."""
    engine = bench.engine(definition)
    engine.starting(timeout=60).start(definition, "1")
    engine.worker().drain()
    bench.clock.advance(60)
    return engine


def now(bench: Bench) -> datetime:
    return to_datetime(bench.clock.instant())


def test_it_fails_when_its_time_is_over_and_not_before(bench: Bench) -> None:
    engine = bench.engine(patient)
    began = now(bench)
    handle = engine.starting(timeout=timedelta(minutes=1)).start(patient, "1")
    worker = engine.worker()
    worker.drain()
    bench.clock.advance(59)
    assert not worker.run_once().failed
    bench.clock.advance(1)
    summary = worker.run_once()
    assert (summary.failed, summary.advanced, summary.resumed) == (1, 1, 0)
    seen = engine.describe(patient, "1")
    assert (seen.status, seen.deadline_at) == (
        Status.FAILED,
        began + timedelta(minutes=1),
    )
    assert kinds(engine, patient, "1") == ["failed"]
    with pytest.raises(DeadlineExceeded, match="had not ended by its deadline") as had:
        handle.result()
    assert isinstance(had.value, WorkflowFailed)
    assert had.value.type == "DeadlineExceeded"
    assert not worker.run_once().failed
    check_whole(bench.url)


def test_it_may_be_an_instant(bench: Bench) -> None:
    engine = bench.engine(patient)
    until = now(bench) + timedelta(seconds=5)
    engine.starting(deadline=until).start(patient, "1")
    assert engine.describe(patient, "1").deadline_at == until
    bench.clock.advance(5)
    assert isinstance(engine.run(patient, "1"), Failed)


def test_it_is_one_of_both_and_a_time(sqlite_bench: Bench) -> None:
    engine = sqlite_bench.engine(patient)
    with pytest.raises(ValueError, match="a timeout or a deadline, not both"):
        engine.starting(timeout=1, deadline=now(sqlite_bench))
    with pytest.raises(InvalidDuration, match="timeout"):
        engine.starting(timeout=-1)
    with pytest.raises(InvalidDuration, match="deadline"):
        engine.starting(deadline=datetime(2030, 1, 1))  # noqa: DTZ001


def test_only_the_first_start_sets_it(bench: Bench) -> None:
    engine = bench.engine(patient)
    engine.start(patient, "1")
    engine.starting(timeout=1).start(patient, "1")
    assert engine.describe(patient, "1").deadline_at is None


def test_an_error_of_the_authors_with_that_name_is_none(bench: Bench) -> None:
    class DeadlineExceeded(Exception):
        pass

    @workflow
    def calling() -> WorkflowBody[None]:
        yield Step("call", bench.fail, "call", DeadlineExceeded("504"))

    engine = bench.engine(calling)
    handle = engine.start(calling, "1")
    engine.worker(max_attempts=1).run_once()
    with pytest.raises(WorkflowFailed) as failed:
        handle.result()
    assert type(failed.value) is WorkflowFailed


# --- whatever it does, and whoever runs it --------------------------------------------


def test_a_direct_run_of_one_that_is_overdue_ends_it(bench: Bench) -> None:
    engine = overdue(bench)
    ending = engine.run(patient, "1")
    assert isinstance(ending, Failed)
    assert "deadline" in ending.reason
    assert engine.run(patient, "1") == ending
    assert kinds(engine, patient, "1") == ["failed"]


def test_one_that_is_leased_elsewhere_fails_all_the_same(bench: Bench) -> None:
    engine = bench.engine(patient)
    engine.starting(timeout=30).start(patient, "1")
    points = Crashes().at("before_commit", "park")
    with pytest.raises(ProcessDied):
        bench.engine(patient, points=points).run(patient, "1")
    with pytest.raises(LeaseHeld):
        engine.run(patient, "1")
    bench.clock.advance(30)
    assert isinstance(engine.run(patient, "1"), Failed)


@pytest.mark.parametrize("hold", ["delayed", "crashed", "blocked"])
def test_one_that_waits_for_something_else_fails_in_time(
    bench: Bench, hold: str
) -> None:
    @workflow
    def held() -> WorkflowBody[None]:
        if hold == "crashed":
            raise RuntimeError("a bug")
        yield Step("a", str).returns(int if hold == "blocked" else str)
        yield Await("never")

    engine = bench.engine(held)
    delay = 1000 if hold == "delayed" else 0
    engine.starting(timeout=1, delay=delay).start(held, "1")
    if hold == "blocked":
        bench.execute("UPDATE wf_instances SET status = 'blocked'")
    else:
        engine.worker().run_once()
    bench.clock.advance(1)
    assert engine.worker().run_once().failed == 1
    assert engine.describe(held, "1").status == Status.FAILED
    check_whole(bench.url)


def test_a_run_in_progress_stops_at_its_next_boundary(bench: Bench) -> None:
    @workflow
    def slow() -> WorkflowBody[None]:
        yield Step("long", long)
        yield Step("next", bench.do, "next")

    def long() -> None:
        bench.do("long")
        bench.clock.advance(10)
        assert bench.engine().worker().run_once().failed == 1

    engine = bench.engine(slow)
    engine.starting(timeout=10).start(slow, "1")
    assert isinstance(engine.run(slow, "1"), Failed)
    assert bench.done == ["long"]
    assert kinds(engine, slow, "1") == ["failed"]


def test_a_worker_without_room_sees_to_deadlines(bench: Bench) -> None:
    """Its one slot is taken by the very step that goes on for too long."""

    @workflow
    def slow() -> WorkflowBody[None]:
        yield Step("long", long)

    def long() -> None:
        bench.clock.advance(10)
        while not engine.handle(slow, "1").status().is_ended:
            worker._settled.set()  # a hint; its clock stands still
        worker.stop()

    engine = bench.engine(slow)
    engine.starting(timeout=10).start(slow, "1")
    worker = engine.worker(concurrency=1)
    assert worker.run().failed == 2  # by the deadline, and what the run was told
    assert kinds(engine, slow, "1") == ["failed"]


def test_one_that_completes_in_time_has_completed(bench: Bench) -> None:
    engine = bench.engine(patient)
    engine.starting(timeout=60).start(patient, "1")
    bench.clock.advance(59)
    engine.resolve(patient, "1", "go", "went")
    assert engine.run(patient, "1") == Completed("went")
    bench.clock.advance(1)
    assert not engine.worker().run_once().failed


def test_a_timer_left_behind_does_no_harm(bench: Bench) -> None:
    engine = overdue(bench, sleeper)
    worker = engine.worker()
    assert worker.run_once().failed == 1
    bench.clock.advance(1000)
    assert not worker.run_once().advanced
    assert kinds(engine, sleeper, "1") == ["failed"]
    assert not engine.doctor()


# --- families, generations, resurrections ---------------------------------------------


def test_children_inherit_it_and_a_waiting_parent_is_told(bench: Bench) -> None:
    @workflow
    def parent(timeout: int) -> WorkflowBody[str]:
        yield Step("start", start, timeout)
        child = yield from spawn_child(patient, "own")
        other = yield from spawn_child(patient, "other")
        try:
            return (yield from other)
        except ChildFailed as failed:
            bench.do(failed.type)
            return (yield from child)

    def start(timeout: int) -> None:
        bench.engine(patient).starting(timeout=timeout).start(patient, "other")

    engine = bench.engine(parent, patient)
    engine.starting(timeout=60).start(parent, "1", 30)
    engine.worker().drain()
    mine = engine.describe(parent, "1").deadline_at
    assert engine.describe(patient, "own").deadline_at == mine
    bench.clock.advance(30)
    engine.worker().drain()
    assert bench.done == ["DeadlineExceeded"]
    bench.clock.advance(30)
    assert engine.worker().drain().failed == 2
    with pytest.raises(DeadlineExceeded):
        engine.handle(parent, "1").result()
    check_whole(bench.url)


def test_a_rotation_keeps_it(bench: Bench) -> None:
    @workflow
    def lives() -> WorkflowBody[None]:
        if not (yield from restore_seed(False)):
            yield ContinueAsNew(True)
        yield Await("never")

    engine = overdue(bench, lives)
    assert engine.describe(lives, "1").generation == 1
    assert engine.worker().run_once().failed == 1


def test_a_resurrection_drops_one_that_has_passed(bench: Bench) -> None:
    engine = overdue(bench)
    engine.worker().run_once()
    engine.resurrect(patient, "1")
    assert engine.describe(patient, "1").deadline_at is None
    assert engine.run(patient, "1") == Suspended(("go",))
    engine.resolve(patient, "1", "go", "went")
    assert engine.run(patient, "1") == Completed("went")


def test_a_resurrection_keeps_one_that_is_to_come(bench: Bench) -> None:
    engine = bench.engine(patient)
    engine.starting(timeout=60).start(patient, "1")
    engine.cancel(patient, "1")
    engine.resurrect(patient, "1", forget_cancel=True)
    bench.clock.advance(60)
    assert engine.worker().run_once().failed == 1


# --- many, and broken ones ------------------------------------------------------------


def test_more_than_one_pass_can_take_are_ended_before_any_of_them_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "OVERDUE", 2)
    engine = bench.engine(patient)
    for id in "12345":
        engine.starting(timeout=1).start(patient, id)
    bench.clock.advance(1)
    worker = engine.worker()
    assert (worker.run_once().failed, worker.run_once().failed) == (2, 2)
    summary = worker.run_once()
    assert (summary.failed, summary.resumed) == (1, 0)


def test_a_broken_one_stops_no_others_deadline(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    engine = bench.engine(patient)
    for id in "123":
        engine.starting(timeout=1).start(patient, id)
    bench.execute("UPDATE wf_instances SET tags = '{' WHERE workflow_id = '1'")
    bench.execute("UPDATE wf_instances SET status = '?' WHERE workflow_id = '2'")
    bench.clock.advance(1)
    worker = engine.worker()
    with caplog.at_level(logging.ERROR, "workflow_engine"):
        assert worker.run_once().failed == 1
    assert "cannot be ended and is left alone for a while" in caplog.text
    assert engine.describe(patient, "3").status == Status.FAILED
    assert not worker.run_once().failed


def test_an_idle_worker_wakes_up_for_the_next_one(bench: Bench) -> None:
    engine = bench.engine(patient)
    engine.starting(timeout=5).start(patient, "1")
    engine.worker().drain()
    store: Any = engine._equip().store
    batch = store.claim_due("me", 1, (), ["patient"], 1, 20)
    assert (batch.claims, batch.pause) == ((), 5_000_000)


def test_it_and_what_else_ends_it_have_one_winner(bench: Bench) -> None:
    engine = bench.engine(patient)
    engine.starting(timeout=60).start(patient, "1")

    def expire() -> None:
        bench.clock.advance(60)
        assert bench.engine().worker().run_once().failed == 1

    points = Meanwhile("before_commit", "park", expire)
    assert isinstance(bench.engine(patient, points=points).run(patient, "1"), Failed)
    assert not engine.resolve(patient, "1", "go", "late")
    assert not engine.cancel(patient, "1")
    assert not engine.cancel(patient, "1", cleanup=True)
    assert kinds(engine, patient, "1") == ["failed"]
