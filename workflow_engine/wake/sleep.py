"""Sleeping, by the database's clock.

Armed in the transaction that parks the run, or while steps are in flight in one of its
own; the due time is set then, and never moves. Fired by any worker, or by the next park
of the instance. Belongs to its generation: a sleep that falls due after a rotation
wakes nobody.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from workflow_engine.core.durations import instant, microseconds
from workflow_engine.core.identity import SLEEP_PREFIX, check_own_name
from workflow_engine.core.waits import Sleep, StartTimer


def sleep(duration: timedelta | float, name: str | None = None) -> Sleep:
    """A wait of ``duration`` (a timedelta, or seconds) from when it is first reached.

    Args:
        name: unique among the sleeps of a generation. Without one the sleep is numbered
            where it stands; give a name to what may be moved in the code. Such numbers,
            ``0`` or ``0.1/0``, are no names.

    Raises:
        InvalidDuration: NaN, infinite, negative, or longer than a thousand years.
        InvalidName: a name that cannot be one.
    """
    return Sleep(_checked(name), StartTimer(delay=microseconds(duration, "sleep")))


def sleep_until(moment: datetime, name: str | None = None) -> Sleep:
    """A wait until an aware datetime; over at once if that has passed.

    Raises:
        InvalidDuration: the datetime is naive, or outside the calendar in UTC.
        InvalidName: a name that cannot be one.
    """
    return Sleep(_checked(name), StartTimer(due=instant(moment, "sleep_until")))


def _checked(name: str | None) -> str | None:
    return check_own_name(name, SLEEP_PREFIX, "sleep name")
