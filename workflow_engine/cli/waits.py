"""What a suspended instance waits for: since when, until when, and what ends it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import attrs

from workflow_engine.cli.output import instant
from workflow_engine.cli.words import dated, delivery, wait_in_words
from workflow_engine.core.identity import (
    AWAKEABLE_PREFIX,
    CHILD_PREFIX,
    MESSAGE_PREFIX,
    RETRY_PREFIX,
    SLEEP_PREFIX,
    TIMEOUT_PREFIX,
)
from workflow_engine.core.topics import wait_timed_by

if TYPE_CHECKING:
    from workflow_engine.cli.options import Where
    from workflow_engine.runtime.engine import Engine
    from workflow_engine.runtime.views import (
        AwakeableView,
        ChildView,
        Description,
        TimerView,
    )


@attrs.frozen
class Sources:
    """What may wake an instance, by the names of its waits."""

    timers: Sequence[TimerView] = ()
    awakeables: Sequence[AwakeableView] = ()
    children: Sequence[ChildView] = ()

    @classmethod
    def of(cls, engine: Engine, found: Description) -> Sources:
        """Those of an instance; none are looked for unless it waits."""
        if not found.waits_on:
            return cls()
        name = (found.workflow, found.id)
        return cls(
            engine.timers(*name), engine.awakeables(*name), engine.children(*name)
        )


@attrs.frozen
class WaitInWords:
    """One wait.

    Attributes:
        name: as the journal will have it.
        kind: ``sleep``, ``retry``, ``awakeable``, ``child``, ``message`` or ``await``.
        words: what it is, as one reads after "waits for".
        ends_by: what the command does, in front of it.
        command: what ends the wait, or leads there; None if only the time does.
    """

    name: str
    kind: str
    words: str
    since: datetime | None = None
    until: datetime | None = None
    ends_by: str = ""
    command: str | None = None

    def document(self) -> dict[str, Any]:
        """The JSON of a wait."""
        return {
            "name": self.name,
            "kind": self.kind,
            "words": self.words,
            "since": instant(self.since),
            "until": instant(self.until),
            "command": self.command,
        }


def waits_in_words(
    found: Description, sources: Sources, now: datetime, where: Where
) -> list[WaitInWords]:
    """The waits of an instance, in the order in which it reached them."""
    teller = _Teller(found, sources, now, where)
    return [teller.tell(name) for name in found.waits_on]


class _Teller:
    def __init__(
        self, found: Description, sources: Sources, now: datetime, where: Where
    ) -> None:
        self._found = found
        self._now = now
        self._where = where
        self._timers = {each.name: each for each in sources.timers}
        self._limits = {
            wait_timed_by(each.name): each
            # The first due comes last, and stays.
            for each in reversed(sources.timers)
            if each.name.startswith(TIMEOUT_PREFIX)
        }
        self._awakeables = {
            AWAKEABLE_PREFIX + each.label: each for each in sources.awakeables
        }
        self._children = {each.name: each for each in sources.children}

    def tell(self, name: str) -> WaitInWords:
        wait, limit = self._tell(name), self._limits.get(name)
        if limit is None:
            return wait
        words = f"{wait.words}, at the latest until {dated(limit.due_at, self._now)}"
        return attrs.evolve(wait, words=words, until=limit.due_at)

    def _tell(self, name: str) -> WaitInWords:
        if name.startswith(SLEEP_PREFIX):
            return self._timed(name, "sleep", "until")
        if name.startswith(RETRY_PREFIX):
            return self._timed(name, "retry", "due")
        if name.startswith(AWAKEABLE_PREFIX):
            return self._awakeable(name)
        if name.startswith(CHILD_PREFIX):
            return self._child(name)
        if name.startswith(MESSAGE_PREFIX):
            return self._delivered(name, "message")
        return self._delivered(name, "await")

    def _timed(self, name: str, kind: str, until: str) -> WaitInWords:
        words, timer = wait_in_words(name), self._timers.get(name)
        if timer is None:
            over = "which is over" if self._is_woken else "for which no timer runs"
            return WaitInWords(name, kind, f"{words}, {over}")
        return WaitInWords(
            name,
            kind,
            f"{words}, {until} {dated(timer.due_at, self._now)}",
            since=timer.created_at,
            until=timer.due_at,
        )

    def _awakeable(self, name: str) -> WaitInWords:
        words, found = wait_in_words(name), self._awakeables.get(name)
        if found is None:
            return WaitInWords(name, "awakeable", f"{words}, which is gone")
        if found.settled_at is not None:
            settled = f"{found.status} since {dated(found.settled_at, self._now)}"
            return WaitInWords(
                name, "awakeable", f"{words}, {settled}", since=found.created_at
            )
        return WaitInWords(
            name,
            "awakeable",
            f"{words}, open since {dated(found.created_at, self._now)}",
            since=found.created_at,
            ends_by="signal it with",
            command=self._where.command("signal", found.id, "VALUE"),
        )

    def _child(self, name: str) -> WaitInWords:
        words, child = wait_in_words(name), self._children.get(name)
        if child is None:
            return WaitInWords(name, "child", f"{words}, which is gone")
        return WaitInWords(
            name,
            "child",
            f"{words}, which is {child.status}",
            since=child.created_at,
            ends_by="look at it with",
            command=self._where.command("show", child.workflow, child.id),
        )

    def _delivered(self, name: str, kind: str) -> WaitInWords:
        found = self._found
        if self._is_woken:
            return WaitInWords(name, kind, wait_in_words(name))
        return WaitInWords(
            name,
            kind,
            wait_in_words(name),
            since=found.updated_at,
            ends_by="deliver it with",
            command=delivery(self._where, found.workflow, found.id, name),
        )

    @property
    def _is_woken(self) -> bool:
        due = self._found.wake_after
        return due is not None and due <= self._now
