"""Loading a journal, and keeping what was loaded."""

from __future__ import annotations

from collections.abc import Iterable

from workflow_engine.core.journal import Entry, Prefix
from workflow_engine.core.rows import Lease
from workflow_engine.errors import StoreUnavailable
from workflow_engine.store.room import Room
from workflow_engine.store.unit_of_work import UnitOfWork

_READS = 4
"""How often a journal that comes up short is read before that counts as trouble."""

_NOTHING = Prefix((), 0, {})


class Loads(Room):
    """The part of the store from which a run begins."""

    def load(self, instance: int, generation: int, page_size: int) -> Prefix:
        """See `Store.load`. An unknown instance has an empty journal.

        Raises:
            StoreUnavailable: entries that must be there do not show, as on a replica
                that lags behind.
        """
        for _ in range(_READS):
            with self._read() as work:
                prefix = self._load(work, instance, generation, page_size)
            if prefix is not None:
                return prefix
        raise StoreUnavailable(
            problem=f"the journal of instance {instance} was read {_READS} times and "
            "came back short"
        )

    def _load(
        self, work: UnitOfWork, instance: int, generation: int, page_size: int
    ) -> Prefix | None:
        position, snapshot = self._snapshots.find(work, instance, generation)
        start = snapshot or _NOTHING
        if position is not None and start.position > position:
            start = _NOTHING
        # One page needs no cursor on the server.
        small = position is not None and position - start.position <= page_size
        rows = self._journal.read(
            work,
            instance,
            generation,
            start.position,
            page_size=None if small else page_size,
        )
        return extend(start, rows, position or 0)

    def snapshot(self, lease: Lease, prefix: Prefix) -> None:
        """See `Store.snapshot`.

        Kept until somebody else has had the lease: what makes entries of a journal
        history raises the epoch, and drops the snapshot, in one transaction.
        """
        with self._write() as work:
            row = self._instances.lock_by_id(work, lease.instance)
            if row is None or row.instance.generation != lease.generation:
                return
            mine = row.epoch in (lease.epoch, lease.epoch + 1)
            if mine and 0 < prefix.position <= row.instance.position:
                self._snapshots.keep(work, row.stream, prefix)


def extend(prefix: Prefix, rows: Iterable[Entry], position: int) -> Prefix | None:
    """The prefix with all rows after it; None if they do not reach ``position``.

    History that this code understands is counted and dropped.
    """
    entries = list(prefix.entries)
    superseded = dict(prefix.superseded)
    last, in_order = prefix.position, True
    for entry in rows:
        last += 1
        in_order = in_order and entry.position == last
        if entry.name is not None and not entry.live:
            superseded[entry.name] = superseded.get(entry.name, 0) + 1
        if entry.live or not entry.is_known:
            entries.append(entry)
    if not in_order or last < position:
        return None
    return Prefix(tuple(entries), last, superseded)
