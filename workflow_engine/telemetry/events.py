"""The events of a run, for whoever watches it.

Every event is a frozen value with ``workflow``, ``id`` and ``generation``. An observer
is called in the thread of the run, so it should be quick; an exception in it is logged
and changes nothing.

=================  ================================================================
event              when, and what else it carries
=================  ================================================================
`RunStarted`       a run begins; ``replayed`` entries are in the journal already
`StepStarted`      a step's function is about to be called; ``step``
`StepRecorded`     its outcome is durable; ``step``, ``ok``, ``position``
`RunEnded`         the run is over; ``ending`` in one word
=================  ================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs


@attrs.frozen
class RunStarted:
    """A run begins."""

    workflow: str
    id: str
    generation: int
    replayed: int


@attrs.frozen
class StepStarted:
    """A step's function is about to be called."""

    workflow: str
    id: str
    generation: int
    step: str


@attrs.frozen
class StepRecorded:
    """A step's outcome is durable."""

    workflow: str
    id: str
    generation: int
    step: str
    ok: bool
    position: int


@attrs.frozen
class RunEnded:
    """A run is over: completed, suspended, cancelled, failed, continued_as_new,
    crashed, blocked, lease_lost or interrupted."""

    workflow: str
    id: str
    generation: int
    ending: str


Event: TypeAlias = RunStarted | StepStarted | StepRecorded | RunEnded
Observer: TypeAlias = Callable[[Event], None]
