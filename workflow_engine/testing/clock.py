"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

START = datetime(2030, 1, 1, tzinfo=UTC)


class TestClock:
    """Time for ``Engine(clock=...)``: leases, due times and waits follow it.

    `wait` blocks in real time until its event is set or the clock was moved far enough.
    Share one clock between the engines of a test, as machines share the database's.

    Args:
        now: an aware datetime to begin at.
    """

    __test__ = False  # pytest: not a test case

    def __init__(self, now: datetime = START) -> None:
        if now.tzinfo is None:
            raise ValueError(f"a clock needs an aware datetime, not {now!r}")
        self._began = _microseconds(now)
        self._now = self._began
        self._moved = threading.Condition()

    @property
    def now(self) -> datetime:
        """The time it shows, in UTC."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self._now)

    def advance(self, duration: timedelta | float) -> None:
        """Move it forward by a timedelta or seconds; whoever waited long enough goes
        on.

        Raises:
            ValueError: a negative duration.
        """
        step = duration if isinstance(duration, timedelta) else timedelta(0, duration)
        if step < timedelta(0):
            raise ValueError(f"a clock does not go back: {duration!r}")
        with self._moved:
            self._now += step // timedelta(microseconds=1)
            self._moved.notify_all()

    def instant(self) -> int:
        """Microseconds since 1970-01-01 UTC."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since the clock was made, as it shows them."""
        return (self._now - self._began) / 1e6

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until ``event`` is set or the clock has moved by ``seconds``."""
        until = self._now + int(seconds * 1e6)
        with self._moved:
            while not event.is_set() and self._now < until:
                # The event has no way to wake us, so look at it now and then.
                self._moved.wait(0.002)
        return event.is_set()


def _microseconds(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
