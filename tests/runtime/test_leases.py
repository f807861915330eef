"""Who may run an instance: one at a time, and a former owner writes nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    ContinueAsNew,
    InstanceNotFound,
    LeaseHeld,
    LeaseLost,
    Status,
    Step,
    Workflow,
    WorkflowBody,
    workflow,
)
from workflow_engine.errors import StoreUnavailable
from workflow_engine.runtime.clock import SystemClock, pause
from workflow_engine.runtime.points import Point, Points

from .bench import LEASE, Bench, entries, kinds, steps

PATIENCE = 20
"""Seconds after which something has gone wrong."""


class Deaf(Points):
    """No heartbeat comes through, as when the network is cut."""

    def reach(self, point: Point, subject: str) -> None:
        if point == "before_heartbeat":
            raise StoreUnavailable(problem="no network")


class Heart(Points):
    """Tells of each heartbeat."""

    def __init__(self) -> None:
        self.beats = threading.Event()

    def reach(self, point: Point, subject: str) -> None:
        if point == "before_heartbeat":
            self.beats.set()


def two_steps(bench: Bench, during: Any = None) -> Workflow[[], list[str]]:
    """A workflow in whose first step something happens, once."""
    todo = [during] if during else []

    def first() -> str:
        bench.do("first")
        if todo:
            todo.pop()()
        return "1"

    @workflow(name="two")
    def body() -> WorkflowBody[list[str]]:
        one = yield from Step("first", first)
        two: str = yield from Step("second", bench.do, "second", "2")
        return [one, two]

    return body


def test_a_lease_is_held_by_one_and_says_by_whom_and_until_when(bench: Bench) -> None:
    held: list[LeaseHeld] = []

    def run_again() -> None:
        for engine in (mine, bench.engine(two)):
            with pytest.raises(LeaseHeld) as refused:
                engine.run(two, "1")
            held.append(refused.value)

    two = two_steps(bench, run_again)
    mine = bench.engine(two)
    assert mine.run(two, "1") == Completed(["1", "2"])
    for refusal in held:
        assert "pid" in refusal.owner
        assert refusal.until == bench.clock.now + timedelta(seconds=60)
        assert f"is being run by {refusal.owner} until 2030-01-01" in str(refusal)
    assert bench.done == ["first", "second"]


def test_a_step_may_start_its_own_id_but_not_wait_for_it(bench: Bench) -> None:
    from_inside = []

    def start() -> None:
        from_inside.append(engine.start(two, "1").status())

    two = two_steps(bench, start)
    engine = bench.engine(two)
    assert engine.run(two, "1") == Completed(["1", "2"])
    assert from_inside == [Status.RUNNING]


def test_a_lease_is_free_when_it_has_run_out_and_not_before(bench: Bench) -> None:
    two = two_steps(bench)
    engine = bench.engine(two)
    began = bench.clock.now
    bench.crash(two, "1", at="before_step", of="second")
    assert engine.describe(two, "1").leased_until == began + timedelta(seconds=60)

    bench.crash(two, "1", at="before_step", of="second")
    assert bench.done == ["first"]


def test_before_it_has_run_out_nobody_else_runs(bench: Bench) -> None:
    def early() -> None:
        bench.clock.advance(59)
        with pytest.raises(LeaseHeld):
            other.run(two, "1")
        assert other.worker().run_once().discovered == 0

    two = two_steps(bench, early)
    other = bench.engine(two)
    deaf = bench.engine(two, points=Deaf())
    assert deaf.run(two, "1") == Completed(["1", "2"])


def test_a_lease_that_is_renewed_cannot_be_taken(bench: Bench) -> None:
    heart = Heart()

    def outlast() -> None:
        first = other.describe(two, "1").leased_until
        bench.clock.advance(25)
        if not heart.beats.wait(1):  # it began to wait only after that
            bench.clock.advance(20)
            assert heart.beats.wait(PATIENCE)
        while other.describe(two, "1").leased_until == first:
            pause(0.01)
        bench.clock.advance(61 - (bench.clock.now - began).total_seconds())
        with pytest.raises(LeaseHeld):
            other.run(two, "1")

    two = two_steps(bench, outlast)
    other = bench.engine(two)
    began = bench.clock.now
    assert bench.engine(two, points=heart).run(two, "1") == Completed(["1", "2"])


def test_a_heartbeat_survives_trouble_of_any_kind(bench: Bench) -> None:
    class Troubled(Heart):
        def reach(self, point: Point, subject: str) -> None:
            super().reach(point, subject)
            if point == "before_heartbeat" and troubles:
                raise troubles.pop()

    def outlast() -> None:
        for _ in range(3):
            heart.beats.clear()
            while not heart.beats.wait(0.05):
                bench.clock.advance(100)

    troubles = [RuntimeError("a bug"), StoreUnavailable(problem="away")]
    heart = Troubled()
    two = two_steps(bench, outlast)
    engine = bench.engine(two, points=heart)
    engine.start(two, "1")
    engine.worker(lease=900).run_once()
    assert not troubles


def test_a_run_whose_lease_has_run_out_starts_no_further_effect(bench: Bench) -> None:
    """Nobody took it, and the database would have let it go on; but nobody knows."""
    two = two_steps(bench, lambda: bench.clock.advance(LEASE))
    with pytest.raises(LeaseLost):
        bench.engine(two, points=Deaf()).run(two, "1")
    assert bench.done == ["first"]


def test_a_former_owner_that_wakes_up_writes_nothing(bench: Bench) -> None:
    """As by SIGSTOP for longer than the lease, in the middle of a step."""

    def others_go_on() -> None:
        bench.clock.advance(LEASE)
        assert other.run(two, "1") == Completed(["1", "2"])

    two = two_steps(bench, others_go_on)
    other = bench.engine(two)
    # It learns how the instance ended from the refusal of its own append.
    assert bench.engine(two, points=Deaf()).run(two, "1") == Completed(["1", "2"])
    assert bench.done == ["first", "first", "second"]
    assert steps(other, two, "1") == ["first", "second"]
    assert kinds(other, two, "1") == ["step_ok", "step_ok", "completed"]


def test_a_former_owner_stops_when_another_still_runs(bench: Bench) -> None:
    def another_begins() -> None:
        bench.clock.advance(LEASE)
        bench.crash(two, "1", at="after_commit", of="append")

    two = two_steps(bench, another_begins)
    with pytest.raises(LeaseLost):
        bench.engine(two, points=Deaf()).run(two, "1")
    assert bench.done == ["first", "first"]
    engine = bench.engine(two)
    assert entries(engine, two, "1") == [("step_ok", "first")]
    assert engine.run(two, "1") == Completed(["1", "2"])


class Taking(Points):
    """Takes the lease away at the last moment before a commit of one kind."""

    def __init__(self, take: Callable[[], object], kind: str) -> None:
        self.take = take
        self.kind = kind

    def reach(self, point: Point, subject: str) -> None:
        if (point, subject) == ("before_commit", self.kind):
            self.take()


@workflow
def last(word: str) -> WorkflowBody[None]:
    yield Step("a", str, "a")
    if word == "park":
        yield Await("never")
    if word == "rotate":
        yield ContinueAsNew(1)
    if word == "crash":
        raise RuntimeError("a bug")
    if word == "fail":
        yield 5  # type: ignore[misc]


@pytest.mark.parametrize(
    "word", ["append", "park", "finish", "rotate", "crash", "fail"]
)
def test_nothing_is_written_once_the_lease_was_taken_away(
    bench: Bench, word: str
) -> None:
    engine = bench.engine(last)
    engine.start(last, "1", word)
    taking = Taking(lambda: engine.release_lease(last, "1"), word)
    summary = bench.engine(last, points=taking).worker().run_once()
    assert (summary.resumed, summary.lease_skipped) == (1, 1)
    assert kinds(engine, last, "1", generation=0) == ["step_ok"] * (word != "append")
    seen = engine.describe(last, "1")
    assert (seen.status, seen.generation, seen.attempts) == (Status.RUNNING, 0, 0)


def test_a_lease_taken_away_stops_its_owner_at_the_next_boundary(bench: Bench) -> None:
    def take() -> None:
        assert engine.release_lease(two, "1")
        assert not engine.release_lease(two, "1")

    two = two_steps(bench, take)
    engine = bench.engine(two)
    with pytest.raises(LeaseLost):
        engine.run(two, "1")
    assert bench.done == ["first"]
    assert engine.journal(two, "1") == ()
    assert engine.run(two, "1") == Completed(["1", "2"])


def test_releasing_what_nobody_holds_says_so(bench: Bench) -> None:
    two = two_steps(bench)
    engine = bench.engine(two)
    engine.start(two, "1")
    assert not engine.release_lease(two, "1")
    with pytest.raises(InstanceNotFound):
        engine.release_lease(two, "2")


DIES = """
    import os, sys
    from workflow_engine import Engine, Step, workflow
    from workflow_engine.testing import Crashes

    @workflow
    def order():
        yield Step("first", int, 1)
        yield Step("second", int, 2)

    points = Crashes().at("before_step", "second", kill=True)
    Engine(sys.argv[1], workflows=[order], points=points).run(order, "1")
"""


def test_what_a_dead_process_of_this_machine_held_is_free_at_once(
    bench: Bench,
) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        a: int = yield from Step("first", bench.do, "first", 1)
        b: int = yield from Step("second", bench.do, "second", 2)
        return a + b

    program = [sys.executable, "-c", textwrap.dedent(DIES), bench.url]
    died = subprocess.run(program, check=False)
    assert died.returncode == -signal.SIGKILL
    engine = bench.engine(order, clock=SystemClock())
    assert engine.describe(order, "1").owner is not None
    assert engine.run(order, "1") == Completed(3)
    assert bench.done == ["second"]
