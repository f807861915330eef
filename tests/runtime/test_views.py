"""What the outside sees of the waits of an instance."""

from __future__ import annotations

from datetime import timedelta

import pytest

from workflow_engine import (
    Await,
    AwakeableStatus,
    AwakeableView,
    ChildView,
    Completed,
    ContinueAsNew,
    Engine,
    InstanceNotFound,
    Status,
    TimerView,
    WorkflowBody,
    awakeable,
    restore_seed,
    sleep,
    spawn_child,
    workflow,
)
from workflow_engine.testing import TestClock

from .bench import Bench


@workflow
def ship() -> WorkflowBody[int]:
    return (yield from Await("parcel", returns=int))


@workflow
def order() -> WorkflowBody[int]:
    approval = yield from awakeable("approval", returns=int)
    refusal = yield from awakeable("refusal", returns=int)
    parcel = yield from spawn_child(ship, "ship:1")
    yield sleep(timedelta(hours=1), name="cool-off")
    return (yield from approval) + (yield from refusal) + (yield from parcel)


@workflow
def again() -> WorkflowBody[int]:
    generation = yield from restore_seed(0)
    yield from awakeable("approval")
    yield from spawn_child(ship, "1")
    if not generation:
        yield sleep(60, name="short")
        yield ContinueAsNew(1)
    yield sleep(3600, name="long")
    return generation


@pytest.fixture
def engine(bench: Bench) -> Engine:
    return bench.engine(order, ship, again)


def test_awakeables_are_shown_oldest_first_as_they_were_settled(
    engine: Engine, clock: TestClock
) -> None:
    began = clock.now
    engine.run(order, "1")
    first, second = engine.awakeables(order, "1")
    assert (first.label, second.label) == ("approval", "refusal")
    assert first == AwakeableView(
        "approval", first.id, AwakeableStatus.PENDING, began, None
    )
    clock.advance(5)
    engine.signal(first.id, 7)
    engine.reject(second.id, "no")
    statuses = [
        (each.status, each.settled_at) for each in engine.awakeables(order, "1")
    ]
    settled = began + timedelta(seconds=5)
    assert statuses == [
        (AwakeableStatus.RESOLVED, settled),
        (AwakeableStatus.REJECTED, settled),
    ]


def test_a_timer_is_shown_until_it_has_fired(engine: Engine, clock: TestClock) -> None:
    began = clock.now
    engine.run(order, "1")
    due = began + timedelta(hours=1)
    assert engine.timers(order, "1") == (TimerView("sleep:cool-off", due, began),)
    assert engine.describe(order, "1").waits_on == ("sleep:cool-off",)
    clock.advance(3600)
    engine.worker().run_once()
    assert engine.timers(order, "1") == ()


def test_a_child_is_shown_with_the_status_it_has(
    engine: Engine, clock: TestClock
) -> None:
    began = clock.now
    engine.run(order, "1")
    (child,) = engine.children("order", "1")
    assert child == ChildView(
        "child:ship:ship%3A1", "ship", "ship:1", Status.RUNNING, began
    )
    engine.run(ship, "ship:1")
    assert [each.status for each in engine.children(order, "1")] == [Status.SUSPENDED]
    engine.cancel(ship, "ship:1")
    assert [each.status for each in engine.children(order, "1")] == [Status.CANCELLED]


def test_only_the_current_generation_is_shown(engine: Engine, clock: TestClock) -> None:
    engine.run(again, "1")
    (old,), (timer,) = engine.awakeables(again, "1"), engine.timers(again, "1")
    assert timer.name == "sleep:short"
    clock.advance(60)
    engine.run(again, "1")
    (new,) = engine.awakeables(again, "1")
    assert (new.label, new.id == old.id) == ("approval", False)
    assert [each.name for each in engine.timers(again, "1")] == ["sleep:long"]
    assert [each.id for each in engine.children(again, "1")] == ["1"]


def test_an_instance_without_waits_shows_none(engine: Engine) -> None:
    engine.run(ship, "1")
    engine.resolve(ship, "1", "parcel", 3)
    assert engine.run(ship, "1") == Completed(3)
    for look in (engine.awakeables, engine.timers, engine.children):
        assert look(ship, "1") == ()


@pytest.mark.parametrize("look", ["awakeables", "timers", "children"])
def test_the_waits_of_nobody_are_not_found(engine: Engine, look: str) -> None:
    with pytest.raises(InstanceNotFound):
        getattr(engine, look)(order, "none")
