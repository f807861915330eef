"""Two runs of one instance at a time: what one recorded, the other adopts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workflow_engine import (
    Await,
    Completed,
    Failed,
    Step,
    StepFailed,
    Suspended,
    Workflow,
    WorkflowBody,
    workflow,
)
from workflow_engine.errors import StoreUnavailable
from workflow_engine.runtime.points import Point, Points

from .bench import LEASE, Bench, kinds, steps


class Deaf(Points):
    """No heartbeat comes through."""

    def reach(self, point: Point, subject: str) -> None:
        if point == "before_heartbeat":
            raise StoreUnavailable(problem="no network")


def test_the_one_that_comes_second_ends_as_the_first_did(bench: Bench) -> None:
    """Both perform the step; one outcome stands, and both runs tell of it."""
    results = iter(["theirs", "mine"])
    begun: list[Callable[[], Any]] = []

    def work() -> str:
        if begun:
            begun.pop()()
        return next(results)

    @workflow
    def order() -> WorkflowBody[str]:
        return (yield from Step("work", work))

    def another() -> None:
        bench.clock.advance(LEASE)
        assert other.run(order, "1") == Completed("theirs")

    begun.append(another)
    other = bench.engine(order)
    assert bench.engine(order, points=Deaf()).run(order, "1") == Completed("theirs")
    assert kinds(other, order, "1") == ["step_ok", "completed"]


def test_an_entry_that_came_in_between_is_delivered_in_its_order(bench: Bench) -> None:
    """The delivery takes position 1 while the step runs; the step gets position 2."""
    seen = []

    @workflow
    def order() -> WorkflowBody[list[Any]]:
        seen.append((yield Step("a", deliver)))
        seen.append((yield Await("n")))
        return list(seen)

    def deliver() -> str:
        engine.resolve("order", "1", "n", "delivered")
        return "performed"

    engine = bench.engine(order)
    assert engine.run(order, "1") == Completed(["performed", "delivered"])
    assert kinds(engine, order, "1") == ["wake", "step_ok", "completed"]


def test_a_delivery_at_the_last_moment_before_the_park_is_not_lost(
    bench: Bench,
) -> None:
    class Delivering(Points):
        def reach(self, point: Point, subject: str) -> None:
            if (point, subject) == ("before_commit", "park"):
                engine.resolve("order", "1", "n", 7)

    @workflow
    def order() -> WorkflowBody[int]:
        return (yield from Await("n", returns=int))

    engine = bench.engine(order)
    assert bench.engine(order, points=Delivering()).run(order, "1") == Completed(7)


def test_a_delivery_of_something_else_before_the_park_parks_all_the_same(
    bench: Bench,
) -> None:
    class Delivering(Points):
        def reach(self, point: Point, subject: str) -> None:
            if (point, subject) == ("before_commit", "park"):
                engine.resolve("order", "1", "other", 7)

    @workflow
    def order() -> WorkflowBody[int]:
        first = yield from Await("n", returns=int)
        return first + (yield from Await("other", returns=int))

    engine = bench.engine(order)
    running = bench.engine(order, points=Delivering())
    assert running.run(order, "1") == Suspended(("n",))
    engine.resolve(order, "1", "n", 1)
    assert engine.run(order, "1") == Completed(8)


def test_a_crash_is_not_counted_against_a_journal_that_has_moved(bench: Bench) -> None:
    """The body might not have crashed, had it seen the delivery."""
    delivered: list[bool] = []

    class Delivering(Points):
        def reach(self, point: Point, subject: str) -> None:
            if (point, subject) == ("before_commit", "crash"):
                delivered.append(engine.resolve("order", "1", "n", 7))

    def order_of() -> Workflow[[], int]:
        @workflow(name="order")
        def body() -> WorkflowBody[int]:
            if not delivered:
                raise RuntimeError("too early")
            return (yield from Await("n", returns=int))

        return body

    order = order_of()
    engine = bench.engine(order)
    engine.start(order, "1")
    summary = bench.engine(order, points=Delivering()).worker().run_once()
    assert (summary.completed, summary.paced) == (1, 0)
    assert kinds(engine, order, "1") == ["wake", "completed"]


def test_a_stale_run_offers_what_it_holds_instead_of_performing_it_again(
    bench: Bench,
) -> None:
    class Delivering(Points):
        def __init__(self) -> None:
            self.times = 0

        def reach(self, point: Point, subject: str) -> None:
            # The first append is that of the failure, on condition of the position.
            if (point, subject) == ("before_commit", "append") and self.times == 0:
                self.times += 1
                engine.resolve("order", "1", "note", "x")

    @workflow
    def order() -> WorkflowBody[str]:
        try:
            yield Step("charge", bench.fail, "charge", ValueError("declined"))
        except StepFailed:
            yield Step("refund", bench.do, "refund")
            raise
        return ""

    engine = bench.engine(order)
    ending = bench.engine(order, points=Delivering()).run(order, "1")
    assert isinstance(ending, Failed)
    assert bench.done == ["charge", "refund"]
    assert steps(engine, order, "1") == ["charge", "refund"]
