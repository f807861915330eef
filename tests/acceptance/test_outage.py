"""The database goes away under worker processes, and comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from workflow_engine import Engine

from .. import postgres
from .processes import Process, Processes, eventually, processes
from .program import WORKFLOWS, ten_steps

INSTANCES = 60
WORKER = json.dumps({"concurrency": 4, "poll": 0.05})


@pytest.fixture
def others(postgres_url: str, tmp_path: Path) -> Iterator[Processes]:
    """Starts processes on a PostgreSQL database."""
    with processes(postgres_url, tmp_path) as started:
        yield started


def tries_of(worker: Process) -> int:
    """How often it has said that it tries again."""
    return sum("trying again" in line for line in list(worker.said))


@pytest.mark.postgres
def test_a_server_that_drops_everybody_and_lets_nobody_in_costs_time_alone(
    postgres_url: str, postgres_server: postgres.Server, others: Processes
) -> None:
    name = make_url(postgres_url).database
    with Engine(postgres_url, workflows=WORKFLOWS) as engine:
        for number in range(INSTANCES):
            engine.start(ten_steps, str(number), number)
    workers = [others.start("worker", WORKER, gated=False) for _ in range(2)]
    for worker in workers:
        worker.expect("working")
    eventually(lambda: others.count().total() > 20, "some steps are done")

    postgres_server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    postgres_server.execute(
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
        f" WHERE datname = '{name}'"
    )
    for worker in workers:
        eventually(lambda: tries_of(worker) > 3, "it has tried again")  # noqa: B023
    postgres_server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    with Engine(postgres_url, workflows=WORKFLOWS) as engine:
        for number in range(INSTANCES):
            handle = engine.handle(ten_steps, str(number))
            assert handle.result(timeout=60) == 10 * number + 45
            described = engine.describe(ten_steps, str(number))
            assert (described.attempts, described.takeovers) == (0, 0)
    # Every outcome was kept until it could be recorded.
    assert others.count().total() == len(others.count()) == 10 * INSTANCES
    assert not [line for line in others.said() if "Traceback" in line]
