"""Cancelling: at once or with cleanup, an instance alone or with its descendants."""

from __future__ import annotations

from workflow_engine.core.lifecycle import MOVES, Event
from workflow_engine.core.rows import Instance, Key, Missing
from workflow_engine.store.family import OutOfOrder
from workflow_engine.store.ledger import Locked
from workflow_engine.store.unit_of_work import UnitOfWork
from workflow_engine.store.waiting import Waiting


class Cancellation(Waiting):
    """The part of the store that cancels from outside."""

    def cancel(
        self, key: Key, *, cleanup: bool = False, cascade: bool = False
    ) -> Instance | Missing:
        """See `Store.cancel`."""
        one = self._cancel_all if cascade else self._cancel
        return self._in_order(lambda first: one(first, key, cleanup))

    def _cancel(
        self, first: frozenset[int], key: Key, cleanup: bool
    ) -> Instance | Missing:
        with self._write(first) as work:
            row = self._instances.lock(work, key)
            if row is None:
                return Missing()
            return self._call_off(work, row, cleanup).instance

    def _cancel_all(
        self, first: frozenset[int], key: Key, cleanup: bool
    ) -> Instance | Missing:
        with self._write(first) as work:
            root = self._instances.find(work, key)
            if root is None:
                return Missing()
            number = root.instance.instance
            family = [number, *self._children.descendants(work, number)]
            # Whoever attaches to a child holds the parent's row. So once all these are
            # locked nobody is missing from them.
            concerned = {*family, *self._children.parents(work, family)}
            if not concerned <= first:
                raise OutOfOrder(concerned)
            # Parents first: who is being cancelled has no use for the ends of children.
            for member in family:
                row = self._instances.lock_by_id(work, member)
                if row is not None:
                    self._call_off(work, row, cleanup)
            return self._again(work, number).instance

    def _call_off(self, work: UnitOfWork, row: Locked, cleanup: bool) -> Locked:
        """Cancel an instance whose row is locked, or ask it to end."""
        event = Event.REQUEST_CANCEL if cleanup else Event.CANCEL
        if (row.instance.status, event) not in MOVES:
            return row
        if cleanup:
            asked = row.instance.cancel_requested
            return row if asked else self._instances.request_cancel(work, row)
        cancelled = self._cancel_row(work, row)
        self._tell_parents(work, cancelled.instance.instance)
        return cancelled
