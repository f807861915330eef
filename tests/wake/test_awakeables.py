"""Awakeables: one party waits, another one who knows the id completes it, once."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import attrs
import pytest

from workflow_engine import (
    AwakeableCancelled,
    AwakeableNotFound,
    AwakeableRejected,
    Completed,
    DuplicateStepName,
    Engine,
    Failed,
    JournalEncodeError,
    PassSummary,
    Status,
    Step,
    StepDecodeError,
    Suspended,
    Workflow,
    WorkflowBody,
    awakeable,
    workflow,
)
from workflow_engine.core.compounds import AllOf, AnyOf

from ..runtime.bench import Bench
from .flows import id_of


@attrs.frozen
class Decision:
    """What an approver says."""

    ok: bool
    limit: Decimal = Decimal(0)


@workflow
def approval() -> WorkflowBody[Decision]:
    """One question."""
    asked = yield from awakeable("approval", returns=Decision)
    return (yield from asked)


@workflow
def forgiving() -> WorkflowBody[str]:
    """One question, whatever comes of it."""
    asked = yield from awakeable("approval", returns=str)
    try:
        return (yield from asked)
    except AwakeableRejected as rejected:
        return f"{rejected.label} rejected: {rejected.reason}"
    except AwakeableCancelled as cancelled:
        return f"{cancelled.label} cancelled"


def parked(engine: Engine, workflow: Workflow[..., Any], id: str = "1") -> str:
    """Run until it waits; the id it waits for."""
    assert isinstance(engine.run(workflow, id), Suspended)
    return id_of(engine, workflow, id)


# --- the id ---------------------------------------------------------------------------


def test_an_awakeable_exists_before_anybody_can_know_its_id(bench: Bench) -> None:
    def send(id: str) -> bool:
        bench.done.append(id)
        return bench.engine().signal(id, "at once")

    @workflow
    def asking() -> WorkflowBody[str]:
        asked = yield from awakeable("approval", returns=str)
        assert (yield from Step("send", send, asked.id))
        return (yield from asked)

    bench.crash(asking, "1", at="before_commit", of="append")
    engine = bench.engine(asking)
    assert engine.awakeables(asking, "1") == ()
    bench.crash(asking, "1", at="after_commit", of="append")
    recorded = id_of(engine, asking)
    assert bench.done == []
    assert engine.run(asking, "1") == Completed("at once")
    assert bench.done == [recorded]


def test_an_id_stays_the_same_whenever_the_body_runs_again(bench: Bench) -> None:
    @workflow
    def asking() -> WorkflowBody[None]:
        asked = yield from awakeable("approval")
        bench.done.append(asked.id)
        yield asked

    engine = bench.engine(asking)
    first = parked(engine, asking)
    parked(bench.engine(asking), asking)
    assert set(bench.done) == {first}
    assert len(bench.done) > 1


def test_ids_are_random(sqlite_bench: Bench) -> None:
    engine = sqlite_bench.engine(approval)
    ids = {parked(engine, approval, str(number)) for number in range(20)}
    assert len(ids) == 20
    assert {len(id) for id in ids} == {32}
    # Nothing but chance: no place holds the same digit in all of them.
    assert all(len(set(digits)) > 1 for digits in zip(*ids, strict=True))


@pytest.mark.parametrize(
    "id", ["", "no such id", "' OR 1=1 --", "0" * 32, "\0", "\ud800"], ids=ascii
)
def test_an_id_that_nobody_gave_out_is_an_error(bench: Bench, id: str) -> None:
    engine = bench.engine(approval)
    parked(engine, approval)
    calls: list[Callable[[], bool]] = [
        lambda: engine.signal(id, 1),
        lambda: engine.reject(id, "no"),
        lambda: engine.cancel_awakeable(id),
    ]
    for call in calls:
        with pytest.raises(AwakeableNotFound):
            call()


# --- completing it --------------------------------------------------------------------


def test_a_signal_wakes_the_workflow_with_its_value(bench: Bench) -> None:
    engine = bench.engine(approval)
    worker = engine.worker()
    engine.start(approval, "1")
    assert worker.run_once().still_suspended == 1
    assert engine.describe(approval, "1").waits_on == ("awk:approval",)
    assert worker.run_once() == PassSummary()
    assert engine.signal(id_of(engine, approval), Decision(True, Decimal("9.50")))
    assert worker.run_once().completed == 1
    result = engine.handle(approval, "1").result()
    assert result == Decision(True, Decimal("9.50"))


def test_the_first_signal_counts_and_the_second_changes_nothing(bench: Bench) -> None:
    engine = bench.engine(approval)
    id = parked(engine, approval)
    assert engine.signal(id, Decision(True)) is True
    before = engine.journal(approval, "1")
    assert engine.signal(id, Decision(False)) is False
    assert engine.reject(id, "too late") is False
    assert engine.cancel_awakeable(id) is False
    assert engine.journal(approval, "1") == before
    assert engine.awakeables(approval, "1")[0].status == "resolved"
    assert engine.run(approval, "1") == Completed(Decision(True))
    assert engine.run(approval, "1") == Completed(Decision(True))


def test_a_rejection_is_raised_where_it_is_waited_for(bench: Bench) -> None:
    engine = bench.engine(forgiving)
    id = parked(engine, forgiving)
    assert engine.reject(id, "no cover")
    assert engine.worker().run_once().completed == 1
    assert engine.handle(forgiving, "1").result() == "approval rejected: no cover"
    assert engine.signal(id, "too late") is False


def test_a_cancellation_is_raised_and_makes_the_owner_runnable(bench: Bench) -> None:
    engine = bench.engine(forgiving)
    assert engine.cancel_awakeable(parked(engine, forgiving))
    assert engine.worker().run_once().completed == 1
    assert engine.handle(forgiving, "1").result() == "approval cancelled"


@pytest.mark.parametrize(
    "reason", ["", "ünïcode ☃", "NUL \0 and \ud800", "x" * 10_000_000], ids=len
)
def test_a_reason_may_be_any_text(bench: Bench, reason: str) -> None:
    engine = bench.engine(forgiving)
    assert engine.reject(parked(engine, forgiving), reason)
    ending = engine.run(forgiving, "1")
    assert isinstance(ending, Completed)
    told = ending.result.removeprefix("approval rejected: ")
    assert reason.startswith(told[:1000])
    assert len(told) < 10_000


def test_a_signal_that_comes_before_anybody_waits_is_kept(bench: Bench) -> None:
    @workflow
    def late() -> WorkflowBody[list[int]]:
        first = yield from awakeable("first", returns=int)
        second = yield from awakeable("second", returns=int)
        one = yield from first
        return [one, (yield from second)]

    engine = bench.engine(late)
    engine.run(late, "1")
    ids = {view.label: view.id for view in engine.awakeables(late, "1")}
    assert engine.signal(ids["second"], 2)
    assert engine.run(late, "1") == Suspended(("awk:first",))
    assert engine.signal(ids["first"], 1)
    assert engine.run(late, "1") == Completed([1, 2])


def test_a_handle_may_be_awaited_again_and_beside_itself(bench: Bench) -> None:
    @workflow
    def eager() -> WorkflowBody[list[Any]]:
        asked = yield from awakeable("approval", returns=int)
        both = yield from AllOf([asked, asked])
        raced = yield from AnyOf([asked, asked])
        return [*both, raced, (yield from asked)]

    engine = bench.engine(eager)
    assert engine.signal(parked(engine, eager), 7)
    assert engine.run(eager, "1") == Completed([7, 7, [0, 7], 7])


def test_a_failed_handle_raises_each_time(bench: Bench) -> None:
    @workflow
    def stubborn() -> WorkflowBody[list[str]]:
        asked = yield from awakeable("approval")
        reasons = []
        for _ in range(3):
            try:
                yield asked
            except AwakeableRejected as rejected:
                reasons.append(rejected.reason)
        return reasons

    engine = bench.engine(stubborn)
    engine.reject(parked(engine, stubborn), "no")
    assert engine.run(stubborn, "1") == Completed(["no"] * 3)


def test_a_label_opens_one_awakeable_in_a_generation(bench: Bench) -> None:
    @workflow
    def twice() -> WorkflowBody[None]:
        yield awakeable("approval")
        yield awakeable("approval")

    engine = bench.engine(twice)
    ending = engine.run(twice, "1")
    assert isinstance(ending, Failed)
    assert ending.reason.startswith(DuplicateStepName.__name__)
    assert len(engine.awakeables(twice, "1")) == 1


# --- what may be delivered ------------------------------------------------------------


@pytest.mark.parametrize("value", ["yes", Decision(True, 3), {"ok": True}, None])  # type: ignore[arg-type]
def test_a_value_of_another_type_is_refused_to_whoever_sends_it(
    bench: Bench, value: Any
) -> None:
    engine = bench.engine(approval)
    id = parked(engine, approval)
    with pytest.raises(JournalEncodeError, match="awakeable 'approval'"):
        engine.signal(id, value)
    assert engine.awakeables(approval, "1")[0].status == "pending"
    assert engine.signal(id, Decision(True))
    assert engine.run(approval, "1") == Completed(Decision(True))


def test_the_type_is_known_from_the_moment_the_id_is(bench: Bench) -> None:
    def send(id: str) -> str:
        try:
            engine.signal(id, "yes")
        except JournalEncodeError as error:
            return error.expected
        return "accepted"

    @workflow
    def asking() -> WorkflowBody[str]:
        asked = yield from awakeable("approval", returns=Decision)
        return (yield from Step("send", send, asked.id))

    engine = bench.engine(asking)
    assert engine.run(asking, "1") == Completed("Decision")


def test_elsewhere_a_value_is_recorded_as_what_it_is(bench: Bench) -> None:
    id = parked(bench.engine(approval), approval)
    elsewhere = bench.engine()
    assert elsewhere.signal(id, Decision(True, Decimal("1.10")))
    expected = Completed(Decision(True, Decimal("1.10")))
    assert bench.engine(approval).run(approval, "1") == expected


def test_a_value_that_cannot_be_read_blocks_until_it_is_discarded(
    bench: Bench,
) -> None:
    engine = bench.engine(approval)
    id = parked(engine, approval)
    assert bench.engine().signal(id, "yes")
    with pytest.raises(StepDecodeError, match="awk:approval"):
        engine.run(approval, "1")
    assert engine.describe(approval, "1").status == Status.BLOCKED
    assert engine.signal(id, Decision(True)) is False
    (position,) = (
        e.position for e in engine.journal(approval, "1") if e.kind == "wake"
    )
    engine.discard(approval, "1", position)
    assert engine.awakeables(approval, "1")[0].status == "pending"
    assert engine.signal(id, Decision(True)) is True
    assert engine.run(approval, "1") == Completed(Decision(True))


@pytest.mark.parametrize("value", [object(), float("nan"), "x" * 2000], ids=type)
def test_a_value_that_cannot_be_recorded_changes_nothing(
    bench: Bench, value: object
) -> None:
    parked_id = parked(bench.engine(forgiving), forgiving)
    sender = bench.engine(max_payload_bytes=1000)
    with pytest.raises(JournalEncodeError):
        sender.signal(parked_id, value)
    assert sender.signal(parked_id, "fine")
