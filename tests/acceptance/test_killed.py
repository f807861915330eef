"""Processes that die, and processes that were only thought dead."""

from __future__ import annotations

import json
import signal
from typing import Any

import attrs
import pytest
from sqlalchemy import Row, select, update

from workflow_engine import Completed, Engine, LeaseHeld
from workflow_engine.runtime.owner import Owner
from workflow_engine.store.database import Database
from workflow_engine.store.now import now_in

from .processes import Processes, eventually
from .program import one_step, two_steps

SHORT = json.dumps({"lease": 1, "poll": 0.05})
LONG = json.dumps({"lease": 3600, "poll": 0.05})


def row_of(url: str, id: str) -> Row[Any]:
    """The instance's row as it stands."""
    with Database.open(url) as database, database.read() as connection:
        table = database.tables.instances
        return connection.execute(select(table).where(table.c.workflow_id == id)).one()


def now_of(url: str) -> int:
    """What the database says that the time is."""
    with Database.open(url) as database, database.read() as connection:
        question = select(now_in(database.dialect))
        return connection.execute(question, {"now_is": None}).scalar_one()


def make_foreign(url: str, id: str) -> None:
    """Make the lease look as if it were of a process on another machine."""
    owner = Owner.parse(row_of(url, id).lease_owner)
    assert owner is not None
    with Database.open(url) as database, database.write() as connection:
        table = database.tables.instances
        foreign = str(attrs.evolve(owner, boot="another"))
        connection.execute(
            update(table).where(table.c.workflow_id == id).values(lease_owner=foreign)
        )


@pytest.mark.parametrize("by", ["run", "worker"])
def test_after_a_kill_the_next_on_this_machine_goes_on_at_once(
    database_url: str, engine: Engine, others: Processes, by: str
) -> None:
    gate = others.gate("1.second")
    engine.start(two_steps, "1", 4)
    victim = others.start("worker", LONG)
    victim.expect("entered 1.second")
    victim.kill()
    gate.open()
    leased_until = row_of(database_url, "1").lease_until
    if by == "run":
        assert engine.run(two_steps, "1") == Completed(8)
    else:
        assert engine.worker().run_once().completed == 1
    assert row_of(database_url, "1").ended_at < leased_until
    assert others.count() == {"1.first": 1, "1.second": 2}


@pytest.mark.parametrize("by", ["run", "worker"])
def test_after_a_kill_on_another_machine_the_lease_is_waited_for(
    database_url: str, engine: Engine, others: Processes, by: str
) -> None:
    gate = others.gate("1.only")
    engine.start(one_step, "1", 4)
    victim = others.start("worker", SHORT)
    victim.expect("entered")
    victim.kill()
    gate.open()
    make_foreign(database_url, "1")
    leased_until = row_of(database_url, "1").lease_until

    refused: list[str] = []

    def is_completed() -> bool:
        if by == "worker":
            return engine.worker().run_once().completed == 1
        try:
            return engine.run(one_step, "1") == Completed(4)
        except LeaseHeld as held:
            refused.append(str(held))
            return False

    eventually(is_completed, "the lease is over")
    taken_at = row_of(database_url, "1").ended_at
    assert leased_until <= taken_at
    assert all(f"pid {victim.pid} until" in refusal for refusal in refused)
    assert others.count() == {"1.only": 2}


SIGN = {
    "at the same step": "reached before_step.first",
    "a step ahead": "entered 1.second",
    "done": "ended 1 completed",
}


@pytest.mark.parametrize("successor_is", SIGN)
@pytest.mark.parametrize("place", ["1.first", "before_commit.append"])
def test_a_process_stopped_past_its_lease_writes_nothing_when_it_goes_on(
    database_url: str,
    engine: Engine,
    others: Processes,
    place: str,
    successor_is: str,
) -> None:
    gate = others.gate(place)
    engine.start(two_steps, "1", 4)
    zombie = others.start("worker", SHORT)
    zombie.expect(f"entered {place}" if place == "1.first" else f"reached {place}")
    zombie.pause()
    gate.open()
    if successor_is == "at the same step":
        others.gate("before_step.first")
    elif successor_is == "a step ahead":
        others.gate("1.second")
    successor = others.start("worker", LONG)
    successor.expect(SIGN[successor_is])
    taken, journal = row_of(database_url, "1"), engine.journal(two_steps, "1")

    zombie.signal(signal.SIGCONT)
    # A refused outcome becomes the ending of the marker that refused it.
    ending = "completed" if successor_is == "done" else "lease_lost"
    zombie.expect(f"ended 1 {ending}")
    assert row_of(database_url, "1") == taken
    assert engine.journal(two_steps, "1") == journal
    assert others.count()["1.first"] == (1 if successor_is == "at the same step" else 2)


def test_a_process_stopped_past_its_lease_starts_no_step_when_it_goes_on(
    database_url: str, engine: Engine, others: Processes
) -> None:
    # Nobody has taken the instance over, so the database would let it; and its
    # heartbeat does not come before the run.
    gate = others.gate("after_commit.append")
    engine.start(two_steps, "1", 4)
    zombie = others.start("worker", SHORT)
    zombie.expect("reached after_commit.append")
    leased = row_of(database_url, "1")
    heart = others.gate(f"before_heartbeat.{leased.lease_owner}")
    zombie.expect("reached before_heartbeat")
    zombie.pause()
    gate.open()
    leased = row_of(database_url, "1")
    eventually(lambda: now_of(database_url) > leased.lease_until, "the lease is over")
    zombie.signal(signal.SIGCONT)
    zombie.expect("ended 1 lease_lost")
    heart.open()
    # It may claim it anew, and then has a lease.
    zombie.expect("ended 1 completed")
    assert row_of(database_url, "1").epoch == leased.epoch + 2
    assert others.count() == {"1.first": 1, "1.second": 1}
