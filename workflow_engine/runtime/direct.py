"""Runs one instance here and now, for `Engine.run`.

An instance that cannot be run by this caller is left as it was: it is looked at before
it is claimed, since a claim already changes when others may take it up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from workflow_engine.core.durations import to_datetime
from workflow_engine.core.outcome import Ending
from workflow_engine.core.rows import Claim, Ended, Held, Instance, Missing
from workflow_engine.errors import LeaseHeld, LeaseLost, UnknownPatch
from workflow_engine.runtime.endings import (
    Blocked,
    Crashed,
    Interrupted,
    Lost,
    ending_of,
)
from workflow_engine.runtime.equipment import Equipment
from workflow_engine.runtime.execution import execute
from workflow_engine.runtime.owner import is_provably_dead, shown
from workflow_engine.runtime.persistence import persist
from workflow_engine.runtime.starting import Order, refuse_conflict

T = TypeVar("T")

LEASE = 60_000_000
"""Microseconds an instance is leased for; the heartbeat renews it."""


class DirectRun:
    """One order, driven through one generation at a time."""

    def __init__(self, equipment: Equipment, order: Order) -> None:
        self._equipment = equipment
        self._store = equipment.store
        self._order = order
        self._key = order.key
        self._deadline = 0.0

    def run_generation(self) -> Ending[Any]:
        """Claim the instance and run it until its generation ends, or it parks.

        Raises what `Engine.run` raises.
        """
        since = self._equipment.clock.monotonic()
        self._deadline = since + LEASE / 1e6
        found, _ = self._insist(lambda: self._store.find(self._key, payloads=True))
        if found is not None:
            self._refuse(found)
            if found.status.is_ended:
                return self._ending_of(found)
        claimed = self._claim()
        if isinstance(claimed, Ended):
            self._refuse(claimed.instance)
            return self._ending_of(claimed.instance)
        if not claimed.created:  # it may have been started or rotated just now
            self._refuse_claimed(claimed)
        ending, _ = execute(
            self._equipment,
            claimed,
            LEASE,
            since,
            max_attempts=None,
            stop=threading.Event(),
        )
        match ending:
            case Crashed(error) | Blocked(error):
                raise error
            case Lost() | Interrupted():
                raise LeaseLost(workflow=self._key.workflow, id=self._key.id)
        return ending

    def _claim(self) -> Claim | Ended:
        equipment, store, key = self._equipment, self._store, self._key
        owner, patches = equipment.owner, equipment.options.active_patches
        while True:
            answer, again = self._insist(
                lambda: store.claim(key, owner, LEASE, patches, self._order.new)
            )
            match answer:
                case Missing():
                    assert self._order.problem is not None  # else it was created
                    raise self._order.problem
                case Held(holder) if again and self._is_stray(holder):
                    self._insist(lambda: store.force_release(key))
                case Held(holder) if is_provably_dead(holder):
                    self._insist(partial(store.expire, [holder]))
                case Held(holder, until):
                    raise LeaseHeld(
                        workflow=key.workflow,
                        id=key.id,
                        owner=shown(holder),
                        until=to_datetime(until),
                    )
                case _:
                    return answer

    def _is_stray(self, holder: str) -> bool:
        """Whether a lease is ours from an earlier try, whose answer was lost."""
        ours = holder == self._equipment.owner
        return ours and not self._equipment.heartbeat.holds(self._key)

    def _refuse(self, row: Instance) -> None:
        """See that this code and these arguments fit the instance.

        Raises:
            InputConflict, UnknownPatch: they do not.
        """
        refuse_conflict(self._equipment, self._order, row)
        unknown = self._equipment.options.unknown_patches(row.patches)
        if unknown and not row.status.is_ended:
            raise UnknownPatch(
                workflow=self._key.workflow,
                id=self._key.id,
                patches=", ".join(sorted(unknown)),
            )

    def _refuse_claimed(self, claim: Claim) -> None:
        try:
            self._refuse(claim.instance)
        except Exception:
            self._store.release(claim.lease)
            raise

    def _ending_of(self, row: Instance) -> Ending[Any]:
        ending = ending_of(row, self._order.workflow, self._equipment.codec)
        assert ending is not None
        return ending

    def _insist(self, operation: Callable[[], T]) -> tuple[T, bool]:
        """Keep trying while the database is away, as long as a lease lasts."""
        clock = self._equipment.clock
        return persist(
            operation,
            f"claim of {self._key.workflow!r}, {self._key.id!r}",
            give_up=lambda: clock.monotonic() > self._deadline,
        )
