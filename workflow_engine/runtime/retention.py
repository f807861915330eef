"""How long a worker keeps what has ended, and the deleting that it does in between."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeAlias

import attrs

from workflow_engine.core.collecting import Place
from workflow_engine.core.durations import microseconds
from workflow_engine.errors import StoreUnavailable
from workflow_engine.runtime.collector import report
from workflow_engine.runtime.equipment import Equipment
from workflow_engine.runtime.registry import Registry, name_of

logger = logging.getLogger("workflow_engine")

BATCH = 100
"""Instances deleted at a time."""

REST = 300.0
"""Seconds between the beginnings of two rounds."""

Keeping: TypeAlias = (
    timedelta | float | Mapping[Any, timedelta | float] | None  # keys are `Named`
)
"""A time to keep ended instances of all workflows of an engine, or of some, each."""


@attrs.frozen
class Rule:
    """Instances of these ``names`` go ``age`` microseconds after they have ended."""

    age: int
    names: frozenset[str]


def rules_of(keeping: Keeping, registry: Registry) -> tuple[Rule, ...]:
    """What a worker with these workflows collects, and when.

    Raises:
        InvalidDuration: a time is none.
        UnknownWorkflow: a name that the worker does not have.
    """
    if keeping is None:
        return ()
    if not isinstance(keeping, Mapping):
        return (Rule(microseconds(keeping, "retention"), registry.names),)
    by_age: dict[int, set[str]] = {}
    for workflow, kept in keeping.items():
        name = registry.get(name_of(workflow)).name
        age = microseconds(kept, f"the retention of {name!r}")
        by_age.setdefault(age, set()).add(name)
    return tuple(Rule(age, frozenset(names)) for age, names in by_age.items())


class Retention:
    """The collection of one worker: rounds, in turns of one batch each."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self._left: list[tuple[Rule, Place | None]] = []
        self._next_round: float | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a round is not over, so that another turn is of use at once."""
        return bool(self._left)

    def take_turn(self, equipment: Equipment) -> int:
        """Delete a batch, if there may be something to delete; how many went.

        Whatever goes wrong is logged, and ends the round.
        """
        if not self._left:
            self._begin_round(equipment.clock.monotonic())
        if not self._left:
            return 0
        rule, place = self._left.pop()
        try:
            answer = equipment.store.collect(rule.age, BATCH, rule.names, place)
        except StoreUnavailable as error:
            self._left.clear()
            logger.warning("the collection goes on later: %s", error)
            return 0
        except Exception:
            self._left.clear()
            logger.exception("the collection broke off")
            return 0
        report(answer)
        if answer.place is not None:
            self._left.append((rule, answer.place))
        return answer.deleted

    def _begin_round(self, now: float) -> None:
        if self._rules and (self._next_round is None or now >= self._next_round):
            self._left = [(rule, None) for rule in self._rules]
            self._next_round = now + REST
