"""A worker notices what happened without its poll, and costs little while it waits.

Polls are ten minutes here, so whatever happens at all happened because the worker was
told, or knew when to look. Real time, since it is the database's: what is asserted is
that it happened, not how fast.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import select

from workflow_engine import (
    Engine,
    Status,
    Step,
    Worker,
    WorkflowBody,
    sleep,
    spawn_child,
    workflow,
)
from workflow_engine.core.compounds import AnyOf
from workflow_engine.runtime.clock import SystemClock
from workflow_engine.store.database import Database
from workflow_engine.testing import TestClock

from ..runtime.bench import Bench, watched
from .flows import id_of, patient

POLL = 600
PATIENCE = 30
"""Seconds: far below the poll, and far above what a loaded machine takes."""


@workflow
def napping(seconds: float) -> WorkflowBody[str]:
    yield sleep(seconds, name="nap")
    return "rested"


@contextmanager
def working(worker: Worker) -> Iterator[None]:
    """Run a worker beside the test."""
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.fixture
def engine(bench: Bench) -> Engine:
    return bench.engine(patient, napping, parent, clock=SystemClock())


@workflow
def parent() -> WorkflowBody[str]:
    child = yield from spawn_child(patient, "child")
    return (yield from child)


def wait_parked(engine: Engine, name: str, id: str) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.01)):
        if engine.describe(name, id).status == Status.SUSPENDED:
            return
        pause.wait(0.01)
    raise AssertionError(f"{name} {id} is {engine.describe(name, id).status}")


def test_a_start_is_noticed(engine: Engine) -> None:
    with working(engine.worker(poll=POLL)):
        wait_idle(engine)
        assert engine.start(napping, "1", 0).result(PATIENCE) == "rested"


def wait_idle(engine: Engine) -> None:
    """Let a worker come to rest: it has parked something, and found nothing else."""
    engine.start(patient, "first")
    wait_parked(engine, "patient", "first")


def test_a_signal_is_noticed(engine: Engine) -> None:
    with working(engine.worker(poll=POLL)):
        handle = engine.start(patient, "1")
        wait_parked(engine, "patient", "1")
        engine.signal(id_of(engine, patient, "1"), "hello")
        assert handle.result(PATIENCE) == "hello"


def test_the_end_of_a_child_is_noticed(engine: Engine) -> None:
    with working(engine.worker(poll=POLL)):
        handle = engine.start(parent, "1")
        wait_parked(engine, "parent", "1")
        wait_parked(engine, "patient", "child")
        engine.signal(id_of(engine, patient, "child"), "hello")
        assert handle.result(PATIENCE) == "hello"


def test_a_sleep_is_over_when_it_is_due(engine: Engine) -> None:
    with working(engine.worker(poll=POLL)):
        assert engine.start(napping, "1", 0.2).result(PATIENCE) == "rested"


def test_a_sleep_that_another_process_began_is_over_when_it_is_due(
    bench: Bench, engine: Engine
) -> None:
    elsewhere = bench.engine(napping, clock=SystemClock())
    with working(engine.worker(poll=POLL)):
        wait_idle(engine)
        elsewhere.run(napping, "1", 0.2)
        assert engine.handle(napping, "1").result(PATIENCE) == "rested"


def test_a_sleep_is_over_in_time_while_a_worker_is_busy_with_something_else(
    bench: Bench,
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        assert go_on.wait(2 * PATIENCE), "its end would be noticed, too"

    @workflow
    def busy() -> WorkflowBody[None]:
        yield Step("hold", hold)

    engine, elsewhere = bench.engine(busy, napping), bench.engine(busy, napping)
    elsewhere.run(napping, "1", 30)
    with working(engine.worker(poll=POLL)):
        try:
            # The only hint there is brings the worker to this, and to nothing else.
            elsewhere.start(busy, "1")
            assert entered.wait(PATIENCE)
            assert is_over_before_the_poll(bench, elsewhere)
        finally:
            go_on.set()


def is_over_before_the_poll(bench: Bench, engine: Engine) -> bool:
    """Let time pass, in steps: the worker may not have begun to wait at the first."""
    pause = threading.Event()
    for _ in range(POLL // 60):
        bench.clock.advance(30)
        for _ in range(100):
            if engine.describe(napping, "1").status == Status.COMPLETED:
                return True
            pause.wait(0.02)
    return False


def test_a_sleep_begun_beside_a_step_is_over_in_time(bench: Bench) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        assert go_on.wait(PATIENCE)

    @workflow
    def racing() -> WorkflowBody[int]:
        index, _ = yield from AnyOf([sleep(0.2, name="limit"), Step("hold", hold)])
        return index

    engine = bench.engine(racing, clock=SystemClock())
    with working(engine.worker(poll=POLL)):
        try:
            handle = engine.start(racing, "1")
            assert entered.wait(PATIENCE)
            pause = threading.Event()
            for _ in range(PATIENCE * 20):
                if engine.describe(racing, "1").position:
                    break
                pause.wait(0.05)
            assert engine.journal(racing, "1")[0].step == "sleep:limit"
        finally:
            go_on.set()
        assert handle.result(PATIENCE) == 0


def test_a_worker_that_does_not_listen_is_told_by_its_own_process_alone(
    bench: Bench, engine: Engine
) -> None:
    elsewhere = bench.engine(napping, clock=SystemClock())
    before = set(threading.enumerate())
    with working(engine.worker(poll=POLL, listen=False)):
        wait_idle(engine)
        began = {thread.name for thread in set(threading.enumerate()) - before}
        assert "workflow-engine-listener" not in began
        elsewhere.start(napping, "elsewhere", 0)
        # A pass that this hint begins finds both.
        assert engine.start(napping, "here", 0).result(PATIENCE) == "rested"
        assert engine.handle(napping, "elsewhere").result(PATIENCE) == "rested"


def test_a_worker_that_does_not_listen_notices_at_its_poll(
    bench: Bench, engine: Engine
) -> None:
    elsewhere = bench.engine(napping, clock=SystemClock())
    with working(engine.worker(poll=0.05, listen=False)):
        wait_idle(engine)
        assert elsewhere.start(napping, "1", 0).result(PATIENCE) == "rested"


# --- what it costs --------------------------------------------------------------------


def copies(bench: Bench, how_many: int) -> None:
    """Copy the instance ``0``, with its timer, so often."""
    columns = (
        "incarnation, status, generation, position, epoch, wake_after, runnable_at, "
        "input, created_at, updated_at, waits_on"
    )
    numbers = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
        f"WHERE i < {how_many}) "
    )
    bench.execute(
        f"INSERT INTO wf_instances (workflow_name, workflow_id, {columns}) {numbers}"
        f"SELECT workflow_name, 'copy ' || i, {columns} FROM wf_instances, n "
        "WHERE workflow_id = '0'"
    )
    bench.execute(
        "INSERT INTO wf_timers (instance_id, generation, step_name, due_at, "
        "created_at) SELECT c.id, 0, t.step_name, t.due_at, t.created_at "
        "FROM wf_timers t, wf_instances c WHERE c.workflow_id LIKE 'copy %'"
    )


@pytest.mark.parametrize("what", ["sleepers", "questions"])
def test_a_pass_over_a_thousand_parked_instances_costs_what_one_does(
    bench: Bench, what: str
) -> None:
    engine = bench.engine(napping, patient)
    worker = engine.worker()
    if what == "sleepers":
        engine.run(napping, "0", 3600)
    else:
        engine.run(patient, "0")
    with watched() as one:
        assert worker.run_once().discovered == 0
    copies(bench, 1000)
    with watched() as thousand:
        assert worker.run_once().discovered == 0
    assert thousand.seen == one.seen
    assert set(thousand.verbs) <= {"SELECT", "WITH"}, "an idle pass writes nothing"
    assert len(one.seen) < 10


def test_an_idle_worker_makes_one_pass_a_poll(bench: Bench) -> None:
    engine = bench.engine(napping, clock=(clock := CountingClock()))
    engine.run(napping, "0", 3600)
    copies(bench, 100)
    worker = engine.worker(poll=1)
    clock.after(10, worker.stop)
    with watched() as seen:
        worker.run()
    passes = [each for each in seen.seen if "wf_timers.due_at" in each]
    assert set(seen.verbs) <= {"SELECT", "WITH"}
    assert len(passes) <= 2 * (10 + 2), "two looks at timers in a pass"
    assert clock.waits == [1.0] * 10


class CountingClock(TestClock):
    """A clock in which waiting takes no time, and is written down."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._act: tuple[int, object] | None = None

    def after(self, waits: int, act: object) -> None:
        self._act = (waits, act)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return super().wait(event, seconds)
        if event.is_set():
            return True  # the hint that listening has begun
        self.waits.append(seconds)
        self.advance(seconds)
        if self._act is not None and len(self.waits) == self._act[0]:
            assert callable(self._act[1])
            self._act[1]()
        return event.is_set()


@pytest.mark.postgres
def test_a_due_sleep_that_cannot_be_had_does_not_keep_a_worker_spinning(
    postgres_url: str,
) -> None:
    clock = CountingClock()
    with Bench.on(postgres_url, clock) as bench, Database.open(postgres_url) as other:
        engine = bench.engine(napping)
        engine.run(napping, "1", 60)
        clock.advance(60)
        worker = engine.worker(poll=1)
        clock.after(5, worker.stop)
        with other.write() as connection:
            connection.execute(select(other.tables.instances).with_for_update())
            worker.run()
        assert min(clock.waits) > 0
        assert engine.worker().run_once().completed == 1


def test_a_broken_sleeper_does_not_keep_a_worker_spinning(bench: Bench) -> None:
    clock = CountingClock()
    engine = bench.engine(patient, napping, clock=clock)
    engine.run(patient, "helps to break the other's journal")
    engine.run(napping, "1", 60)
    bench.execute(
        "INSERT INTO wf_journal (instance_id, generation, position, kind, step_name, "
        "live, format, recorded_at, entry_id) SELECT i.id, 0, 1, kind, 'x', live, "
        "format, recorded_at, 'x' FROM wf_journal, wf_instances i "
        "WHERE i.workflow_id = '1'"
    )
    clock.advance(60)
    worker = engine.worker(poll=1)
    clock.after(5, worker.stop)
    worker.run()
    assert clock.waits == [1.0] * 5


def test_due_sleepers_are_fired_in_bounded_batches(bench: Bench) -> None:
    engine = bench.engine(napping)
    engine.run(napping, "0", 60)
    copies(bench, 700)
    bench.clock.advance(60)
    worker = engine.worker(concurrency=2)
    fired = [worker.run_once(limit=1).timers_fired for _ in range(3)]
    assert fired == [500, 201, 0]
