"""Awakeables belong to a generation; a failed instance is owed what came of them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import attrs
import pytest

from workflow_engine import (
    AwakeableCancelled,
    AwakeableRejected,
    Completed,
    ContinueAsNew,
    CurrentGeneration,
    Engine,
    Failed,
    PassSummary,
    Step,
    Suspended,
    Workflow,
    WorkflowBody,
    awakeable,
    workflow,
)

from ..runtime.bench import Bench, entries
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


def parked(engine: Engine, workflow: Workflow[..., Any], id: str = "1") -> str:
    """Run until it waits; the id it waits for."""
    assert isinstance(engine.run(workflow, id), Suspended)
    return id_of(engine, workflow, id)


@workflow
def rotating() -> WorkflowBody[str]:
    generation = yield from CurrentGeneration()
    asked = yield from awakeable("approval", returns=str)
    if generation == 0:
        yield ContinueAsNew(asked.id)
    return (yield from asked)


def test_after_a_rotation_the_label_has_a_new_id_and_the_old_one_is_dead(
    bench: Bench,
) -> None:
    engine = bench.engine(rotating)
    engine.run(rotating, "1")
    (old,) = (e.value for e in engine.journal(rotating, "1", 0) if e.step == OPENED)
    new = id_of(engine, rotating)
    assert old != new
    before = engine.journal(rotating, "1")
    assert engine.signal(old, "old") is False
    assert engine.reject(old, "old") is False
    assert engine.cancel_awakeable(old) is False
    assert engine.journal(rotating, "1") == before
    assert engine.worker().run_once() == PassSummary()
    rows = bench.execute("SELECT status FROM wf_awakeables WHERE id = :id", id=old)
    assert rows == [("pending",)]
    assert engine.signal(new, "new")
    assert engine.run(rotating, "1") == Completed("new")


OPENED = "awkid:approval"


def test_a_signal_that_was_not_taken_stays_in_its_generation(bench: Bench) -> None:
    @workflow
    def forgetful() -> WorkflowBody[None]:
        generation = yield from CurrentGeneration()
        asked = yield from awakeable("approval")
        if generation == 0:
            yield Step("signal", engine.signal, asked.id, 1)
            yield ContinueAsNew(None)
        yield asked

    engine = bench.engine(forgetful)
    assert engine.run(forgetful, "1") == Suspended(("awk:approval",))


def test_a_completed_instance_takes_no_signal(bench: Bench) -> None:
    @workflow
    def hasty() -> WorkflowBody[None]:
        yield awakeable("approval")

    engine = bench.engine(hasty)
    engine.run(hasty, "1")
    id = id_of(engine, hasty)
    assert engine.signal(id, 1) is False
    assert engine.cancel_awakeable(id) is False
    assert engine.awakeables(hasty, "1")[0].status == "pending"


@workflow
def brittle(mood: list[str]) -> WorkflowBody[str]:
    """Fails beside its question."""
    asked = yield from awakeable("approval", returns=str)
    yield Step("fragile", lambda: 1 / len(MOOD))
    return (yield from asked)


MOOD: list[str] = []


@pytest.fixture
def failed(bench: Bench) -> Engine:
    """An engine with an instance that failed with its question open."""
    MOOD.clear()
    engine = bench.engine(brittle)
    engine.start(brittle, "1", [])
    assert engine.worker(max_attempts=1).run_once().failed == 1
    return engine


@pytest.mark.parametrize(
    ("settle", "outcome"),
    [
        (lambda engine, id: engine.signal(id, "yes"), "yes"),
        (lambda engine, id: engine.reject(id, "no"), AwakeableRejected),
        (lambda engine, id: engine.cancel_awakeable(id), AwakeableCancelled),
    ],
    ids=["signal", "reject", "cancel"],
)
def test_a_failed_instance_is_owed_what_was_settled_meanwhile(
    failed: Engine, settle: Callable[[Engine, str], bool], outcome: Any
) -> None:
    id = id_of(failed, brittle)
    before = failed.journal(brittle, "1")
    assert settle(failed, id) is True
    assert settle(failed, id) is False
    assert failed.journal(brittle, "1") == before
    MOOD.append("good")
    failed.resurrect(brittle, "1")
    assert entries(failed, brittle, "1")[-2:] == [
        ("resurrected", None),
        ("wake" if outcome == "yes" else "wake_failed", "awk:approval"),
    ]
    ending = failed.run(brittle, "1")
    if outcome == "yes":
        assert ending == Completed("yes")
    else:
        assert isinstance(ending, Failed)
        assert ending.reason.startswith(outcome.__name__)


def test_a_question_that_is_open_when_an_instance_is_resurrected_stays_open(
    failed: Engine,
) -> None:
    MOOD.append("good")
    failed.resurrect(brittle, "1")
    assert failed.run(brittle, "1") == Suspended(("awk:approval",))
    assert failed.signal(id_of(failed, brittle), "yes")
    assert failed.run(brittle, "1") == Completed("yes")


def test_a_rejection_that_was_fatal_may_be_answered_anew_after_resurrection(
    bench: Bench,
) -> None:
    engine = bench.engine(approval)
    id = parked(engine, approval)
    engine.reject(id, "no")
    ending = engine.run(approval, "1")
    assert ending == Failed(
        "AwakeableRejected: the awakeable 'approval' was rejected: no"
    )
    assert engine.signal(id, Decision(True)) is False
    engine.resurrect(approval, "1")
    assert engine.awakeables(approval, "1")[0].status == "pending"
    assert engine.run(approval, "1") == Suspended(("awk:approval",))
    assert engine.signal(id, Decision(True)) is True
    assert engine.run(approval, "1") == Completed(Decision(True))


def test_opening_is_no_step_that_a_resurrection_could_run_again(
    bench: Bench,
) -> None:
    @workflow
    def asking_again() -> WorkflowBody[None]:
        try:
            yield Step("fail", bench.fail, "fail", OSError("down"))
        except Exception:
            yield awakeable("complaint")
            yield Step("note", bench.do, "note")
            raise

    engine = bench.engine(asking_again)
    assert isinstance(engine.run(asking_again, "1"), Failed)
    with pytest.raises(Exception, match="'note'") as caught:
        engine.resurrect(asking_again, "1")
    assert caught.value.names == ("note",)  # type: ignore[attr-defined]
