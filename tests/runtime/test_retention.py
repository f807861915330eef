"""A worker that deletes what ended long ago, when it has nothing better to do."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from workflow_engine import (
    Await,
    InvalidDuration,
    PassSummary,
    Status,
    Step,
    UnknownWorkflow,
    WorkflowBody,
    workflow,
)

from ..store.sessions import in_thread
from .bench import Bench, watched
from .outages import away

DAY = timedelta(days=1)
REST = timedelta(minutes=5)


@workflow
def job() -> WorkflowBody[None]:
    yield Step("work", int)


@workflow
def other() -> WorkflowBody[None]:
    yield Step("work", int)


@workflow
def waiting() -> WorkflowBody[None]:
    yield Await("word")


def left(bench: Bench) -> dict[str, int]:
    """How many instances there are, by workflow."""
    counts = "SELECT workflow_name, count(*) FROM wf_instances GROUP BY workflow_name"
    return dict(bench.execute(counts))


def copies(bench: Bench, how_many: int) -> None:
    """Copy the ended job so often."""
    columns = "incarnation, status, input, created_at, updated_at, ended_at"
    numbers = "".join(f", ({n})" for n in range(1, how_many)).lstrip(", ")
    bench.execute(
        f"INSERT INTO wf_instances (workflow_name, workflow_id, {columns}) "
        f"SELECT workflow_name, 'copy ' || n.column1, {columns} FROM wf_instances, "
        f"(VALUES {numbers}) AS n WHERE workflow_name = 'job'"
    )


def test_each_workflow_is_kept_for_its_time_by_whoever_has_it(bench: Bench) -> None:
    engine = bench.engine(job, other, waiting)
    for each in (job, other):
        engine.run(each, "1")
    engine.run(waiting, "1")
    assert bench.engine(waiting).worker(retention=0).run_once() == PassSummary()
    worker = engine.worker(retention={job: DAY, "other": 2 * DAY})
    assert worker.run_once().collected == 0
    bench.clock.advance(DAY)
    assert worker.run_once() == PassSummary(collected=1)
    assert left(bench) == {"other": 1, "waiting": 1}
    bench.clock.advance(DAY)
    assert worker.drain() == PassSummary(collected=1)
    assert left(bench) == {"waiting": 1}
    assert engine.describe(waiting, "1").status == Status.SUSPENDED


def test_it_looks_again_only_after_a_while_and_goes_on_while_there_is_more(
    bench: Bench,
) -> None:
    engine = bench.engine(job)
    engine.run(job, "1")
    copies(bench, 250)
    worker = engine.worker(retention=DAY)
    assert worker.run_once().collected == 0
    bench.clock.advance(DAY)
    # A hundred a pass, between passes that claim.
    engine.start(job, "new")
    assert [worker.run_once().collected for _ in range(4)] == [100, 100, 50, 0]
    assert engine.describe(job, "new").status == Status.COMPLETED
    engine.run(job, "late")
    bench.clock.advance(DAY)
    assert worker.drain().collected == 2
    # Nothing is asked before the time.
    with watched() as idle:
        worker.run_once()
    bench.clock.advance(REST)
    with watched() as looking:
        worker.run_once()
    assert len(looking.seen) == len(idle.seen) + 1
    assert "ended_at" in looking.seen[-1]


def test_what_can_move_comes_first(bench: Bench) -> None:
    engine = bench.engine(job)
    engine.run(job, "old")
    bench.clock.advance(DAY)
    for number in range(2):
        engine.start(job, str(number))
    worker = engine.worker(concurrency=1, retention=DAY)
    # No look of this pass leaves a slot free.
    assert worker.run_once(limit=1) == PassSummary(
        discovered=1, advanced=1, resumed=1, completed=1
    )
    assert worker.run_once().collected == 1


def test_workers_that_collect_at_once_do_no_harm(bench: Bench) -> None:
    engines = [bench.engine(job) for _ in range(2)]
    engines[0].run(job, "1")
    copies(bench, 150)
    bench.clock.advance(DAY)
    workers = [engine.worker(retention=DAY) for engine in engines]
    collected = [worker.run_once().collected for worker in workers * 2]
    assert sum(collected) == 150
    assert left(bench) == {}


def test_trouble_with_it_is_logged_and_ends_no_worker(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    engine = bench.engine(job)
    engine.run(job, "1")
    bench.clock.advance(DAY)
    worker = engine.worker(retention=DAY)
    bench.execute("ALTER TABLE wf_children RENAME COLUMN child_id TO elsewhere")
    try:
        with caplog.at_level(logging.ERROR, "workflow_engine"):
            assert worker.run_once() == PassSummary()
    finally:
        bench.execute("ALTER TABLE wf_children RENAME COLUMN elsewhere TO child_id")
    assert "the collection broke off" in caplog.text
    assert worker.run_once().collected == 0
    bench.clock.advance(REST)
    assert worker.run_once().collected == 1


def test_a_database_that_is_away_is_asked_again_later(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    engine = bench.engine(job)
    engine.run(job, "1")
    bench.clock.advance(DAY)
    worker = engine.worker(retention=DAY)
    with away(lambda statement, _: statement.startswith("DELETE")) as lost:
        assert worker.run_once() == PassSummary()
    assert len(lost) == 1
    assert "the collection goes on later" in caplog.text
    assert left(bench) == {"job": 1}
    bench.clock.advance(REST)
    assert worker.run_once().collected == 1


def test_a_worker_that_runs_collects_while_it_is_idle(bench: Bench) -> None:
    engine = bench.engine(job)
    engine.run(job, "1")
    copies(bench, 250)
    worker = engine.worker(retention=DAY)
    with in_thread(worker.run) as running:
        for _ in range(10_000):
            bench.clock.advance(DAY)  # each wait ends; batches follow without one
            if not engine.list(limit=1).items:
                break
        worker.stop()
    assert running.result() == PassSummary(collected=250)
    assert left(bench) == {}


def test_a_retention_is_checked_when_the_worker_is_made(sqlite_bench: Bench) -> None:
    engine = sqlite_bench.engine(job)
    with pytest.raises(InvalidDuration, match="retention cannot be -1"):
        engine.worker(retention=-1)
    with pytest.raises(InvalidDuration, match="the retention of 'job'"):
        engine.worker(retention={job: float("nan")})
    with pytest.raises(UnknownWorkflow):
        engine.worker(retention={"other": DAY})
