"""Messages: sent by anybody at any time, taken once, in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import date

import attrs
import pytest

from workflow_engine import (
    Completed,
    ContinueAsNew,
    Failed,
    IllegalMove,
    InputConflict,
    InstanceNotFound,
    InvalidName,
    JournalEncodeError,
    Send,
    Status,
    Step,
    Suspended,
    WorkflowBody,
    receive,
    restore_seed,
    workflow,
)
from workflow_engine.core.compounds import AllOf
from workflow_engine.runtime.points import Point

from ..runtime.bench import Bench, Meanwhile, kinds
from ..wholeness import check_whole


@workflow
def collector(count: int) -> WorkflowBody[list[int]]:
    """Takes some messages."""
    taken = []
    for _ in range(count):
        taken.append((yield from receive("number", returns=int)))
    return taken


@workflow
def rotating(count: int) -> WorkflowBody[list[int]]:
    """Takes one message a generation."""
    taken = yield from restore_seed([0])
    taken = [*taken, (yield from receive("number", returns=int))]
    if len(taken) <= count:
        yield ContinueAsNew(taken)
    return taken[1:]


@workflow
def sender(id: str) -> WorkflowBody[bool]:
    """Sends to a collector."""
    return (yield from Send(collector, id, "number", 7))


ALL = (collector, rotating, sender)


def test_messages_are_kept_and_taken_in_the_order_they_were_sent(bench: Bench) -> None:
    engine = bench.engine(*ALL)
    engine.start(collector, "1", 3)
    for number in (5, 6, 7):
        assert engine.send(collector, "1", "number", number)
    assert engine.run(collector, "1") == Completed([5, 6, 7])
    assert engine.run(collector, "1") == Completed([5, 6, 7])


def test_a_parked_instance_is_woken(bench: Bench) -> None:
    engine = bench.engine(*ALL)
    engine.start(collector, "1", 1)
    worker = engine.worker()
    worker.drain()
    assert engine.describe(collector, "1").waits_on == ("message:number",)
    engine.send(collector, "1", "number", 5)
    worker.drain()
    assert engine.handle(collector, "1").result(0) == [5]
    check_whole(bench.url)


def test_a_value_is_carried_as_it_is(bench: Bench) -> None:
    @attrs.frozen
    class Order:
        day: date

    @workflow
    def ordering() -> WorkflowBody[str]:
        order = yield from receive("order", returns=Order)
        return order.day.isoformat()

    engine = bench.engine(ordering)
    engine.start(ordering, "1")
    engine.send(ordering, "1", "order", Order(date(2026, 1, 2)))
    assert engine.run(ordering, "1") == Completed("2026-01-02")


def test_a_key_counts_once_in_all_generations(bench: Bench) -> None:
    engine = bench.engine(*ALL)
    engine.start(rotating, "1", 2)
    assert engine.send(rotating, "1", "number", 5, key="a")
    assert not engine.send(rotating, "1", "number", 5, key="a")
    assert isinstance(engine.run(rotating, "1"), Suspended)
    assert engine.describe(rotating, "1").generation == 1
    assert not engine.send(rotating, "1", "number", 5, key="a")
    assert engine.send(rotating, "1", "number", 6, key="b")
    assert engine.run(rotating, "1") == Completed([5, 6])


def test_what_no_generation_took_moves_along_in_order(bench: Bench) -> None:
    engine = bench.engine(*ALL)
    engine.start(rotating, "1", 3)
    for number in (5, 6, 7):
        engine.send(rotating, "1", "number", number)
    assert engine.run(rotating, "1") == Completed([5, 6, 7])
    check_whole(bench.url)


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_a_message_sent_around_a_rotation_is_not_lost(
    bench: Bench, point: Point
) -> None:
    other = bench.engine(*ALL)
    send = Meanwhile(
        point, "rotate", lambda: other.send(rotating, "1", "number", 6, "k")
    )
    engine = bench.engine(*ALL, points=send)
    engine.start(rotating, "1", 2)
    engine.send(rotating, "1", "number", 5)
    assert engine.run(rotating, "1") == Completed([5, 6])
    assert send.acted == 1


def test_constant_sending_does_not_prevent_a_rotation(bench: Bench) -> None:
    other, sent = bench.engine(*ALL), iter(range(100))

    class Constantly(Meanwhile):
        def reach(self, point: Point, subject: str) -> None:
            if point == "before_commit":
                other.send(rotating, "1", "number", next(sent))

    engine = bench.engine(*ALL, points=Constantly("before_commit", "", print))
    engine.start(rotating, "1", 9)
    engine.send(rotating, "1", "number", next(sent))
    assert engine.run(rotating, "1") == Completed(list(range(9)))


def test_a_message_that_comes_before_the_park_is_delivered_by_the_same_run(
    bench: Bench,
) -> None:
    other = bench.engine(*ALL)
    send = Meanwhile(
        "before_commit", "park", lambda: other.send(collector, "1", "number", 6)
    )
    engine = bench.engine(*ALL, points=send)
    assert engine.run(collector, "1", 1) == Completed([6])


def test_fifty_senders_at_once_are_all_heard_in_one_order(bench: Bench) -> None:
    engine = bench.engine(*ALL)
    engine.start(collector, "1", 50)
    threads = [
        threading.Thread(target=engine.send, args=(collector, "1", "number", number))
        for number in range(50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ending = engine.run(collector, "1")
    assert isinstance(ending, Completed)
    assert sorted(ending.result) == list(range(50))
    recorded = [entry.value for entry in engine.journal(collector, "1")[:-1]]
    assert ending.result == recorded


def test_each_message_goes_to_one_of_several_waits(bench: Bench) -> None:
    @workflow
    def crowd() -> WorkflowBody[list[int]]:
        return list((yield AllOf([receive("number") for _ in range(3)])))

    engine = bench.engine(crowd)
    engine.run(crowd, "1")
    for number in (5, 6, 7):
        engine.send(crowd, "1", "number", number)
    assert engine.run(crowd, "1") == Completed([5, 6, 7])


# --- ended instances ------------------------------------------------------------------


def test_an_instance_that_has_failed_is_owed_what_it_was_sent(bench: Bench) -> None:
    broken = [True]

    def check() -> None:
        if broken[0]:
            raise OSError("broken")

    @workflow
    def fragile() -> WorkflowBody[list[int]]:
        first = yield from receive("number", returns=int)
        yield Step("check", check)
        return [first, (yield from receive("number", returns=int))]

    engine = bench.engine(fragile)
    engine.start(fragile, "1")
    engine.send(fragile, "1", "number", 5)
    engine.worker(max_attempts=1).run_once()
    assert engine.describe(fragile, "1").status == Status.FAILED
    assert engine.send(fragile, "1", "number", 6, key="k")
    assert not engine.send(fragile, "1", "number", 6, key="k")
    assert engine.send(fragile, "1", "number", 7)
    broken[0] = False
    engine.resurrect(fragile, "1")
    assert not engine.send(fragile, "1", "number", 6, key="k")
    assert engine.run(fragile, "1") == Completed([5, 6])
    check_whole(bench.url)


def test_an_instance_that_has_completed_takes_nothing(bench: Bench) -> None:
    engine = bench.engine(*ALL)
    assert engine.run(collector, "1", 0) == Completed([])
    assert not engine.send(collector, "1", "number", 5)
    assert kinds(engine, collector, "1") == ["completed"]


def test_nobody_there_is_an_error(bench: Bench) -> None:
    with pytest.raises(InstanceNotFound):
        bench.engine(*ALL).send(collector, "1", "number", 5)


# --- bad messages ---------------------------------------------------------------------


def test_what_cannot_be_recorded_is_refused_at_the_sender(bench: Bench) -> None:
    engine = bench.engine(*ALL)
    engine.start(collector, "1", 1)
    with pytest.raises(JournalEncodeError, match="'number'"):
        engine.send(collector, "1", "number", float("nan"))
    for topic, key in (("", None), ("a", "\n")):
        with pytest.raises(InvalidName):
            engine.send(collector, "1", topic, 1, key)
    assert engine.journal(collector, "1") == ()


def test_a_message_that_does_not_fit_blocks_until_it_is_discarded(bench: Bench) -> None:
    engine = bench.engine(*ALL)
    engine.start(collector, "1", 1)
    engine.send(collector, "1", "number", "five")
    engine.send(collector, "1", "number", 6)
    worker = engine.worker()
    assert worker.run_once().blocked == 1
    described = engine.describe(collector, "1")
    assert described.status == Status.BLOCKED
    assert "message:number:" in str(described.reason)
    engine.discard(collector, "1", 1)
    engine.resurrect(collector, "1")
    worker.drain()
    assert engine.handle(collector, "1").result(0) == [6]


# --- starting with a message ----------------------------------------------------------


def test_send_with_start_starts_once_and_sends_each_time(bench: Bench) -> None:
    engine = bench.engine(*ALL)
    for number in (5, 6):
        handle = engine.send_with_start(collector, "1", "number", number, 2)
        assert handle.id == "1"
    engine.send_with_start(collector, "1", "number", 6, 2, key="k")
    engine.send_with_start(collector, "1", "number", 6, key="k")
    assert engine.run(collector, "1") == Completed([5, 6])


def test_send_with_start_sends_nothing_with_other_arguments(bench: Bench) -> None:
    engine = bench.engine(*ALL)
    engine.start(collector, "1", 2)
    with pytest.raises(InputConflict):
        engine.send_with_start(collector, "1", "number", 5, 3)
    assert engine.journal(collector, "1") == ()


def test_send_with_start_says_that_nobody_will_take_it(bench: Bench) -> None:
    engine = bench.engine(*ALL)
    engine.send_with_start(collector, "1", "number", 5, 1, key="k")
    engine.run(collector, "1")
    engine.send_with_start(collector, "1", "number", 5, 1, key="k")
    with pytest.raises(IllegalMove, match="no messages"):
        engine.send_with_start(collector, "1", "number", 5, 1)


def test_many_that_start_and_send_at_once_start_one_and_lose_nothing(
    bench: Bench,
) -> None:
    engine = bench.engine(*ALL)

    def send(number: int) -> None:
        engine.send_with_start(collector, "1", "number", number, 20)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ending = engine.run(collector, "1")
    assert isinstance(ending, Completed)
    assert sorted(ending.result) == list(range(20))


# --- from a body ----------------------------------------------------------------------


@pytest.mark.parametrize("receiver_first", [True, False])
@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_a_body_sends_exactly_once_wherever_it_dies(
    bench: Bench, point: Point, receiver_first: bool
) -> None:
    engine = bench.engine(*ALL)
    starts: list[Callable[[], object]] = [
        lambda: engine.start(collector, "c", 2),
        lambda: engine.start(sender, "s", "c"),
    ]
    for start in starts if receiver_first else reversed(starts):
        start()
    bench.crash(sender, "s", at=point, of="append")
    assert engine.run(sender, "s") == Completed(True)
    assert engine.run(sender, "s") == Completed(True)
    assert isinstance(engine.run(collector, "c"), Suspended)
    assert engine.send(collector, "c", "number", 8)
    assert engine.run(collector, "c") == Completed([7, 8])
    check_whole(bench.url)


def test_sending_to_nobody_is_thrown_into_the_body_and_recorded(bench: Bench) -> None:
    @workflow
    def careful() -> WorkflowBody[str]:
        try:
            yield from Send(collector, "c", "number", 7)
        except InstanceNotFound as error:
            yield from Send("careful", "1", "note", str(error))
        return (yield from receive("note", returns=str))

    engine = bench.engine(careful, collector)
    ending = engine.run(careful, "1")
    assert ending == Completed("workflow 'collector' has no instance 'c'")
    engine.start(collector, "c", 1)
    assert engine.run(careful, "1") == ending


def test_sending_to_nobody_fails_at_once_when_let_out(bench: Bench) -> None:
    engine = bench.engine(*ALL)
    ending = engine.run(sender, "1", "nobody")
    assert isinstance(ending, Failed)
    assert "no instance 'nobody'" in ending.reason


def test_a_body_is_told_that_its_message_changed_nothing(bench: Bench) -> None:
    @workflow
    def repeating() -> WorkflowBody[list[bool]]:
        first = yield from Send(collector, "c", "number", 5, key="k")
        second = yield from Send(collector, "c", "number", 5, key="k")
        third = yield from Send("collector", "done", "number", 5)
        return [first, second, third]

    engine = bench.engine(repeating, collector)
    engine.start(collector, "c", 1)
    engine.run(collector, "done", 0)
    assert engine.run(repeating, "1") == Completed([True, False, False])


def test_two_that_send_to_each_other_do_not_stand_in_each_others_way(
    bench: Bench,
) -> None:
    @workflow
    def talkative(other: str) -> WorkflowBody[int]:
        for number in range(10):
            yield Send("talkative", other, "word", number, name=f"word {number}")
        total = 0
        for _ in range(10):
            total += yield from receive("word", returns=int)
        return total

    engine = bench.engine(talkative)
    for id, other in (("a", "b"), ("b", "a")):
        engine.start(talkative, id, other)
    engine.worker(concurrency=2).drain()
    assert [engine.handle(talkative, id).result(0) for id in ("a", "b")] == [45, 45]
    check_whole(bench.url)
