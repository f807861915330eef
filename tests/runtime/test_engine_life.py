"""Opening and closing an engine, and what its observer is told."""

from __future__ import annotations

import pytest

from workflow_engine import (
    Engine,
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
