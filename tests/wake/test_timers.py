"""Whose a sleep is: of its generation, and forgotten when nobody waits for it."""

from __future__ import annotations

import attrs
import pytest

from workflow_engine import (
    Await,
    ContinueAsNew,
    CurrentGeneration,
    Engine,
    PassSummary,
    Step,
    Suspended,
    Worker,
    Workflow,
    WorkflowBody,
    sleep,
    workflow,
)
from workflow_engine.core.compounds import AllOf, AnyOf
from workflow_engine.runtime.points import Point

from ..runtime.bench import Bench, entries
from .flows import SECOND, timers


def test_a_sleep_that_is_not_waited_for_any_more_is_forgotten(bench: Bench) -> None:
    engine, sleeper = bench.engine(impatient := make_impatient(bench)), "1"
    engine.run(impatient, sleeper)
    assert [name for name, _ in timers(bench)] == ["sleep:limit"]
    engine.resolve(impatient, sleeper, "a", 1)
    assert engine.run(impatient, sleeper) == Suspended(("b",))
    assert timers(bench) == []
    assert engine.describe(impatient, sleeper).wake_after is None


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_a_sleep_armed_beside_a_step_is_forgotten_even_after_a_crash(
    bench: Bench, point: Point
) -> None:
    @workflow
    def racing() -> WorkflowBody[None]:
        yield AnyOf([sleep(600, name="limit"), Step("quick", bench.do, "quick")])
        yield Await("b")

    bench.crash(racing, "1", at=point, of="append")
    assert [name for name, _ in timers(bench)] == ["sleep:limit"]
    assert bench.engine(racing).run(racing, "1") == Suspended(("b",))
    assert timers(bench) == []


def test_a_sleep_left_by_a_failure_is_forgotten_when_nobody_waits_for_it(
    bench: Bench,
) -> None:
    broken = Broken(bench)
    assert len(timers(bench)) == 1
    assert broken.resurrect("without the sleep").still_suspended == 1
    assert broken.engine.describe(broken.workflow, "1").waits_on == ("word",)
    assert timers(bench) == []


def test_a_sleep_of_an_older_generation_wakes_nobody(bench: Bench) -> None:
    @workflow
    def rotating() -> WorkflowBody[str]:
        generation = yield from CurrentGeneration()
        if generation == 0:
            yield AnyOf([sleep(10, name="nap"), Await("go on")])
            yield ContinueAsNew(None)
        yield sleep(100, name="nap")
        return "rested"

    engine = bench.engine(rotating)
    worker = engine.worker()
    engine.run(rotating, "1")
    engine.resolve(rotating, "1", "go on", 1)
    assert engine.run(rotating, "1") == Suspended(("sleep:nap",))
    assert [due for _, due in timers(bench)] == [10 * SECOND, 100 * SECOND]
    bench.clock.advance(10)
    assert worker.run_once() == PassSummary()
    assert timers(bench) == [("sleep:nap", 90 * SECOND)]
    woken_at = engine.describe(rotating, "1").wake_after
    assert woken_at is not None
    assert (woken_at - bench.clock.now).total_seconds() == 90
    bench.clock.advance(90)
    assert worker.run_once().completed == 1
    assert entries(engine, rotating, "1")[-2:] == [
        ("wake", "sleep:nap"),
        ("completed", None),
    ]


@pytest.mark.parametrize("ending", ["completed", "cancelled", "failed"])
def test_a_sleep_of_an_ended_instance_is_put_away_and_delivers_nothing(
    bench: Bench, ending: str
) -> None:
    ended = make_ended(bench)
    engine = bench.engine(ended)
    engine.run(ended, "1", ending)
    if ending == "cancelled":
        engine.cancel(ended, "1")
    else:
        engine.resolve(ended, "1", "end", ending)
        engine.run(ended, "1")
    assert engine.describe(ended, "1").status == ending
    before = entries(engine, ended, "1")
    bench.clock.advance(60)
    assert engine.worker().drain() == PassSummary()
    assert entries(engine, ended, "1") == before
    pending = "SELECT count(*) FROM wf_timers WHERE settled_at IS NULL"
    assert bench.execute(pending) == [(0,)]


def test_a_sleep_that_fell_due_in_a_failed_instance_is_over_after_resurrection(
    bench: Bench,
) -> None:
    broken = Broken(bench)
    bench.clock.advance(60)
    assert broken.worker.drain() == PassSummary()
    assert broken.resurrect("mended").completed == 1
    assert timers(bench) == []


def test_a_resurrected_instance_sleeps_on_until_its_old_due_time(
    bench: Bench,
) -> None:
    broken = Broken(bench)
    bench.clock.advance(10)
    assert broken.resurrect("mended").still_suspended == 1
    assert timers(bench) == [("sleep:nap", 50 * SECOND)]
    bench.clock.advance(50)
    assert broken.worker.run_once().completed == 1


# --- beside a broken instance ---


DAMAGE = {
    "journal": ("position", "0", "1"),
    "row": ("tags", "'{'", "'{}'"),
}
"""Which column of an instance is damaged, by what, and what belongs there."""


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_instance_keeps_no_other_sleeper_from_waking(
    bench: Bench, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    @workflow
    def sleeper() -> WorkflowBody[str]:
        yield Step("lie down", bench.do, "lie down")
        yield sleep(60, name="nap")
        return "rested"

    engine = bench.engine(sleeper)
    for id in ("before", "broken", "after"):
        engine.run(sleeper, id)
    column, bad, good = DAMAGE[damage]
    put = f"UPDATE wf_instances SET {column} = {{}} WHERE workflow_id = 'broken'"
    bench.execute(put.format(bad))
    bench.clock.advance(60)
    worker = engine.worker()
    summary = worker.run_once()
    assert (summary.timers_fired, summary.completed) == (2, 2)
    ((number,),) = bench.execute(
        "SELECT id FROM wf_instances WHERE workflow_id = 'broken'"
    )
    told = f"instance {number} cannot be woken and is left alone for a while: "
    assert caplog.text.count(told) == 1
    assert worker.run_once() == PassSummary()
    assert caplog.text.count(told) == 1, "it is not tried again at once"
    assert [name for name, _ in timers(bench)] == ["sleep:nap"]
    bench.execute(put.format(good))
    bench.clock.advance(10)
    assert worker.run_once().completed == 1


# --- workflows ------------------------------------------------------------------------


def make_impatient(bench: Bench) -> Workflow[[], None]:
    @workflow
    def impatient() -> WorkflowBody[None]:
        yield AnyOf([sleep(60, name="limit"), Await("a")])
        yield Await("b")

    return impatient


def make_ended(bench: Bench) -> Workflow[[str], None]:
    @workflow
    def ended(how: str) -> WorkflowBody[None]:
        yield AnyOf([sleep(60, name="nap"), Await("end")])
        if how == "failed":
            yield Step("same", int, 1)
            yield Step("same", int, 1)

    return ended


@attrs.define
class Broken:
    """An instance that failed beside a sleep of a minute, and its worker."""

    bench: Bench
    deploy: str = "broken"

    def __attrs_post_init__(self) -> None:
        @workflow
        def broken() -> WorkflowBody[None]:
            if self.deploy == "without the sleep":
                yield Await("word")
            yield AllOf([sleep(60, name="nap"), Step("fragile", self.step)])

        self.workflow = broken
        self.engine = self.bench.engine(broken)
        self.worker = self.engine.worker(max_attempts=1)
        self.engine.start(broken, "1")
        assert self.worker.run_once().failed == 1

    workflow: Workflow[[], None] = attrs.field(init=False)
    engine: Engine = attrs.field(init=False)
    worker: Worker = attrs.field(init=False)

    def step(self) -> None:
        if self.deploy == "broken":
            raise OSError("down")

    def resurrect(self, deploy: str) -> PassSummary:
        """Deploy other code, resurrect, run."""
        self.deploy = deploy
        self.engine.resurrect(self.workflow, "1")
        return self.worker.run_once()
