"""One transaction, one time.

A unit of work is what every statement is run with: the connection that the transaction
is open on, and what it takes for the time. Repositories hold the statements, and take
it as their first argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from sqlalchemy import Connection, CursorResult, Executable

from workflow_engine.store.now import Now

UNIT_OF_WORK = "workflow_engine.unit_of_work"
"""The key in ``Session.info`` of the unit of work that a session is within."""


@attrs.define
class UnitOfWork:
    """A transaction that is open."""

    connection: Connection
    now: Now
    locked_first: frozenset[int] = frozenset()
    """Instances whose rows were locked before anything else was done."""
    woke: bool = False
    """Whether it makes an instance runnable, now or at a time that it sets."""

    def run(self, statement: Executable, **parameters: Any) -> CursorResult[Any]:
        """Execute a statement, which may ask for the time."""
        parameters["now_is"] = self.now.instant
        return self.connection.execute(statement, parameters)

    def run_many(
        self, statement: Executable, parameters: Sequence[dict[str, Any]]
    ) -> None:
        """Execute a statement once for each set of parameters."""
        for each in parameters:
            each["now_is"] = self.now.instant
        # A single one is not handed over as many, for which drivers do more.
        given = parameters[0] if len(parameters) == 1 else parameters
        self.connection.execute(statement, given)
