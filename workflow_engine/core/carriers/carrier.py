"""What every carrier is, and the misfit it raises."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import NoneType
from typing import Any, TypeAlias

from workflow_engine.core.carriers.typenames import describe
from workflow_engine.errors import ValueProblem

Plain: TypeAlias = Any
"""What the json module reads and writes."""

KINDS = frozenset({NoneType, bool, int, float, str, list, dict})
"""The kinds of JSON, by the class that json reads each one as."""

_SHOWN_STEPS = 16


class Carrier(ABC):
    """Carries the values of one declared type to plain JSON and back.

    Plain JSON is None, bool, int, finite float, str, list, and dict with str keys. A
    carrier checks in both directions, so that what it writes it can read back; a value
    that does not fit is a `Misfit`.

    It is made in two moves, because a type may contain itself: the constructor says
    what unions ask about (``writes``, ``reads``, ``classes``, ``tries``), then `link`
    finds the carriers of the parts, among which it may meet itself.
    """

    writes: frozenset[type] = frozenset()
    """The kinds of JSON that `encode` may produce."""
    reads: frozenset[type] = frozenset()
    """Further kinds that `decode` accepts."""
    classes: tuple[type, ...] = ()
    """The classes whose own instances it takes."""
    tries: bool = False
    """It may take values of other classes too; ask it."""
    hashable: bool = False
    """What it decodes can be hashed, whatever it holds. Known once linked."""
    fragile: bool = False
    """Decoding may fail or change the value, since code that is not ours takes part; so
    what was encoded is read back once before it is believed. Known once linked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parts: list[Carrier] = []

    def link(self, carrier_of: CarrierOf) -> None:  # noqa: B027 - most have none
        """Finds the carriers of the parts."""

    @abstractmethod
    def encode(self, value: Any, /) -> Plain:
        """The value as plain JSON."""

    @abstractmethod
    def decode(self, plain: Plain, /) -> Any:
        """The value that was encoded."""

    @cached_property
    def needs_proof(self) -> bool:
        """Whether it or any of its parts is fragile. Known once all are linked."""
        seen: list[Carrier] = [self]
        for carrier in seen:
            seen += [part for part in carrier.parts if part not in seen]
        return any(carrier.fragile for carrier in seen)


CarrierOf: TypeAlias = Callable[[Any], Carrier]
"""Finds or builds the carrier of a type."""


class Misfit(Exception):
    """A value that does not fit, while the way to it from the root is being told.

    Carriers of containers add a step while it passes through them.
    """

    def __init__(self, expected: str, problem: str) -> None:
        super().__init__(expected, problem)
        self.expected = expected
        self.problem = problem
        self.steps: list[str] = []

    def as_problem(self) -> ValueProblem:
        """The same with its path from the root."""
        steps = self.steps[::-1]
        if len(steps) > _SHOWN_STEPS:
            half = _SHOWN_STEPS // 2
            steps = [*steps[:half], "...", *steps[-half:]]
        return ValueProblem("$" + "".join(steps), self.expected, self.problem)


def wrong(expected: str, value: object) -> Misfit:
    """The misfit of a value that is of another class than declared."""
    advice = "give the declared type or declare another"
    return Misfit(expected, describe(value, advice))


@contextmanager
def step(text: str) -> Iterator[None]:
    """Adds a step to the path of a misfit that leaves the block."""
    try:
        yield
    except Misfit as misfit:
        misfit.steps.append(text)
        raise


def brief(key: object) -> str:
    """A key, a name or a tag as a message shows it."""
    return repr(key)[:60]


def step_into(key: str) -> str:
    """One step of a path, by a field's name or a str key."""
    return f".{key}" if key.isidentifier() else f"[{json.dumps(key[:60])}]"


class Nothing(Carrier):
    """Carries what is declared never to have a value: none at all."""

    def encode(self, value: Any, /) -> Plain:
        """Refuses every value."""
        raise Misfit(self.name, "it is declared never to have a value; declare one")

    decode = encode
