"""Opening and closing an engine, and what its observer is told."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from workflow_engine import (
    Completed,
    Engine,
    EngineClosed,
    JournalEncodeError,
    SchemaOutOfDate,
    Step,
    WorkflowBody,
    restore_seed,
    workflow,
)
from workflow_engine.telemetry.events import Event, StepRecorded

from .bench import Bench


@pytest.mark.postgres
def test_an_engine_that_cannot_be_entered_leaves_no_connection_open(
    blank_postgres_url: str,
) -> None:
    engine = Engine(blank_postgres_url)
    with pytest.raises(SchemaOutOfDate), engine:
        pass
    # Warnings are errors here: a connection left behind would show itself.
    assert engine._database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]


def noop() -> None:
    """Do nothing."""


@workflow
def seeded() -> WorkflowBody[None]:
    yield restore_seed(1)
    yield Step("mine", noop)


def test_an_observer_is_told_of_the_authors_steps_alone(sqlite_bench: Bench) -> None:
    told: list[Event] = []
    engine = sqlite_bench.engine(seeded, observer=told.append)
    engine.run(seeded, "1")
    assert [e.step for e in told if isinstance(e, StepRecorded)] == ["mine"]


# --- other options on the same engine ---


@workflow
def counted() -> WorkflowBody[int]:
    return (yield from Step("a", int, 1))


def test_other_options_share_the_connections_and_the_heartbeat(bench: Bench) -> None:
    engine = bench.engine(counted)
    engine.run(counted, "1")
    before = threading.active_count()
    pool: Any = engine._database.engine.pool
    connections = pool.checkedin()
    for number in range(5):
        view = engine.with_options(follow=False, max_payload_bytes=100 + number)
        assert view.run(counted, f"x{number}") == Completed(1)
    assert threading.active_count() == before
    assert pool.checkedin() == connections


def test_other_options_are_those_of_the_view_alone(bench: Bench) -> None:
    engine = bench.engine(counted)
    view = engine.with_options(active_patches={"p"}).with_options(max_payload_bytes=9)
    view.run(counted, "1")
    engine.run(counted, "2")
    assert view.describe(counted, "1").patches == frozenset({"p"})
    assert engine.describe(counted, "2").patches == frozenset()
    with pytest.raises(JournalEncodeError, match="limit is 9"):
        view.resolve(counted, "1", "n", "0123456789")
    with pytest.raises(TypeError, match="colour"):
        engine.with_options(colour="red")


def test_a_view_ends_with_its_engine_and_not_the_other_way_round(bench: Bench) -> None:
    engine = bench.engine(counted)
    with engine.with_options(follow=False) as view:
        view.run(counted, "1")
    with pytest.raises(EngineClosed):
        view.run(counted, "1")
    assert engine.run(counted, "1") == Completed(1)
    other = engine.with_options(follow=False)
    other.run(counted, "1")
    engine.close()
    with pytest.raises(EngineClosed):
        other.run(counted, "2")


def test_a_closed_engine_leaves_no_thread_behind(bench: Bench) -> None:
    before = threading.active_count()
    for _ in range(3):
        with Engine(bench.url, workflows=[counted], clock=bench.clock) as engine:
            engine.run(counted, "1")
            engine.run(counted, "2")
    assert threading.active_count() == before
