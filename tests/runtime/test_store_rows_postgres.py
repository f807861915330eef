"""PostgreSQL with other settings, slow, and with connections that are dropped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import make_url

from workflow_engine import (
    Completed,
    Status,
    Step,
    WorkflowBody,
    workflow,
)
from workflow_engine.runtime.clock import SystemClock
from workflow_engine.testing import TestClock

from .. import postgres
from ..wholeness import check_whole
from .bench import Bench
from .orders import three_steps, two_generations
from .outages import after_tries


@pytest.fixture
def postgres_bench(postgres_url: str, clock: TestClock) -> Iterator[Bench]:
    """PostgreSQL alone."""
    with Bench.on(postgres_url, clock) as bench:
        yield bench


def with_settings(url: str, **settings: str) -> str:
    """A URL whose sessions begin with other settings, as those of a role might."""
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    changed = make_url(url).update_query_dict({"options": options})
    return changed.render_as_string(hide_password=False)


@pytest.mark.postgres
def test_a_statement_that_is_ended_for_taking_too_long_is_tried_again(
    postgres_bench: Bench,
) -> None:
    bench = postgres_bench
    other = psycopg.connect(make_url(bench.url).render_as_string(hide_password=False))

    def lock() -> None:
        bench.done.append("locked")
        other.execute("SELECT 1 FROM workflow_engine.wf_instances FOR UPDATE")

    @workflow
    def order() -> WorkflowBody[str]:
        yield Step("a", lock)
        yield Step("b", bench.do, "b")
        return "done"

    impatient = with_settings(bench.url, statement_timeout="50ms")
    with closing(other), after_tries(2, other.rollback) as said:
        engine = bench.engine(order, url=impatient)
        assert engine.run(order, "1") == Completed("done")
    assert len(said) == 2
    assert all("statement timeout" in each for each in said)
    assert bench.done == ["locked", "b"]
    assert engine.describe(order, "1").attempts == 0


@pytest.mark.postgres
def test_a_roles_settings_change_nothing(postgres_bench: Bench) -> None:
    bench = postgres_bench
    order = two_generations(bench)
    odd = with_settings(
        bench.url,
        default_transaction_isolation="serializable",
        default_transaction_deferrable="on",
        TimeZone="Asia/Kathmandu",
        DateStyle="German",
        IntervalStyle="sql_standard",
        bytea_output="escape",
        search_path="pg_catalog",
        standard_conforming_strings="on",
        idle_in_transaction_session_timeout="1s",
    )
    engine = bench.engine(order, url=odd, clock=SystemClock())
    plain = bench.engine(order, clock=SystemClock())
    ids = [str(number) for number in range(20)]
    for id in ids:
        engine.start(order, id)
    with after_tries(1, lambda: None) as said:
        assert engine.worker(concurrency=4).drain().still_suspended == len(ids)
        for id in ids:
            engine.resolve(order, id, "word", "fine")
        assert engine.worker(concurrency=4).drain().completed == len(ids)
    assert said == []
    started = engine.starting(delay=3600).start(order, "later")
    assert engine.worker().run_once().discovered == 0
    assert started.status() == Status.RUNNING
    for id in (*ids, "later"):
        assert engine.describe(order, id) == plain.describe(order, id)
    until = plain.describe(order, "later").next_attempt_at
    assert until is not None
    assert until - plain.describe(order, "later").created_at == timedelta(hours=1)
    check_whole(bench.url)


@pytest.mark.postgres
def test_idle_connections_that_were_dropped_are_replaced_unnoticed(
    postgres_bench: Bench, postgres_server: postgres.Server
) -> None:
    bench = postgres_bench
    order = three_steps(bench)
    engine = bench.engine(order)
    worker = engine.worker(concurrency=4)
    drop = (
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    database = make_url(bench.url).database
    assert database is not None
    with after_tries(1, lambda: None) as said:
        for turn in range(3):
            for id in "1234":
                engine.start(order, f"{turn}{id}")
            assert len(postgres_server.execute(drop, database=database)) > 0
            assert worker.run_once().completed == 4
    assert said == []
