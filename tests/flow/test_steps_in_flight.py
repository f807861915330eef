"""Steps in threads while their run goes on, stops, breaks or is over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from workflow_engine import (
    AllOf,
    AnyOf,
    Completed,
    LeaseLost,
    Status,
    Step,
    Worker,
    WorkflowBody,
    current_step,
    map_each,
    receive,
    workflow,
)
from workflow_engine.core.outcome import Error, Value
from workflow_engine.runtime.current import CurrentStep
from workflow_engine.runtime.flights import Flight, Flights
from workflow_engine.testing import Crashes, ProcessDied

from ..runtime.bench import LEASE, Bench, Meanwhile, steps
from ..wholeness import check_whole

PATIENCE = 30
"""Seconds after which a test gives up."""


class Gate:
    """A step that lasts until it is let go."""

    def __init__(self) -> None:
        self.begun, self.open, self.ended = (threading.Event() for _ in range(3))
        self.steps: list[CurrentStep] = []
        self.threads: list[threading.Thread] = []

    def __call__(self) -> str:
        self.steps.append(current_step())
        self.threads.append(threading.current_thread())
        self.begun.set()
        assert self.open.wait(PATIENCE)
        self.ended.set()
        return "late"

    def wait(self) -> None:
        assert self.begun.wait(PATIENCE)

    def let_go(self) -> None:
        """Return when its thread is over, too."""
        self.open.set()
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


# --- what is not begun ----------------------------------------------------------------


def test_a_queued_step_whose_branch_has_lost_is_not_begun(bench: Bench) -> None:
    @workflow
    def racing() -> WorkflowBody[list[Any]]:
        names = ("a", "b", "c")
        first, _ = yield from AnyOf([Step(name, bench.do, name) for name in names])
        result = yield from map_each("m", range(9), bench.do_number, at_least=1)
        return [first, [*result.succeeded]]

    engine = bench.engine(racing, steps_in_flight=1)
    assert engine.run(racing, "1") == Completed([0, ["0"]])
    assert bench.done == ["a", "0"]


def test_a_step_that_loses_while_waits_are_armed_is_not_begun(bench: Bench) -> None:
    @workflow
    def racing() -> WorkflowBody[int]:
        waits = receive("word").timeout(60)
        index, _ = yield from AnyOf(Step("slow", bench.do, "slow"), waits)
        return index

    other = bench.engine()
    points = Meanwhile(
        "before_commit", "arm", lambda: other.send("racing", "1", "word", "hello")
    )
    assert bench.engine(racing, points=points).run(racing, "1") == Completed(1)
    assert (points.acted, bench.done) == (1, [])


def test_a_stop_lets_begun_steps_end_and_begins_no_queued_one(bench: Bench) -> None:
    workers: list[Worker] = []
    two = threading.Barrier(2)

    def work(number: int) -> int:
        if workers:
            two.wait(PATIENCE)
            workers[0].stop()
        return bench.do_number(number)

    @workflow
    def fan_out() -> WorkflowBody[int]:
        return len((yield from AllOf([Step(f"{n}", work, n) for n in range(6)])))

    engine = bench.engine(fan_out, steps_in_flight=2)
    engine.start(fan_out, "1")
    workers.append(engine.worker())
    workers[0].run_once()
    assert sorted(bench.done) == ["0", "1"]
    seen = engine.describe(fan_out, "1")
    assert (seen.owner, seen.attempts, seen.status) == (None, 0, Status.RUNNING)
    assert sorted(filter(None, steps(engine, fan_out, "1"))) == ["0", "1"]
    workers.clear()
    assert engine.run(fan_out, "1") == Completed(6)
    assert sorted(bench.done) == [*"012345"]
    check_whole(bench.url)


# --- what outlives its run ------------------------------------------------------------


def beside(gate: Callable[[], Any], other: Step[Any], *, first: bool) -> Any:
    """A workflow that runs both, and waits for one or for both."""

    @workflow(name="beside")
    def body() -> WorkflowBody[Any]:
        members = Step("slow", gate), other
        return (yield AnyOf(*members) if first else AllOf(*members))

    return body


def test_a_step_that_outlives_its_run_is_told_and_changes_nothing(
    bench: Bench,
) -> None:
    gate = Gate()
    body = beside(gate, Step("fast", gate.wait), first=True)
    engine = bench.engine(body)
    assert engine.run(body, "1") == Completed([1, None])
    assert gate.steps[0].cancelled
    gate.let_go()
    assert steps(engine, body, "1") == ["fast"]
    assert engine.run(body, "1") == Completed([1, None])
    check_whole(bench.url)


def test_a_step_that_ends_while_its_run_is_finishing_changes_nothing(
    bench: Bench,
) -> None:
    gate = Gate()

    def land() -> None:
        gate.open.set()
        assert gate.ended.wait(PATIENCE)

    points = Meanwhile("before_commit", "finish", land)
    body = beside(gate, Step("fast", gate.wait), first=True)
    engine = bench.engine(body, points=points)
    assert engine.run(body, "1") == Completed([1, None])
    assert points.acted == 1
    gate.let_go()
    assert engine.run(body, "1") == Completed([1, None])
    check_whole(bench.url)


def test_an_interrupt_in_a_step_ends_the_run_and_gives_the_lease_back(
    bench: Bench,
) -> None:
    gate = Gate()

    def interrupted() -> None:
        gate.wait()
        if not gate.open.is_set():
            raise KeyboardInterrupt

    body = beside(gate, Step("key", interrupted), first=False)
    engine = bench.engine(body)
    with pytest.raises(KeyboardInterrupt):
        engine.run(body, "1")
    assert engine.describe(body, "1").owner is None
    assert gate.steps[0].cancelled
    gate.let_go()
    assert steps(engine, body, "1") == []
    assert engine.run(body, "1") == Completed(["late", None])
    assert [step.cancelled for step in gate.steps] == [True, False]
    assert len({step.idempotency_key for step in gate.steps}) == 1


def test_a_death_in_a_thread_keeps_the_lease_and_loses_what_was_not_recorded(
    bench: Bench,
) -> None:
    gate = Gate()
    body = beside(gate, Step("fast", gate.wait), first=False)
    dying = bench.engine(body, points=Crashes().at("after_step", "fast"))
    with pytest.raises(ProcessDied):
        dying.run(body, "1")
    gate.let_go()
    assert dying.describe(body, "1").owner is not None
    bench.clock.advance(LEASE)
    engine = bench.engine(body)
    assert steps(engine, body, "1") == []
    assert engine.run(body, "1") == Completed(["late", None])
    check_whole(bench.url)


def test_a_step_whose_lease_is_lost_meanwhile_records_nothing(bench: Bench) -> None:
    gate, after = Gate(), Gate()
    bodies = [
        beside(each, Step("fast", gate.wait), first=False) for each in (gate, after)
    ]
    after.open.set()
    first, second = (bench.engine(body) for body in bodies)

    def take_over() -> None:
        gate.wait()
        first.release_lease("beside", "1")
        assert second.run(bodies[1], "1") == Completed(["late", None])
        gate.open.set()

    taker = threading.Thread(target=take_over)
    taker.start()
    with suppress(LeaseLost):  # unless it sees first that the instance has ended
        first.run(bodies[0], "1")
    taker.join(PATIENCE)
    gate.let_go()
    assert sorted(filter(None, steps(second, bodies[1], "1"))) == ["fast", "slow"]
    check_whole(bench.url)


# --- threads --------------------------------------------------------------------------


def test_the_thread_of_an_abandoned_step_is_used_again_when_that_ended() -> None:
    gate, threads = Gate(), list[int]()

    def outcome(call: Callable[[], object]) -> Value:
        threads.append(threading.get_ident())
        call()
        return Value("1")

    def flight(name: str, call: Callable[[], object], limit: float | None) -> Flight:
        current = CurrentStep("w", "1", 0, name, 1, "key")
        made = partial(outcome, call)
        return Flight(name, current, made, limit, lambda: Error("late"))

    flights = Flights(2)
    flights.begin(flight("slow", lambda: gate.open.wait(PATIENCE), 0))
    assert [landed.outcome for landed in flights.wait(PATIENCE)] == [Error("late")]
    gate.open.set()
    assert flights.wait(PATIENCE) == []  # the thread has ended; nobody asked for it
    flights.begin(flight("next", lambda: None, None))
    assert [landed.name for landed in flights.wait(PATIENCE)] == ["next"]
    assert len(flights) == 0
    assert len(set(threads)) == 1
    flights.close()
