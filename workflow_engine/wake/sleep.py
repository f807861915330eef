"""Sleeping, by the database's clock.

Armed in the transaction that parks the run, or while steps are in flight in one of its
own; the due time is set then, and never moves. Fired by any worker, or by the next park
of the instance. Belongs to its generation: a sleep that falls due after a rotation
wakes nobody.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from workflow_engine.core.durations import instant, microseconds
from workflow_engine.core.identity import SLEEP_PREFIX, check_name
from workflow_engine.core.waits import Sleep, StartTimer
from workflow_engine.errors import InvalidName

_NUMBER = re.compile(r"([0-9]+\.[0-9]+/)*[0-9]+")
"""What the engine calls a sleep without a name: a path of branches, and a count."""


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
        InvalidDuration: the datetime is naive.
        InvalidName: a name that cannot be one.
    """
    return Sleep(_checked(name), StartTimer(due=instant(moment, "sleep_until")))


def _checked(name: str | None) -> str | None:
    if name is not None:
        check_name(name, "sleep name")
        check_name(SLEEP_PREFIX + name, "sleep name")
        if _NUMBER.fullmatch(name):
            raise InvalidName(
                name=repr(name),
                what="sleep name",
                problem="sleeps without a name are numbered so; put a word before it",
            )
    return name
