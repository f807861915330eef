"""What a start does when the instance exists: attach, reject, or restart."""

from __future__ import annotations

from typing import Any

import pytest

from workflow_engine import (
    AwakeableNotFound,
    Completed,
    Handle,
    IllegalMove,
    InputConflict,
    InstanceExists,
    InvalidInput,
    Status,
    Step,
    WorkflowBody,
    awakeable,
    current_step,
    spawn_child,
    workflow,
)

from .bench import Bench, kinds


@workflow
def pay(amount: int) -> WorkflowBody[list[Any]]:
    approval = yield from awakeable("approval", returns=int)
    key = yield from Step("key", lambda: current_step().idempotency_key)
    approved = yield from approval
    return [amount, approved, key]


@workflow
def shop() -> WorkflowBody[None]:
    payment = yield from spawn_child(pay, "child", 5)
    yield from payment
    never = yield from awakeable("never", returns=int)
    yield from never


def ended(bench: Bench, *args: Any, id: str = "1") -> Handle[Any]:
    """An instance that has completed."""
    engine = bench.engine(pay)
    engine.run(pay, id, *args)
    (view,) = engine.awakeables(pay, id)
    engine.signal(view.id, 7)
    assert isinstance(engine.run(pay, id), Completed)
    return engine.handle(pay, id)


def test_a_rejected_start_says_what_is_there(bench: Bench) -> None:
    engine = bench.engine(pay)
    starting = engine.starting(on_conflict="reject")
    began = bench.clock.now
    starting.start(pay, "1", 5)
    bench.clock.advance(60)
    for arguments in ((5,), (6,), ()):
        with pytest.raises(InstanceExists) as raised:
            starting.start(pay, "1", *arguments)
        error = raised.value
        assert (error.workflow, error.id, error.status) == ("pay", "1", Status.RUNNING)
        assert error.since == began
    engine.cancel(pay, "1")
    with pytest.raises(InstanceExists, match=r"since 2030-01-01 .*; it is cancelled"):
        starting.start(pay, "1", 5)
    with pytest.raises(InvalidInput):
        starting.start(pay, "2")


def test_an_ended_instance_begins_afresh_with_other_arguments(bench: Bench) -> None:
    engine = bench.engine(pay)
    old = ended(bench, 5).result()
    (view,) = engine.awakeables(pay, "1")
    starting = engine.starting(on_conflict="restart", tags={"try": "2"})
    handle = starting.start(pay, "1", 6)
    assert handle.status() == Status.RUNNING
    assert kinds(engine, pay, "1") == []
    assert engine.describe(pay, "1").tags == {"try": "2"}
    with pytest.raises(AwakeableNotFound):
        engine.signal(view.id, 8)
    amount, approved, key = ended(bench, id="1").result()
    assert (amount, approved) == (6, 7)
    assert key != old[2]


def test_a_restart_attaches_to_what_has_not_ended(bench: Bench) -> None:
    engine = bench.engine(pay)
    starting = engine.starting(on_conflict="restart")
    starting.start(pay, "1", 5)
    engine.run(pay, "1")
    number = engine.describe(pay, "1").number
    starting.start(pay, "1", 5)
    starting.start(pay, "1")
    with pytest.raises(InputConflict):
        starting.start(pay, "1", 6)
    assert engine.describe(pay, "1").number == number
    engine.cancel(pay, "1")
    with pytest.raises(InvalidInput):  # the old arguments are no arguments
        starting.start(pay, "1")
    assert engine.describe(pay, "1").status == Status.CANCELLED


def test_a_child_is_not_restarted_while_its_parent_may_attach_again(
    bench: Bench,
) -> None:
    engine = bench.engine(pay, shop)
    engine.start(shop, "1")
    engine.worker().drain()
    ended(bench, id="child")
    engine.worker().drain()
    with pytest.raises(IllegalMove, match="its parent has not completed"):
        engine.starting(on_conflict="restart").start(pay, "child", 5)
    assert engine.describe(pay, "child").status == Status.COMPLETED


def test_a_policy_that_does_not_exist_is_refused(sqlite_bench: Bench) -> None:
    with pytest.raises(ValueError, match="attach, reject, restart, not 'replace'"):
        sqlite_bench.engine(pay).starting(on_conflict="replace")  # type: ignore[arg-type]
