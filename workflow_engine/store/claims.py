"""Starting instances, and owning them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence

from workflow_engine.core.journal import Draft, Kind
from workflow_engine.core.rows import (
    Batch,
    Claim,
    Ended,
    Held,
    Instance,
    Key,
    Lease,
    Missing,
    NewInstance,
)
from workflow_engine.errors import StoreUnavailable
from workflow_engine.store.deadlines import Deadlines
from workflow_engine.store.discovery import Due
from workflow_engine.store.hints import Listener
from workflow_engine.store.ledger import Locked
from workflow_engine.store.unit_of_work import UnitOfWork

_WIDER = 8
"""How many times more candidates than wanted are looked at, since those that other
workers are taking at this moment are passed over."""


class Claims(Deadlines):
    """The part of the store that starts instances and gives leases."""

    _turn = 0

    # --- one instance ---

    def start(self, key: Key, new: NewInstance) -> tuple[Instance, bool]:
        """See `Store.start`."""
        with self._write() as work:
            while True:
                created = self._instances.insert(work, key, new)
                if created is not None:
                    return created.instance, True
                present = self._instances.find(work, key, payloads=True)
                if present is not None:
                    return present.instance, False
                # It was there, and was collected since.

    def claim(
        self,
        key: Key,
        owner: str,
        lease: int,
        patches: Collection[str],
        new: NewInstance | None = None,
    ) -> Claim | Held | Ended | Missing:
        """See `Store.claim`."""
        return self._in_order(
            lambda first: self._claim(first, key, owner, lease, patches, new)
        )

    def _claim(
        self,
        first: frozenset[int],
        key: Key,
        owner: str,
        lease: int,
        patches: Collection[str],
        new: NewInstance | None,
    ) -> Claim | Held | Ended | Missing:
        patch_set = write_patches(patches)
        with self._write(first) as work:
            if new is not None:
                created = self._instances.insert(
                    work, key, new, owner=owner, lease=lease, patches=patch_set
                )
                if created is not None:
                    return Claim(created.lease(owner), created.instance, created=True)
            claimed = self._leases.claim(work, key, owner, lease, patch_set)
            if claimed is None:
                found = self._instances.lock(work, key, payloads=True)
                if found is None:
                    if new is not None:  # it was there, and was collected since
                        raise StoreUnavailable(problem="the instance was just deleted")
                    return Missing()
                ended = self._find_ended(work, found)
                if ended is not None:
                    return ended
                # Perhaps it became free while this transaction waited for the row.
                claimed = self._leases.claim(work, key, owner, lease, patch_set)
                if claimed is None:
                    return _held(found.instance)
            return Claim(claimed.lease(owner), claimed.instance)

    def _find_ended(self, work: UnitOfWork, found: Locked) -> Ended | None:
        """An instance that has ended, or ends now, as its deadline has passed."""
        if found.instance.status.is_ended:
            return Ended(found.instance)
        failed = self._fail_if_overdue(work, found)
        return None if failed is None else Ended(failed)

    def release(self, lease: Lease) -> bool:
        """See `Store.release`."""
        with self._write() as work:
            return self._leases.release(work, lease)

    # --- what is due ---

    def claim_due(
        self,
        owner: str,
        lease: int,
        patches: Collection[str],
        names: Collection[str],
        limit: int,
        max_takeovers: int,
        exclude: Collection[int] = (),
    ) -> Batch:
        """See `Store.claim_due`."""
        asked, limit = sorted(set(names)), max(limit, 0)
        wider = limit * _WIDER
        # A look takes no lock, so that an idle worker stands in nobody's way.
        with self._read() as work:
            found = self._discovery.look(work, asked, wider, exclude)
            others = self._discovery.count_others(work, asked)
        turn, self._turn = self._turn, self._turn + limit
        candidates = share_out(found, wider, turn)
        if not candidates:
            return Batch((), (), others, self._pause(asked))
        patch_set = write_patches(patches)
        with self._write() as work:
            locked, broken = self._discovery.lock(work, candidates, limit)
            doomed = [
                row for row in locked if _is_doomed(row.instance, owner, max_takeovers)
            ]
            free = [row.instance.instance for row in locked if row not in doomed]
            taken = (
                self._leases.take(work, free, owner, lease, patch_set) if free else []
            )
        order = {instance: place for place, instance in enumerate(free)}
        taken.sort(key=lambda row: order[row.instance.instance])
        claims = tuple(Claim(row.lease(owner), row.instance) for row in taken)
        given_up = (self._give_up(row, owner, max_takeovers) for row in doomed)
        failed = tuple(row for row in given_up if row is not None)
        pause = self._pause(asked) if len(claims) < limit else None
        return Batch(claims, failed, others, pause, broken)

    def _pause(self, names: Collection[str]) -> int | None:
        with self._read() as work:
            return self._discovery.next_due(work, names)

    def _give_up(
        self, found: Locked, owner: str, max_takeovers: int
    ) -> Instance | None:
        """Fail an instance that was taken over too often, in a commit of its own."""

        def attempt(first: frozenset[int]) -> Instance | None:
            with self._write(first) as work:
                # It may have been claimed, or have ended, since it was found.
                due, _ = self._discovery.lock(work, [found.instance.instance], 1)
                row = due[0] if due else None
                if row is None or not _is_doomed(row.instance, owner, max_takeovers):
                    return None
                error = _takeover_error(row.instance.takeovers + 1)
                marker = Draft(Kind.FAILED, None, error)
                self._insert(work, row.stream, row.instance.position, [marker])
                failed = self._instances.give_up(work, row, error).instance
                self._tell_parents(work, failed.instance)
                return failed

        return self._in_order(attempt)

    def listen(self, heard: Callable[[], None], *, others: bool = True) -> Listener:
        """See `Store.listen`."""
        return self.hints.listen(heard, others=others)

    # --- many leases ---

    def renew(self, owner: str, lease: int, leases: Sequence[Lease]) -> frozenset[int]:
        """See `Store.renew`.

        A row that somebody has locked at this moment is passed over; its lease is still
        held, and is extended by the next call.
        """
        if not leases:
            return frozenset()
        with self._write() as work:
            renewed = self._leases.renew(work, owner, lease, leases)
            if len(renewed) < len(leases):
                renewed |= self._leases.good(work, owner, leases)
        return frozenset(renewed)

    def owners(self) -> frozenset[str]:
        """See `Store.owners`."""
        with self._read() as work:
            return self._leases.owners(work)

    def expire(self, owners: Collection[str]) -> int:
        """See `Store.expire`."""
        if not owners:
            return 0
        with self._write() as work:
            return self._leases.expire(work, owners)


def write_patches(patches: Collection[str]) -> str:
    """A patch set as it is stored."""
    return json.dumps(sorted(set(patches)))


def share_out(found: Mapping[str, Sequence[Due]], limit: int, turn: int) -> list[int]:
    """Choose up to ``limit`` instances, one of each name in turn, longest due first.

    The ``turn`` decides which name begins: with room for fewer instances than there are
    names, every name comes first in some pass.
    """
    names = [name for name, due in sorted(found.items()) if due]
    if not names:
        return []
    first = turn % len(names)
    names = names[first:] + names[:first]
    chosen: list[int] = []
    for place in range(max(len(found[name]) for name in names)):
        for name in names:
            if place < len(found[name]):
                chosen.append(found[name][place].instance)
                if len(chosen) == limit:
                    return chosen
    return chosen


def _held(instance: Instance) -> Held:
    assert instance.lease_owner is not None
    assert instance.lease_until is not None
    return Held(instance.lease_owner, instance.lease_until)


def _is_doomed(instance: Instance, owner: str, max_takeovers: int) -> bool:
    """Whether claiming it would be the takeover that is one too many."""
    taken_over = instance.lease_owner not in (None, owner)
    return taken_over and instance.takeovers + 1 >= max_takeovers


def _takeover_error(takeovers: int) -> str:
    reason = f"taken over {takeovers} times without progress"
    return json.dumps(
        {
            "reason": reason,
            "type": "TakeoverLimit",
            "message": f"{reason}: each run ended without giving its lease back, as "
            "when its process is killed",
            "traceback": "",
            "entry": None,
        }
    )
