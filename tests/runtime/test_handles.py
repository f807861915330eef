"""Handles: waiting for an instance that somebody runs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Failed,
    InstanceNotFound,
    ResultTimeout,
    Status,
    Step,
    WaitsForItself,
    WorkflowBody,
    WorkflowFailed,
    workflow,
)
from workflow_engine.runtime.clock import SystemClock

from .bench import Bench


@workflow
def waiting(n: int) -> WorkflowBody[tuple[int, str]]:
    text = yield from Await("go", returns=str)
    return n, text


def test_a_result_is_typed_and_the_same_for_every_handle(bench: Bench) -> None:
    engine = bench.engine(waiting)
    first = engine.start(waiting, "1", 3)
    handles = [engine.start(waiting, "1"), engine.handle(waiting, "1"), first]
    handles.append(bench.engine(waiting).handle("waiting", "1"))
    engine.resolve(waiting, "1", "go", "x")
    engine.worker().run_once()
    assert [handle.result() for handle in handles] == [(3, "x")] * 4
    assert [handle.status() for handle in handles] == [Status.COMPLETED] * 4


def test_a_result_of_an_unknown_workflow_is_plain_json(bench: Bench) -> None:
    engine = bench.engine(waiting)
    engine.start(waiting, "1", 3)
    engine.resolve(waiting, "1", "go", "x")
    engine.worker().run_once()
    assert bench.engine().handle("waiting", "1").result() == [3, "x"]


def test_waiting_ends_when_a_worker_elsewhere_is_done(bench: Bench) -> None:
    engine = bench.engine(waiting)
    handles = [engine.start(waiting, str(n), n) for n in range(4)]
    with ThreadPoolExecutor(4) as threads:
        results = [threads.submit(handle.result) for handle in handles]
        for n in range(4):
            engine.resolve(waiting, str(n), "go", "x")
        bench.engine(waiting).worker().drain()
        assert [result.result(20) for result in results] == [(n, "x") for n in range(4)]


@pytest.mark.parametrize("timeout", [0, 0.02, timedelta(milliseconds=20)])
def test_waiting_gives_up_in_time_and_the_instance_goes_on(
    bench: Bench, timeout: Any
) -> None:
    engine = bench.engine(waiting, clock=SystemClock())
    handle = engine.start(waiting, "1", 3)
    with pytest.raises(ResultTimeout, match="'1' is still running") as late:
        handle.result(timeout)
    assert isinstance(late.value, TimeoutError)
    engine.resolve(waiting, "1", "go", "x")
    engine.worker().run_once()
    assert handle.result(timeout) == (3, "x")


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "1", True])
def test_a_timeout_must_be_a_duration(sqlite_bench: Bench, timeout: Any) -> None:
    handle = sqlite_bench.engine(waiting).start(waiting, "1", 3)
    with pytest.raises((ValueError, TypeError), match="timeout"):
        handle.result(timeout)


def test_a_failure_is_raised_with_its_reason_and_traceback(bench: Bench) -> None:
    @workflow
    def failing() -> WorkflowBody[None]:
        yield Step("a", bench.do, "a")
        raise RuntimeError("a bug")

    engine = bench.engine(failing)
    handle = engine.start(failing, "1")
    engine.worker(max_attempts=1).run_once()
    with pytest.raises(WorkflowFailed, match="failed: RuntimeError: a bug") as failed:
        handle.result()
    facts = failed.value.facts
    assert "test_handles.py" in facts["remote_traceback"]
    assert facts["message"] == "a bug"
    assert engine.run(failing, "1") == Failed("RuntimeError: a bug")


def test_a_handle_may_come_before_its_instance(bench: Bench) -> None:
    engine = bench.engine(waiting)
    handle = engine.handle(waiting, "1")
    with pytest.raises(InstanceNotFound):
        handle.status()
    with pytest.raises(InstanceNotFound):
        handle.result(0)
    engine.start(waiting, "1", 3)
    assert handle.status() == Status.RUNNING


def test_a_step_that_waits_for_its_own_instance_is_refused(bench: Bench) -> None:
    refused = threading.Event()

    @workflow
    def selfish() -> WorkflowBody[str]:
        result: str = yield from Step("wait", wait)
        return result

    def wait() -> str:
        with pytest.raises(WaitsForItself, match=r"step 'wait' .* would never end"):
            engine.start(selfish, "1").result()
        refused.set()
        return str(engine.handle(selfish, "1").status())

    engine = bench.engine(selfish)
    engine.start(selfish, "1")
    assert engine.worker().run_once().completed == 1
    assert refused.is_set()
    assert engine.handle(selfish, "1").result() == "running"


def test_a_step_may_wait_for_another_instance(bench: Bench) -> None:
    @workflow
    def inner() -> WorkflowBody[int]:
        result: int = yield from Step("a", bench.do, "a", 4)
        return result

    @workflow
    def outer() -> WorkflowBody[int]:
        return (yield from Step("wait", wait))

    def wait() -> int:
        handle = engine.start(inner, "1")
        bench.engine(inner).run(inner, "1")
        return handle.result()

    engine = bench.engine(inner, outer)
    engine.start(outer, "1")
    assert engine.worker(concurrency=1).run_once(limit=1).completed == 1
    assert engine.handle(outer, "1").result() == 4
