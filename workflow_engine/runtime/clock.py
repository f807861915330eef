"""The one place that asks the time or waits.

Leases and due times are the database's business: `SystemClock.instant` says None, and
statements use the database's own clock. What a process measures itself, it measures
monotonically, and uses only to give up sooner.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Time, as the engine needs it."""

    def instant(self) -> int | None:
        """Microseconds since 1970-01-01 UTC, or None for the database's clock."""

    def monotonic(self) -> float:
        """Seconds that never go back, for deadlines inside this process."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until ``event`` is set, at most ``seconds``; whether it is set."""


class SystemClock:
    """The real one."""

    def instant(self) -> int | None:
        """None: the database's clock decides."""
        return None

    def monotonic(self) -> float:
        """Seconds of the system's monotonic clock."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for the event."""
        return event.wait(seconds)


def pause(seconds: float) -> None:
    """Wait in real time, whatever a test clock shows.

    For what goes on outside: a database that is away, a row that others change.
    """
    time.sleep(seconds)
