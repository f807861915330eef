"""Named points at which a test may make the process die.

In production `Points` does nothing. `workflow_engine.testing.crashes` has the one that
crashes.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Point: TypeAlias = Literal[
    "before_step", "after_step", "before_commit", "after_commit", "before_heartbeat"
]
"""Where a run can be caught.

``after_step`` lies between an effect and its commit; ``after_commit`` between a commit
and the run's learning of it.
"""


class ProcessDied(BaseException):
    """A simulated death. Nothing catches it to clean up: a dead process does not."""


class Points:
    """Reached and passed."""

    def reach(self, point: Point, subject: str) -> None:
        """A run is at ``point``; ``subject`` is a step's name or a commit's kind."""


NOWHERE = Points()
