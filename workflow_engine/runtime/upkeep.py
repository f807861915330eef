"""What a worker does for all instances before it claims some.

It needs no workflow's code: leases of dead processes are freed, instances that are
overdue fail, timers that are due fire.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from workflow_engine.runtime.equipment import Equipment
from workflow_engine.runtime.owner import is_provably_dead
from workflow_engine.runtime.shunned import Shunned
from workflow_engine.runtime.summary import PassSummary

logger = logging.getLogger("workflow_engine")

FIRE = 500
"""Timers fired in a pass; more wait for the next."""

OVERDUE = 100
"""Instances failed by their deadlines in a pass; more wait for the next."""


class Upkeep:
    """One worker's part in it.

    Attributes:
        is_behind: whether there may be more than was done the last time.
    """

    def __init__(self, equipment: Equipment, shunned: Shunned) -> None:
        self.is_behind = False
        self._store = equipment.store
        self._owner = equipment.owner
        self._shunned = shunned

    def see_to_it(self) -> PassSummary:
        """Do it; what came of it.

        Raises:
            StoreUnavailable: the database is away. Nothing is lost.
        """
        self._expire_the_dead()
        # What has failed takes no timer any more.
        return self._fail_overdue() + self._fire_timers()

    def _expire_the_dead(self) -> None:
        others = self._store.owners() - {self._owner}
        dead = [owner for owner in others if is_provably_dead(owner)]
        if dead:
            freed = self._store.expire(dead)
            logger.info("%d lease(s) of dead processes are free", freed)

    def _fail_overdue(self) -> PassSummary:
        overdue = self._store.fail_overdue(OVERDUE, self._shunned.broken())
        for instance in overdue.failed:
            logger.error(
                "workflow %r, instance %r failed by its deadline",
                instance.key.workflow,
                instance.key.id,
            )
        self.leave_broken(overdue.broken, "ended")
        count = len(overdue.failed)
        self.is_behind = count + len(overdue.broken) == OVERDUE
        return PassSummary(discovered=count, failed=count, advanced=count)

    def _fire_timers(self) -> PassSummary:
        fired = self._store.fire_due(FIRE, self._shunned.broken())
        self.leave_broken(fired.broken, "woken")
        return PassSummary(timers_fired=fired.count)

    def leave_broken(self, broken: Mapping[int, str], what: str) -> None:
        """Report instances that could not be ended, woken or claimed; shun them."""
        for instance, problem in broken.items():
            logger.error(
                "instance %d cannot be %s and is left alone for a while: %s",
                instance,
                what,
                problem,
            )
            self._shunned.add(instance, broken=True)
