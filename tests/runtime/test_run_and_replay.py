"""Bodies run once, and are replayed without doing anything again."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Cancelled,
    Completed,
    CurrentGeneration,
    CurrentWorkflow,
    Failed,
    FreshOrdinal,
    Status,
    Step,
    Suspended,
    WorkflowBody,
    workflow,
)

from .bench import Bench, entries, kinds, steps


def test_each_step_is_recorded_once_and_performed_once(bench: Bench) -> None:
    @workflow
    def order(amount: int) -> WorkflowBody[int]:
        hold = yield from Step("reserve", bench.do, "reserve", amount)
        charge = yield from Step("charge", bench.do, "charge", hold + 1)
        return int(hold + charge)

    engine = bench.engine(order)
    assert engine.run(order, "1", 20) == Completed(41)
    assert bench.done == ["reserve", "charge"]
    assert entries(engine, order, "1") == [
        ("step_ok", "reserve"),
        ("step_ok", "charge"),
        ("completed", None),
    ]
    assert engine.run(order, "1", 20) == engine.run(order, "1") == Completed(41)
    assert bench.done == ["reserve", "charge"]


def test_a_completed_instance_answers_in_another_process(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        a: int = yield from Step("a", bench.do, "a", 7)
        return a

    bench.engine(order).run(order, "1")
    assert bench.engine(order).run(order, "1") == Completed(7)
    assert bench.done == ["a"]


def test_a_body_that_returns_before_its_first_yield_completes(bench: Bench) -> None:
    @workflow
    def trivial(value: int) -> WorkflowBody[int]:
        return value
        yield

    engine = bench.engine(trivial)
    assert engine.run(trivial, "1", 5) == Completed(5)
    assert kinds(engine, trivial, "1") == ["completed"]


def test_a_step_may_be_async(bench: Bench) -> None:
    async def fetch(value: int) -> int:
        return int(bench.do("fetch", value))

    @workflow
    def order() -> WorkflowBody[int]:
        a: int = yield from Step("fetch", fetch, 3)
        return a

    engine = bench.engine(order)
    assert engine.run(order, "1") == Completed(3)


def test_an_await_nobody_answered_parks_with_nothing_recorded(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[str]:
        return (yield from Await("approval", returns=str))

    engine = bench.engine(order)
    assert engine.run(order, "1") == Suspended(("approval",))
    assert engine.describe(order, "1").status == Status.SUSPENDED
    assert engine.journal(order, "1") == ()
    assert engine.resolve(order, "1", "approval", "yes")
    assert engine.run(order, "1") == Completed("yes")


def test_the_second_delivery_changes_nothing(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[str]:
        return (yield from Await("approval", returns=str))

    engine = bench.engine(order)
    engine.run(order, "1")
    assert engine.resolve(order, "1", "approval", "first")
    assert not engine.resolve(order, "1", "approval", "second")
    assert engine.run(order, "1") == Completed("first")
    assert not engine.resolve(order, "1", "approval", "third")


def test_a_delivery_before_the_wait_is_kept_for_it(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        return (yield from Await("n", returns=int))

    engine = bench.engine(order)
    engine.start(order, "1")
    assert engine.resolve(order, "1", "n", 4)
    assert engine.run(order, "1") == Completed(4)


def test_awaiting_one_name_twice_gives_the_same_value_twice(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[list[int]]:
        wait = Await("n", returns=int)
        first = yield from wait
        again = yield from wait
        return [first, again]

    engine = bench.engine(order)
    engine.run(order, "1")
    engine.resolve(order, "1", "n", 4)
    assert engine.run(order, "1") == Completed([4, 4])


def test_nothing_runs_after_a_cancelled_marker(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("a", bench.do, "a")

    engine = bench.engine(order)
    engine.start(order, "1")
    assert engine.cancel(order, "1")
    assert engine.run(order, "1") == Cancelled()
    assert bench.done == []


def test_nothing_runs_after_a_failed_marker(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("a", bench.do, "a")
        yield 5  # type: ignore[misc]

    engine = bench.engine(order)
    first = engine.run(order, "1")
    assert isinstance(first, Failed)
    assert engine.run(order, "1") == first
    assert bench.done == ["a"]


def test_after_a_crash_only_the_missing_work_is_done(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        a = yield from Step("a", bench.do, "a", 1)
        b = yield from Step("b", bench.do, "b", 2)
        c = yield from Step("c", bench.do, "c", 3)
        return int(a + b + c)

    bench.crash(order, "1", at="after_step", of="b")
    assert bench.done == ["a", "b"]
    engine = bench.engine(order)
    assert engine.run(order, "1") == Completed(6)
    # The effect of b had happened, but nothing said so: at least once.
    assert bench.done == ["a", "b", "b", "c"]
    assert steps(engine, order, "1") == ["a", "b", "c"]


@pytest.mark.parametrize("point", ["before_step", "after_step", "before_commit"])
def test_a_crash_before_the_commit_repeats_the_step(bench: Bench, point: Any) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        a: int = yield from Step("a", bench.do, "a", 1)
        return a

    bench.crash(order, "1", at=point)
    before = bench.calls("a")
    assert bench.engine(order).run(order, "1") == Completed(1)
    assert bench.calls("a") == before + 1


def test_a_crash_after_the_commit_repeats_nothing(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        a: int = yield from Step("a", bench.do, "a", 1)
        return a

    bench.crash(order, "1", at="after_commit", of="append")
    assert bench.engine(order).run(order, "1") == Completed(1)
    assert bench.done == ["a"]


@pytest.mark.parametrize("commit", ["park", "finish"])
def test_a_crash_after_a_commit_that_releases_leaves_it_done(
    bench: Bench, commit: str
) -> None:
    @workflow
    def order(waits: bool) -> WorkflowBody[int]:
        if waits:
            yield Await("n")
        return 1

    waits = commit == "park"
    bench.crash(order, "1", waits, at="after_commit", of=commit)
    engine = bench.engine(order)
    expected = Status.SUSPENDED if waits else Status.COMPLETED
    assert engine.describe(order, "1").status == expected
    assert engine.describe(order, "1").owner is None


def test_steps_may_change_their_order_between_runs(bench: Bench) -> None:
    def steps_in(names: str) -> WorkflowBody[dict[str, str]]:
        values = {}
        for name in names:
            values[name] = yield from Step(name, bench.do, name, name.upper())
        yield Await("go")
        return dict(sorted(values.items()))

    @workflow(name="order")
    def before() -> WorkflowBody[dict[str, str]]:
        return (yield from steps_in("abc"))

    @workflow(name="order")
    def after() -> WorkflowBody[dict[str, str]]:
        return (yield from steps_in("cadb"))

    assert bench.engine(before).run(before, "1") == Suspended(("go",))
    engine = bench.engine(after)
    engine.resolve(after, "1", "go", None)
    assert engine.run(after, "1") == Completed(dict(zip("abcd", "ABCD", strict=True)))
    assert bench.done == ["a", "b", "c", "d"]


def test_a_renamed_step_is_new_work_and_its_entry_stays(bench: Bench) -> None:
    @workflow(name="order")
    def before() -> WorkflowBody[None]:
        yield Step("old", bench.do, "old")
        yield Await("go")

    @workflow(name="order")
    def after() -> WorkflowBody[None]:
        yield Step("new", bench.do, "new")
        yield Await("go")

    bench.engine(before).run(before, "1")
    engine = bench.engine(after)
    engine.resolve(after, "1", "go", None)
    assert engine.run(after, "1") == Completed(None)
    assert bench.done == ["old", "new"]
    assert steps(engine, after, "1") == ["old", "new"]


def test_a_body_may_ask_who_it_is(bench: Bench) -> None:
    @workflow(name="order")
    def order() -> WorkflowBody[list[Any]]:
        name, id = yield from CurrentWorkflow()
        generation = yield from CurrentGeneration()
        ordinals = []
        for namespace in ["a", "b", "a"]:
            ordinals.append((yield from FreshOrdinal(namespace)))
        return [name, id, generation, *ordinals]

    engine = bench.engine(order)
    assert engine.run(order, "no-7") == Completed(["order", "no-7", 0, 0, 0, 1])
    assert kinds(engine, order, "no-7") == ["completed"]


def test_a_crash_inside_a_finally_leaves_the_step_recorded(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        try:
            yield Step("a", bench.do, "a")
        finally:
            yield Step("clean", bench.do, "clean")
        return 1

    bench.crash(order, "1", at="after_commit", of="finish")
    assert bench.engine(order).run(order, "1") == Completed(1)
    assert bench.done == ["a", "clean"]


def test_parking_performs_nothing_that_a_finally_yields(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @workflow
    def sleeper() -> WorkflowBody[None]:
        try:
            yield Await("due")
        finally:
            yield Step("clean", bench.do, "clean")

    engine = bench.engine(sleeper)
    with caplog.at_level(logging.WARNING, "workflow_engine"):
        assert engine.run(sleeper, "1") == Suspended(("due",))
    assert bench.done == []
    assert engine.journal(sleeper, "1") == ()
    (warning,) = caplog.records
    assert "'sleeper'" in warning.getMessage()
    assert "not performed" in warning.getMessage()

    engine.resolve(sleeper, "1", "due", None)
    assert engine.run(sleeper, "1") == Completed(None)
    assert bench.done == ["clean"]


def test_a_body_that_catches_everything_parks_all_the_same(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def stubborn() -> WorkflowBody[str]:
        while True:
            try:
                return str((yield from Await("due")))
            except BaseException:  # noqa: BLE001 - that is the point
                bench.do("caught")

    @workflow
    def sleeper() -> WorkflowBody[str]:
        return (yield from stubborn())

    engine = bench.engine(sleeper)
    assert engine.run(sleeper, "1") == Suspended(("due",))
    assert caplog.text.count("its body does not end") == 1
    engine.resolve(sleeper, "1", "due", "x")
    assert engine.run(sleeper, "1") == Completed("x")


def test_an_error_in_the_cleanup_of_a_parked_body_is_told_and_changes_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @workflow
    def sleeper() -> WorkflowBody[None]:
        try:
            yield Await("due")
        finally:
            raise RuntimeError("in cleanup")

    engine = bench.engine(sleeper)
    assert engine.run(sleeper, "1") == Suspended(("due",))
    assert "in cleanup" in caplog.text
    assert "'sleeper'" in caplog.text
    assert engine.describe(sleeper, "1").status == Status.SUSPENDED


def test_the_body_stops_when_its_run_is_over_not_at_garbage_collection(
    bench: Bench,
) -> None:
    @workflow
    def sleeper() -> WorkflowBody[None]:
        try:
            yield Await("due")
        finally:
            bench.do("left")

    engine = bench.engine(sleeper)
    engine.run(sleeper, "1")
    assert bench.done == ["left"]


def test_one_command_object_may_be_yielded_by_two_workflows(bench: Bench) -> None:
    step = Step("a", bench.do, "a", 1)

    @workflow
    def first() -> WorkflowBody[int]:
        return int((yield step))

    @workflow
    def second() -> WorkflowBody[int]:
        return int((yield step))

    engine = bench.engine(first, second)
    assert engine.run(first, "1") == engine.run(second, "1") == Completed(1)
    assert bench.done == ["a", "a"]


def test_helpers_may_be_nested_deeply(bench: Bench) -> None:
    def helper(depth: int) -> WorkflowBody[int]:
        if depth:
            return (yield from helper(depth - 1)) + 1
        return int((yield from Step("a", bench.do, "a", 0)))

    @workflow
    def deep() -> WorkflowBody[int]:
        return (yield from helper(300))

    assert bench.engine(deep).run(deep, "1") == Completed(300)
