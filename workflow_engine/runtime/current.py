"""What a step function may know about the step it performs."""

from __future__ import annotations

import threading
from contextvars import ContextVar

import attrs


@attrs.frozen
class CurrentStep:
    """The step being performed.

    Attributes:
        attempt: 1, and one more each time it is tried again, by its retry policy or by
            a worker after a crash.
        idempotency_key: the same whenever this step is run again, until somebody
            supersedes it; unlike that of any other step, instance or generation.
    """

    workflow: str
    id: str
    generation: int
    step: str
    attempt: int
    idempotency_key: str
    _nobody_waits: threading.Event = attrs.field(
        factory=threading.Event, eq=False, repr=False
    )

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for it any more: its branch has lost, its time is up, or
        the run is over. A long step may look from time to time, and end early."""
        return self._nobody_waits.is_set()

    def cancel(self) -> None:
        """Say that nobody waits for it any more. For the engine."""
        self._nobody_waits.set()


CURRENT: ContextVar[CurrentStep | None] = ContextVar("workflow_step", default=None)


def current_step() -> CurrentStep:
    """The step this code is part of.

    Raises:
        LookupError: no step is being performed here.
    """
    step = CURRENT.get()
    if step is None:
        raise LookupError("current_step() works only inside a step function")
    return step
