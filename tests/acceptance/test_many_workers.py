"""Many instances, several worker processes, and somebody who keeps killing them."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import func, select

from workflow_engine import Engine, Status
from workflow_engine.core.journal import Kind
from workflow_engine.store.database import Database

from .processes import Process, Processes, eventually
from .program import one_step, ten_steps

logger = logging.getLogger(__name__)

INSTANCES = 1000
CONCURRENCY = 8
WORKER = json.dumps({"concurrency": CONCURRENCY, "poll": 0.05})


def workers_on(url: str) -> int:
    """How many processes share a database of this kind in these tests."""
    return 2 if url.startswith("sqlite") else 4


def all_completed(url: str, patience: float) -> None:
    """Wait until every instance has completed."""
    with Database.open(url) as database:
        column = database.tables.instances.c.status
        question = select(column, func.count()).group_by(column)

        def are_completed() -> bool:
            with database.read() as connection:
                rows = connection.execute(question).all()
            return [tuple(row) for row in rows] == [(Status.COMPLETED, INSTANCES)]

        eventually(are_completed, "all completed", patience)


@contextmanager
def killing(others: Processes, running: list[Process]) -> Iterator[list[int]]:
    """Every second, kill the process that works longest and start another instead.

    Nobody is killed before the last one's successor works: on a slow machine there
    would be no work but starting. Gives the list of the process numbers killed so far.
    """
    killed: list[int] = []
    enough = threading.Event()

    def kill() -> None:
        while not enough.wait(1.0):
            if all(process.has_said("working") for process in running):
                victim = running.pop(0)
                victim.kill()
                killed.append(victim.pid)
                running.append(others.start("worker", WORKER, gated=False))

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        enough.set()
        thread.join()


def test_workers_that_are_killed_every_second_record_each_step_once(
    database_url: str,
    engine: Engine,
    others: Processes,
) -> None:
    for number in range(INSTANCES):
        engine.start(ten_steps, str(number), number)
    began, used = time.monotonic(), sum(os.times()[2:4])
    running = [
        others.start("worker", WORKER, gated=False)
        for _ in range(workers_on(database_url))
    ]
    with killing(others, running) as killed:
        all_completed(database_url, patience=240)
    took = time.monotonic() - began
    for process in running:
        process.kill()
    logger.info(
        "%.1f s, %.1f s of processors, %d killed, %d repeats",
        took,
        sum(os.times()[2:4]) - used,
        len(killed),
        others.repeats(),
    )

    steps = [f"s{number}" for number in range(10)]
    expected = [(Kind.STEP_OK, step) for step in steps] + [(Kind.COMPLETED, None)]
    for number in range(INSTANCES):
        journal = engine.journal(ten_steps, str(number))
        assert [(entry.kind, entry.step) for entry in journal] == expected
        assert journal[-1].value == 10 * number + 45
        assert engine.describe(ten_steps, str(number)).attempts == 0
    effects = {f"{number}.{step}" for number in range(INSTANCES) for step in steps}
    assert set(others.count()) == effects
    assert len(killed) >= 2
    assert not [line for line in others.said() if "Traceback" in line]
    # Whoever is killed has at most one step begun and not recorded in each of its runs.
    assert others.repeats() <= len(killed) * CONCURRENCY


def test_workers_that_live_do_every_step_once(
    database_url: str, engine: Engine, others: Processes
) -> None:
    for number in range(INSTANCES):
        engine.start(one_step, str(number), number)
    for _ in range(workers_on(database_url)):
        others.start("worker", WORKER, gated=False)
    all_completed(database_url, patience=120)
    assert len(list(others.effects.iterdir())) == workers_on(database_url)
    assert others.count().total() == len(others.count()) == INSTANCES
    assert not [line for line in others.said() if "Traceback" in line]
