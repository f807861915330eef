"""What a run asks of its database, counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    Step,
    StepFailed,
    Suspended,
    WorkflowBody,
    workflow,
)

from .bench import Bench, Statements, watched

WRITES = ["UPDATE", "INSERT"]


class Watching:
    """Notes what went to the database between two moments of a body."""

    def __init__(self) -> None:
        self.marks: list[tuple[int, int]] = []
        self.statements = Statements()

    def mark(self) -> None:
        self.marks.append((len(self.statements.seen), self.statements.commits))

    def between(self, one: int, other: int) -> tuple[list[str], int]:
        (start, before), (end, after) = self.marks[one], self.marks[other]
        return list(self.statements.verbs[start:end]), after - before


@pytest.fixture
def watching() -> Watching:
    return Watching()


def test_a_fresh_step_is_one_transaction_and_no_read(
    bench: Bench, watching: Watching
) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        for number in range(5):
            yield Step(f"s{number}", bench.do, f"s{number}")
            watching.mark()

    engine = bench.engine(order)
    engine.run(order, "warm")
    watching.marks.clear()
    with watched() as watching.statements:
        engine.run(order, "1")
    for number in range(4):
        assert watching.between(number, number + 1) == (WRITES, 1)


def test_a_replayed_step_is_none(bench: Bench, watching: Watching) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        watching.mark()
        for number in range(20):
            yield Step(f"s{number}", bench.do, f"s{number}")
        watching.mark()
        yield Await("go")

    engine = bench.engine(order)
    engine.run(order, "1")
    watching.marks.clear()
    with watched() as watching.statements:
        assert engine.run(order, "1") == Suspended(("go",))
    assert watching.between(0, 1) == ([], 0)


def test_no_transaction_is_open_while_a_step_or_an_arm_runs(bench: Bench) -> None:
    """Another connection can write meanwhile, and nothing is checked out."""
    checked: list[int] = []

    def check() -> None:
        pool: Any = engine._database.engine.pool
        checked.append(pool.checkedout())
        bench.execute("UPDATE wf_instances SET tags = tags")

    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("a", check)
        yield Await("n", check)

    engine = bench.engine(order)
    assert engine.run(order, "1") == Suspended(("n",))
    assert checked == [0, 0]


def test_a_whole_run_costs_a_look_a_claim_a_load_and_a_commit_a_step(
    bench: Bench,
) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        for number in range(10):
            yield Step(f"s{number}", bench.do, f"s{number}")

    engine = bench.engine(order)
    engine.run(order, "warm")
    with watched() as statements:
        engine.run(order, "1")
    assert statements.commits == 1 + 10 + 1
    # The end also asks who waits for it.
    assert len(statements.seen) <= 2 + 2 + 2 * 11 + 1


def test_a_failure_and_its_compensation_cost_a_commit_each(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        try:
            yield Step("a", bench.fail, "a", ValueError("x"))
        except StepFailed:
            yield Step("b", bench.do, "b")

    engine = bench.engine(order)
    engine.run(order, "warm")
    with watched() as statements:
        engine.run(order, "1")
    # The claim, the failure, the compensation, the end.
    assert statements.commits == 4


def test_parked_instances_cost_a_pass_nothing(bench: Bench) -> None:
    @workflow
    def waiting() -> WorkflowBody[None]:
        yield Await("go")

    def cost(instances: int) -> tuple[int, int]:
        for number in range(instances):
            engine.run(waiting, f"{instances}-{number}")
        engine.worker().run_once()
        with watched() as statements:
            assert engine.worker().run_once().discovered == 0
        return len(statements.seen), statements.commits

    engine = bench.engine(waiting)
    few, many = cost(1), cost(30)
    assert few == many
    assert few[1] == 0


def test_an_idle_worker_writes_nothing(bench: Bench) -> None:
    engine = bench.engine()
    worker = engine.worker()
    worker.run_once()
    with watched() as statements:
        for _ in range(3):
            worker.run_once()
    assert statements.commits == 0
    assert set(statements.verbs) <= {"SELECT", "WITH"}


def test_a_pass_claims_many_at_once(bench: Bench) -> None:
    @workflow
    def empty() -> WorkflowBody[int]:
        return 1
        yield

    def claims(instances: int) -> int:
        for number in range(instances):
            engine.start(empty, f"{instances}-{number}")
        with watched() as statements:
            assert engine.worker(concurrency=20).run_once().completed == instances
        return statements.commits - instances  # each ends with a commit of its own

    engine = bench.engine(empty)
    assert claims(2) <= 1
    assert claims(20) <= 1


def test_an_ended_instance_is_answered_by_reading_alone(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[int]:
        return 1
        yield

    engine = bench.engine(order)
    engine.run(order, "1")
    with watched() as statements:
        assert engine.run(order, "1") == Completed(1)
    assert statements.commits == 0
    assert statements.verbs == ["SELECT"]


def test_a_listing_reads_no_payloads(bench: Bench) -> None:
    engine = bench.engine()
    with watched() as statements:
        engine.list()
    (statement,) = statements.seen
    assert "input" not in statement
    assert ".result" not in statement


def test_a_heartbeat_renews_all_leases_with_one_statement(bench: Bench) -> None:
    costs: list[Sequence[str]] = []

    def beat() -> None:
        with watched() as statements:
            engine._equip().heartbeat.beat()
        costs.append(statements.verbs)

    def nested(depth: int) -> Callable[[], None]:
        def step() -> None:
            beat() if depth == 0 else engine.run("deep", str(depth - 1), depth - 1)

        return step

    @workflow
    def deep(depth: int) -> WorkflowBody[None]:
        yield Step("s", nested(depth))

    engine = bench.engine(deep)
    engine.run(deep, "4", 4)
    assert costs == [["UPDATE"]]
