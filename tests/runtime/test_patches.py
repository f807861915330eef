"""A patch is decided once for a generation, by its first claim."""

from __future__ import annotations

from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    ContinueAsNew,
    CurrentGeneration,
    Patch,
    Status,
    Step,
    Suspended,
    UnknownPatch,
    Workflow,
    WorkflowBody,
    workflow,
)

from .bench import Bench, entries


def branching(bench: Bench) -> Workflow[[], str]:
    @workflow(name="order")
    def body() -> WorkflowBody[str]:
        yield Step("before", bench.do, "before")
        yield Await("go")
        if (yield from Patch("fast")):
            new: str = yield from Step("new", bench.do, "new", "new")
            return new
        old: str = yield from Step("old", bench.do, "old", "old")
        return old

    return body


def test_a_fresh_instance_sees_the_new_side(bench: Bench) -> None:
    order = branching(bench)
    engine = bench.engine(order, active_patches={"fast"})
    engine.start(order, "1")
    engine.resolve(order, "1", "go", None)
    assert engine.run(order, "1") == Completed("new")


def test_an_instance_in_flight_keeps_the_old_side_for_ever(bench: Bench) -> None:
    order = branching(bench)
    assert bench.engine(order).run(order, "1") == Suspended(("go",))
    patched = bench.engine(order, active_patches={"fast"})
    patched.resolve(order, "1", "go", None)
    bench.crash(order, "1", at="after_step", of="old", active_patches={"fast"})
    assert patched.run(order, "1") == Completed("old")


def test_a_fresh_instance_that_parked_before_it_asked_gets_the_new_side(
    bench: Bench,
) -> None:
    order = branching(bench)
    patched = bench.engine(order, active_patches={"fast"})
    assert patched.run(order, "1") == Suspended(("go",))
    patched.resolve(order, "1", "go", None)
    assert patched.run(order, "1") == Completed("new")


def test_a_wake_before_the_first_run_does_not_change_the_decision(
    bench: Bench,
) -> None:
    order = branching(bench)
    # Started by old code, woken, and first claimed by new code.
    bench.engine(order).start(order, "1")
    bench.engine(order).resolve(order, "1", "go", None)
    patched = bench.engine(order, active_patches={"fast"})
    assert patched.run(order, "1") == Completed("new")


def test_the_decision_is_recorded_for_people_to_see(bench: Bench) -> None:
    order = branching(bench)
    sets = {"1": frozenset({"fast"}), "2": frozenset[str]()}
    for id, patches in sets.items():
        engine = bench.engine(order, active_patches=patches)
        engine.start(order, id)
        engine.resolve(order, id, "go", None)
        engine.run(order, id)
        found = [e for e in engine.journal(order, id) if e.kind == "patch"]
        assert [(entry.step, entry.value) for entry in found] == [
            ("patch:fast", bool(patches))
        ]
        assert engine.describe(order, id).patches == patches


def test_asking_twice_gives_the_same_answer_and_one_entry(bench: Bench) -> None:
    @workflow
    def asking() -> WorkflowBody[list[bool]]:
        first = yield from Patch("p")
        yield Step("a", bench.do, "a")
        second = yield from Patch("p")
        return [first, second]

    engine = bench.engine(asking, active_patches={"p"})
    assert engine.run(asking, "1") == Completed([True, True])
    assert entries(engine, asking, "1") == [
        ("step_ok", "a"),
        ("patch", "patch:p"),
        ("completed", None),
    ]


def test_one_answer_for_all_iterations_of_a_loop(bench: Bench) -> None:
    def iterate(asks: bool) -> WorkflowBody[list[bool]]:
        answers = []
        for number in range(4):
            if asks:
                answers.append((yield from Patch("p")))
            yield Step(f"s{number}", bench.do, f"s{number}")
            if number == 1:
                yield Await("go")
        return answers

    @workflow(name="loop")
    def before() -> WorkflowBody[list[bool]]:
        return (yield from iterate(False))

    @workflow(name="loop")
    def after() -> WorkflowBody[list[bool]]:
        return (yield from iterate(True))

    bench.engine(before).run(before, "1")
    engine = bench.engine(after, active_patches={"p"})
    engine.resolve(after, "1", "go", None)
    assert engine.run(after, "1") == Completed([False] * 4)
    engine.start(after, "2")
    engine.resolve(after, "2", "go", None)
    assert engine.run(after, "2") == Completed([True] * 4)


def test_a_new_generation_answers_anew(bench: Bench) -> None:
    @workflow
    def rotating() -> WorkflowBody[bool]:
        yield Await("go")
        answer = yield from Patch("p")
        if not (yield from CurrentGeneration()):
            bench.do(f"first {answer}")
            yield ContinueAsNew(None)
        return answer

    bench.engine(rotating).run(rotating, "1")
    engine = bench.engine(rotating, active_patches={"p"})
    engine.resolve(rotating, "1", "go", None)
    assert engine.run(rotating, "1") == Suspended(("go",))
    assert engine.describe(rotating, "1").patches == frozenset({"p"})
    engine.resolve(rotating, "1", "go", None)
    assert engine.run(rotating, "1") == Completed(True)
    assert bench.done == ["first False"]


def test_a_retired_patch_is_still_known(bench: Bench) -> None:
    order = branching(bench)
    bench.engine(order, active_patches={"fast"}).run(order, "1")
    engine = bench.engine(order, retired_patches={"fast"})
    engine.resolve(order, "1", "go", None)
    assert engine.worker().run_once().completed == 1
    assert engine.handle(order, "1").result() == "new"
    # Instances that begin now are on the old side again: the code asks no longer.
    engine.start(order, "2")
    assert engine.worker().run_once().still_suspended == 1
    assert engine.describe(order, "2").patches == frozenset()


def test_a_worker_leaves_an_instance_of_newer_code_alone(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    order = branching(bench)
    new = bench.engine(order, active_patches={"fast"})
    new.run(order, "1")
    new.resolve(order, "1", "go", None)
    old = bench.engine(order)
    worker = old.worker()
    summary = worker.run_once()
    assert (summary.unknown_name, summary.resumed, summary.failed) == (1, 0, 0)
    assert "'fast'" in caplog.text or "fast" in caplog.text
    seen = old.describe(order, "1")
    assert (seen.owner, seen.attempts, seen.takeovers) == (None, 0, 0)
    # It does not take it again and again.
    assert worker.run_once() == type(summary)()
    bench.clock.advance(10)
    assert worker.run_once().unknown_name == 1
    assert new.worker().run_once().completed == 1
    assert bench.done == ["before", "new"]


def test_a_worker_that_leaves_one_alone_runs_the_others_in_the_same_pass(
    bench: Bench,
) -> None:
    order = branching(bench)
    new = bench.engine(order, active_patches={"fast"})
    for id in "123":
        new.run(order, id)
        new.resolve(order, id, "go", None)
    old = bench.engine(order)
    old.start(order, "4")
    summary = old.worker(concurrency=1).run_once()
    assert (summary.unknown_name, summary.still_suspended) == (3, 1)


def test_a_direct_run_says_which_patches_it_does_not_know(bench: Bench) -> None:
    order = branching(bench)
    bench.engine(order, active_patches={"fast", "other"}).run(order, "1")
    old = bench.engine(order)
    before = old.describe(order, "1")
    with pytest.raises(UnknownPatch, match=r"fast, other.*retired_patches"):
        old.run(order, "1")
    assert old.describe(order, "1") == before
    assert before.status == Status.SUSPENDED


@pytest.mark.parametrize("ids", ["text", [""], ["x" * 300], [3]])
def test_a_set_of_patches_must_be_a_set_of_names(sqlite_bench: Bench, ids: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="patch id"):
        sqlite_bench.engine(active_patches=ids)
    with pytest.raises((TypeError, ValueError), match="patch id"):
        sqlite_bench.engine(retired_patches=ids)


@pytest.mark.parametrize("id", ["", None, "x" * 250])
def test_a_patch_id_must_be_a_name_that_fits(id: Any) -> None:
    with pytest.raises(ValueError, match="patch id"):
        Patch(id)
