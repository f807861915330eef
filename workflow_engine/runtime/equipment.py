"""What every run of an engine shares."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import attrs

from workflow_engine.core.codec import Codec
from workflow_engine.core.ports import Store
from workflow_engine.runtime.clock import Clock
from workflow_engine.runtime.lease import Heartbeat
from workflow_engine.runtime.options import RunOptions
from workflow_engine.runtime.points import Points
from workflow_engine.runtime.registry import Registry
from workflow_engine.telemetry.events import Event, Observer

if TYPE_CHECKING:
    from workflow_engine.store.callers import CallersSession


def _log() -> logging.Logger:
    return logging.getLogger("workflow_engine")


@attrs.frozen
class Awaited:
    """What a run of this process waits for: an awakeable's type and place."""

    workflow: str
    label: str
    returns: Any


class AwaitedTypes:
    """The types of awakeables that runs of this process waited for, the latest ones."""

    LIMIT = 10_000

    def __init__(self) -> None:
        self._by_id: dict[str, Awaited] = {}

    def add(self, id: str, awaited: Awaited) -> None:
        """Remember one; forget the oldest when there are too many."""
        self._by_id[id] = awaited
        while len(self._by_id) > self.LIMIT:
            self._by_id.pop(next(iter(self._by_id)), None)

    def get(self, id: str) -> Awaited | None:
        """What is known of an id."""
        return self._by_id.get(id)


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
    awaited: AwaitedTypes = attrs.field(factory=AwaitedTypes)
    observer: Observer | None = None
    log: logging.Logger = attrs.field(factory=_log)

    def within(self, session: CallersSession | None) -> Store:
        """The store, within the transaction of a caller's session if there is one."""
        return self.store if session is None else self.store.joined(session)

    def tell(self, event: Event) -> None:
        """Call the observer; what it raises is logged and changes nothing."""
        if self.observer is None:
            return
        try:
            self.observer(event)
        except Exception:
            self.log.exception("an observer failed on %r", event)
