"""How an instance stands, in words, and what can be done about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from workflow_engine.cli.output import instant
from workflow_engine.core.attempts import step_tried
from workflow_engine.core.identity import (
    AWAKEABLE_PREFIX,
    CHILD_PREFIX,
    MESSAGE_PREFIX,
    RESERVED_PREFIXES,
    RETRY_PREFIX,
    SLEEP_PREFIX,
)
from workflow_engine.core.ids import parted
from workflow_engine.core.lifecycle import Status

if TYPE_CHECKING:
    from workflow_engine.cli.options import Where
    from workflow_engine.runtime.views import Description

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def database_now(where: Where) -> datetime:
    """The time by the database's clock, which all its instants follow."""
    from sqlalchemy import select

    from workflow_engine.core.durations import to_datetime
    from workflow_engine.store.now import now_in

    with where.database() as database, database.read() as connection:
        clock = select(now_in(database.dialect))
        return to_datetime(connection.execute(clock, {"now_is": None}).scalar_one())


def relative(at: datetime, now: datetime) -> str:
    """An instant as people say it: ``in 3 minutes``, ``2 hours ago``."""
    seconds = (at - now) / timedelta(seconds=1)
    amount = duration(abs(seconds))
    if amount is None:
        return "now"
    return f"in {amount}" if seconds > 0 else f"{amount} ago"


def duration(seconds: float) -> str | None:
    """A duration in its largest unit that is not less than one; None below a second."""
    for unit, length in _UNITS:
        count = int(seconds // length)
        if count:
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return None


def standing(found: Description, now: datetime) -> str:
    """In a sentence, what an instance does or waits for."""
    match found.status:
        case Status.RUNNING:
            return _running(found, now)
        case Status.SUSPENDED:
            return _suspended(found, now)
        case Status.BLOCKED:
            at = found.next_attempt_at
            again = "soon" if at is None or at <= now else _when(at, now)
            return (
                "blocked: the code that last ran it cannot read what is recorded; "
                f"workers look again {again}"
            )
        case _:
            ended = _when(found.ended_at, now)
            return f"{found.status.value} {ended}" if ended else found.status.value


def _running(found: Description, now: datetime) -> str:
    if found.owner is not None and found.leased_until is not None:
        until = _when(found.leased_until, now)
        if found.leased_until > now:
            return (
                f"being run by {found.owner}, whose lease ends {until} unless renewed"
            )
        return (
            f"left by {found.owner}, whose lease ended {until}; a worker takes it over"
        )
    if found.next_attempt_at is not None and found.next_attempt_at > now:
        when = _when(found.next_attempt_at, now)
        if found.attempts:
            return f"crashed {_times(found.attempts)}; workers try again {when}"
        return f"delayed; workers take it up {when}"
    if found.attempts:
        return f"crashed {_times(found.attempts)}; it waits for a worker to try again"
    return "waiting for a worker"


def _suspended(found: Description, now: datetime) -> str:
    due, waits = found.wake_after, found.waits_on
    if due is not None and due <= now:
        return "woken, and waiting for a worker"
    if waits and all(name.startswith(SLEEP_PREFIX) for name in waits) and due:
        return f"sleeping until {dated(due, now)}"
    if waits and all(name.startswith(RETRY_PREFIX) for name in waits) and due:
        return f"waiting until {dated(due, now)} for {waits_listed(waits)}"
    if waits:
        since = f"waiting for {waits_listed(waits)} since"
        latest = f", at the latest until {dated(due, now)}" if due else ""
        return f"{since} {dated(found.updated_at, now)}{latest}"
    if due is None:
        return "suspended until something it awaits is resolved"
    return f"suspended; it wakes {_when(due, now)}"


def waits_listed(names: Sequence[str]) -> str:
    """What is waited for, in few words however much it is."""
    if not names:
        return ""
    first, others = wait_in_words(names[0]), len(names) - 1
    if not others:
        return first
    return f"{first} and {others} other{'s' if others > 1 else ''}"


def wait_in_words(name: str) -> str:
    """What a name in `Description.waits_on` stands for."""
    if name.startswith(SLEEP_PREFIX):
        return f"the sleep {name.removeprefix(SLEEP_PREFIX)!r}"
    if name.startswith(AWAKEABLE_PREFIX):
        return f"the awakeable {name.removeprefix(AWAKEABLE_PREFIX)!r}"
    if name.startswith(CHILD_PREFIX):
        return f"the child {' '.join(parted(name.removeprefix(CHILD_PREFIX)))}"
    if name.startswith(RETRY_PREFIX):
        return f"the next attempt of step {step_tried(name)!r}"
    if name.startswith(MESSAGE_PREFIX):
        return f"a message on {parted(name.removeprefix(MESSAGE_PREFIX))[0]!r}"
    return f"a resolve of {name!r}"


def delivery(where: Where, workflow: str, id: str, name: str) -> str | None:
    """The command that delivers what a name waits for.

    None where it takes more than the name, or only time; `show` knows.
    """
    if name.startswith(MESSAGE_PREFIX):
        topic = parted(name.removeprefix(MESSAGE_PREFIX))[0]
        return where.command("send", workflow, id, topic, "VALUE")
    if name.startswith(RESERVED_PREFIXES):
        return None
    return where.command("resolve", workflow, id, name, "VALUE")


def advice(found: Description, where: Where) -> list[tuple[str, str]]:
    """Commands that move an instance on, each with what it does.

    Those that end its waits are told with the waits.
    """
    name = (found.workflow, found.id)
    match found.status:
        case Status.FAILED:
            again = where.command("resurrect", *name)
            return [(again, "run what failed again, once its cause is gone")]
        case Status.BLOCKED:
            return [
                (
                    where.command("resurrect", *name),
                    "run it again with code that reads it",
                ),
                (
                    where.command("discard", *name, "POSITION"),
                    "wait again for a wake that cannot be read",
                ),
            ]
        case Status.SUSPENDED if found.wake_after is None and not found.waits_on:
            return [
                (where.command("resolve", *name, "STEP", "VALUE"), "deliver a value")
            ]
        case Status.RUNNING if found.owner is not None:
            return [(where.command("release", *name), "take it away from its owner")]
        case _:
            return []


def dated(at: datetime, now: datetime) -> str:
    """An instant, and how far it is from now."""
    return f"{instant(at)} ({relative(at, now)})"


def _when(at: datetime | None, now: datetime) -> str | None:
    return None if at is None else f"{relative(at, now)} ({instant(at)})"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times in a row"
