"""Cancel with cleanup: asked for on the row, told to the body, which ends by itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Cancelled,
    CancelRequested,
    Completed,
    ContinueAsNew,
    Failed,
    InstanceNotFound,
    Status,
    Step,
    Suspended,
    Workflow,
    WorkflowBody,
    WorkflowCancelled,
    awakeable,
    receive,
    restore_seed,
    sleep,
    spawn_child,
    workflow,
)
from workflow_engine.core.compounds import AllOf
from workflow_engine.core.identity import CANCEL_REQUESTED
from workflow_engine.runtime.points import Point, Points

from ..runtime.bench import Bench, Meanwhile, entries, kinds
from ..wholeness import check_whole
from .flows import patient, tell_child

DELIVERED = ("cancel", CANCEL_REQUESTED)


def booking(
    bench: Bench, wait: Callable[[], WorkflowBody[Any]] | None = None
) -> Workflow[[], None]:
    """Books, waits, and gives back what it booked when it is called off."""

    @workflow
    def booking() -> WorkflowBody[None]:
        yield Step("book", bench.do, "book")
        try:
            if wait is None:
                yield Await("go")
            else:
                yield from wait()
        except CancelRequested:
            yield Step("give back", bench.do, "give back")
            yield Step("tell", bench.do, "tell")
            raise
        yield Step("ship", bench.do, "ship")

    return booking


def nap() -> WorkflowBody[None]:
    yield sleep(60, name="nap")


def question() -> WorkflowBody[None]:
    yield from (yield from awakeable("word"))


def offspring() -> WorkflowBody[None]:
    yield from (yield from spawn_child(patient, "child"))


def message() -> WorkflowBody[None]:
    yield from receive("news")


def limited() -> WorkflowBody[None]:
    yield from Await("go").timeout(60)


@pytest.mark.parametrize("wait", [None, nap, question, offspring, message, limited])
def test_a_body_that_waits_is_told_where_it_stands_and_cleans_up(
    bench: Bench, wait: Callable[[], WorkflowBody[Any]] | None
) -> None:
    book = booking(bench, wait)
    engine = bench.engine(book)
    engine.run(book, "1")
    assert engine.cancel(book, "1", cleanup=True)
    seen = engine.describe(book, "1")
    assert (seen.status, seen.cancel_requested) == (Status.SUSPENDED, True)
    assert engine.worker().run_once().resumed == 1
    assert bench.done == ["book", "give back", "tell"]
    assert entries(engine, book, "1")[-4:] == [
        DELIVERED,
        ("step_ok", "give back"),
        ("step_ok", "tell"),
        ("cancelled", None),
    ]
    assert engine.run(book, "1") == Cancelled()
    with pytest.raises(WorkflowCancelled):
        engine.handle(book, "1").result()
    check_whole(bench.url)


def test_it_answers_whether_the_instance_ends_so(bench: Bench) -> None:
    book = booking(bench)
    engine = bench.engine(book)
    with pytest.raises(InstanceNotFound):
        engine.cancel(book, "nobody", cleanup=True)
    engine.run(book, "1")
    before = engine.cancel(book, "1", cleanup=True), engine.describe(book, "1")
    bench.clock.advance(1)
    assert (
        engine.cancel(book, "1", cleanup=True),
        engine.describe(book, "1"),
    ) == before
    engine.run(book, "1")
    assert engine.cancel(book, "1", cleanup=True)  # it is cancelled
    engine.run(book, "2")
    engine.resolve(book, "2", "go", None)
    assert engine.run(book, "2") == Completed(None)
    assert not engine.cancel(book, "2", cleanup=True)
    assert not engine.describe(book, "2").cancel_requested


def test_plain_cancel_still_ends_it_after_a_request(bench: Bench) -> None:
    book = booking(bench)
    engine = bench.engine(book)
    engine.run(book, "1")
    engine.cancel(book, "1", cleanup=True)
    assert engine.cancel(book, "1")
    assert engine.run(book, "1") == Cancelled()
    assert bench.done == ["book"]
    assert DELIVERED not in entries(engine, book, "1")


# --- a run in progress ----------------------------------------------------------------


def test_a_step_in_flight_is_recorded_and_no_other_is_begun(bench: Bench) -> None:
    def call_off() -> None:
        bench.do("long")
        assert bench.engine().cancel("parallel", "1", cleanup=True)

    @workflow
    def parallel() -> WorkflowBody[None]:
        steps = [Step("long", call_off), Step("other", bench.do, "other")]
        try:
            yield AllOf(steps)
        except CancelRequested:
            yield Step("undo", bench.do, "undo")

    engine = bench.engine(parallel, steps_in_flight=1)
    assert engine.run(parallel, "1") == Cancelled()
    assert bench.done == ["long", "undo"]
    assert entries(engine, parallel, "1") == [
        ("step_ok", "long"),
        DELIVERED,
        ("step_ok", "undo"),
        ("cancelled", None),
    ]


def test_a_body_that_returns_before_it_is_told_is_completed(bench: Bench) -> None:
    @workflow
    def quick() -> WorkflowBody[str]:
        yield Step("call off", lambda: bench.engine().cancel(quick, "1", cleanup=True))
        return "done"

    engine = bench.engine(quick)
    assert engine.run(quick, "1") == Completed("done")


@pytest.mark.parametrize("wait", [None, nap])
@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_a_request_around_a_park_is_not_lost(
    bench: Bench, wait: Callable[[], WorkflowBody[Any]] | None, point: Point
) -> None:
    book = booking(bench, wait)
    elsewhere = bench.engine(book)
    points = Meanwhile(point, "park", lambda: elsewhere.cancel(book, "1", cleanup=True))
    ending = bench.engine(book, points=points).run(book, "1")
    assert points.acted == 1
    if point == "before_commit":
        assert ending == Cancelled()
    else:
        assert isinstance(ending, Suspended)
        assert elsewhere.worker().run_once().resumed == 1
    assert elsewhere.describe(book, "1").status == Status.CANCELLED
    assert bench.done == ["book", "give back", "tell"]


def test_a_result_and_a_request_are_delivered_in_the_order_of_their_positions(
    bench: Bench,
) -> None:
    """The result was recorded; the request is delivered at the next wait."""

    @workflow
    def two() -> WorkflowBody[None]:
        bench.do("first", (yield Await("first")))
        try:
            yield Await("second")
        except CancelRequested:
            bench.do("told")
            raise

    engine = bench.engine(two)
    engine.run(two, "1")
    assert engine.cancel(two, "1", cleanup=True)
    assert engine.resolve(two, "1", "first", 1)
    assert engine.run(two, "1") == Cancelled()
    assert bench.done == ["first", "told"]
    assert kinds(engine, two, "1") == ["wake", "cancel", "cancelled"]


def test_a_result_that_comes_while_the_request_is_recorded_is_delivered_first(
    bench: Bench,
) -> None:
    book = booking(bench)
    elsewhere = bench.engine(book)
    elsewhere.run(book, "1")
    elsewhere.cancel(book, "1", cleanup=True)
    points = Meanwhile(
        "before_commit", "append", lambda: elsewhere.resolve(book, "1", "go", None)
    )
    assert bench.engine(book, points=points).run(book, "1") == Cancelled()
    assert points.acted == 1
    # It went on past the wait; `ship` was not begun, and nothing caught the request.
    assert bench.done == ["book"]
    assert kinds(elsewhere, book, "1") == ["step_ok", "wake", "cancel", "cancelled"]


def test_constant_news_does_not_keep_a_request_from_being_delivered(
    bench: Bench,
) -> None:
    """A message comes between every look at the journal and the request's entry."""

    @workflow
    def listening() -> WorkflowBody[None]:
        while True:
            bench.do((yield from receive("news", returns=str)))

    engine = bench.engine(listening)
    engine.run(listening, "1")
    engine.cancel(listening, "1", cleanup=True)

    class Constantly(Points):
        def reach(self, point: Point, subject: str) -> None:
            if (point, subject) == ("before_commit", "append"):
                engine.send(listening, "1", "news", "again")
                assert len(bench.done) < 5

    assert (
        bench.engine(listening, points=Constantly()).run(listening, "1") == Cancelled()
    )
    assert set(bench.done) == {"again"}


# --- bodies that do not do as they are asked ------------------------------------------


def test_a_body_that_swallows_the_request_fails(bench: Bench) -> None:
    @workflow
    def stubborn() -> WorkflowBody[None]:
        while True:
            with suppress(CancelRequested):
                yield Await("never")

    engine = bench.engine(stubborn)
    engine.run(stubborn, "1")
    engine.cancel(stubborn, "1", cleanup=True)
    assert engine.worker().run_once().failed == 1
    assert "ignored cancellation" in (engine.describe(stubborn, "1").reason or "")


def test_a_body_that_returns_instead_of_raising_is_cancelled(bench: Bench) -> None:
    @workflow
    def polite() -> WorkflowBody[str]:
        try:
            return (yield from Await("never", returns=str))
        except CancelRequested:
            return "thanks"

    engine = bench.engine(polite)
    engine.run(polite, "1")
    engine.cancel(polite, "1", cleanup=True)
    assert engine.run(polite, "1") == Cancelled()


def test_a_request_outlives_a_rotation_and_a_delivered_one_forbids_it(
    bench: Bench,
) -> None:
    @workflow
    def lives() -> WorkflowBody[None]:
        life = yield from restore_seed(0)
        if life == 0:
            yield Step(
                "call off", lambda: bench.engine().cancel(lives, "1", cleanup=True)
            )
            yield ContinueAsNew(1)
        try:
            yield Await("never")
        except CancelRequested:
            bench.do(f"told in {life}")
            if "stay" in bench.done:
                raise
            yield ContinueAsNew(2)

    engine = bench.engine(lives)
    ending = engine.run(lives, "1")
    assert isinstance(ending, Failed)
    assert "after its cancellation" in ending.reason
    assert bench.done == ["told in 1"]
    bench.do("stay")
    # The request was delivered, so it stands.
    engine.resurrect(lives, "1")
    assert engine.run(lives, "1") == Cancelled()


# --- instances that nobody runs -------------------------------------------------------


def test_one_that_has_not_begun_is_not_delayed_any_more(bench: Bench) -> None:
    book = booking(bench)
    engine = bench.engine(book)
    engine.starting(delay=1000).start(book, "1")
    engine.cancel(book, "1", cleanup=True)
    assert engine.worker().run_once().resumed == 1
    assert engine.describe(book, "1").status == Status.CANCELLED
    assert bench.done == []


def test_one_that_crashed_does_not_wait_for_its_next_attempt(bench: Bench) -> None:
    @workflow
    def broken() -> WorkflowBody[None]:
        yield Step("a", bench.do, "a")
        yield Step("b", bench.fail, "b", ValueError("x"))

    engine = bench.engine(broken)
    engine.start(broken, "1")
    worker = engine.worker()
    assert worker.run_once().paced == 1
    engine.cancel(broken, "1", cleanup=True)
    assert worker.run_once().resumed == 1
    assert engine.describe(broken, "1").status == Status.CANCELLED
    assert bench.done == ["a", "b"]


def test_a_blocked_one_is_told_when_code_can_read_it(bench: Bench) -> None:
    book = booking(bench)
    engine = bench.engine(book)
    engine.run(book, "1")
    engine.resolve(book, "1", "go", None)
    bench.execute("UPDATE wf_journal SET kind = 'strange' WHERE kind = 'wake'")
    worker = engine.worker()
    assert worker.run_once().blocked == 1
    before = engine.describe(book, "1")
    assert engine.cancel(book, "1", cleanup=True)
    after = engine.describe(book, "1")
    assert (after.status, after.cancel_requested) == (Status.BLOCKED, True)
    assert after.next_attempt_at == before.next_attempt_at
    assert worker.run_once().discovered == 0
    bench.execute("UPDATE wf_journal SET kind = 'wake' WHERE kind = 'strange'")
    bench.clock.advance(31)
    assert worker.run_once().resumed == 1
    assert engine.describe(book, "1").status == Status.CANCELLED
    check_whole(bench.url)


def test_one_whose_process_died_is_told_by_whoever_takes_it_over(bench: Bench) -> None:
    book = booking(bench)
    bench.crash(book, "1", at="before_commit", of="park")
    engine = bench.engine(book)
    engine.cancel(book, "1", cleanup=True)
    assert engine.worker().run_once().resumed == 1
    assert bench.done == ["book", "give back", "tell"]
    assert engine.describe(book, "1").status == Status.CANCELLED


# --- who else is concerned ------------------------------------------------------------


def test_a_waiting_parent_is_told_when_the_child_has_cleaned_up(bench: Bench) -> None:
    book = booking(bench)

    @workflow
    def parent() -> WorkflowBody[None]:
        yield from (yield from spawn_child(book, "1"))

    engine = bench.engine(book, parent)
    engine.run(parent, "1")
    engine.run(book, "1")
    engine.cancel(book, "1", cleanup=True)
    assert engine.worker(max_attempts=1).drain().failed == 1
    assert "child" in (engine.describe(parent, "1").reason or "")
    assert engine.describe(book, "1").status == Status.CANCELLED


def test_the_child_of_one_that_is_called_off_goes_on(bench: Bench) -> None:
    book = booking(bench, offspring)
    engine = bench.engine(book, patient)
    engine.run(book, "1")
    engine.worker().drain()
    engine.cancel(book, "1", cleanup=True)
    engine.worker().drain()
    tell_child(bench, "hello")
    engine.worker().drain()
    assert engine.describe(book, "1").status == Status.CANCELLED
    assert engine.handle(patient, "child").result() == "hello"


# --- deaths and rivals ----------------------------------------------------------------


@pytest.mark.parametrize("number", range(8))
def test_wherever_a_process_dies_the_cleanup_is_done_and_recorded_once(
    bench: Bench, number: int
) -> None:
    """Its commits: the request's delivery, two steps, and the end."""
    book = booking(bench)
    engine = bench.engine(book)
    engine.run(book, "1")
    engine.cancel(book, "1", cleanup=True)
    points: list[Point] = ["before_commit", "after_commit"]
    of = ["append", "append", "append", "finish"][number // 2]
    nth = number // 2 + 1 if of == "append" else 1
    bench.crash(book, "1", at=points[number % 2], of=of, nth=nth)
    check_whole(bench.url)
    engine.worker().drain()
    assert engine.describe(book, "1").status == Status.CANCELLED
    assert kinds(engine, book, "1") == [
        *("step_ok", "cancel", "step_ok", "step_ok", "cancelled")
    ]
    again = {2: ["give back"], 4: ["tell"]}.get(number, [])
    assert sorted(bench.done) == sorted(["book", "give back", "tell", *again])
    check_whole(bench.url)


@pytest.mark.parametrize(
    ("point", "subject", "again"),
    [("before_commit", "append", []), ("after_step", "give back", ["give back"])],
)
def test_of_two_that_clean_up_the_one_that_lost_its_lease_records_nothing(
    bench: Bench, point: Point, subject: str, again: list[str]
) -> None:
    book = booking(bench)
    other = bench.engine(book)
    other.run(book, "1")
    other.cancel(book, "1", cleanup=True)

    def overtake() -> None:
        assert other.release_lease(book, "1")
        assert other.run(book, "1") == Cancelled()

    points = Meanwhile(point, subject, overtake)
    assert bench.engine(book, points=points).run(book, "1") == Cancelled()
    assert sorted(bench.done) == sorted(["book", "give back", "tell", *again])
    assert kinds(other, book, "1") == [
        *("step_ok", "cancel", "step_ok", "step_ok", "cancelled")
    ]
