"""Failed and blocked instances are made runnable again; history stays."""

from __future__ import annotations

from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    ContinueAsNew,
    CurrentGeneration,
    EntryNotFound,
    Every,
    Failed,
    IllegalMove,
    InstanceNotFound,
    ResurrectAmbiguous,
    Status,
    Step,
    StepFailed,
    Suspended,
    Workflow,
    WorkflowBody,
    current_step,
    workflow,
)

from .bench import Bench, entries, kinds, steps


class Charging:
    """A step that declines until it is told otherwise, and its keys."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.declines = True
        self.keys: list[str] = []

    def __call__(self) -> str:
        self.bench.do("charge")
        self.keys.append(current_step().idempotency_key)
        if self.declines:
            raise ValueError("declined")
        return "paid"


def crashing(bench: Bench, charge: Charging) -> Workflow[[], str]:
    """A workflow that lets the failure out, with nothing recorded after it."""

    @workflow(name="order")
    def body() -> WorkflowBody[str]:
        yield Step("reserve", bench.do, "reserve")
        return (yield from Step("charge", charge))

    return body


def compensating(bench: Bench, charge: Charging) -> Workflow[[], str]:
    """A workflow that undoes what it did before it lets the failure out."""

    @workflow(name="order")
    def body() -> WorkflowBody[str]:
        yield Step("reserve", bench.do, "reserve")
        try:
            paid: str = yield from Step("charge", charge)
        except StepFailed:
            yield Step("release", bench.do, "release")
            yield Step("tell", bench.do, "tell")
            raise
        yield Step("ship", bench.do, "ship")
        return paid

    return body


def test_a_failed_instance_completes_without_repeating_its_recorded_steps(
    bench: Bench,
) -> None:
    charge = Charging(bench)
    order = crashing(bench, charge)
    engine = bench.engine(order)
    engine.start(order, "1")
    engine.worker(max_attempts=1).run_once()
    assert engine.describe(order, "1").status == Status.FAILED

    engine.resurrect(order, "1")
    seen = engine.describe(order, "1")
    assert (seen.status, seen.attempts, seen.reason) == (Status.RUNNING, 0, None)
    assert seen.ended_at is None
    charge.declines = False
    assert engine.worker().run_once().completed == 1
    assert bench.done == ["reserve", "charge", "charge"]
    assert kinds(engine, order, "1") == [
        "step_ok",
        "failed",
        "resurrected",
        "step_ok",
        "completed",
    ]


def test_it_may_fail_and_be_resurrected_again(bench: Bench) -> None:
    charge = Charging(bench)
    order = crashing(bench, charge)
    engine = bench.engine(order)
    engine.start(order, "1")
    for _ in range(3):
        assert engine.worker(max_attempts=1).run_once().failed == 1
        engine.resurrect(order, "1")
    charge.declines = False
    assert engine.run(order, "1") == Completed("paid")
    assert kinds(engine, order, "1").count("failed") == 3


def test_the_failure_that_left_the_body_is_tried_anew_with_another_key(
    bench: Bench,
) -> None:
    charge = Charging(bench)

    @workflow
    def order() -> WorkflowBody[str]:
        try:
            return (yield from Step("charge", charge))
        finally:
            yield Step("note", bench.do, "note")

    engine = bench.engine(order)
    assert isinstance(engine.run(order, "1"), Failed)
    charge.declines = False
    engine.resurrect(order, "1", rerun=())
    assert engine.run(order, "1") == Completed("paid")
    assert bench.done == ["charge", "note", "charge"]
    first, second = charge.keys
    assert first != second
    journal = engine.journal(order, "1")
    charges = [entry for entry in journal if entry.step == "charge"]
    assert [(entry.kind, entry.live) for entry in charges] == [
        ("step_failed", False),
        ("step_ok", True),
    ]
    assert charges[0].entry_id != charges[1].entry_id


def test_steps_recorded_after_the_failure_must_be_decided_upon(bench: Bench) -> None:
    order = compensating(bench, Charging(bench))
    engine = bench.engine(order)
    assert isinstance(engine.run(order, "1"), Failed)
    with pytest.raises(ResurrectAmbiguous, match=r"rerun=\(\) to keep them") as refused:
        engine.resurrect(order, "1")
    assert list(refused.value.names) == ["release", "tell"]
    assert engine.describe(order, "1").status == Status.FAILED
    assert kinds(engine, order, "1")[-1] == "failed"


@pytest.mark.parametrize(
    ("rerun", "again"),
    [
        ((), []),
        (("tell",), ["tell"]),
        (("release", "tell"), ["release", "tell"]),
    ],
)
def test_what_is_named_runs_again_and_the_rest_is_kept(
    bench: Bench, rerun: Any, again: list[str]
) -> None:
    charge = Charging(bench)
    order = compensating(bench, charge)
    engine = bench.engine(order)
    engine.run(order, "1")
    before = len(bench.done)
    engine.resurrect(order, "1", rerun=rerun)
    # It is declined once more: the compensation is due once more.
    assert isinstance(engine.run(order, "1"), Failed)
    assert bench.done[before:] == ["charge", *again]

    charge.declines = False
    engine.resurrect(order, "1", rerun=())
    assert engine.run(order, "1") == Completed("paid")
    assert bench.done[-2:] == ["charge", "ship"]
    assert bench.calls("reserve") == 1


def test_a_name_that_was_not_recorded_after_the_failure_is_refused(
    bench: Bench,
) -> None:
    order = compensating(bench, Charging(bench))
    engine = bench.engine(order)
    engine.run(order, "1")
    for name in ("reserve", "unheard of"):
        with pytest.raises(EntryNotFound, match=name):
            engine.resurrect(order, "1", rerun=(name,))
    with pytest.raises(TypeError, match=r"write rerun=\('tell',\)"):
        engine.resurrect(order, "1", rerun="tell")
    assert engine.describe(order, "1").status == Status.FAILED


def test_only_failed_and_blocked_instances_are_resurrected(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        yield Await("go")

    engine = bench.engine(order)
    engine.run(order, "suspended")
    engine.start(order, "running")
    engine.start(order, "cancelled")
    engine.cancel(order, "cancelled")
    engine.start(order, "completed")
    engine.resolve(order, "completed", "go", None)
    engine.run(order, "completed")
    for status in ("suspended", "running", "cancelled", "completed"):
        with pytest.raises(IllegalMove, match=f"is {status}: only failed and blocked"):
            engine.resurrect(order, status)
        assert engine.describe(order, status).status == status
    with pytest.raises(InstanceNotFound):
        engine.resurrect(order, "nobody")


def test_an_authors_error_is_mended_by_new_code_and_a_resurrection(
    bench: Bench,
) -> None:
    @workflow(name="order")
    def broken() -> WorkflowBody[str]:
        yield Step("a", bench.do, "a")
        yield 5  # type: ignore[misc]
        return ""

    @workflow(name="order")
    def mended() -> WorkflowBody[str]:
        yield Step("a", bench.do, "a")
        yield Step("b", bench.do, "b")
        return "mended"

    assert isinstance(bench.engine(broken).run(broken, "1"), Failed)
    engine = bench.engine(mended)
    assert isinstance(engine.run(mended, "1"), Failed)
    engine.resurrect(mended, "1")
    assert engine.run(mended, "1") == Completed("mended")
    assert bench.done == ["a", "b"]


def test_without_a_recorded_failure_any_step_may_be_named(bench: Bench) -> None:
    """The body itself crashed; the operator knows which step gave it a wrong value."""

    @workflow
    def order() -> WorkflowBody[int]:
        value: int = yield from Step("a", bench.do, "a", len(bench.done))
        if value == 0:
            raise RuntimeError("zero")
        return value

    engine = bench.engine(order)
    engine.start(order, "1")
    engine.worker(max_attempts=1).run_once()
    engine.resurrect(order, "1", rerun=("a",))
    assert engine.run(order, "1") == Completed(1)
    assert steps(engine, order, "1") == ["a", "a"]


def test_an_ended_instance_takes_no_delivery_and_a_resurrected_one_does(
    bench: Bench,
) -> None:
    charge = Charging(bench)

    @workflow
    def order() -> WorkflowBody[str]:
        paid = yield from Step("charge", charge)
        yield Await("go")
        return paid

    engine = bench.engine(order)
    engine.start(order, "1")
    engine.worker(max_attempts=1).run_once()
    assert not engine.resolve(order, "1", "go", None)
    assert entries(engine, order, "1") == [("failed", None)]
    charge.declines = False
    engine.resurrect(order, "1")
    assert engine.resolve(order, "1", "go", None)
    assert engine.run(order, "1") == Completed("paid")


def test_a_resurrection_does_not_read_an_old_snapshot(bench: Bench) -> None:
    charge = Charging(bench)
    order = compensating(bench, charge)
    engine = bench.engine(order, snapshot_policy=Every(1))
    engine.run(order, "1")
    charge.declines = False
    engine.resurrect(order, "1", rerun=("release", "tell"))
    assert engine.run(order, "1") == Completed("paid")
    assert bench.done == ["reserve", "charge", "release", "tell", "charge", "ship"]


def test_an_instance_fails_and_comes_back_in_its_newest_generation(
    bench: Bench,
) -> None:
    charge = Charging(bench)

    @workflow
    def order() -> WorkflowBody[str]:
        generation = yield from CurrentGeneration()
        if generation == 0:
            yield ContinueAsNew("seed")
        yield Step("a", bench.do, "a")
        return (yield from Step("charge", charge))

    engine = bench.engine(order)
    engine.start(order, "1")
    worker = engine.worker(max_attempts=1)
    worker.drain()
    assert engine.describe(order, "1").status == Status.FAILED
    charge.declines = False
    engine.resurrect(order, "1")
    assert engine.run(order, "1") == Completed("paid")
    assert bench.done == ["a", "charge", "charge"]
    assert engine.describe(order, "1").generation == 1


def test_a_run_that_still_goes_on_is_shut_out_by_a_resurrection(bench: Bench) -> None:
    """A zombie of the time before writes nothing into the new life."""

    @workflow
    def order() -> WorkflowBody[str]:
        yield Step("a", during)
        yield Await("go")
        return "done"

    def during() -> None:
        bench.do("a")
        if bench.calls("a") > 1:
            return
        bench.execute("UPDATE wf_instances SET status = 'failed', last_error = '{}'")
        engine.resurrect("order", "1")
        assert other.run(order, "1") == Suspended(("go",))

    engine, other = bench.engine(order), bench.engine(order)
    engine.start(order, "1")
    assert engine.worker().run_once().lease_skipped == 1
    assert steps(engine, order, "1") == ["a"]
