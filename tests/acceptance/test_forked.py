"""An engine that is open when its process forks."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable

import pytest
from sqlalchemy import create_engine, make_url

from workflow_engine import (
    Completed,
    Engine,
    EngineClosed,
    Step,
    WorkflowBody,
    current_step,
    workflow,
)
from workflow_engine.runtime.owner import Owner

from .processes import eventually
from .program import WORKFLOWS, two_steps
from .test_killed import row_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


class Child:
    """A forked process that does one thing and says what came of it."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._reading, writing = os.pipe()
        with warnings.catch_warnings():
            # Newer versions of Python warn of what is tested here.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            try:
                said = str(action())
            except BaseException:  # noqa: BLE001 - the parent reports it
                said = traceback.format_exc()
            os.write(writing, said.encode())
            # Nothing of the test run may happen twice.
            os._exit(0)
        os.close(writing)

    def said(self) -> str:
        """Wait for its end."""
        with os.fdopen(self._reading) as pipe:
            said = pipe.read()
        os.waitpid(self.pid, 0)
        return said


def test_an_engine_works_in_parent_and_child_at_the_same_time(
    database_url: str,
) -> None:
    with Engine(database_url, workflows=WORKFLOWS) as engine:
        engine.run(two_steps, "before", 1)
        child = Child(lambda: [engine.run(two_steps, f"c{n}", n) for n in range(10)])
        here = [engine.run(two_steps, f"p{n}", n) for n in range(10)]
        assert child.said() == str(here) == str([Completed(2 * n) for n in range(10)])


def owner_in_a_step(url: str) -> Callable[[], str]:
    """A step's function that looks who has the lease."""

    def look() -> str:
        owner = Owner.parse(row_of(url, current_step().id).lease_owner)
        assert owner is not None
        return str(owner.pid)

    return look


@pytest.mark.parametrize("by", ["run", "worker", "worker made before"])
def test_a_child_is_an_owner_of_its_own(database_url: str, by: str) -> None:
    @workflow
    def who() -> WorkflowBody[str]:
        return (yield from Step("look", owner_in_a_step(database_url)))

    with Engine(database_url, workflows=[who]) as engine:
        assert engine.run(who, "parent") == Completed(str(os.getpid()))
        before = engine.worker()
        before.run_once()
        engine.start(who, "child")

        def work() -> object:
            if by == "run":
                engine.run(who, "child")
            else:
                worker = engine.worker() if by == "worker" else before
                worker.run_once()
            return engine.handle(who, "child").result(timeout=0)

        child = Child(work)
        assert child.said() == str(child.pid)
        assert engine.run(who, "again") == Completed(str(os.getpid()))


def test_a_child_keeps_its_leases(database_url: str) -> None:
    # The heartbeat is a thread, and threads do not survive a fork.
    @workflow
    def patient() -> WorkflowBody[bool]:
        return (yield from Step("wait", is_renewed))

    def is_renewed() -> bool:
        id = current_step().id
        claimed = row_of(database_url, id)
        eventually(
            lambda: row_of(database_url, id).lease_until > claimed.lease_until,
            "the lease is renewed",
            patience=10,
        )
        return True

    with Engine(database_url, workflows=[patient]) as engine:
        worker = engine.worker(lease=2)
        for id in ("parent", "child"):
            engine.start(patient, id)
        worker.run_once(limit=1)

        def work() -> object:
            worker.run_once()
            return engine.handle(patient, "child").result(timeout=0)

        assert Child(work).said() == "True"


def test_a_callers_engine_is_refused_in_the_child(database_url: str) -> None:
    url = make_url(database_url.replace("postgresql:", "postgresql+psycopg:"))
    made = create_engine(url)
    with Engine(made, workflows=WORKFLOWS) as engine:
        engine.run(two_steps, "parent", 1)
        said = Child(lambda: engine.run(two_steps, "child", 1)).said()
        assert EngineClosed.__name__ in said
        assert "made after the fork" in said
        assert engine.run(two_steps, "parent") == Completed(2)
    made.dispose()
