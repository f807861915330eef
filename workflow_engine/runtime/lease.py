"""Leases this process holds, and their heartbeat.

The database decides who owns an instance: a lease is good while the row holds its
epoch, and every append checks that. Local time only shortens it: once ``duration`` has
passed since the last renewal that is known to have worked, the lease counts as lost
here, and the run stops before its next effect. So a process that was stopped for longer
than its lease does nothing when it wakes, even before the database refuses it.

One thread renews all leases of an engine with one statement, three times per duration.
A renewal that fails because the database is away is tried again; the leases run out by
themselves if it stays away.
"""

from __future__ import annotations

import logging
import threading

import attrs

from workflow_engine.core.ports import Store
from workflow_engine.core.rows import Key, Lease
from workflow_engine.errors import LeaseLost, StoreUnavailable
from workflow_engine.runtime.clock import Clock
from workflow_engine.runtime.points import Points

logger = logging.getLogger("workflow_engine")

BEATS = 3
"""Renewals per lease duration."""


@attrs.define(eq=False)
class HeldLease:
    """A lease as this process sees it.

    Attributes:
        good_until: monotonic seconds after which it may belong to somebody else.
        lost: set once it is known to be gone.
    """

    lease: Lease
    duration: int
    good_until: float
    lost: bool = False

    def is_good(self, now: float) -> bool:
        """Whether the run may still start an effect."""
        return not self.lost and now < self.good_until


class Heartbeat:
    """Renews the leases it is given until they are let go."""

    def __init__(self, store: Store, owner: str, clock: Clock, points: Points) -> None:
        self._store = store
        self._owner = owner
        self._clock = clock
        self._points = points
        self._held: dict[int, HeldLease] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, lease: Lease, duration: int, since: float) -> HeldLease:
        """Begin renewing. ``since`` is the monotonic time before it was claimed."""
        held = HeldLease(lease, duration, since + duration / 1e6)
        with self._lock:
            self._held[lease.instance] = held
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(
                    target=self._beat, name="workflow-engine-heartbeat", daemon=True
                )
                self._thread.start()
        self._wake.set()
        return held

    def let_go(self, held: HeldLease) -> None:
        """Stop renewing."""
        with self._lock:
            if self._held.get(held.lease.instance) is held:
                del self._held[held.lease.instance]

    def holds(self, key: Key) -> bool:
        """Whether a run of this engine has the lease of an instance."""
        with self._lock:
            return any(held.lease.key == key for held in self._held.values())

    def check(self, held: HeldLease) -> None:
        """Do nothing if the lease may be used.

        Raises:
            LeaseLost: it may not.
        """
        if not held.is_good(self._clock.monotonic()):
            key = held.lease.key
            raise LeaseLost(workflow=key.workflow, id=key.id)

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def beat(self) -> None:
        """Renew everything once."""
        with self._lock:
            held = list(self._held.values())
        for duration in {item.duration for item in held}:
            self._renew([item for item in held if item.duration == duration], duration)

    def _renew(self, held: list[HeldLease], duration: int) -> None:
        self._points.reach("before_heartbeat", self._owner)
        asked = self._clock.monotonic()
        kept = self._store.renew(self._owner, duration, [item.lease for item in held])
        for item in held:
            if item.lease.instance in kept:
                item.good_until = asked + duration / 1e6
            else:
                item.lost = True

    def _beat(self) -> None:
        while not self._stop.is_set():
            pause = self._pause()
            if pause is None:
                self._wake.wait()
                self._wake.clear()
                continue
            if self._clock.wait(self._stop, pause):
                return
            try:
                self.beat()
            except StoreUnavailable as error:
                logger.warning("leases were not renewed, trying again: %s", error)
            except Exception:
                logger.exception("leases were not renewed, trying again")

    def _pause(self) -> float | None:
        """Seconds to the next renewal; None while no lease is held."""
        with self._lock:
            durations = [item.duration for item in self._held.values()]
        return min(durations) / 1e6 / BEATS if durations else None
