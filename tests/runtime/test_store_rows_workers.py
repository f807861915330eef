"""What workers leave alone, share out and do not lose."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    Patch,
    Status,
    Step,
    Suspended,
    WorkflowBody,
    workflow,
)
from workflow_engine.runtime.points import Point, Points

from ..wholeness import check_whole
from .bench import LEASE, Bench
from .orders import three_steps
from .outages import away

# --- what is not for this code --------------------------------------------------------


def test_code_that_does_not_know_a_patch_leaves_the_instance_to_others(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @workflow
    def order() -> WorkflowBody[bool]:
        is_new = yield from Patch("faster")
        yield Await("word")
        return is_new

    new, old = bench.engine(order, active_patches={"faster"}), bench.engine(order)
    assert new.run(order, "1") == Suspended(("word",))
    new.resolve(order, "1", "word", None)
    before = new.describe(order, "1")
    worker = old.worker()
    summary = worker.run_once()
    assert (summary.unknown_name, summary.advanced, summary.failed) == (1, 0, 0)
    assert "faster" in caplog.text
    # It does not ask again and again.
    assert worker.run_once().unknown_name == 0
    described = new.describe(order, "1")
    assert (described.owner, described.attempts) == (None, 0)
    assert described.next_attempt_at == before.next_attempt_at
    assert new.worker().run_once().completed == 1
    assert new.run(order, "1") == Completed(True)


def test_an_entry_of_a_kind_to_come_blocks_this_code_and_not_the_next(
    bench: Bench,
) -> None:
    order = three_steps(bench)
    bench.crash(order, "1", at="before_step", of="b")
    engine = bench.engine(order)
    kind = "UPDATE wf_journal SET kind = :kind"
    bench.execute(kind, kind="from_the_future")
    assert engine.worker().run_once().blocked == 1
    described = engine.describe(order, "1")
    assert (described.status, described.attempts) == (Status.BLOCKED, 0)
    assert described.reason is not None
    assert "from_the_future" in described.reason
    # Other code knows it.
    bench.execute(kind, kind="step_ok")
    bench.clock.advance(LEASE)
    assert engine.worker().run_once().completed == 1
    assert bench.done == ["a", "b", "c"]


# --- nothing is lost from sight -------------------------------------------------------


@pytest.mark.parametrize("point", ["before_step", "after_step", "after_commit"])
def test_after_a_crash_between_two_steps_each_has_run_and_nobody_waits(
    bench: Bench, point: Point
) -> None:
    order = three_steps(bench)
    subject = "append" if point == "after_commit" else "c"
    bench.crash(order, "1", at=point, of=subject)
    check_whole(bench.url)
    engine = bench.engine(order)
    assert engine.worker().run_once().completed == 1
    assert [bench.calls(name) for name in "ab"] == [1, 1]
    assert bench.calls("c") == (2 if point == "after_step" else 1)
    check_whole(bench.url)
    unleased = "SELECT * FROM wf_instances WHERE status = 'running'"
    assert bench.execute(unleased) == []


def test_a_worker_does_not_run_beside_itself_what_its_lease_was_lost_of(
    bench: Bench,
) -> None:
    entered, leave, beating, beat, looked = (threading.Event() for _ in range(5))
    looks = 0

    class NoHeart(Points):
        def reach(self, point: Point, subject: str) -> None:
            if point == "before_heartbeat":
                beating.set()
                beat.wait(30)

    def stay() -> None:
        bench.done.append("a")
        entered.set()
        leave.wait(30)

    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("a", stay)

    def note_look(statement: str, _: Any) -> bool:
        nonlocal looks
        # Each pass begins by asking for owners.
        looks += "DISTINCT" in statement and beating.is_set()
        if looks == 5:
            looked.set()
        return False

    engine = bench.engine(order, points=NoHeart())
    engine.start(order, "1")
    worker = engine.worker(concurrency=2, poll=0)
    thread = threading.Thread(target=worker.run)
    with away(note_look):
        thread.start()
        assert entered.wait(30)
        bench.clock.advance(LEASE)
        assert beating.wait(30)
        assert looked.wait(30)
    assert bench.done == ["a"]
    beat.set()
    worker.stop()
    leave.set()
    thread.join(30)
    assert not thread.is_alive()


# --- no transaction is open, nobody starves -------------------------------------------


def _open_on_postgres(bench: Bench) -> list[Any]:
    return bench.execute(
        "SELECT state, query FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
        " AND backend_type = 'client backend'"
    )


def _open_on_sqlite(path: Path) -> list[str]:
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
        # Waits for nobody who reads, and says whether there was somebody.
        busy = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return ["somebody reads"] if busy else []


@pytest.mark.parametrize("by", ["run", "worker"])
@pytest.mark.parametrize("where", ["step", "arm", "body"])
def test_no_transaction_is_open_while_authors_code_runs(
    bench: Bench, tmp_path: Path, where: str, by: str
) -> None:
    looks: list[list[Any]] = []

    def look() -> None:
        if bench.url.startswith("sqlite"):
            looks.append(_open_on_sqlite(tmp_path / "test.db"))
        else:
            looks.append(_open_on_postgres(bench))

    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("first", bench.do, "first")
        if where == "body":
            look()
        if where == "step":
            yield Step("look", look)
        yield Await("word", look if where == "arm" else None)

    engine = bench.engine(order)
    engine.start(order, "1")
    if by == "run":
        assert engine.run(order, "1") == Suspended(("word",))
    else:
        # With room for more it would look for that meanwhile, in transactions.
        assert engine.worker(concurrency=1).run_once().still_suspended == 1
    assert looks
    assert all(look == [] for look in looks)


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_long_backlog_of_one_workflow_does_not_starve_another(
    bench: Bench, limit: int
) -> None:
    def do(name: str) -> None:
        bench.done.append(name)

    @workflow
    def many() -> WorkflowBody[None]:
        yield Step("a", do, "many")

    @workflow
    def few() -> WorkflowBody[None]:
        yield Step("a", do, "few")

    engine = bench.engine(many, few)
    for number in range(20):
        engine.start(many, str(number))
    bench.clock.advance(1)
    for number in range(4):
        engine.start(few, str(number))
    worker = engine.worker(concurrency=4)
    passes = 2 if limit == 1 else 1
    for turn in range(1, 4):
        for _ in range(passes):
            assert worker.run_once(limit=limit).completed == limit
        assert bench.calls("few") >= turn
        assert bench.calls("many") >= turn


# --- slots ----------------------------------------------------------------------------


def _an_arm_that_raises() -> WorkflowBody[None]:
    def arm() -> None:
        raise ConnectionError("no broker")

    yield Await("word", arm)


def _a_body_that_raises_when_it_is_dropped() -> WorkflowBody[None]:
    try:
        yield Await("word")
    finally:
        raise RuntimeError("not so fast")


def _a_body_that_does_not_stop() -> WorkflowBody[None]:
    while True:
        with suppress(BaseException):
            yield Await("word")


@pytest.mark.parametrize(
    "body",
    [
        _an_arm_that_raises,
        _a_body_that_raises_when_it_is_dropped,
        _a_body_that_does_not_stop,
    ],
)
def test_a_hundred_runs_that_go_wrong_in_parking_leave_every_slot_free(
    bench: Bench, body: Callable[[], WorkflowBody[None]]
) -> None:
    meet = threading.Barrier(2, timeout=30)

    @workflow
    def together() -> WorkflowBody[None]:
        yield Step("meet", meet.wait)

    wrong = workflow(name="wrong")(body)
    engine = bench.engine(wrong, together)
    for number in range(100):
        engine.start(wrong, str(number))
    worker = engine.worker(concurrency=2)
    summary = worker.run_once()
    assert summary.resumed == 100
    assert summary.paced + summary.still_suspended == 100
    for id in "12":
        engine.start(together, id)
    assert worker.run_once().completed == 2


def test_a_hundred_parks_that_the_store_breaks_leave_every_slot_free(
    bench: Bench,
) -> None:
    meet = threading.Barrier(2, timeout=30)

    @workflow
    def parks() -> WorkflowBody[None]:
        yield Await("word")

    @workflow
    def together() -> WorkflowBody[None]:
        yield Step("meet", meet.wait)

    engine = bench.engine(parks, together)
    for number in range(100):
        engine.start(parks, str(number))
    worker = engine.worker(concurrency=2)

    def break_it(statement: str, parameters: Any) -> bool:
        if "suspended" in str(parameters):
            raise RuntimeError("a bug in the store")
        return False

    with away(break_it):
        assert worker.run_once().transient_errors == 100
    for id in "12":
        engine.start(together, id)
    assert worker.run_once().completed >= 2
    check_whole(bench.url)
