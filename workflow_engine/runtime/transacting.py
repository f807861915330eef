"""What is done within the transaction of one step."""

from __future__ import annotations

from typing import Any

import attrs

from workflow_engine.core import requests
from workflow_engine.core.context import Context
from workflow_engine.core.journal import Draft, Kind
from workflow_engine.core.retry import RetryPolicy
from workflow_engine.core.transaction import Transaction
from workflow_engine.runtime.current import CurrentStep
from workflow_engine.runtime.equipment import Equipment
from workflow_engine.runtime.lease import HeldLease
from workflow_engine.runtime.performing import call, failed
from workflow_engine.runtime.points import ProcessDied
from workflow_engine.telemetry.events import StepStarted


@attrs.define(eq=False)
class Transacting:
    """One `Transaction` to perform; called once for each try.

    Attributes:
        calls: how often it has been.
    """

    request: requests.Perform
    current: CurrentStep
    context: Context
    policy: RetryPolicy | None
    equipment: Equipment
    held: HeldLease
    calls: int = 0

    @property
    def name(self) -> str:
        """The step's name."""
        return self.request.name

    @property
    def isolation(self) -> str | None:
        """The isolation level that it wants, if it is not the usual one."""
        step = self.request.step
        return step.level if isinstance(step, Transaction) else None

    def __call__(self, session: Any) -> Draft | BaseException:
        """Call the function; the entry to record, or what it raised.

        Raises:
            LeaseLost: before the function is called.
        """
        self.calls += 1
        equipment, current = self.equipment, self.current
        equipment.heartbeat.check(self.held)
        equipment.points.reach("before_step", self.name)
        equipment.tell(
            StepStarted(current.workflow, current.id, current.generation, self.name)
        )
        try:
            payload = call(self.request.step, current, self.context, session)
            session.commit()  # writes out what it has pending, within the transaction
            equipment.points.reach("after_step", self.name)
        except (KeyboardInterrupt, ProcessDied):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, the step failed
            return error
        return Draft(Kind.STEP_OK, self.name, payload, self.request.superseded)

    def failed(self, error: BaseException) -> requests.Performed:
        """What comes of an error of the function's."""
        request = self.request
        outcome = failed(
            request.step, error, self.current, self.policy, request.attempt
        )
        return requests.Performed(request.name, outcome)
