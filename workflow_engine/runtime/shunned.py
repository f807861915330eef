"""Instances that a worker leaves alone for a while."""

from __future__ import annotations

from workflow_engine.runtime.clock import Clock


class Shunned:
    """Instances to leave alone, each until some time. Any thread may add to it.

    Args:
        seconds: how long each is left alone.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._until: dict[int, float] = {}
        self._broken: set[int] = set()

    def add(self, instance: int, *, broken: bool = False) -> None:
        """Leave it alone from now on; if it is broken, its timers, too."""
        self._until[instance] = self._clock.monotonic() + self._seconds
        if broken:
            self._broken.add(instance)

    def now(self) -> set[int]:
        """Those that are left alone at this moment."""
        now = self._clock.monotonic()
        for instance, until in list(self._until.items()):  # others add to it meanwhile
            if until <= now:
                self._broken.discard(instance)
                self._until.pop(instance, None)
        return set(self._until)

    def broken(self) -> set[int]:
        """Those of `now` that are broken."""
        return self.now() & self._broken
