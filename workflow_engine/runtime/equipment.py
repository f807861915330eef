"""What every run of an engine shares."""

from __future__ import annotations

import logging

import attrs

from workflow_engine.core.codec import Codec
from workflow_engine.core.ports import Store
from workflow_engine.runtime.clock import Clock
from workflow_engine.runtime.lease import Heartbeat
from workflow_engine.runtime.options import RunOptions
from workflow_engine.runtime.points import Points
from workflow_engine.runtime.registry import Registry
from workflow_engine.telemetry.events import Event, Observer


def _log() -> logging.Logger:
    return logging.getLogger("workflow_engine")


@attrs.frozen
class Equipment:
    """The store and the clock, who we are, and how runs behave."""

    store: Store
    registry: Registry
    codec: Codec
    options: RunOptions
    clock: Clock
    points: Points
    heartbeat: Heartbeat
    owner: str
    observer: Observer | None = None
    log: logging.Logger = attrs.field(factory=_log)

    def tell(self, event: Event) -> None:
        """Call the observer; what it raises is logged and changes nothing."""
        if self.observer is None:
            return
        try:
            self.observer(event)
        except Exception:
            self.log.exception("an observer failed on %r", event)
