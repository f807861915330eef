"""An SQLite file that is locked, full, read-only or gone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from workflow_engine import (
    Completed,
    Engine,
    Status,
    Step,
    StoreRefused,
    WorkflowBody,
    workflow,
)
from workflow_engine.testing import TestClock

from ..wholeness import check_whole
from .bench import Bench
from .orders import three_steps
from .outages import after_tries


def test_a_lock_on_the_file_is_waited_for_longer_than_sqlite_would(
    sqlite_bench: Bench, tmp_path: Path
) -> None:
    bench = sqlite_bench
    impatient = sqlalchemy.create_engine(bench.url, connect_args={"timeout": 0.01})
    other = sqlite3.connect(
        tmp_path / "test.db", isolation_level=None, check_same_thread=False
    )

    def lock() -> None:
        bench.done.append("locked")
        other.execute("BEGIN IMMEDIATE")

    @workflow
    def order() -> WorkflowBody[str]:
        yield Step("a", lock)
        yield Step("b", bench.do, "b")
        return "done"

    with closing(other), after_tries(3, lambda: other.execute("ROLLBACK")) as said:
        engine = bench.engine(order, url=impatient)
        assert engine.run(order, "1") == Completed("done")
    assert len(said) == 3
    assert bench.done == ["locked", "b"]
    assert engine.describe(order, "1").attempts == 0
    impatient.dispose()


def test_a_disk_that_is_full_for_a_while_loses_nothing(
    sqlite_bench: Bench,
) -> None:
    bench = sqlite_bench
    room = 2**30

    def limit(
        connection: sqlalchemy.Connection, cursor: sqlite3.Cursor, *_: Any
    ) -> None:
        # No less than the file has already: then it cannot grow.
        cursor.execute(f"PRAGMA max_page_count = {room}").fetchone()

    def fill() -> str:
        nonlocal room
        bench.done.append("a")
        room = 1
        return 1_000_000 * "x"

    def free() -> None:
        nonlocal room
        room = 2**30

    @workflow
    def order() -> WorkflowBody[int]:
        return len((yield from Step("a", fill)))

    engine = bench.engine(order)
    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", limit)
    try:
        with after_tries(3, free) as said:
            assert engine.run(order, "1") == Completed(1_000_000)
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", limit)
    assert len(said) == 3
    assert all("disk is full" in each for each in said)
    assert bench.done == ["a"]
    assert engine.describe(order, "1").attempts == 0
    check_whole(bench.url)


@pytest.mark.parametrize("by", ["run", "worker"])
def test_a_file_that_cannot_be_written_is_a_clear_error(
    sqlite_bench: Bench, tmp_path: Path, by: str
) -> None:
    bench = sqlite_bench
    order = three_steps(bench)
    bench.engine(order).start(order, "1")
    url = f"sqlite:///file:{tmp_path}/test.db?mode=ro&uri=true"
    engine = bench.engine(order, url=url)
    assert engine.describe(order, "1").status == Status.RUNNING
    with pytest.raises(StoreRefused, match="readonly"):
        engine.run(order, "1") if by == "run" else engine.worker().run_once()
    assert bench.done == []
    assert engine.describe(order, "1").attempts == 0


@pytest.mark.parametrize("by", ["run", "worker"])
def test_a_file_that_is_deleted_under_a_run_is_a_clear_error(
    sqlite_bench: Bench, tmp_path: Path, by: str
) -> None:
    bench = sqlite_bench

    def delete() -> None:
        bench.done.append("a")
        for path in tmp_path.glob("test.db*"):
            path.unlink()

    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("a", delete)
        yield Step("b", bench.do, "b")

    engine = bench.engine(order)
    engine.start(order, "1")
    worker = engine.worker()
    with pytest.raises(StoreRefused, match="deleted or replaced"):
        engine.run(order, "1") if by == "run" else worker.run_once()
    assert bench.done == ["a"]


def test_a_step_may_use_the_file_on_a_connection_of_its_own(
    sqlite_bench: Bench,
) -> None:
    bench = sqlite_bench
    inner = three_steps(bench)

    def work(by: Engine, id: str) -> int:
        by.start(inner, f"{id}-queued")
        ending = by.run(inner, id)
        assert isinstance(ending, Completed)
        return ending.result + by.worker().run_once().completed

    @workflow(name="outer")
    def outer() -> WorkflowBody[int]:
        total = yield from Step("same", work, engine, "1")
        return total + (yield from Step("other", work, another, "2"))

    engine = bench.engine(outer, inner)
    another = bench.engine(inner)
    assert engine.run(outer, "0") == Completed(8)
    check_whole(bench.url)


def test_a_database_in_memory_serves_the_threads_of_a_worker(
    clock: TestClock,
) -> None:
    with Bench.on("sqlite://", clock) as bench:
        order = three_steps(bench)
        engine = bench.engine(order)
        for id in range(20):
            engine.start(order, str(id))
        assert engine.worker(concurrency=4).run_once().completed == 20
        assert bench.done.count("a") == bench.done.count("c") == 20
