"""Branches of one body, side by side: steps, waits, children, one in the other."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from workflow_engine import (
    AllOf,
    AnyOf,
    Await,
    CancelRequested,
    Completed,
    DuplicateStepName,
    MapFailed,
    Step,
    StepFailed,
    Suspended,
    WorkflowBody,
    awakeable,
    map_each,
    receive,
    sleep,
    workflow,
)
from workflow_engine.testing import Crashes, ProcessDied

from ..runtime.bench import LEASE, Bench, entries, steps, watched
from ..wholeness import check_whole
from .flows import id_of_only


def test_steps_of_branches_run_at_the_same_time(bench: Bench) -> None:
    together = threading.Barrier(3)

    def meet(name: str) -> str:
        together.wait(30)
        return name

    @workflow
    def fan_out() -> WorkflowBody[tuple[str, str, str]]:
        return (
            yield from AllOf(
                Step("a", meet, "a"), Step("b", meet, "b"), Step("c", meet, "c")
            )
        )

    engine = bench.engine(fan_out)
    assert engine.run(fan_out, "1") == Completed(("a", "b", "c"))
    assert sorted(filter(None, steps(engine, fan_out, "1"))) == ["a", "b", "c"]
    assert engine.run(fan_out, "1") == Completed(("a", "b", "c"))


def test_no_more_steps_are_in_flight_than_the_engine_allows(bench: Bench) -> None:
    lock, running, most = threading.Lock(), [0], [0]
    two = threading.Barrier(2)

    def work() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        two.wait(30)
        with lock:
            running[0] -= 1

    @workflow
    def fan_out() -> WorkflowBody[int]:
        done = yield from AllOf([Step(f"s{n}", work) for n in range(6)])
        return len(done)

    engine = bench.engine(fan_out, steps_in_flight=2)
    assert engine.run(fan_out, "1") == Completed(6)
    assert most == [2]


def test_what_comes_from_outside_is_noticed_while_a_step_runs(bench: Bench) -> None:
    go_on = threading.Event()
    other = bench.engine()

    def slow() -> bool:
        other.send("racing", "1", "word", "hello")
        return go_on.wait(30)

    @workflow
    def racing() -> WorkflowBody[list[Any]]:
        index, value = yield from AnyOf(Step("slow", slow), receive("word"))
        go_on.set()
        return [index, value]

    assert bench.engine(racing).run(racing, "1") == Completed([1, "hello"])


def test_a_timer_ends_while_a_step_runs(bench: Bench) -> None:
    go_on = threading.Event()

    def slow() -> bool:
        bench.clock.advance(30)
        return go_on.wait(30)

    @workflow
    def racing() -> WorkflowBody[int]:
        index, _ = yield from AnyOf(Step("slow", slow), sleep(30))
        go_on.set()
        return index

    assert bench.engine(racing).run(racing, "1") == Completed(1)


# --- errors ---------------------------------------------------------------------------


def broken(name: str) -> None:
    raise ValueError(name)


def test_the_first_error_cancels_the_others_which_clean_up(bench: Bench) -> None:
    @workflow
    def failing() -> WorkflowBody[str]:
        def other() -> WorkflowBody[None]:
            try:
                yield receive("never")
            except CancelRequested:
                yield Step("clean up", bench.do, "clean up")
                raise

        try:
            yield AllOf(Step("break", broken, "x"), other())
        except StepFailed as failure:
            return failure.message
        return "never"

    engine = bench.engine(failing)
    assert engine.run(failing, "1") == Completed("x")
    assert engine.run(failing, "1") == Completed("x")
    assert bench.calls("clean up") == 1


def test_all_errors_come_as_a_group_when_asked_for(bench: Bench) -> None:
    @workflow
    def failing() -> WorkflowBody[list[str]]:
        names = ("a", "b", "c")
        members: list[Any] = [Step(name, broken, name) for name in names]
        members[1] = Step("b", bench.do, "b")
        try:
            yield AllOf(members, all_errors=True)
        except ExceptionGroup as group:
            return [str(error.args[0]) for error in group.exceptions]
        return []

    engine = bench.engine(failing)
    expected = [f"step '{name}' failed: ValueError: {name}" for name in ("a", "c")]
    assert engine.run(failing, "1") == Completed(expected)
    assert engine.run(failing, "1") == Completed(expected)


# --- handles, names -------------------------------------------------------------------


def test_one_handle_in_two_compounds_gives_its_value_twice(bench: Bench) -> None:
    @workflow
    def twice() -> WorkflowBody[list[Any]]:
        asked = yield from awakeable("word", returns=str)
        index, _ = yield from AnyOf(asked, Await("go"))
        first, _ = yield from AllOf(asked, Await("on"))
        second, third = yield from AllOf(asked, asked)
        return [index, first, second, third]

    engine = bench.engine(twice)
    engine.run(twice, "1")
    engine.resolve(twice, "1", "go", None)
    engine.run(twice, "1")
    engine.signal(id_of_only(engine, twice), "hello")
    assert isinstance(engine.run(twice, "1"), Suspended)
    engine.resolve(twice, "1", "on", None)
    assert engine.run(twice, "1") == Completed([1, "hello", "hello", "hello"])


def test_one_step_name_in_two_branches_names_both_lines(bench: Bench) -> None:
    @workflow
    def clashing() -> WorkflowBody[str]:
        def branch(city: str) -> WorkflowBody[Any]:
            return (yield Step("fetch", bench.do, city))

        try:
            yield AllOf(branch("Oslo"), branch("Rome"))
        except DuplicateStepName as error:
            return str(error)
        return "never"

    ending = bench.engine(clashing).run(clashing, "1")
    assert isinstance(ending, Completed)
    assert ending.result.count("test_compounds.py:") == 2


def test_members_that_are_no_commands_are_refused(bench: Bench) -> None:
    @workflow
    def wrong() -> WorkflowBody[str]:
        try:
            yield AllOf(Step("a", bench.do, "a"), 5)  # type: ignore[call-overload]
        except TypeError as error:
            return str(error)
        return "never"

    ending = bench.engine(wrong).run(wrong, "1")
    assert isinstance(ending, Completed)
    assert "5 (int), which is not a command" in ending.result


# --- orders and crashes ---------------------------------------------------------------

WORDS = ("w1", "w2", "w3")


@workflow
def nested() -> WorkflowBody[list[Any]]:
    """All of three words, or half an hour."""
    words = AllOf([Await(word, returns=str) for word in WORDS])
    index, value = yield from AnyOf(words, sleep(2100))
    yield Step("after", str, index)
    return [index, value]


@pytest.mark.parametrize("order", [*itertools.permutations((*WORDS, "time"))])
def test_a_race_of_all_against_the_time_replays_in_every_order(
    sqlite_bench: Bench, order: tuple[str, ...]
) -> None:
    race_in(order, sqlite_bench)


@pytest.mark.parametrize("order", [("w3", "w1", "time", "w2"), ("w2", "w3", "w1")])
def test_a_race_of_all_against_the_time_replays_on_each_database(
    bench: Bench, order: tuple[str, ...]
) -> None:
    race_in((*order, "time")[:4], bench)


def race_in(order: tuple[str, ...], bench: Bench) -> None:
    """Let things happen in an order, with a death after each."""
    engine = bench.engine(nested)
    acts: dict[str, Callable[[], object]] = {
        word: lambda word=word: engine.resolve(nested, "1", word, word)  # type: ignore[misc]
        for word in WORDS
    }
    acts["time"] = lambda: bench.clock.advance(2100)
    engine.run(nested, "1")
    for event in order:
        acts[event]()
        points = Crashes().at("before_commit")
        dying = bench.engine(nested, points=points)
        if not engine.describe(nested, "1").status.is_ended:
            with pytest.raises(ProcessDied):
                dying.run(nested, "1")
            bench.clock.advance(LEASE)
        engine.run(nested, "1")
    # The leases of those who died take time, too; with the clock that may be enough.
    ending = engine.run(nested, "1")
    assert isinstance(ending, Completed)
    early = order.index("time") == 3
    assert ending.result[0] in ([0] if early else [0, 1])
    assert engine.run(nested, "1") == ending
    check_whole(bench.url)


# --- map_each -------------------------------------------------------------------------


def test_map_each_does_each_and_says_what_came(bench: Bench) -> None:
    def length(word: str) -> int:
        if word == "bad":
            raise ValueError(word)
        return len(word)

    @workflow
    def mapping() -> WorkflowBody[list[Any]]:
        words = ["a", "bad", "ccc"]
        result = yield from map_each("length", words, length, tolerate=1)
        return [result.succeeded, [*result.failed], list(result.skipped)]

    engine = bench.engine(mapping)
    expected = Completed([{"a": 1, "ccc": 3}, ["bad"], []])
    assert engine.run(mapping, "1") == expected
    assert engine.run(mapping, "1") == expected
    assert sorted(filter(None, steps(engine, mapping, "1"))) == [
        "length a",
        "length bad",
        "length ccc",
    ]


def test_map_each_stops_early_and_replays_the_same(bench: Bench) -> None:
    @workflow
    def mapping() -> WorkflowBody[list[Any]]:
        result = yield from map_each(
            "do", range(50), bench.do_number, max_in_flight=5, at_least=10
        )
        yield Step("after", bench.do, "after")
        return [sorted(result.succeeded), len(result.skipped)]

    engine = bench.engine(mapping)
    bench.crash(mapping, "1", at="after_step", of="after")
    first = engine.run(mapping, "1")
    assert isinstance(first, Completed)
    done, skipped = first.result
    assert len(done) + skipped == 50
    assert len(done) == 10
    assert engine.run(mapping, "1") == first
    check_whole(bench.url)


def test_map_each_fails_when_too_much_fails(bench: Bench) -> None:
    def fail(number: int) -> None:
        raise ValueError(f"no {number}")

    @workflow
    def mapping() -> WorkflowBody[list[Any]]:
        try:
            yield from map_each("f", range(9), fail, max_in_flight=1, tolerate=2)
        except MapFailed as failed:
            return [failed.failed, failed.skipped, str(failed.__cause__)]
        return []

    engine = bench.engine(mapping)
    expected = [3, 6, "step 'f 2' failed: ValueError: no 2"]
    assert engine.run(mapping, "1") == Completed(expected)
    assert engine.run(mapping, "1") == Completed(expected)


def test_the_work_may_be_a_part_of_the_body(bench: Bench) -> None:
    @workflow
    def mapping() -> WorkflowBody[list[int]]:
        def part(number: int) -> WorkflowBody[int]:
            once = yield from Step(f"once {number}", bench.do_number, number)
            return (yield from Step(f"twice {number}", bench.do_number, 2 * once))

        result = yield from map_each("parts", [1, 2, 3], part)
        return result.values

    assert bench.engine(mapping).run(mapping, "1") == Completed([2, 4, 6])


@pytest.mark.parametrize(
    "options", [{"max_in_flight": 0}, {"tolerate": -1}, {"at_least": 0}, {"key": str}]
)
def test_map_each_refuses_what_makes_no_sense(
    sqlite_bench: Bench, options: dict[str, Any]
) -> None:
    @workflow
    def mapping() -> WorkflowBody[str]:
        try:
            yield from map_each("m", ["a", "a"], len, **options)
        except ValueError as error:
            return str(error)
        return "never"

    ending = sqlite_bench.engine(mapping).run(mapping, "1")
    assert isinstance(ending, Completed)
    assert ending.result.startswith("map_each 'm': ")


def test_the_cost_of_a_fan_out_is_linear(bench: Bench) -> None:
    def work(number: int) -> int:
        return number

    @workflow
    def fan_out(size: int) -> WorkflowBody[int]:
        result = yield from map_each("w", range(size), work)
        return len(result.succeeded)

    engine = bench.engine(fan_out)
    counts = []
    for size in (50, 200):
        with watched() as statements:
            assert engine.run(fan_out, f"{size}", size) == Completed(size)
        counts.append(len(statements.seen) / size)
        assert statements.commits <= size + 10
    assert counts[1] <= counts[0] * 1.5
    assert len(entries(engine, fan_out, "200")) == 201
