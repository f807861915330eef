"""Durations and instants as whole microseconds, checked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from workflow_engine.errors import InvalidDuration

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = datetime.min.replace(tzinfo=UTC) - _EPOCH
_LAST = datetime.max.replace(tzinfo=UTC) - _EPOCH
_MICROSECOND = timedelta(microseconds=1)
LONGEST = timedelta(days=365_000)
"""A thousand years: what is longer is a mistake, and would leave the calendar."""


def microseconds(duration: timedelta | float, what: str) -> int:
    """A duration in whole microseconds; numbers are seconds.

    Raises:
        InvalidDuration: negative, NaN, infinite, longer than a thousand years, or not a
            duration at all (a ValueError too).
    """
    if isinstance(duration, bool) or not isinstance(duration, timedelta | int | float):
        raise InvalidDuration(
            what=what, found=repr(duration), problem="give a timedelta, or seconds"
        )
    try:
        delta = duration if isinstance(duration, timedelta) else timedelta(0, duration)
    except (OverflowError, ValueError):
        problem = "it is not a finite number of seconds within the calendar"
        found = repr(duration)
        raise InvalidDuration(what=what, found=found, problem=problem) from None
    if delta < timedelta(0):
        raise InvalidDuration(what=what, found=repr(duration), problem="it is negative")
    if delta > LONGEST:
        problem = "it is longer than a thousand years"
        raise InvalidDuration(what=what, found=repr(duration), problem=problem)
    return delta // _MICROSECOND


def instant(moment: datetime, what: str) -> int:
    """An aware datetime as microseconds since 1970-01-01 UTC.

    Raises:
        InvalidDuration: it is naive, lies outside the calendar in UTC, or is not a
            datetime.
    """
    if not isinstance(moment, datetime):
        problem = "give an aware datetime"
        raise InvalidDuration(what=what, found=repr(moment), problem=problem)
    if moment.utcoffset() is None:
        problem = "it has no time zone; give an aware datetime"
        raise InvalidDuration(what=what, found=repr(moment), problem=problem)
    since = moment - _EPOCH
    if not _FIRST <= since <= _LAST:
        problem = "in UTC it lies outside the calendar, the years 1 to 9999"
        raise InvalidDuration(what=what, found=repr(moment), problem=problem)
    return since // _MICROSECOND


def to_datetime(instant: int) -> datetime:
    """Microseconds since 1970-01-01 UTC as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=instant)
