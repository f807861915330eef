"""A row that holds what this code never wrote is reported, and stops nothing else."""

from __future__ import annotations

import logging

import pytest

from workflow_engine import Engine, StoreRefused, WorkflowBody, sleep, workflow

from .bench import Bench


@workflow
def napping() -> WorkflowBody[str]:
    """Sleeps for a while."""
    yield sleep(10)
    return "rested"


DAMAGES = {
    "tags": "tags = '{'",
    "tags of another shape": "tags = '5'",
    "patches": "patches = 'x'",
    "waits": "waits_on = '['",
}


@pytest.fixture(params=list(DAMAGES.values()), ids=list(DAMAGES))
def engine(bench: Bench, request: pytest.FixtureRequest) -> Engine:
    """Four instances, one of which is damaged."""
    engine = bench.engine(napping)
    for id in "abcd":
        engine.start(napping, id)
    bench.execute(f"UPDATE wf_instances SET {request.param} WHERE workflow_id = 'b'")
    return engine


def test_a_listing_goes_on_without_it(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "workflow_engine"):
        assert [each.id for each in engine.list()] == ["a", "c", "d"]
    assert "workflow 'napping', instance 'b', cannot be read" in caplog.text
    first = engine.list(limit=2)
    assert [each.id for each in first] == ["a", "c"]
    assert [each.id for each in engine.list(limit=2, after=first.after)] == ["d"]


def test_workers_run_the_others(
    bench: Bench, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    worker = engine.worker(concurrency=1)
    with caplog.at_level(logging.ERROR, "workflow_engine"):
        worker.drain()
    assert "cannot be read" in caplog.text
    bench.clock.advance(10)
    summary = worker.drain()
    assert summary.completed == 3
    with pytest.raises(StoreRefused, match="instance 'b', cannot be read"):
        engine.describe(napping, "b")


def test_it_goes_on_once_it_is_mended(bench: Bench, engine: Engine) -> None:
    worker = engine.worker()
    worker.drain()
    bench.execute(
        "UPDATE wf_instances SET tags = '{}', patches = '[]', waits_on = NULL "
        "WHERE workflow_id = 'b'"
    )
    bench.clock.advance(10)
    worker.drain()
    bench.clock.advance(10)
    worker.drain()
    assert engine.handle(napping, "b").result(0) == "rested"
