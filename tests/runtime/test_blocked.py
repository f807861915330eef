"""Entries that this code cannot read block an instance; they never reach its body."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Cancelled,
    Completed,
    EntryNotFound,
    IllegalMove,
    InstanceNotFound,
    JournalDecodeError,
    PassSummary,
    Status,
    Step,
    StepDecodeError,
    StepFailed,
    Suspended,
    Workflow,
    WorkflowBody,
    workflow,
)

from .bench import Bench, kinds


def order_of(bench: Bench, type_: Any, step: str = "a") -> Workflow[[], Any]:
    """A workflow that reads its step's result as a type."""

    @workflow(name="order")
    def body() -> WorkflowBody[Any]:
        try:
            value = yield Step(step, bench.do, step, "seven").returns(type_)
            yield Await("go")
        except StepFailed:
            bench.do("caught")
            raise
        return value

    return body


def blocked(bench: Bench) -> Workflow[[], Any]:
    """Record a text, and deploy code that takes it for a number."""
    before, after = order_of(bench, str), order_of(bench, int)
    engine = bench.engine(before)
    engine.run(before, "1")
    engine.resolve(before, "1", "go", None)
    return after


def test_a_value_that_no_longer_fits_blocks_and_says_what_and_where(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    after = blocked(bench)
    engine = bench.engine(after)
    with caplog.at_level(logging.ERROR, "workflow_engine"):
        summary = engine.worker().run_once()
    assert (summary.blocked, summary.advanced, summary.paced) == (1, 0, 0)
    seen = engine.describe(after, "1")
    assert (seen.status, seen.attempts, seen.owner) == (Status.BLOCKED, 0, None)
    for told in (seen.reason or "", caplog.text):
        assert "workflow 'order', step 'a'" in told
        assert "at $ as int" in told
        assert "'seven'" in told or "found str" in told
    assert "caught" not in bench.done
    assert kinds(engine, after, "1") == ["step_ok", "wake"]


def test_a_direct_run_raises_what_blocks_it(bench: Bench) -> None:
    after = blocked(bench)
    with pytest.raises(StepDecodeError, match=r"step 'a'.* as int") as error:
        bench.engine(after).run(after, "1")
    assert (error.value.step, error.value.path) == ("a", "$")
    assert bench.engine(after).describe(after, "1").status == Status.BLOCKED


def test_code_that_can_read_it_resumes_it(bench: Bench) -> None:
    after = blocked(bench)
    bench.engine(after).worker().run_once()
    fixed = order_of(bench, str)
    engine = bench.engine(fixed)
    assert engine.worker().run_once() == PassSummary()
    bench.clock.advance(30)
    assert engine.worker().run_once().completed == 1
    assert engine.handle(fixed, "1").result() == "seven"
    assert bench.done == ["a"]


def test_a_blocked_instance_is_looked_at_now_and_then(bench: Bench) -> None:
    after = blocked(bench)
    engine = bench.engine(after)
    worker = engine.worker(max_attempts=1)
    for _ in range(3):
        assert worker.run_once().blocked == 1
        seen = engine.describe(after, "1")
        assert seen.next_attempt_at == bench.clock.now + timedelta(seconds=30)
        bench.clock.advance(29)
        assert worker.run_once().discovered == 0
        bench.clock.advance(1)


def test_a_wake_does_not_hurry_a_blocked_instance(bench: Bench) -> None:
    after = blocked(bench)
    engine = bench.engine(after)
    worker = engine.worker()
    worker.run_once()
    assert engine.resolve(after, "1", "another", 1)
    assert worker.run_once().discovered == 0
    assert engine.describe(after, "1").status == Status.BLOCKED


def test_a_blocked_instance_can_be_cancelled(bench: Bench) -> None:
    after = blocked(bench)
    engine = bench.engine(after)
    engine.worker().run_once()
    assert engine.cancel(after, "1")
    assert engine.run(after, "1") == Cancelled()


def test_a_blocked_instance_can_be_resurrected_at_once(bench: Bench) -> None:
    after = blocked(bench)
    bench.engine(after).worker().run_once()
    fixed = order_of(bench, str)
    engine = bench.engine(fixed)
    engine.resurrect(fixed, "1")
    assert engine.describe(fixed, "1").status == Status.RUNNING
    assert engine.worker().run_once().completed == 1
    assert bench.calls("a") == 1


def test_work_in_hand_is_recorded_before_the_instance_blocks(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        yield Step("a", bench.do, "a")
        return (yield from Await("n", returns=int))

    engine = bench.engine(order)
    engine.start(order, "1")
    engine.resolve(order, "1", "n", "no number")
    assert engine.worker().run_once().blocked == 1
    assert kinds(engine, order, "1") == ["wake", "step_ok"]
    assert bench.done == ["a"]


def test_what_nobody_asks_for_blocks_nobody(bench: Bench) -> None:
    before = order_of(bench, str)
    engine = bench.engine(before)
    engine.run(before, "1")
    engine.resolve(before, "1", "go", None)
    bench.overwrite("a", "{this is no JSON")
    renamed = order_of(bench, str, step="b")
    assert bench.engine(renamed).run(renamed, "1") == Completed("seven")


@pytest.mark.parametrize("payload", ["{this is no JSON", '{"a": NaN}', "[1, 2"])
def test_a_damaged_payload_blocks_and_is_not_thrown_into_the_body(
    sqlite_bench: Bench, payload: str
) -> None:
    order = order_of(sqlite_bench, str)
    engine = sqlite_bench.engine(order)
    engine.run(order, "1")
    engine.resolve(order, "1", "go", None)
    sqlite_bench.overwrite("a", payload)
    with pytest.raises(StepDecodeError, match="step 'a'"):
        engine.run(order, "1")
    assert engine.describe(order, "1").status == Status.BLOCKED


def test_a_damaged_failure_record_blocks_as_well(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        try:
            yield Step("a", bench.fail, "a", ValueError("x"))
        except StepFailed:
            yield Await("go")

    engine = bench.engine(order)
    engine.run(order, "1")
    bench.overwrite("a", {"kind": "unheard of"})
    engine.resolve(order, "1", "go", None)
    with pytest.raises(StepDecodeError, match=r"step 'a'.* FailureRecord"):
        engine.run(order, "1")


# --- entries of other code ---


@pytest.mark.parametrize("change", ["kind = 'signal'", "format = 2"])
def test_an_entry_of_unknown_kind_or_version_blocks(bench: Bench, change: str) -> None:
    order = order_of(bench, str)
    engine = bench.engine(order)
    engine.run(order, "1")
    before = bench.execute("SELECT kind, format FROM wf_journal ORDER BY position")[0]
    bench.execute(f"UPDATE wf_journal SET {change}")
    engine.resolve(order, "1", "go", None)
    assert engine.worker().run_once().blocked == 1
    seen = engine.describe(order, "1")
    assert (seen.status, seen.attempts) == (Status.BLOCKED, 0)
    assert "journal entry 1: this code cannot read" in (seen.reason or "")
    with pytest.raises(JournalDecodeError, match="kind '"):
        engine.run(order, "1")
    assert bench.done == ["a"]

    restored = f"kind = '{before[0]}', format = {before[1]}"
    bench.execute(f"UPDATE wf_journal SET {restored} WHERE position = 1")
    assert engine.run(order, "1") == Completed("seven")


def test_an_entry_of_other_code_is_shown_in_the_journal(bench: Bench) -> None:
    order = order_of(bench, str)
    engine = bench.engine(order)
    engine.run(order, "1")
    bench.execute("UPDATE wf_journal SET kind = 'signal'")
    (entry,) = engine.journal(order, "1")
    assert (entry.kind, entry.step, entry.value) == ("signal", "a", "seven")


# --- inputs and results that no longer fit ---


@workflow(name="input")
def takes_text(given: str) -> WorkflowBody[str]:
    yield Await("go")
    return given


@workflow(name="input")
def takes_a_number(given: int) -> WorkflowBody[int]:
    yield Await("go")
    return given


def test_an_input_that_no_longer_fits_blocks(bench: Bench) -> None:
    bench.engine(takes_text).run(takes_text, "1", "seven")
    engine = bench.engine(takes_a_number)
    engine.resolve(takes_a_number, "1", "go", None)
    assert engine.worker().run_once().blocked == 1
    seen = engine.describe(takes_a_number, "1")
    assert "its input" in (seen.reason or "")
    assert "$.given as int" in (seen.reason or "")
    bench.clock.advance(30)
    assert bench.engine(takes_text).worker().run_once().completed == 1


@pytest.mark.parametrize("change", ["fewer", "more"])
def test_parameters_that_came_or_went_block_until_the_code_is_back(
    bench: Bench, change: str
) -> None:
    @workflow(name="input")
    def fewer() -> WorkflowBody[None]:
        yield Await("go")

    @workflow(name="input")
    def more(given: str, another: int) -> WorkflowBody[None]:
        yield Await("go")

    bench.engine(takes_text).run(takes_text, "1", "seven")
    changed = fewer if change == "fewer" else more
    engine = bench.engine(changed)
    engine.resolve("input", "1", "go", None)
    assert engine.worker().run_once().blocked == 1
    missing = "given" if change == "fewer" else "another"
    assert missing in (engine.describe("input", "1").reason or "")
    assert bench.engine(takes_text).run(takes_text, "1") == Completed("seven")


def test_a_result_that_no_longer_fits_is_told_to_who_asks(bench: Bench) -> None:
    engine = bench.engine(takes_text)
    engine.start(takes_text, "1", "seven")
    engine.resolve(takes_text, "1", "go", None)
    engine.run(takes_text, "1")
    other = bench.engine(takes_a_number)
    for ask in (lambda: other.run("input", "1"), other.handle("input", "1").result):
        with pytest.raises(StepDecodeError, match=r"its result.* as int"):
            ask()
    assert engine.run(takes_text, "1") == Completed("seven")


# --- discarding a wake ---


@workflow
def wanting() -> WorkflowBody[int]:
    return (yield from Await("n", returns=int))


def test_a_wake_that_blocks_can_be_discarded_and_delivered_anew(bench: Bench) -> None:
    engine = bench.engine(wanting)
    engine.run(wanting, "1")
    engine.resolve(wanting, "1", "n", "no number")
    assert engine.worker().run_once().blocked == 1
    assert not engine.resolve(wanting, "1", "n", 5)
    engine.discard(wanting, "1", 1)
    assert engine.resolve(wanting, "1", "n", 5)
    assert engine.run(wanting, "1") == Completed(5)
    dead, live, _ = engine.journal(wanting, "1")
    assert [(entry.kind, entry.live, entry.value) for entry in (dead, live)] == [
        ("wake", False, "no number"),
        ("wake", True, 5),
    ]
    assert dead.entry_id != live.entry_id


def test_a_discarded_wake_leaves_the_wait_open(bench: Bench) -> None:
    engine = bench.engine(wanting)
    engine.run(wanting, "1")
    engine.resolve(wanting, "1", "n", "no number")
    engine.worker().run_once()
    engine.discard(wanting, "1", 1)
    assert engine.run(wanting, "1") == Suspended(("n",))


def test_only_a_wake_of_a_blocked_instance_is_discarded(bench: Bench) -> None:
    after = blocked(bench)
    engine = bench.engine(after)
    with pytest.raises(IllegalMove, match="is suspended"):
        engine.discard(after, "1", 2)
    engine.worker().run_once()
    for position in (1, 3, 0, -1):  # a step, and nothing at all
        with pytest.raises(EntryNotFound, match=f"position {position}"):
            engine.discard(after, "1", position)
    with pytest.raises(InstanceNotFound):
        engine.discard(after, "2", 1)
    assert engine.describe(after, "1").status == Status.BLOCKED


def test_a_failure_pending_is_settled_before_the_instance_blocks(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        try:
            yield Step("a", bench.fail, "a", ValueError("x"))
        except StepFailed:
            return (yield from Await("n", returns=int))
        return 0

    engine = bench.engine(order)
    engine.start(order, "1")
    engine.resolve(order, "1", "n", "no number")
    assert engine.worker().run_once().blocked == 1
    assert kinds(engine, order, "1") == ["wake", "step_failed"]
    assert bench.done == ["a"]


def test_a_blocked_instance_does_not_end_as_failed_by_itself(bench: Bench) -> None:
    after = blocked(bench)
    engine = bench.engine(after)
    for _ in range(8):
        engine.worker(max_attempts=2, max_takeovers=2).run_once()
        bench.clock.advance(30)
    assert engine.describe(after, "1").status == Status.BLOCKED
