"""From a claim to the end of its run: hold the lease, drive, let go."""

from __future__ import annotations

import threading

from workflow_engine.core.rows import Claim
from workflow_engine.runtime.driver import Driver
from workflow_engine.runtime.endings import RunEnding
from workflow_engine.runtime.equipment import Equipment


def execute(
    equipment: Equipment,
    claim: Claim,
    lease: int,
    since: float,
    *,
    max_attempts: int | None,
    stop: threading.Event,
) -> tuple[RunEnding, bool]:
    """Run a claimed instance under its lease.

    Args:
        lease: its duration in microseconds.
        since: monotonic time from before the claim.

    Returns:
        How the run ended, and whether anything durable came of it.
    """
    workflow = equipment.registry.get(claim.lease.key.workflow)
    held = equipment.heartbeat.hold(claim.lease, lease, since)
    try:
        driver = Driver(
            equipment, workflow, claim, held, max_attempts=max_attempts, stop=stop
        )
        return driver.run(), driver.moved
    finally:
        equipment.heartbeat.let_go(held)
