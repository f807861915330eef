"""The doctor is silent on a healthy database, and names what was planted in another.

Faults are planted behind the engine's back: nothing it does makes them.
"""

from __future__ import annotations

from typing import Any

import pytest

from workflow_engine import (
    Await,
    ContinueAsNew,
    Engine,
    FaultKind,
    Status,
    Step,
    WorkflowBody,
    awakeable,
    restore_seed,
    sleep,
    spawn_child,
    workflow,
)
from workflow_engine.testing import TestClock

from .bench import Bench

HOUR = 3_600
NOT_YET: list[str] = []
"""Steps that fail as long as they are in here."""


def fail_at_first(name: str) -> str:
    if name in NOT_YET:
        raise RuntimeError("not yet")
    return name


@workflow
def steps() -> WorkflowBody[str]:
    yield Step("one", str, 1)
    yield Step("two", str, 2)
    return (yield from Step("three", fail_at_first, "three"))


@workflow
def answer() -> WorkflowBody[int]:
    yield Step("ask", str, "well?")
    return (yield from Await("answer", returns=int))


@workflow
def nap() -> WorkflowBody[str]:
    yield sleep(HOUR, name="nap")
    return "rested"


@workflow
def approval() -> WorkflowBody[int]:
    handle = yield from awakeable("approval", returns=int)
    return (yield from handle)


@workflow
def parent(child: str) -> WorkflowBody[int]:
    handle = yield from spawn_child(answer, child)
    return (yield from handle)


@workflow
def rounds() -> WorkflowBody[int]:
    reached = yield from restore_seed(0)
    handle = yield from awakeable("approval", returns=int)
    yield sleep(HOUR, name="nap")
    if reached < 2:
        yield from Await("on")
        yield ContinueAsNew(reached + 1)
    return (yield from handle)


ALL = (steps, answer, nap, approval, parent, rounds)


@pytest.fixture(autouse=True)
def _patient() -> None:
    NOT_YET.clear()


@pytest.fixture
def engine(bench: Bench) -> Engine:
    return bench.engine(*ALL)


@pytest.fixture
def healthy(bench: Bench, engine: Engine, clock: TestClock) -> Engine:
    """Instances in every state but blocked, and in every kind of wait."""
    engine.run(rounds, "a")
    engine.run(rounds, "b")
    for name in "ab":
        engine.resolve(rounds, name, "on", None)
    engine.run(nap, "over")
    clock.advance(HOUR)
    engine.worker().drain()  # the naps are over, rounds are in the next generation
    engine.run(steps, "completed")
    NOT_YET.append("three")
    for name in ("failed", "resurrected"):
        engine.start(steps, name)
    while engine.describe(steps, "failed").status != Status.FAILED:
        engine.worker(max_attempts=2).run_once()
        clock.advance(3)
    engine.resurrect(steps, "resurrected", rerun=())
    engine.start(steps, "crashed")
    engine.worker(concurrency=1).run_once(limit=2)
    NOT_YET.clear()
    engine.start(steps, "cancelled")
    engine.cancel(steps, "cancelled")
    bench.crash(steps, "leased", at="before_step", of="two")
    engine.start(steps, "ready")
    engine.starting(delay=HOUR).start(steps, "delayed")
    _wait_in_every_way(engine)
    bench.engine(*ALL, points=bench_points()).start(steps, "last")
    return engine


def bench_points() -> Any:
    from workflow_engine.runtime.points import NOWHERE

    return NOWHERE


def _wait_in_every_way(engine: Engine) -> None:
    for name in ("waiting", "answered"):
        engine.run(answer, name)
        engine.run(approval, name)
        engine.run(parent, name, f"{name}-child")
    engine.run(nap, "waiting")
    engine.run(parent, "with a child", "suspended-child")
    engine.run(answer, "suspended-child")
    engine.resolve(answer, "answered", "answer", 1)
    engine.resolve(answer, "early", "answer", 1) if False else None
    (handle,) = engine.awakeables(approval, "answered")
    engine.signal(handle.id, 5)
    engine.cancel(answer, "answered-child")


def found(engine: Engine, **options: Any) -> list[tuple[FaultKind, str, str]]:
    return [(f.kind, f.workflow, f.id) for f in engine.doctor(**options)]
