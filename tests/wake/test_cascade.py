"""Cancel with cascade: an instance, its children and theirs, in one transaction."""

from __future__ import annotations

from typing import Any

import pytest

from workflow_engine import (
    Await,
    Cancelled,
    CancelRequested,
    ChildCancelled,
    Completed,
    ContinueAsNew,
    Status,
    Step,
    Workflow,
    WorkflowBody,
    restore_seed,
    spawn_child,
    workflow,
)

from ..runtime.bench import Bench, kinds, watched
from ..wholeness import check_whole


def dynasty(bench: Bench) -> tuple[Workflow[..., Any], ...]:
    """A head, whose first generation had a child too; a child ends before its own."""

    @workflow
    def leaf() -> WorkflowBody[None]:
        try:
            yield Await("go")
        except CancelRequested:
            yield Step("rake", bench.do, "rake")
            raise

    @workflow
    def branch(id: str, waits: bool) -> WorkflowBody[str]:
        child = yield from spawn_child(leaf, id)
        if waits:
            yield from child
        return "gone"

    @workflow
    def head() -> WorkflowBody[None]:
        if not (yield from restore_seed(False)):
            yield spawn_child(leaf, "of old")
            yield ContinueAsNew(True)
        quick = yield from spawn_child(branch, "quick", "left", False)
        slow = yield from spawn_child(branch, "slow", "right", True)
        yield from quick
        yield from slow

    return leaf, branch, head


LEAVES = ["of old", "left", "right"]


def statuses(engine: Any) -> dict[str, Status]:
    return {each.id: each.status for each in engine.list()}


def test_all_open_descendants_end_with_their_ancestor(bench: Bench) -> None:
    leaf, branch, head = dynasty(bench)
    engine = bench.engine(leaf, branch, head)
    engine.start(head, "1")
    engine.start(leaf, "a stranger")
    engine.worker().drain()
    assert engine.cancel(head, "1", cascade=True)
    cancelled = dict.fromkeys(["1", "slow", *LEAVES], Status.CANCELLED)
    assert statuses(engine) == {
        **cancelled,
        "quick": Status.COMPLETED,
        "a stranger": Status.SUSPENDED,
    }
    # Nobody was told of an end who was cancelled with it.
    assert kinds(engine, branch, "slow") == ["step_ok", "cancelled"]
    assert not engine.worker().run_once().discovered
    assert bench.done == []
    check_whole(bench.url)


def test_without_it_children_go_on(bench: Bench) -> None:
    leaf, branch, head = dynasty(bench)
    engine = bench.engine(leaf, branch, head)
    engine.start(head, "1")
    engine.worker().drain()
    assert engine.cancel(head, "1")
    assert statuses(engine)["slow"] == Status.SUSPENDED
    # Asked for later, it still finds the children of one that has ended.
    assert engine.cancel(head, "1", cascade=True)
    assert {statuses(engine)[id] for id in ["slow", *LEAVES]} == {Status.CANCELLED}


def test_with_cleanup_each_of_them_is_asked_and_cleans_up(bench: Bench) -> None:
    leaf, branch, head = dynasty(bench)
    engine = bench.engine(leaf, branch, head)
    engine.start(head, "1")
    engine.worker().drain()
    assert engine.cancel(head, "1", cleanup=True, cascade=True)
    asked = {each.id for each in engine.list() if each.cancel_requested}
    assert asked == {"1", "slow", *LEAVES}
    engine.worker().drain()
    ended = dict.fromkeys(["1", "slow", *LEAVES], Status.CANCELLED)
    assert statuses(engine) == {**ended, "quick": Status.COMPLETED}
    assert bench.done == ["rake"] * 3
    check_whole(bench.url)


def test_a_waiting_parent_of_the_first_is_told(bench: Bench) -> None:
    leaf, branch, _ = dynasty(bench)

    @workflow
    def watching() -> WorkflowBody[str]:
        child = yield from spawn_child(branch, "slow", "right", True)
        try:
            yield from child
        except ChildCancelled:
            return "told"
        return "never"

    engine = bench.engine(leaf, branch, watching)
    engine.start(leaf, "right")  # older than its parents: its row comes first
    engine.start(branch, "slow", "right", True)
    engine.start(watching, "1")
    engine.worker().drain()
    assert engine.cancel(branch, "slow", cascade=True)
    assert engine.run(watching, "1") == Completed("told")
    assert engine.run(leaf, "right") == Cancelled()


def test_it_is_one_transaction(bench: Bench) -> None:
    leaf, branch, head = dynasty(bench)
    engine = bench.engine(leaf, branch, head)
    engine.start(head, "1")
    engine.worker().drain()
    with watched() as seen:
        engine.cancel(head, "1", cascade=True)
    writing = [each for each in seen.verbs if each in ("UPDATE", "INSERT")]
    assert (seen.commits, len(writing)) == (1, 10)


@pytest.mark.parametrize("cleanup", [False, True])
def test_two_that_are_each_others_ancestors_are_cancelled(
    bench: Bench, cleanup: bool
) -> None:
    @workflow
    def chicken(id: str, egg: str) -> WorkflowBody[None]:
        yield from (yield from spawn_child(chicken, egg, egg, id))

    engine = bench.engine(chicken)
    engine.start(chicken, "a", "a", "b")
    engine.worker().drain()
    assert engine.cancel(chicken, "b", cleanup=cleanup, cascade=True)
    engine.worker().drain()
    assert {each.status for each in engine.list()} == {Status.CANCELLED}
