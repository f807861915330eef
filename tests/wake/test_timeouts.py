"""Waits that give up: awakeables, messages, children and waits of one's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    Engine,
    Failed,
    Suspended,
    WaitTimeout,
    WorkflowBody,
    awakeable,
    receive,
    spawn_child,
    workflow,
)
from workflow_engine.core.compounds import AllOf

from ..runtime.bench import Bench, Meanwhile, kinds
from ..wholeness import check_whole
from .flows import id_of, patient, tell_child, timers

MINUTE = timedelta(minutes=1)


@workflow
def twice(kind: str) -> WorkflowBody[list[str]]:
    """Waits for a minute, and then as long as it takes, for the same thing."""
    if kind == "awakeable":
        wait: Any = yield from awakeable("word", returns=str)
    elif kind == "message":
        wait = receive("word", returns=str)
    elif kind == "child":
        wait = yield from spawn_child(patient, "child")
    else:
        wait = Await("word", returns=str)
    try:
        return ["in time", (yield from wait.timeout(MINUTE))]
    except WaitTimeout:
        return ["late", (yield from wait)]


def deliver(bench: Bench, engine: Engine, kind: str) -> None:
    if kind == "awakeable":
        engine.signal(id_of(engine, twice), "now")
    elif kind == "message":
        engine.send(twice, "1", "word", "now")
    elif kind == "child":
        tell_child(bench, "now")
        engine.run(patient, "child")
    else:
        engine.resolve(twice, "1", "word", "now")


KINDS = pytest.mark.parametrize("kind", ["awakeable", "message", "child", "custom"])


@KINDS
def test_what_comes_in_time_is_taken(bench: Bench, kind: str) -> None:
    engine = bench.engine(twice, patient)
    engine.start(twice, "1", kind)
    worker = engine.worker()
    worker.drain()
    bench.clock.advance(59)
    worker.drain()
    deliver(bench, engine, kind)
    bench.clock.advance(2)
    worker.drain()
    assert engine.handle(twice, "1").result(0) == ["in time", "now"]
    assert [name for name, _ in timers(bench) if "timeout" in name] == []
    check_whole(bench.url)


@KINDS
def test_what_comes_too_late_answers_the_next_wait(bench: Bench, kind: str) -> None:
    engine = bench.engine(twice, patient)
    engine.start(twice, "1", kind)
    worker = engine.worker()
    worker.drain()
    bench.clock.advance(61)
    worker.drain()
    assert timers(bench) == []
    deliver(bench, engine, kind)
    worker.drain()
    assert engine.handle(twice, "1").result(0) == ["late", "now"]
    assert engine.run(twice, "1") == Completed(["late", "now"])
    check_whole(bench.url)


@KINDS
@pytest.mark.parametrize("late", [False, True])
def test_of_a_timeout_and_an_event_the_first_recorded_counts_for_ever(
    bench: Bench, kind: str, late: bool
) -> None:
    engine = bench.engine(twice, patient)
    engine.run(twice, "1", kind)
    if kind == "child":
        engine.run(patient, "child")
    acts: list[Callable[[], object]] = [
        lambda: deliver(bench, engine, kind),
        lambda: bench.engine().worker().run_once(),  # fires, and knows no workflow
    ]
    if late:
        acts.reverse()
    bench.clock.advance(61)
    for act in acts:
        act()
    expected = Completed(["late" if late else "in time", "now"])
    assert engine.run(twice, "1") == expected
    assert engine.run(twice, "1") == expected
    check_whole(bench.url)


@pytest.mark.parametrize("late", [False, True])
def test_of_two_runners_in_one_timed_wait_the_loser_stops(
    bench: Bench, late: bool
) -> None:
    """One is about to park when the other takes over and both events are recorded."""
    other = bench.engine(twice)

    def take_over() -> None:
        other.release_lease(twice, "1")
        bench.clock.advance(61)
        if not late:
            other.send(twice, "1", "word", "now")
        assert isinstance(other.run(twice, "1"), Completed | Suspended)
        if late:
            bench.clock.advance(61)
            other.run(twice, "1")
            other.send(twice, "1", "word", "now")
        other.run(twice, "1")

    first = bench.engine(twice, points=Meanwhile("before_commit", "park", take_over))
    first.start(twice, "1", "message")
    first.worker().run_once()
    expected = Completed(["late" if late else "in time", "now"])
    assert other.run(twice, "1") == expected
    assert kinds(other, twice, "1").count("completed") == 1


def test_no_time_at_all_is_over_at_once(bench: Bench) -> None:
    @workflow
    def hasty() -> WorkflowBody[str]:
        try:
            return (yield from receive("word", returns=str).timeout(0))
        except WaitTimeout as error:
            return error.wait

    engine = bench.engine(hasty)
    assert engine.run(hasty, "1") == Completed("message:word")
    engine.start(hasty, "2")
    engine.send(hasty, "2", "word", "there")
    assert engine.run(hasty, "2") == Completed("there")


def test_waits_share_a_deadline(bench: Bench) -> None:
    noon = datetime.fromtimestamp(bench.clock.instant() / 1e6, UTC) + MINUTE

    @workflow
    def sharing() -> WorkflowBody[list[str]]:
        def patiently(wait: Any) -> WorkflowBody[str]:
            try:
                return str((yield from wait.deadline(noon)))
            except WaitTimeout:
                return "nothing"

        waits = [receive("word"), receive("word"), Await("go")]
        return list((yield AllOf([patiently(wait) for wait in waits])))

    engine = bench.engine(sharing)
    engine.run(sharing, "1")
    engine.send(sharing, "1", "word", "one")
    engine.run(sharing, "1")
    assert len({due for _, due in timers(bench)}) == 1
    bench.clock.advance(61)
    assert engine.run(sharing, "1") == Completed(["one", "nothing", "nothing"])


def test_the_time_of_a_wait_does_not_move_when_the_run_starts_over(
    bench: Bench,
) -> None:
    engine = bench.engine(twice)
    engine.run(twice, "1", "custom")
    bench.clock.advance(30)
    engine.resolve(twice, "1", "something else", 1)
    engine.run(twice, "1")
    ((_, due),) = timers(bench)
    assert due == 30_000_000


def test_a_timeout_that_is_let_out_fails_and_a_resurrection_waits_again(
    bench: Bench,
) -> None:
    @workflow
    def strict() -> WorkflowBody[str]:
        return (yield from receive("word", returns=str).timeout(MINUTE))

    engine = bench.engine(strict)
    engine.run(strict, "1")
    bench.clock.advance(61)
    ending = engine.run(strict, "1")
    assert isinstance(ending, Failed)
    assert "message:word" in ending.reason
    engine.resurrect(strict, "1")
    assert isinstance(engine.run(strict, "1"), Suspended)
    assert [due for _, due in timers(bench)] == [60_000_000]
    engine.send(strict, "1", "word", "now")
    assert engine.run(strict, "1") == Completed("now")
    check_whole(bench.url)
