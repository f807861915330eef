"""Workers that are told to stop, once and twice, and runs that are interrupted."""

from __future__ import annotations

import json
import signal
import time

from workflow_engine import Completed, Engine, Status
from workflow_engine.core.journal import Kind

from .processes import Process, Processes, eventually
from .program import one_step, two_steps
from .test_killed import row_of

WORKER = json.dumps({"concurrency": 2, "poll": 0.02})
SECONDS_OF_THE_STEP = 2.0


def terminate(process: Process) -> None:
    """Send SIGTERM, and see that it has arrived."""
    process.signal(signal.SIGTERM)
    process.expect("log stopping")


def test_a_worker_told_to_stop_finishes_its_step_and_claims_nothing_more(
    database_url: str, engine: Engine, others: Processes
) -> None:
    gate = others.gate("1.first")
    engine.start(two_steps, "1", 4)
    worker = others.start("worker", WORKER)
    worker.expect("entered 1.first")
    entered = time.monotonic()
    terminate(worker)
    # A start is noticed within milliseconds: let the signal arrive first.
    eventually(lambda: time.monotonic() > entered + 0.5, "the signal arrives")
    engine.start(one_step, "2", 5)
    # It has a free slot, and looked for work every 20 ms before.
    eventually(
        lambda: time.monotonic() > entered + SECONDS_OF_THE_STEP, "the step takes long"
    )
    assert row_of(database_url, "2").epoch == 0
    gate.open()
    worker.expect("ended 1 interrupted")
    worker.expect("stopped")
    assert worker.wait() == 0

    row = row_of(database_url, "1")
    assert (row.status, row.lease_owner, row.attempts) == (Status.RUNNING, None, 0)
    assert [entry.step for entry in engine.journal(two_steps, "1")] == ["first"]
    assert row_of(database_url, "2").epoch == 0
    assert engine.worker().drain().completed == 2
    assert others.count() == {"1.first": 1, "1.second": 1, "2.only": 1}
    assert row_of(database_url, "1").takeovers == 0


def test_a_second_signal_ends_a_worker_now_and_another_goes_on(
    database_url: str, engine: Engine, others: Processes
) -> None:
    others.gate("1.only")
    engine.start(one_step, "1", 4)
    worker = others.start("worker", WORKER)
    worker.expect("entered")
    terminate(worker)
    successor = others.start("worker", WORKER)
    successor.expect("working")
    assert row_of(database_url, "1").lease_owner is not None
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 128 + signal.SIGTERM
    successor.expect("entered 1.only")
    assert engine.journal(one_step, "1") == ()


def test_a_worker_with_a_stuck_step_exits_at_its_deadline_and_idles_until_then(
    database_url: str, engine: Engine, others: Processes
) -> None:
    grace = 1.5
    others.gate("1.only")
    engine.start(one_step, "1", 4)
    worker = others.start("worker", json.dumps({"poll": 0.02, "grace": grace}))
    worker.expect("entered")
    told, used = time.monotonic(), worker.cpu_seconds()
    terminate(worker)
    eventually(lambda: time.monotonic() > told + 0.8 * grace, "most of it is over")
    assert worker.cpu_seconds() - used < 0.25 * grace
    assert worker.wait() == 0
    assert time.monotonic() - told >= grace
    assert worker.has_said("log instance 1 is still in a step")
    # It is dead, so nobody has to wait for its lease.
    successor = others.start("worker", WORKER)
    successor.expect("entered 1.only")


def test_a_worker_that_stops_leaves_new_work_to_others(
    database_url: str, engine: Engine, others: Processes
) -> None:
    others.gate("1.only")
    engine.start(one_step, "1", 4)
    stopping = others.start("worker", WORKER)
    stopping.expect("entered 1.only")
    terminate(stopping)
    successor = others.start("worker", WORKER)
    for id in ("2", "3"):
        engine.start(one_step, id, 5)
        successor.expect(f"ended {id} completed")
    assert not stopping.has_said("entered 2")
    stopping.kill()
    # Without its claim being waited for.
    successor.expect("entered 1.only")


def test_a_worker_in_a_thread_runs_without_signal_handlers(
    database_url: str, engine: Engine, others: Processes
) -> None:
    engine.start(one_step, "1", 4)
    worker = others.start("worker-in-a-thread", WORKER)
    worker.expect("ended 1 completed")
    worker.tell()
    worker.expect("unchanged True")
    worker.expect("stopped")
    assert worker.wait() == 0


def test_a_worker_in_a_thread_of_an_event_loop_runs(
    database_url: str, engine: Engine, others: Processes
) -> None:
    engine.start(one_step, "1", 4)
    worker = others.start("worker-beside-a-loop", WORKER)
    worker.expect("ended 1 completed")
    worker.tell()
    worker.expect("stopped")
    assert worker.wait() == 0


def test_a_run_that_is_interrupted_gives_its_lease_back(
    database_url: str, engine: Engine, others: Processes
) -> None:
    gate = others.gate("1.second")
    runner = others.start("run", "two_steps", "1", "4")
    runner.expect("entered 1.second")
    runner.signal(signal.SIGINT)
    assert runner.wait() == -signal.SIGINT
    gate.open()
    row = row_of(database_url, "1")
    assert (row.status, row.lease_owner, row.attempts) == (Status.RUNNING, None, 0)
    assert [entry.kind for entry in engine.journal(two_steps, "1")] == [Kind.STEP_OK]
    assert engine.run(two_steps, "1") == Completed(8)
    assert others.count() == {"1.first": 1, "1.second": 2}


def test_ten_restarts_beside_a_long_step_make_no_extra_runs(
    database_url: str, engine: Engine, others: Processes
) -> None:
    gate = others.gate("1.only")
    engine.start(one_step, "1", 4)
    worker = others.start("worker", json.dumps({"lease": 0.6, "poll": 0.02}))
    worker.expect("entered")
    claimed = row_of(database_url, "1")

    def is_renewed() -> bool:
        until: int = row_of(database_url, "1").lease_until - claimed.lease_until
        return until > 600_000

    for _ in range(10):
        with Engine(database_url, workflows=[one_step]) as restarted:
            assert restarted.worker().run_once().discovered == 0
    eventually(is_renewed, "its heartbeat keeps the lease beyond its first time")
    assert engine.worker().run_once().discovered == 0
    gate.open()
    worker.expect("ended 1 completed")
    assert others.count() == {"1.only": 1}
    assert row_of(database_url, "1").epoch == claimed.epoch + 1


def test_handles_in_three_processes_all_resolve(
    database_url: str, engine: Engine, others: Processes
) -> None:
    gate = others.gate("1.only")
    engine.start(one_step, "1", 4)
    clients = [others.start("result", "one_step", "1", "10") for _ in range(3)]
    for client in clients:
        client.expect("waiting")
    worker = others.start("worker", WORKER)
    worker.expect("entered")
    gate.open()
    for client in clients:
        assert client.expect("results") == "results" + 10 * " 4"
        assert client.wait() == 0
