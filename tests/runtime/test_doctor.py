"""The doctor is silent on a healthy database, and names what was planted in another.

Faults are planted behind the engine's back: nothing that it does makes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from workflow_engine import (
    Await,
    Completed,
    ContinueAsNew,
    Engine,
    FaultKind,
    Finding,
    InvalidDuration,
    Status,
    Step,
    WorkflowBody,
    awakeable,
    receive,
    restore_seed,
    sleep,
    spawn_child,
    workflow,
)
from workflow_engine.runtime import doctor
from workflow_engine.testing import TestClock

from .bench import Bench

HOUR = 3_600

ASLEEP = "wake_after = NULL, runnable_at = NULL"
"""Changes to a row that make it sleep for good."""

_failing: set[str] = set()


@contextmanager
def failing(step: str) -> Iterator[None]:
    """Steps of that name fail meanwhile."""
    _failing.add(step)
    try:
        yield
    finally:
        _failing.remove(step)


def fail_if_told(name: str) -> str:
    if name in _failing:
        raise RuntimeError("told to fail")
    return name


@workflow
def steps() -> WorkflowBody[str]:
    yield Step("one", fail_if_told, "one")
    yield Step("two", fail_if_told, "two")
    return (yield from Step("three", fail_if_told, "three"))


@workflow
def answer() -> WorkflowBody[int]:
    yield Step("ask", str, "well?")
    return (yield from Await("answer", returns=int))


@workflow
def nap() -> WorkflowBody[str]:
    yield sleep(HOUR, name="nap")
    return "rested"


@workflow
def approval() -> WorkflowBody[int]:
    handle = yield from awakeable("approval", returns=int)
    return (yield from handle)


@workflow
def listener() -> WorkflowBody[list[str]]:
    first = yield from receive("word", returns=str)
    return [first, (yield from receive("word", returns=str))]


@workflow
def parent(child: str) -> WorkflowBody[int]:
    handle = yield from spawn_child(answer, child)
    return (yield from handle)


@workflow
def rounds() -> WorkflowBody[int]:
    reached = yield from restore_seed(0)
    handle = yield from awakeable("approval", returns=int)
    child = yield from spawn_child(answer, "shared")
    yield sleep(HOUR, name="nap")
    if not reached:
        yield ContinueAsNew(1)
    return (yield from handle) + (yield from child)


ALL = (steps, answer, nap, approval, parent, listener, rounds)


@pytest.fixture
def engine(bench: Bench) -> Engine:
    return bench.engine(*ALL)


def found(engine: Engine) -> list[tuple[FaultKind, str, str]]:
    return [(each.kind, each.workflow, each.id) for each in engine.doctor()]


def only(engine: Engine, kind: FaultKind, workflow: str, id: str = "1") -> Finding:
    """The one finding there is, which is this."""
    (finding,) = engine.doctor()
    assert (finding.kind, finding.workflow, finding.id) == (kind, workflow, id)
    return finding


def repaired(engine: Engine, finding: Finding) -> Engine:
    """The engine, after a repair that leaves nothing to find."""
    assert finding.is_mechanical
    assert finding.repair == "workflow-engine doctor --fix"
    engine.repair(finding)
    assert engine.doctor() == []
    engine.repair(finding)  # without need
    assert engine.doctor() == []
    return engine


def for_people(engine: Engine, finding: Finding, command: str) -> None:
    """See that it names this command, and is left alone."""
    assert not finding.is_mechanical
    assert finding.repair == f"workflow-engine {command}"
    with pytest.raises(ValueError, match="not repaired by itself"):
        engine.repair(finding)
    assert engine.doctor() == [finding]


# --- a healthy database ---------------------------------------------------------------


@pytest.fixture
def healthy(bench: Bench, engine: Engine, clock: TestClock) -> Engine:
    """Instances in every state but blocked, and in every kind of wait."""
    worker = engine.worker(max_attempts=1)
    engine.run(rounds, "first")
    engine.run(nap, "over")
    clock.advance(HOUR)
    worker.drain()
    assert engine.describe(rounds, "first").generation == 1
    engine.run(steps, "completed")
    engine.start(steps, "cancelled")
    engine.cancel(steps, "cancelled")
    with failing("two"):
        for id in ("failed", "resurrected"):
            engine.start(steps, id)
        assert worker.drain().failed == 2
        engine.resurrect(steps, "resurrected")
        assert engine.worker().run_once().paced == 1
    _wait_in_every_way(engine)
    bench.crash(steps, "left", at="before_step", of="two")
    engine.start(steps, "ready")
    engine.starting(delay=HOUR).start(steps, "delayed")
    return engine


def _wait_in_every_way(engine: Engine) -> None:
    for id in ("waiting", "woken"):
        engine.run(answer, id)
        engine.run(approval, id)
        engine.run(parent, id, f"child of {id}")
    engine.run(nap, "waiting")
    engine.run(answer, "child of woken")
    engine.resolve(answer, "woken", "answer", 1)
    engine.signal(engine.awakeables(approval, "woken")[0].id, 5)
    engine.cancel(answer, "child of woken")
    engine.start(answer, "early")
    engine.resolve(answer, "early", "answer", 1)


def test_a_healthy_database_has_no_findings(healthy: Engine) -> None:
    statuses = {each.status for each in healthy.list()}
    assert statuses == set(Status) - {Status.BLOCKED}
    assert healthy.doctor() == []


def test_a_healthy_database_stays_so_whatever_happens_next(
    healthy: Engine, clock: TestClock
) -> None:
    worker = healthy.worker()
    for _ in range(3):
        worker.drain()
        assert healthy.doctor() == []
        clock.advance(HOUR)
    worker.drain()
    assert {each.status for each in healthy.list()} == set(Status) - {
        Status.BLOCKED,
        Status.RUNNING,
    }


def test_nothing_is_wrong_with_what_is_being_run(bench: Bench) -> None:
    @workflow
    def looking() -> WorkflowBody[int]:
        return (yield from Step("look", look).returns(int))

    def look() -> int:
        return len(running.doctor())

    running = bench.engine(looking)
    assert running.run(looking, "1") == Completed(0)


def test_an_empty_database_has_no_findings(engine: Engine) -> None:
    assert engine.doctor() == []


def test_an_instance_that_failed_may_be_owed_what_came_later(
    bench: Bench, engine: Engine, clock: TestClock
) -> None:
    engine.run(approval, "1")
    engine.run(nap, "1")
    bench.execute("UPDATE wf_instances SET takeovers = 19")
    engine.signal(engine.awakeables(approval, "1")[0].id, 5)
    bench.crash(approval, "1", at="before_commit")
    clock.advance(HOUR)
    bench.crash(nap, "1", at="before_commit")
    engine.worker().drain()
    assert {each.status for each in engine.list()} == {Status.FAILED}
    assert engine.doctor() == []
    for each in engine.list():
        engine.resurrect(each.workflow, each.id)
    assert engine.doctor() == []


# --- what workers cannot see ----------------------------------------------------------


def test_a_running_instance_that_no_worker_will_look_at(
    bench: Bench, engine: Engine
) -> None:
    engine.start(steps, "1")
    bench.execute("UPDATE wf_instances SET runnable_at = NULL")
    assert engine.worker().run_once().advanced == 0
    finding = only(engine, FaultKind.OUT_OF_SIGHT, "steps")
    assert finding.problem == (
        "workers find it never, and should at 2030-01-01T00:00:00+00:00"
    )
    assert repaired(engine, finding).worker().drain().completed == 1


@pytest.mark.parametrize("wrong", ["runnable_at + 3600000000", "NULL", "0"])
def test_an_instance_that_workers_look_at_when_they_should_not(
    bench: Bench, engine: Engine, clock: TestClock, wrong: str
) -> None:
    engine.run(nap, "1")
    engine.starting(delay=HOUR).start(steps, "1")
    bench.execute(f"UPDATE wf_instances SET runnable_at = {wrong}")
    findings = engine.doctor()
    assert {each.workflow for each in findings} == {"nap", "steps"}
    for each in findings:
        assert each.kind is FaultKind.OUT_OF_SIGHT
        engine.repair(each)
    assert engine.doctor() == []
    assert engine.worker().drain().resumed == 0
    clock.advance(HOUR)
    assert engine.worker().drain().completed == 2


def test_a_suspended_instance_without_a_time_to_wake_that_workers_would_claim(
    bench: Bench, engine: Engine
) -> None:
    engine.run(answer, "1")
    bench.execute("UPDATE wf_instances SET runnable_at = updated_at")
    finding = only(engine, FaultKind.OUT_OF_SIGHT, "answer")
    assert finding.problem.endswith("and should never")
    assert repaired(engine, finding).worker().run_once().resumed == 0


def test_an_ended_instance_that_workers_would_claim(
    bench: Bench, engine: Engine
) -> None:
    engine.run(steps, "1")
    bench.execute("UPDATE wf_instances SET runnable_at = updated_at")
    finding = only(engine, FaultKind.OUT_OF_SIGHT, "steps")
    assert repaired(engine, finding).worker().run_once().resumed == 0


# --- what nobody has done -------------------------------------------------------------


def test_a_lease_that_nobody_takes_over(
    bench: Bench, engine: Engine, clock: TestClock
) -> None:
    bench.crash(steps, "1", at="before_step", of="two")
    assert engine.doctor() == []
    clock.advance(60)
    finding = only(engine, FaultKind.LEASE_LEFT, "steps")
    assert " pid " in finding.problem
    for_people(engine, finding, "worker TARGET")
    assert engine.doctor(patience=2 * HOUR) == []
    assert engine.worker().drain().completed == 1
    assert engine.doctor() == []


def test_a_deadline_that_nobody_keeps(engine: Engine, clock: TestClock) -> None:
    engine.starting(timeout=HOUR).start(nap, "1")
    clock.advance(HOUR + 60)
    assert engine.doctor() == []
    clock.advance(1)
    finding = only(engine, FaultKind.DEADLINE_MISSED, "nap")
    assert finding.problem == (
        "its deadline was at 2030-01-01T01:00:00+00:00, and nobody has ended it"
    )
    for_people(engine, finding, "worker TARGET")
    assert engine.worker().drain().failed == 1
    assert engine.doctor() == []


def test_a_timer_that_nobody_fires(engine: Engine, clock: TestClock) -> None:
    engine.run(nap, "1")
    clock.advance(HOUR + 60)
    assert engine.doctor() == []
    clock.advance(1)
    finding = only(engine, FaultKind.TIMER_OVERDUE, "nap")
    assert finding.problem == (
        "its timer 'sleep:nap' was due at 2030-01-01T01:00:00+00:00, "
        "and nobody has fired it"
    )
    assert engine.doctor(patience=2 * HOUR) == []
    assert repaired(engine, finding).run(nap, "1") == Completed("rested")


def test_a_timer_of_a_generation_that_is_over_is_put_away(
    bench: Bench, engine: Engine, clock: TestClock
) -> None:
    engine.run(rounds, "1")
    bench.execute("UPDATE wf_timers SET generation = 7")
    bench.execute(f"UPDATE wf_instances SET {ASLEEP} WHERE workflow_name = 'rounds'")
    clock.advance(2 * HOUR)
    kinds = [each.kind for each in engine.doctor()]
    assert kinds == [FaultKind.TIMER_OVERDUE, FaultKind.TIMER_MISSING]
    engine.repair(engine.doctor()[0])
    assert bench.execute("SELECT * FROM wf_timers") == []


def test_a_blocked_instance(engine: Engine) -> None:
    engine.run(answer, "1")
    engine.resolve(answer, "1", "answer", "seven")
    assert engine.worker().run_once().blocked == 1
    finding = only(engine, FaultKind.BLOCKED, "answer")
    assert finding.problem.startswith("it is blocked: StepDecodeError")
    for_people(engine, finding, "resurrect answer 1")
    engine.discard(answer, "1", 2)
    engine.resolve(answer, "1", "answer", 7)
    assert engine.run(answer, "1") == Completed(7)
    assert engine.doctor() == []


# --- waits ----------------------------------------------------------------------------


def test_a_wake_that_is_recorded_and_did_not_wake(bench: Bench, engine: Engine) -> None:
    engine.run(answer, "1")
    engine.resolve(answer, "1", "answer", 7)
    bench.execute(f"UPDATE wf_instances SET {ASLEEP}")
    finding = only(engine, FaultKind.WAKE_LOST, "answer")
    assert "'answer', which is recorded" in finding.problem
    assert repaired(engine, finding).worker().run_once().completed == 1


def test_an_awakeable_that_nobody_can_signal(bench: Bench, engine: Engine) -> None:
    engine.run(approval, "1")
    bench.execute("DELETE FROM wf_awakeables")
    finding = only(engine, FaultKind.UNWAKEABLE, "approval")
    assert "it waits for awk:approval, and nothing is left" in finding.problem
    for_people(engine, finding, "cancel approval 1")
    engine.cancel(approval, "1")
    assert engine.doctor() == []


@pytest.mark.parametrize("lost", ["wf_children", "wf_instances WHERE id = 2"])
def test_a_child_that_cannot_tell_its_parent(
    bench: Bench, engine: Engine, lost: str
) -> None:
    engine.run(parent, "1", "c")
    bench.execute(f"DELETE FROM {lost}".replace("id = 2", "workflow_id = 'c'"))
    finding = only(engine, FaultKind.UNWAKEABLE, "parent")
    for_people(engine, finding, "cancel parent 1")


def test_a_sleep_without_a_timer(
    bench: Bench, engine: Engine, clock: TestClock
) -> None:
    engine.run(nap, "1")
    bench.execute("DELETE FROM wf_timers")
    assert engine.doctor() == []  # it wakes, and starts the timer anew
    bench.execute(f"UPDATE wf_instances SET {ASLEEP}")
    finding = only(engine, FaultKind.TIMER_MISSING, "nap")
    assert repaired(engine, finding).worker().run_once().still_suspended == 1
    assert [each.name for each in engine.timers(nap, "1")] == ["sleep:nap"]
    clock.advance(HOUR)
    assert engine.worker().drain().completed == 1


@pytest.mark.parametrize("wrong", ["NULL", "wake_after + 1"])
def test_a_sleeper_that_wakes_too_late(
    bench: Bench, engine: Engine, clock: TestClock, wrong: str
) -> None:
    engine.run(nap, "1")
    due = engine.describe(nap, "1").wake_after
    later = f"wake_after = {wrong}, runnable_at = {wrong}"
    bench.execute(f"UPDATE wf_instances SET {later}")
    repaired(engine, only(engine, FaultKind.WAKES_LATE, "nap"))
    assert engine.describe(nap, "1").wake_after == due
    assert engine.worker().drain().resumed == 0
    clock.advance(HOUR)
    assert engine.worker().drain().completed == 1


def test_an_awakeable_that_was_settled_without_an_entry(
    bench: Bench, engine: Engine
) -> None:
    engine.run(approval, "1")
    bench.execute(
        "UPDATE wf_awakeables SET status = 'resolved', payload = '7', "
        "settled_at = created_at"
    )
    finding = only(engine, FaultKind.AWAKEABLE_UNTOLD, "approval")
    assert finding.problem == (
        "its awakeable 'approval' was resolved at 2030-01-01T00:00:00+00:00, "
        "and it was not told"
    )
    assert repaired(engine, finding).run(approval, "1") == Completed(7)


def forget_wake(bench: Bench, workflow: str) -> None:
    """Undo the delivery of the last entry to a suspended instance."""
    bench.execute(
        "DELETE FROM wf_journal WHERE kind LIKE 'wake%' AND instance_id = "
        "(SELECT id FROM wf_instances WHERE workflow_name = :name)",
        name=workflow,
    )
    bench.execute(
        f"UPDATE wf_instances SET position = position - 1, {ASLEEP} "
        "WHERE workflow_name = :name",
        name=workflow,
    )


def test_a_child_that_ended_and_its_parent_was_not_told(
    bench: Bench, engine: Engine
) -> None:
    engine.run(parent, "1", "c")
    engine.run(answer, "c")
    engine.resolve(answer, "c", "answer", 7)
    assert engine.run(answer, "c") == Completed(7)
    forget_wake(bench, "parent")
    finding = only(engine, FaultKind.CHILD_UNTOLD, "parent")
    assert finding.problem == (
        "its child answer c was completed at 2030-01-01T00:00:00+00:00, "
        "and it was not told"
    )
    assert repaired(engine, finding).run(parent, "1") == Completed(7)


def test_a_message_that_a_live_instance_is_still_owed(
    bench: Bench, engine: Engine
) -> None:
    engine.start(listener, "1")
    engine.send(listener, "1", "word", "first", key="k")
    bench.execute("UPDATE wf_messages SET payload = '\"owed\"', message_key = 'j'")
    finding = only(engine, FaultKind.MESSAGE_UNTOLD, "listener")
    assert finding.problem == (
        "it was sent a message on 'word' at 2030-01-01T00:00:00+00:00, and was not told"
    )
    ending = repaired(engine, finding).run(listener, "1")
    assert ending == Completed(["first", "owed"])


def test_what_belongs_to_an_older_generation_is_owed_to_nobody(
    bench: Bench, engine: Engine, clock: TestClock
) -> None:
    engine.run(rounds, "1")
    clock.advance(HOUR)
    engine.worker().drain()
    bench.execute("UPDATE wf_awakeables SET status = 'cancelled' WHERE generation = 0")
    bench.execute("DELETE FROM wf_journal WHERE step_name = 'sleep:nap'")
    assert engine.doctor() == []


def test_what_an_instance_of_an_older_version_waits_for_is_not_known(
    bench: Bench, engine: Engine
) -> None:
    engine.run(answer, "1")
    bench.execute("UPDATE wf_instances SET waits_on = NULL")
    assert engine.doctor() == []


# --- rows and journals ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (
            "DELETE FROM wf_journal WHERE position = 1",
            "its journal holds 2 entries, the last at position 3; its row counts 3",
        ),
        (
            "DELETE FROM wf_journal WHERE position = 3",
            "its journal holds 2 entries, the last at position 2; its row counts 3",
        ),
        (
            "UPDATE wf_instances SET position = 2",
            "its journal holds 3 entries, the last at position 3; its row counts 2",
        ),
        (
            "DELETE FROM wf_journal",
            "its journal holds 0 entries, the last at position 0; its row counts 3",
        ),
    ],
)
@pytest.mark.parametrize("attempts", [1, 5], ids=["failed", "running"])
def test_a_journal_with_gaps(
    bench: Bench, engine: Engine, fault: str, problem: str, attempts: int
) -> None:
    engine.start(steps, "1")
    with failing("three"):
        engine.worker(max_attempts=attempts).run_once()
    bench.execute(fault)
    finding = only(engine, FaultKind.JOURNAL_BROKEN, "steps")
    assert finding.problem == problem
    for_people(engine, finding, "journal steps 1")


@pytest.mark.parametrize("status", ["asleep", "", "RUNNING", "zzz"])
def test_a_status_that_does_not_exist(
    bench: Bench, engine: Engine, status: str
) -> None:
    engine.start(steps, "1")
    bench.execute("UPDATE wf_instances SET status = :status", status=status)
    finding = only(engine, FaultKind.UNKNOWN_STATUS, "steps")
    assert finding.problem == (
        f"its status is {status!r}, which this code does not know"
    )
    for_people(engine, finding, "db current")


# --- many of them ---------------------------------------------------------------------


def test_every_instance_is_looked_at_page_by_page(
    bench: Bench, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "PAGE", 2)
    for number in range(5):
        engine.start(steps, f"{number}")
        engine.run(approval, f"{number}")
    bench.execute("UPDATE wf_instances SET runnable_at = NULL")
    bench.execute("DELETE FROM wf_awakeables")
    assert found(engine) == [
        *((FaultKind.OUT_OF_SIGHT, "steps", f"{number}") for number in range(5)),
        *((FaultKind.UNWAKEABLE, "approval", f"{number}") for number in range(5)),
    ]
    assert len(engine.doctor(limit=3)) == 3


def test_findings_of_one_kind_do_not_hide_another(
    bench: Bench, healthy: Engine
) -> None:
    bench.execute("DELETE FROM wf_awakeables")
    bench.execute(
        "UPDATE wf_instances SET runnable_at = NULL WHERE workflow_id = 'ready'"
    )
    bench.execute(f"UPDATE wf_instances SET {ASLEEP} WHERE workflow_id = 'woken'")
    assert sorted(found(healthy)) == [
        (FaultKind.OUT_OF_SIGHT, "steps", "ready"),
        (FaultKind.UNWAKEABLE, "approval", "waiting"),
        (FaultKind.WAKE_LOST, "answer", "woken"),
        (FaultKind.WAKE_LOST, "approval", "woken"),
        (FaultKind.WAKE_LOST, "parent", "woken"),
    ]
    for finding in healthy.doctor():
        if finding.is_mechanical:
            healthy.repair(finding)
    assert found(healthy) == [(FaultKind.UNWAKEABLE, "approval", "waiting")]


def test_a_limit_or_a_patience_that_makes_no_sense_is_refused(engine: Engine) -> None:
    with pytest.raises(ValueError, match="limit"):
        engine.doctor(limit=0)
    with pytest.raises(InvalidDuration):
        engine.doctor(patience=-1)


def test_the_words_of_a_repair_can_be_copied(engine: Engine) -> None:
    finding = Finding(FaultKind.BLOCKED, "a b", "1", "", ("cancel", "a b", "1"), "")
    assert finding.repair == "workflow-engine cancel 'a b' 1"
