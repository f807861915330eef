"""Steps that are tried again: which attempt has failed, and when the next is due.

A failed attempt is an entry of its own, under a name made of the step's and its number.
The pause after it is a timer, whose end is recorded under another one. So both are in
the journal, and a step that waits for its next attempt is parked on like any wait.

Frozen: names and payloads are stored.
"""

from __future__ import annotations

import json

import attrs

from workflow_engine.core.identity import ATTEMPT_PREFIX, RETRY_PREFIX
from workflow_engine.core.ids import joined, parted
from workflow_engine.core.journal import Entry
from workflow_engine.core.waits import StartTimer


def attempt_name(step: str, number: int) -> str:
    """Under which the failure of an attempt is recorded."""
    return ATTEMPT_PREFIX + joined(step, str(number))


def retry_name(step: str, number: int) -> str:
    """Under which the end of the pause after an attempt is recorded."""
    return RETRY_PREFIX + joined(step, str(number))


def step_tried(name: str) -> str:
    """The step that such a name is about."""
    return parted(name.partition(":")[2])[0]


def record_attempt(failure: str, pause: int) -> str:
    """What is recorded of a failed attempt: its failure, and microseconds to wait."""
    return f'{{"pause":{pause},"failure":{failure}}}'


@attrs.frozen
class Pause:
    """The last failed attempt of a step, and how long to wait after it."""

    step: str
    attempt: int
    timer: StartTimer

    @classmethod
    def of(cls, entry: Entry) -> Pause:
        """What an entry of a failed attempt says."""
        step, number = parted((entry.name or "").removeprefix(ATTEMPT_PREFIX))
        pause = int(json.loads(entry.payload or "{}").get("pause", 0))
        return cls(step, int(number), StartTimer(delay=pause))

    @property
    def name(self) -> str:
        """Under which its end is recorded."""
        return retry_name(self.step, self.attempt)
