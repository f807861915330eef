"""Waits for an instance that somebody runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, TypeVar

from workflow_engine.core.durations import microseconds
from workflow_engine.core.failure import Reason
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Instance, Key
from workflow_engine.errors import (
    DeadlineExceeded,
    InstanceNotFound,
    ResultTimeout,
    WaitsForItself,
    WorkflowCancelled,
    WorkflowFailed,
)
from workflow_engine.runtime.clock import pause
from workflow_engine.runtime.current import CURRENT
from workflow_engine.runtime.endings import decode_result
from workflow_engine.runtime.equipment import Equipment
from workflow_engine.runtime.persistence import persist
from workflow_engine.runtime.registry import Workflow

R = TypeVar("R")

FIRST_LOOK, LONGEST_LOOK = 0.005, 0.25
"""Seconds between looks at the row while waiting; each pause is half as long again."""


class Handle(Generic[R]):
    """One instance, from outside. Many handles to one instance are fine."""

    def __init__(
        self, equipment: Equipment, key: Key, workflow: Workflow[..., Any] | None
    ) -> None:
        self._equipment = equipment
        self._key = key
        self._definition = workflow

    @property
    def workflow(self) -> str:
        """The workflow's name."""
        return self._key.workflow

    @property
    def id(self) -> str:
        """The workflow id."""
        return self._key.id

    def status(self) -> Status:
        """Where the instance stands.

        Raises:
            InstanceNotFound: it was collected, or never started.
        """
        return self._row(payloads=False, give_up=lambda: True).status

    def result(self, timeout: timedelta | float | None = None) -> R:
        """Wait until the instance has ended; its result.

        Args:
            timeout: how long to wait, a timedelta or seconds; for ever by default.

        Raises:
            WorkflowFailed: it failed; `DeadlineExceeded` if by its deadline.
            WorkflowCancelled: it was cancelled.
            ResultTimeout: it had not ended in time. It goes on.
            InstanceNotFound: there is no such instance.
            WaitsForItself: called in a step of that very instance.
        """
        self._refuse_waiting_for_itself()
        clock = self._equipment.clock
        limit = None if timeout is None else microseconds(timeout, "timeout") / 1e6
        began, seconds = clock.monotonic(), FIRST_LOOK

        def left() -> float:
            return math.inf if limit is None else limit - (clock.monotonic() - began)

        while True:
            row = self._row(payloads=True, give_up=lambda: left() <= 0)
            if row.status.is_ended:
                return self._unwrap(row)
            if left() <= 0:
                raise ResultTimeout(
                    workflow=self.workflow, id=self.id, status=row.status, seconds=limit
                )
            pause(min(seconds, left()))
            seconds = min(1.5 * seconds, LONGEST_LOOK)

    def _unwrap(self, row: Instance) -> R:
        if row.status == Status.FAILED:
            reason = Reason.decode(row.last_error)
            failed = DeadlineExceeded if reason.is_deadline else WorkflowFailed
            raise failed(
                workflow=self.workflow,
                id=self.id,
                reason=reason.reason,
                type=reason.type,
                message=reason.message,
                remote_traceback=reason.traceback,
            )
        if row.status == Status.CANCELLED:
            raise WorkflowCancelled(workflow=self.workflow, id=self.id)
        codec = self._equipment.codec
        if self._definition is None:
            return codec.decode(row.result or "null")  # type: ignore[no-any-return]
        return decode_result(row.result, self._definition, codec)  # type: ignore[return-value]

    def _row(self, *, payloads: bool, give_up: Callable[[], bool]) -> Instance:
        equipment = self._equipment
        row, _ = persist(
            lambda: equipment.store.find(self._key, payloads),
            f"looking at {self.workflow!r}, {self.id!r}",
            give_up,
        )
        if row is None:
            raise InstanceNotFound(workflow=self.workflow, id=self.id)
        return row

    def _refuse_waiting_for_itself(self) -> None:
        current = CURRENT.get()
        if current is not None and (current.workflow, current.id) == (
            self.workflow,
            self.id,
        ):
            raise WaitsForItself(workflow=self.workflow, id=self.id, step=current.step)

    def __repr__(self) -> str:
        return f"<handle of {self.workflow!r}, {self.id!r}>"
