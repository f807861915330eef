"""Whose a child is, what a later generation gets of it, and failures put right."""

from __future__ import annotations

import pytest

from workflow_engine import (
    ChildFailed,
    ChildOwned,
    Completed,
    ContinueAsNew,
    CurrentGeneration,
    Engine,
    Failed,
    InputConflict,
    Status,
    Step,
    Suspended,
    Workflow,
    WorkflowBody,
    awakeable,
    restore_seed,
    spawn_child,
    workflow,
)

from ..runtime.bench import Bench, entries, kinds


@workflow
def child(number: int, factor: int = 1) -> WorkflowBody[int]:
    """Waits for a word, and returns the product."""
    yield from (yield from awakeable("go on"))
    return number * factor


@workflow
def parent(number: int) -> WorkflowBody[int]:
    spawned = yield from spawn_child(child, "c", number)
    return (yield from spawned)


@workflow
def tolerant(number: int) -> WorkflowBody[str]:
    """Says why it may not have the child."""
    try:
        spawned = yield from spawn_child(child, "c", number)
    except (InputConflict, ChildOwned) as error:
        yield Step("note", str, "")
        return type(error).__name__
    return str((yield from spawned))


WORKFLOWS = (child, parent, tolerant)


def finish_child(engine: Engine) -> None:
    """Let the child go on to its end."""
    engine.run(child, "c")
    (question,) = engine.awakeables(child, "c")
    engine.signal(question.id, None)
    assert isinstance(engine.run(child, "c"), Completed)


# --- attaching ------------------------------------------------------------------------


def test_a_parent_attaches_to_an_instance_that_was_there_before(bench: Bench) -> None:
    engine = bench.engine(*WORKFLOWS)
    engine.start(child, "c", 7)
    engine.run(parent, "p", 7)
    finish_child(engine)
    assert engine.run(parent, "p") == Completed(7)


def test_a_parent_gets_the_result_of_a_child_that_has_ended_before(
    bench: Bench,
) -> None:
    engine = bench.engine(*WORKFLOWS)
    engine.start(child, "c", 7)
    finish_child(engine)
    assert engine.run(parent, "p", 7) == Completed(7)
    assert entries(engine, parent, "p") == [
        ("step_ok", "childid:child:c"),
        ("wake", "child:child:c"),
        ("completed", None),
    ]


@pytest.mark.parametrize("order", ["child first", "parent first"])
def test_children_have_lower_or_higher_numbers_than_their_parents(
    bench: Bench, order: str
) -> None:
    engine = bench.engine(*WORKFLOWS)
    if order == "child first":
        engine.start(child, "c", 7)
    engine.run(parent, "p", 7)
    finish_child(engine)
    number = {one.workflow: one.number for one in engine.list()}
    assert (number["child"] < number["parent"]) == (order == "child first")
    assert engine.run(parent, "p") == Completed(7)


def test_other_arguments_are_a_conflict_which_is_recorded(bench: Bench) -> None:
    engine = bench.engine(*WORKFLOWS)
    engine.start(child, "c", 7)
    bench.crash(tolerant, "t", 8, at="before_commit", of="finish")
    before = entries(engine, tolerant, "t")
    assert before == [("step_failed", "childid:child:c"), ("step_ok", "note")]
    # What is recorded stands, whatever has become of the other instance.
    bench.execute("DELETE FROM wf_instances WHERE workflow_name = 'child'")
    assert engine.run(tolerant, "t") == Completed("InputConflict")


def test_the_same_arguments_with_a_default_written_out_are_no_conflict(
    bench: Bench,
) -> None:
    engine = bench.engine(*WORKFLOWS)
    engine.start(child, "c", 7, factor=1)
    engine.run(parent, "p", 7)
    finish_child(engine)
    assert engine.run(parent, "p") == Completed(7)


def test_a_conflict_that_nobody_catches_fails_the_parent(bench: Bench) -> None:
    engine = bench.engine(*WORKFLOWS)
    engine.start(child, "c", 7)
    ending = engine.run(parent, "p", 8)
    assert isinstance(ending, Failed)
    assert ending.reason.startswith("InputConflict: workflow 'child', instance 'c'")
    assert "other arguments (number)" in ending.reason


def test_a_child_has_one_parent(bench: Bench) -> None:
    engine = bench.engine(*WORKFLOWS)
    engine.run(parent, "p", 7)
    assert engine.run(tolerant, "t", 7) == Completed("ChildOwned")
    finish_child(engine)
    assert engine.run(tolerant, "t2", 7) == Completed("ChildOwned")
    assert engine.run(parent, "p") == Completed(7)


def test_nobody_is_a_child_of_itself(bench: Bench) -> None:
    @workflow
    def narcissist() -> WorkflowBody[str]:
        me: Workflow[[], str] = narcissist
        try:
            yield spawn_child(me, "1")
        except ChildOwned:
            return "owned"
        return "spawned"

    assert bench.engine(narcissist).run(narcissist, "1") == Completed("owned")


# --- later generations ----------------------------------------------------------------


def make_rotating(*, again: bool) -> Workflow[[], list[int]]:
    @workflow
    def rotating() -> WorkflowBody[list[int]]:
        generation = yield from CurrentGeneration()
        results = yield from restore_seed(list[int](), returns=list[int])
        spawned = yield from spawn_child(child, "c", 7)
        if generation == 0 and not again:
            yield ContinueAsNew(results)
        results.append((yield from spawned))
        if len(results) < 2 and again:
            yield ContinueAsNew(results)
        return results

    return rotating


def test_a_later_generation_attaches_again_and_gets_the_stored_result(
    bench: Bench,
) -> None:
    rotating = make_rotating(again=True)
    engine = bench.engine(rotating, child)
    engine.run(rotating, "r")
    finish_child(engine)
    assert engine.run(rotating, "r") == Completed([7, 7])
    assert engine.describe(rotating, "r").generation == 1


def test_a_childs_end_is_told_to_the_generation_that_is_current(bench: Bench) -> None:
    rotating = make_rotating(again=False)
    engine = bench.engine(rotating, child)
    assert engine.run(rotating, "r") == Suspended(("child:child:c",))
    before = entries(engine, rotating, "r", generation=0)
    finish_child(engine)
    assert entries(engine, rotating, "r", generation=0) == before
    assert engine.run(rotating, "r") == Completed([7])


def test_a_generation_that_did_not_attach_is_not_told(bench: Bench) -> None:
    @workflow
    def moving_on() -> WorkflowBody[None]:
        generation = yield from CurrentGeneration()
        if generation == 0:
            yield spawn_child(child, "c", 7)
            yield ContinueAsNew(None)
        yield awakeable("never")
        yield from (yield from awakeable("word"))

    engine = bench.engine(moving_on, child)
    engine.run(moving_on, "m")
    before = entries(engine, moving_on, "m")
    finish_child(engine)
    assert entries(engine, moving_on, "m") == before
    assert engine.worker().run_once().discovered == 0


# --- failures, and resurrections ------------------------------------------------------


def fail(engine: Engine, workflow: Workflow[..., object], id: str) -> None:
    """Make an instance fail as one whose processes keep dying."""
    engine.worker(max_attempts=1).run_once()
    assert engine.describe(workflow, id).status == Status.FAILED


class Breaking:
    """A parent that fails after spawning, and a child that may."""

    def __init__(self, bench: Bench) -> None:
        self.parent_breaks = self.child_breaks = False

        @workflow(name="fragile child")
        def fragile() -> WorkflowBody[int]:
            yield Step("part", bench.do, "child")
            if self.child_breaks:
                raise OSError("the child broke")
            return 7

        @workflow(name="fragile parent")
        def raising() -> WorkflowBody[int]:
            spawned = yield from spawn_child(fragile, "c")
            if self.parent_breaks:
                raise OSError("the parent broke")
            return (yield from spawned)

        self.child, self.parent = fragile, raising
        self.engine = bench.engine(fragile, raising)
        self.worker = self.engine.worker(max_attempts=1, concurrency=1)
        self.engine.start(raising, "p")


def test_the_child_of_a_failed_parent_lives_on(bench: Bench) -> None:
    broken = Breaking(bench)
    broken.parent_breaks = True
    broken.worker.drain()
    assert broken.engine.handle(broken.child, "c").result() == 7
    assert kinds(broken.engine, broken.parent, "p") == ["step_ok", "failed"]


@pytest.mark.parametrize("child_breaks", [False, True])
def test_a_resurrected_parent_is_told_what_it_missed(
    bench: Bench, child_breaks: bool
) -> None:
    broken = Breaking(bench)
    broken.parent_breaks, broken.child_breaks = True, child_breaks
    broken.worker.drain()
    broken.parent_breaks = False
    broken.engine.resurrect(broken.parent, "p")
    last = "wake_failed" if child_breaks else "wake"
    assert kinds(broken.engine, broken.parent, "p")[-2:] == ["resurrected", last]
    summary = broken.worker.run_once()
    assert (summary.completed, summary.failed) == (not child_breaks, child_breaks)


def test_a_parent_resurrected_before_its_child_ends_waits_for_it(
    bench: Bench,
) -> None:
    broken = Breaking(bench)
    broken.parent_breaks = True
    broken.worker.run_once(limit=1)
    broken.parent_breaks = False
    broken.engine.resurrect(broken.parent, "p")
    broken.worker.drain()
    assert broken.engine.handle(broken.parent, "p").result() == 7


def failed_family(bench: Bench) -> Breaking:
    """A child that failed, and its parent with it."""
    broken = Breaking(bench)
    broken.child_breaks = True
    broken.worker.drain()
    assert broken.engine.describe(broken.child, "c").status == Status.FAILED
    assert broken.engine.describe(broken.parent, "p").status == Status.FAILED
    broken.child_breaks = False
    return broken


def test_a_child_resurrected_and_then_its_parent_are_linked_again(
    bench: Bench,
) -> None:
    broken = failed_family(bench)
    broken.engine.resurrect(broken.child, "c")
    broken.worker.drain()
    assert broken.engine.handle(broken.child, "c").result() == 7
    assert broken.engine.describe(broken.parent, "p").status == Status.FAILED
    broken.engine.resurrect(broken.parent, "p")
    broken.worker.drain()
    assert broken.engine.handle(broken.parent, "p").result() == 7
    assert bench.calls("child") == 1


def test_both_resurrected_at_once_are_linked_again(bench: Bench) -> None:
    broken = failed_family(bench)
    broken.engine.resurrect(broken.child, "c")
    broken.engine.resurrect(broken.parent, "p")
    broken.worker.drain()
    assert broken.engine.handle(broken.parent, "p").result() == 7


def test_a_parent_resurrected_alone_meets_the_same_failure(bench: Bench) -> None:
    broken = failed_family(bench)
    broken.engine.resurrect(broken.parent, "p")
    assert broken.worker.run_once().failed == 1
    reason = broken.engine.describe(broken.parent, "p").reason
    assert reason is not None
    assert reason.startswith(f"{ChildFailed.__name__}: ")
    broken.engine.resurrect(broken.child, "c")
    broken.engine.resurrect(broken.parent, "p")
    broken.worker.drain()
    assert broken.engine.handle(broken.parent, "p").result() == 7


def test_a_parent_that_got_over_a_failure_keeps_its_answer(bench: Bench) -> None:
    broken = Breaking(bench)
    broken.child_breaks = True

    @workflow
    def robust() -> WorkflowBody[str]:
        spawned = yield from spawn_child(broken.child, "other")
        try:
            yield spawned
        except ChildFailed:
            yield from (yield from awakeable("sorry?"))
            return "over it"
        return "fine"

    engine = bench.engine(robust, broken.child)
    engine.start(robust, "r")
    engine.worker(max_attempts=1).drain()
    broken.child_breaks = False
    engine.resurrect(broken.child, "other")
    engine.worker().drain()
    assert engine.describe(broken.child, "other").status == Status.COMPLETED
    (question,) = engine.awakeables(robust, "r")
    engine.signal(question.id, None)
    assert engine.run(robust, "r") == Completed("over it")


def test_a_result_that_cannot_be_read_is_there_for_code_that_can(
    bench: Bench,
) -> None:
    @workflow(name="child")
    def changed(number: int, factor: int = 1) -> WorkflowBody[list[int]]:
        yield from (yield from awakeable("go on"))
        return [number * factor]

    old = bench.engine(*WORKFLOWS)
    old.run(parent, "p", 7)
    new = bench.engine(changed)
    new.run(changed, "c")
    (question,) = new.awakeables(changed, "c")
    new.signal(question.id, None)
    assert new.run(changed, "c") == Completed([7])
    assert old.worker().run_once().blocked == 1

    @workflow(name="parent")
    def changed_parent(number: int) -> WorkflowBody[list[int]]:
        spawned = yield from spawn_child(changed, "c", number)
        return (yield from spawned)

    assert bench.engine(changed_parent).run("parent", "p") == Completed([7])


def test_discarding_a_childs_result_does_not_lose_it(bench: Bench) -> None:
    engine = bench.engine(*WORKFLOWS)
    engine.run(parent, "p", 7)
    finish_child(engine)
    bench.overwrite("child:child:c", "no number")
    assert engine.worker().run_once().blocked == 1
    engine.discard(parent, "p", 2)
    bench.clock.advance(60)
    assert engine.worker().run_once().completed == 1
    assert engine.handle(parent, "p").result() == 7
