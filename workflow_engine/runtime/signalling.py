"""Settling awakeables: with a value, a refusal, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workflow_engine.core.context import Context
from workflow_engine.core.failure import bounded, record_of
from workflow_engine.core.identity import check_name
from workflow_engine.core.inference import infer_type
from workflow_engine.core.ports import Store
from workflow_engine.core.rows import AwakeableStatus, Missing
from workflow_engine.errors import (
    AwakeableCancelled,
    AwakeableNotFound,
    AwakeableRejected,
    InvalidName,
)
from workflow_engine.runtime.outside import Outside

if TYPE_CHECKING:
    from workflow_engine.store.callers import CallersSession


class Signalling(Outside):
    """The part of `Engine` that answers what workflows have asked others."""

    def signal(
        self,
        awakeable_id: str,
        value: object,
        *,
        session: CallersSession | None = None,
    ) -> bool:
        """Complete an awakeable with a value.

        The first signal, rejection or cancellation wins. The value is checked against
        the declared type where this process has seen the workflow wait for it; else it
        is recorded as what it shows of itself.

        Args:
            session: signal in the transaction of this SQLAlchemy session, when and if
                you commit that. See `Engine.starting`.

        Returns:
            Whether this call completed it. False: it was settled before, its workflow
            has continued as new since, or its instance has completed.

        Raises:
            AwakeableNotFound: no awakeable has this id.
            JournalEncodeError: the value cannot be recorded; nothing was.
        """
        _check_awakeable_id(awakeable_id)
        equipment = self._equip()
        seen = equipment.awaited.get(awakeable_id)
        declared = infer_type(value) if seen is None else seen.returns
        label = repr(awakeable_id) if seen is None else repr(seen.label)
        workflow = "?" if seen is None else seen.workflow
        context = Context(workflow, "?", 0, equipment.codec)
        payload = context.encode(value, declared, f"the value for awakeable {label}")
        store = equipment.within(session)
        return _settle(store, awakeable_id, AwakeableStatus.RESOLVED, payload)

    def reject(self, awakeable_id: str, reason: str) -> bool:
        """Complete an awakeable with a refusal: the wait raises `AwakeableRejected`.

        A reason of more than 8192 characters is cut.

        Returns and raises as `signal` does.
        """
        _check_awakeable_id(awakeable_id)
        row = self._store.find_awakeable(awakeable_id)
        label = awakeable_id if row is None else row.label
        error = AwakeableRejected(label=label, reason=bounded(str(reason)))
        status = AwakeableStatus.REJECTED
        return _settle(self._store, awakeable_id, status, record_of(error))

    def cancel_awakeable(self, awakeable_id: str) -> bool:
        """Withdraw an awakeable: the wait raises `AwakeableCancelled`.

        Returns and raises as `signal` does.
        """
        _check_awakeable_id(awakeable_id)
        row = self._store.find_awakeable(awakeable_id)
        error = AwakeableCancelled(label=awakeable_id if row is None else row.label)
        status = AwakeableStatus.CANCELLED
        return _settle(self._store, awakeable_id, status, record_of(error))


def _settle(store: Store, id: str, status: AwakeableStatus, payload: str) -> bool:
    answer = store.settle(id, status, payload)
    if isinstance(answer, Missing):
        raise AwakeableNotFound(id=id)
    return answer


def _check_awakeable_id(id: str) -> None:
    """See that the database can be asked for an id, which may come from anywhere.

    Raises:
        AwakeableNotFound: it cannot, so no awakeable has it.
    """
    try:
        check_name(id, "awakeable id")
    except InvalidName:
        raise AwakeableNotFound(id=id) from None
