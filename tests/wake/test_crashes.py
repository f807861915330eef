"""A workflow that waits for everything dies at every commit, and ends the same."""

from __future__ import annotations

from typing import Any

import pytest

from workflow_engine import (
    Engine,
    Every,
    Step,
    Workflow,
    WorkflowBody,
    awakeable,
    cancel_child,
    sleep,
    spawn_child,
    workflow,
)
from workflow_engine.core.compounds import AnyOf
from workflow_engine.runtime.points import NOWHERE, Point, Points
from workflow_engine.testing import Crashes, ProcessDied

from ..runtime.bench import LEASE, Bench, entries
from ..wholeness import check_whole

RESULT = ["told", "yes", "grown up", "slept"]


class Everything:
    """A parent that uses every wake source, and its children."""

    def __init__(self, bench: Bench) -> None:
        @workflow
        def grow() -> WorkflowBody[str]:
            yield Step("grow", bench.do, "grow")
            return "grown up"

        @workflow
        def loiter() -> WorkflowBody[None]:
            yield sleep(1000, name="for ever")

        @workflow
        def everything() -> WorkflowBody[list[str]]:
            asked = yield from awakeable("word", returns=str)
            told = yield from Step("tell", bench.do, "tell", "told").returns(str)
            child = yield from spawn_child(grow, "child")
            idle = yield from spawn_child(loiter, "idle")
            yield AnyOf([sleep(500, name="limit"), Step("race", bench.do, "race")])
            word = yield from asked
            grown = yield from child
            yield cancel_child(idle)
            yield sleep(30, name="nap")
            yield Step("last", bench.do, "last")
            return [told, word, grown, "slept"]

        self.bench = bench
        self.parent = everything
        self.workflows: tuple[Workflow[..., Any], ...] = (grow, loiter, everything)

    def engine(self, points: Points = NOWHERE) -> Engine:
        return self.bench.engine(
            *self.workflows, points=points, snapshot_policy=Every(2)
        )

    def live(self, points: Points) -> None:
        """Start it, and do what there is to do, until it ends or the process dies."""
        engine = self.engine(points)
        worker = engine.worker(concurrency=1)
        engine.start(self.parent, "1")
        for _ in range(8):
            worker.drain()
            for question in engine.awakeables(self.parent, "1"):
                engine.signal(question.id, "yes")
            self.bench.clock.advance(31)

    def go_on(self) -> None:
        """What everybody else does after a death."""
        self.bench.clock.advance(LEASE)
        self.live(NOWHERE)


def points_of_a_life(bench: Bench) -> list[tuple[Point, str]]:
    crashes = Crashes()
    Everything(bench).live(crashes)
    return [each for each in crashes.reached if "commit" in each[0]]


def forget(bench: Bench) -> None:
    """Empty the database."""
    tables = ("instances", "journal", "snapshots", "timers", "awakeables", "children")
    for table in tables:
        bench.execute(f"DELETE FROM wf_{table}")
    bench.done.clear()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_wherever_it_dies_it_ends_the_same_and_nothing_is_done_twice(
    bench: Bench,
) -> None:
    reached = points_of_a_life(bench)
    engine = bench.engine()
    expected = entries(engine, "everything", "1")
    assert engine.handle("everything", "1").result() == RESULT
    kinds = {subject for _, subject in reached}
    assert kinds >= {"append", "arm", "park", "finish"}
    # What a death leaves behind is the store's business on both databases alike; every
    # other one will do on the slower.
    stride = 2 if "postgresql" in bench.url else 1
    for number in range(0, len(reached), stride):
        forget(bench)
        life = Everything(bench)
        point, subject = reached[number]
        nth = reached[: number + 1].count((point, subject))
        crashes = Crashes().at(point, subject, nth=nth)
        with pytest.raises(ProcessDied):
            life.live(crashes)
        check_whole(bench.url)
        life.go_on()
        where = f"{point} of {subject}, number {nth}"
        assert engine.handle("everything", "1").result() == RESULT, where
        assert engine.describe("loiter", "idle").status == "cancelled", where
        assert sorted(entries(engine, "everything", "1")) == sorted(expected), where
        assert engine.timers("everything", "1") == (), where
        # A step whose commit did not come about is performed again; no other is.
        again = len(bench.done) - len(set(bench.done))
        assert again <= (point == "before_commit" and subject == "append"), where
        check_whole(bench.url)
