"""A database that is away, locked, full or slow costs time, and nothing else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy

from workflow_engine import (
    Completed,
    Status,
    Step,
    StoreUnavailable,
    Suspended,
    WorkflowBody,
    workflow,
)
from workflow_engine.core.identity import SEED
from workflow_engine.core.journal import Prefix
from workflow_engine.store import sql_store
from workflow_engine.testing import TestClock

from ..wholeness import check_whole
from .bench import LEASE, Bench, kinds, steps
from .orders import three_steps, two_generations
from .outages import after_tries, away

# --- every place ----------------------------------------------------------------------


def test_wherever_the_connection_is_lost_the_run_goes_on(bench: Bench) -> None:
    order = two_generations(bench)
    engine = bench.engine(order)
    place, lost = 0, ["once"]
    while lost:
        place, counted, id = place + 1, 0, str(place)

        def is_here(_statement: str, _parameters: Any) -> bool:
            nonlocal counted
            counted += 1
            return counted == place  # noqa: B023 - asked before the next round

        bench.done.clear()
        engine.start(order, id)
        with away(is_here) as lost:
            assert engine.run(order, id) == Suspended(("word",))
        engine.resolve(order, id, "word", "fine")
        assert engine.run(order, id) == Completed("fine")
        assert bench.done == ["a0", "a1", "b"]
        assert steps(engine, order, id, 0) == ["a"]
        assert steps(engine, order, id, 1) == [SEED, "a", "b"]
        assert engine.describe(order, id).attempts == 0
    assert place > 12
    check_whole(bench.url)


@pytest.mark.parametrize("by", ["run", "worker"])
def test_a_database_that_stays_away_spends_no_attempt(
    bench: Bench, clock: TestClock, by: str
) -> None:
    order = three_steps(bench)
    engine = bench.engine(order)
    engine.start(order, "1")

    # Neither the append nor the heartbeat comes through, until the lease is over.
    def is_away(statement: str, _: Any) -> bool:
        return statement.startswith("UPDATE") and bool(bench.done)

    with after_tries(2, lambda: clock.advance(LEASE)), away(is_away):
        if by == "run":
            with pytest.raises(StoreUnavailable):
                engine.run(order, "1")
        else:
            assert engine.worker().run_once().transient_errors >= 1
    described = engine.describe(order, "1")
    assert (described.attempts, described.status) == (0, Status.RUNNING)
    assert engine.run(order, "1") == Completed(3)
    assert bench.done == ["a", "a", "b", "c"]
    check_whole(bench.url)


def test_one_claim_that_fails_holds_nobody_else_up(bench: Bench) -> None:
    order = three_steps(bench)
    engine = bench.engine(order)
    for id in "123":
        engine.start(order, id)
    unlucky = engine.describe(order, "2").number
    failures = 0

    def is_the_load_of_one(statement: str, parameters: Any) -> bool:
        nonlocal failures
        mine = "wf_journal" in statement and unlucky in _values(parameters)
        failures += mine
        return mine and failures <= 2

    with away(is_the_load_of_one) as lost:
        summary = engine.worker(concurrency=1).run_once()
    assert len(lost) == 2
    assert summary.completed == 3
    assert engine.describe(order, "2").attempts == 0
    check_whole(bench.url)


def _values(parameters: Any) -> list[Any]:
    return list(parameters.values() if isinstance(parameters, dict) else parameters)


def test_a_pass_that_cannot_claim_says_so_and_the_next_one_does_it_all(
    bench: Bench,
) -> None:
    order = three_steps(bench)
    engine = bench.engine(order)
    for id in "123":
        engine.start(order, id)
    worker = engine.worker()
    with away(lambda statement, _: statement.startswith("UPDATE")) as lost:
        summary = worker.run_once()
    assert len(lost) == 1
    assert (summary.transient_errors, summary.discovered) == (1, 0)
    assert all(engine.describe(order, id).attempts == 0 for id in "123")
    assert worker.run_once().completed == 3


def test_a_failure_that_could_not_be_written_is_written_again_and_counted_once(
    bench: Bench,
) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("a", bench.fail, "a", ConnectionError("away"))

    engine = bench.engine(order)
    engine.start(order, "1")
    # The commit of the crash is the second of the pass, after that of the claim.
    commits = 0

    def is_the_crash(statement: str, _: Any) -> bool:
        nonlocal commits
        commits += statement == "COMMIT"
        return statement == "COMMIT" and 2 <= commits <= 4

    with away(is_the_crash) as lost:
        assert engine.worker().run_once().paced == 1
    assert lost == ["COMMIT"] * 3
    assert bench.done == ["a"]
    assert engine.describe(order, "1").attempts == 1
    assert kinds(engine, order, "1") == ["attempt"]


def test_wherever_a_run_is_interrupted_the_next_goes_on_at_once(bench: Bench) -> None:
    order = two_generations(bench)
    engine = bench.engine(order)
    place, interrupted = 0, True
    while interrupted:
        place, counted, id, interrupted = place + 1, 0, str(place), False

        def interrupt(_statement: str, _parameters: Any) -> bool:
            nonlocal counted, interrupted
            counted += 1
            if counted == place:  # noqa: B023 - asked before the next round
                interrupted = True
                raise KeyboardInterrupt
            return False

        bench.done.clear()
        engine.start(order, id)
        with away(interrupt), suppress(KeyboardInterrupt):
            assert engine.run(order, id) == Suspended(("word",))
        # The same process: nobody can see that the run is over but by its lease.
        assert engine.run(order, id) == Suspended(("word",))
        assert set(bench.done) == {"a0", "a1"}
        assert len(bench.done) <= 3
        assert engine.describe(order, id).attempts == 0
    assert place > 12
    check_whole(bench.url)


def test_an_interrupted_run_does_not_wait_for_a_database_that_is_away(
    bench: Bench,
) -> None:
    gone = False

    def interrupted() -> None:
        nonlocal gone
        gone = True
        raise KeyboardInterrupt

    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("a", interrupted)

    engine = bench.engine(order)

    def come_back() -> None:
        nonlocal gone
        gone = False

    with (
        after_tries(2, come_back) as said,
        away(lambda *_: gone),
        pytest.raises(KeyboardInterrupt),
    ):
        engine.run(order, "1")
    assert said == []


# --- reads that come back short -------------------------------------------------------


def test_a_journal_that_is_read_short_is_read_again(bench: Bench) -> None:
    order = three_steps(bench)
    bench.crash(order, "1", at="before_step", of="c")
    short = 0

    def cut(
        connection: sqlalchemy.Connection,
        cursor: Any,
        statement: str,
        parameters: Any,
        *_: Any,
    ) -> tuple[str, Any]:
        nonlocal short
        if "wf_journal" in statement and "ORDER BY" in statement and short < 3:
            short += 1
            return statement + " LIMIT 1", parameters
        return statement, parameters

    engine = bench.engine(order)
    listening = (sqlalchemy.Engine, "before_cursor_execute", cut)
    sqlalchemy.event.listen(*listening, retval=True)
    try:
        assert engine.run(order, "1") == Completed(3)
    finally:
        sqlalchemy.event.remove(*listening)
    assert short == 3
    assert bench.done == ["a", "b", "c"]


@pytest.mark.parametrize("lag", [1, 2])
def test_a_run_that_began_from_an_old_read_adopts_what_it_missed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, lag: int
) -> None:
    # A replica whose row is as old as its journal looks consistent.
    class Lagging(sql_store.SqlStore):
        late = True

        def load(self, instance: int, generation: int, page_size: int) -> Prefix:
            prefix = super().load(instance, generation, page_size)
            if not self.late:
                return prefix
            self.late = False
            position = prefix.position - lag
            kept = tuple(e for e in prefix.entries if e.position <= position)
            return Prefix(kept, position, prefix.superseded)

    order = three_steps(bench)
    bench.crash(order, "1", at="before_step", of="c")
    monkeypatch.setattr(sql_store, "SqlStore", Lagging)
    engine = bench.engine(order)
    assert engine.run(order, "1") == Completed(3)
    assert steps(engine, order, "1") == ["a", "b", "c"]
    assert bench.calls("c") == 1
    assert engine.describe(order, "1").attempts == 0
    check_whole(bench.url)
