"""What the tests of whole runs act with.

Everything goes through the public face. The database is looked into, or tampered with,
only where a test is about what it holds.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import attrs
import cattrs
import pytest
import sqlalchemy
from sqlalchemy import event

from workflow_engine import Engine, RunOptions, Workflow
from workflow_engine.runtime.clock import Clock
from workflow_engine.runtime.points import NOWHERE, Point, Points
from workflow_engine.testing import Crashes, ProcessDied, TestClock

from ..pools import source_of

LEASE = 61
"""Seconds after which nobody holds a lease any more that is not renewed."""


@attrs.define(eq=False)
class Bench:
    """Engines on one database, sharing a clock.

    Attributes:
        done: the names of the effects that happened, in order.
    """

    url: str
    clock: TestClock
    _life: ExitStack
    done: list[str] = attrs.field(factory=list)

    @classmethod
    @contextmanager
    def on(cls, url: str, clock: TestClock) -> Iterator[Self]:
        with ExitStack() as life:
            yield cls(url, clock, life)

    # --- engines ---

    def engine(
        self,
        *workflows: Workflow[..., Any],
        points: Points = NOWHERE,
        clock: Clock | None = None,
        url: str | sqlalchemy.Engine | None = None,
        observer: Any = None,
        converter: cattrs.Converter | None = None,
        **options: Any,
    ) -> Engine:
        """Another engine on the database, as another process would make it."""
        engine = Engine(
            url or source_of(self.url),
            workflows=workflows,
            options=RunOptions(**options),
            clock=clock or self.clock,
            points=points,
            observer=observer,
            converter=converter,
        )
        return self._life.enter_context(engine)

    def crash(
        self,
        workflow: Workflow[..., Any],
        id: str,
        *args: Any,
        at: Point,
        of: str | None = None,
        nth: int = 1,
        **options: Any,
    ) -> None:
        """Run until the process dies at a point; its lease has run out afterwards."""
        points = Crashes().at(at, of, nth=nth)
        engine = self.engine(workflow, points=points, **options)
        with pytest.raises(ProcessDied):
            engine.run(workflow, id, *args)
        self.clock.advance(LEASE)

    # --- effects ---

    def do(self, name: str, value: Any = None) -> Any:
        """An effect: what a step of the tests performs."""
        self.done.append(name)
        return value

    def do_number(self, number: int) -> int:
        """An effect that returns what it was given."""
        self.done.append(f"{number}")
        return number

    def fail(self, name: str, error: BaseException) -> Any:
        """An effect that goes wrong."""
        self.done.append(name)
        raise error

    def calls(self, name: str) -> int:
        """How often an effect really happened."""
        return Counter(self.done)[name]

    # --- the database itself ---

    def execute(self, statement: str, **parameters: Any) -> list[Any]:
        """Run a statement behind the engine's back; ``wf_`` tables by their bare names.

        Rows come back as tuples, if there are any.
        """
        engine = engine_of(self.url)
        if engine.dialect.name == "postgresql":
            statement = re.sub(r"\bwf_", "workflow_engine.wf_", statement)
        with engine.begin() as connection:
            rows = connection.execute(sqlalchemy.text(statement), parameters)
            return [tuple(row) for row in rows] if rows.returns_rows else []

    def overwrite(self, step: str, payload: Any) -> None:
        """Change what the journal holds for a step."""
        self.execute(
            "UPDATE wf_journal SET payload = :payload WHERE step_name = :step",
            payload=payload if isinstance(payload, str) else json.dumps(payload),
            step=step,
        )


class Meanwhile(Points):
    """Does something once, where a run passes a point."""

    def __init__(self, point: Point, subject: str, act: Callable[[], object]) -> None:
        self.acted = 0
        self._where = (point, subject)
        self._act: Callable[[], object] | None = act

    def reach(self, point: Point, subject: str) -> None:
        if (point, subject) == self._where and self._act is not None:
            act, self._act = self._act, None
            self.acted += 1
            act()


def entries(
    engine: Engine, workflow: Any, id: str, generation: int | None = None
) -> Any:
    """A journal in short: kind and step name of each entry."""
    journal = engine.journal(workflow, id, generation)
    assert [entry.position for entry in journal] == list(range(1, len(journal) + 1))
    return [(entry.kind, entry.step) for entry in journal]


def steps(
    engine: Engine, workflow: Any, id: str, generation: int | None = None
) -> list[str | None]:
    """The names of the recorded steps, in order."""
    found = entries(engine, workflow, id, generation)
    return [step for kind, step in found if kind in ("step_ok", "step_failed")]


def kinds(
    engine: Engine, workflow: Any, id: str, generation: int | None = None
) -> list[str]:
    """The kinds of a journal's entries, in order."""
    return [kind for kind, _ in entries(engine, workflow, id, generation)]


@attrs.define
class Statements:
    """What went to the databases, of every engine of this process."""

    seen: list[str] = attrs.field(factory=list)
    commits: int = 0

    @property
    def verbs(self) -> Sequence[str]:
        """The first word of each statement."""
        return [statement.split()[0].upper() for statement in self.seen]


@contextmanager
def watched() -> Iterator[Statements]:
    """Note every statement and commit."""
    statements = Statements()

    def note(*given: Any) -> None:
        statements.seen.append(given[2])

    def count(_: object) -> None:
        statements.commits += 1

    event.listen(sqlalchemy.Engine, "before_cursor_execute", note)
    event.listen(sqlalchemy.Engine, "commit", count)
    try:
        yield statements
    finally:
        event.remove(sqlalchemy.Engine, "before_cursor_execute", note)
        event.remove(sqlalchemy.Engine, "commit", count)


@functools.lru_cache(maxsize=4)
def engine_of(url: str) -> sqlalchemy.Engine:
    """An engine of the tests' own, which keeps no connection open."""
    driver = re.sub(r"^postgres(ql)?:", "postgresql+psycopg:", url)
    return sqlalchemy.create_engine(driver, poolclass=sqlalchemy.NullPool)
