"""`Engine.gc`, and what a reused identity is worth."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from workflow_engine import (
    Awakeable,
    AwakeableNotFound,
    Collectable,
    Collected,
    InstanceNotFound,
    InvalidDuration,
    Status,
    Step,
    StepFailed,
    WorkflowBody,
    awakeable,
    current_step,
    spawn_child,
    workflow,
)

from .bench import Bench, steps

DAY = timedelta(days=1)


def key() -> str:
    return current_step().idempotency_key


@workflow
def approve(fail: bool = False) -> WorkflowBody[list[Any]]:
    approval: Awakeable[int] = yield from awakeable("approval", returns=int)
    first = yield from Step("key", key)
    number = yield from approval
    if fail:
        yield Step("check", int, "no number")
    return [first, number, approval.id]


@workflow
def order(id: str) -> WorkflowBody[None]:
    child = yield from spawn_child(approve, id)
    yield from child
    yield Step("fail", int, "no number")


def answer(bench: Bench, id: str, value: int = 5) -> str:
    """Answer the awakeable of an instance; its id."""
    engine = bench.engine(approve, order)
    (view,) = engine.awakeables(approve, id)
    assert engine.signal(view.id, value)
    return view.id


def test_an_identity_that_is_used_again_is_a_fresh_start(bench: Bench) -> None:
    engine = bench.engine(approve)
    engine.start(approve, "1")
    engine.worker().drain()
    old_id = answer(bench, "1")
    engine.worker().drain()
    old = engine.handle(approve, "1").result()
    bench.clock.advance(DAY)
    assert engine.gc(DAY) == Collected(deleted=1, failed=0)
    with pytest.raises(InstanceNotFound):
        engine.describe(approve, "1")
    with pytest.raises(AwakeableNotFound):
        engine.signal(old_id, 6)
    # The same arguments or others: there is nothing to compare them with.
    engine.start(approve, "1", fail=False)
    engine.worker().drain()
    answer(bench, "1", 6)
    engine.worker().drain()
    key, value, id = engine.handle(approve, "1").result()
    assert (value, steps(engine, approve, "1").count("key")) == (6, 1)
    assert key != old[0]
    assert id != old_id


def test_what_may_be_needed_is_told_apart_and_stays(bench: Bench) -> None:
    engine = bench.engine(approve, order)
    engine.start(order, "o", "child")
    engine.start(approve, "alone", fail=True)
    engine.worker().drain()
    answer(bench, "child")
    answer(bench, "alone")
    engine.worker(max_attempts=1).drain()
    bench.clock.advance(DAY)
    assert engine.gc(DAY + timedelta(seconds=1)) == Collected(0, 0)
    assert engine.collectable(DAY, workflows=[approve]) == [
        Collectable("approve", Status.FAILED, 1)
    ]
    everything = engine.collectable(DAY)
    assert [(each.workflow, each.status, each.count) for each in everything] == [
        ("approve", Status.COMPLETED, 1),
        ("approve", Status.FAILED, 1),
        ("order", Status.FAILED, 1),
    ]
    assert engine.gc(DAY, workflows=[approve]) == Collected(1, 0)
    # The parent may be resurrected, and gets what its child left.
    engine.resurrect(order, "o", rerun=())
    assert engine.gc(DAY) == Collected(0, 0)
    with pytest.raises(StepFailed):
        engine.run(order, "o")


def test_an_instance_the_database_will_not_delete_is_told(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    engine = bench.engine(approve)
    for id in ("1", "2", "3"):
        engine.start(approve, id)
        engine.cancel(approve, id)
    refuse_to_delete(bench, "2")
    try:
        with caplog.at_level(logging.ERROR, "workflow_engine"):
            assert engine.gc(0, batch=2) == Collected(deleted=2, failed=1)
    finally:
        bench.execute("DROP TRIGGER keep" + on_table(bench))
    assert "workflow 'approve', instance '2' was not deleted: " in caplog.text
    assert engine.gc(0) == Collected(1, 0)


def on_table(bench: Bench) -> str:
    return "" if bench.url.startswith("sqlite") else " ON wf_instances"


def refuse_to_delete(bench: Bench, id: str) -> None:
    condition = f"WHEN (OLD.workflow_id = '{id}')"
    if bench.url.startswith("sqlite"):
        refusal = "BEGIN SELECT RAISE(ABORT, 'it is kept'); END"
        create = f"BEFORE DELETE ON wf_instances {condition} {refusal}"
    else:
        bench.execute(
            "CREATE OR REPLACE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN RAISE EXCEPTION ''it is kept''; END'"
        )
        create = (
            f"BEFORE DELETE ON wf_instances FOR EACH ROW {condition} "
            "EXECUTE FUNCTION keep()"
        )
    bench.execute(f"CREATE TRIGGER keep {create}")


@pytest.mark.parametrize("batch", [0, -1, 2.0, True, "2"])
def test_a_batch_is_a_whole_number_above_zero(sqlite_bench: Bench, batch: Any) -> None:
    engine = sqlite_bench.engine(approve)
    with pytest.raises(ValueError, match="batch must be"):
        engine.gc(DAY, batch=batch)


def test_an_age_is_a_duration_and_names_are_several(sqlite_bench: Bench) -> None:
    engine = sqlite_bench.engine(approve)
    for age in (-1, float("nan"), "30d"):
        with pytest.raises(InvalidDuration, match="older_than"):
            engine.gc(age)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not the text 'approve'"):
        engine.gc(DAY, workflows="approve")
