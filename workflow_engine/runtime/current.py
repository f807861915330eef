"""What a step function may know about the step it performs."""

from __future__ import annotations

from contextvars import ContextVar

import attrs


@attrs.frozen
class CurrentStep:
    """The step being performed.

    Attributes:
        attempt: 1, and one more each time a worker tries again after a crash.
        idempotency_key: the same whenever this step is run again, until somebody
            supersedes it; unlike that of any other step, instance or generation.
    """

    workflow: str
    id: str
    generation: int
    step: str
    attempt: int
    idempotency_key: str


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
