"""Leases in ``wf_instances``: who may run what, and for how long.

No statement about many instances waits for a row that somebody else has locked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Select,
    Text,
    Update,
    bindparam,
    case,
    func,
    or_,
    select,
    tuple_,
    update,
)

from workflow_engine.core.lifecycle import Event, Status
from workflow_engine.core.rows import Key, Lease
from workflow_engine.store.ledger import Ledger, Locked, held, keyed, read
from workflow_engine.store.unit_of_work import UnitOfWork


class Leases:
    """Statements that give, extend and end leases."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._table, self._c = ledger.table, ledger.c

    # --- taking ---

    def claim(
        self, work: UnitOfWork, key: Key, owner: str, lease: int, patches: str
    ) -> Locked | None:
        """Take the lease of one instance if it is free; the row with ``input``."""
        row = work.run(
            self._claim,
            **keyed(key),
            owner_is=owner,
            lease_is=lease,
            patches_are=patches,
        ).one_or_none()
        return None if row is None else read(row)

    @cached_property
    def _claim(self) -> Update:
        until = self._c.lease_until
        free = or_(until.is_(None), until <= self._ledger.now)
        may = self._ledger.may(Event.CLAIM)
        return (
            update(self._table)
            .where(*self._ledger.has_key, may, free, self._ledger.is_in_time)
            .values(self._claimed)
            .returning(*self._claimant)
        )

    def take(
        self,
        work: UnitOfWork,
        instances: Collection[int],
        owner: str,
        lease: int,
        patches: str,
    ) -> list[Locked]:
        """Take the leases of rows that this transaction has locked and found free.

        A lease that another owner let run out counts as a takeover.
        """
        rows = work.run(
            self._take,
            instances_are=list(instances),
            owner_is=owner,
            lease_is=lease,
            patches_are=patches,
        )
        return [read(row) for row in rows]

    @cached_property
    def _take(self) -> Update:
        taken_over = self._c.lease_owner != bindparam("owner_is", type_=Text)
        takeovers = self._c.takeovers
        counted = case((taken_over, takeovers + 1), else_=takeovers)
        return (
            update(self._table)
            .where(self._c.id.in_(bindparam("instances_are", expanding=True)))
            .values(**self._claimed, takeovers=counted)
            .returning(*self._claimant)
        )

    @cached_property
    def _claimed(self) -> dict[str, Any]:
        """The changes that are a claim. It ends the pause after a crash, too."""
        given = bindparam("patches_are", type_=Text)
        return self._ledger.paced(
            status=Status.RUNNING,
            lease_owner=bindparam("owner_is", type_=Text),
            lease_until=self._ledger.now + bindparam("lease_is", type_=BigInteger),
            next_attempt_at=None,
            epoch=self._c.epoch + 1,
            patches=func.coalesce(self._c.patches, given),
            updated_at=self._ledger.now,
        )

    @cached_property
    def _claimant(self) -> tuple[Any, ...]:
        return (*self._ledger.row, self._c.input)

    # --- keeping ---

    def renew(
        self, work: UnitOfWork, owner: str, lease: int, leases: Sequence[Lease]
    ) -> set[int]:
        """Extend leases; the instances for which that was done."""
        rows = work.run(
            self._renew,
            owner_is=owner,
            lease_is=lease,
            leases_are=[(each.instance, each.epoch) for each in leases],
        )
        return {row.id for row in rows}

    @cached_property
    def _renew(self) -> Update:
        until = self._ledger.now + bindparam("lease_is", type_=BigInteger)
        return (
            update(self._table)
            .where(self._c.id.in_(self._good.with_for_update(skip_locked=True)))
            .values(self._ledger.paced(lease_until=until))
            .returning(self._c.id)
        )

    def good(self, work: UnitOfWork, owner: str, leases: Sequence[Lease]) -> set[int]:
        """The instances whose leases are good."""
        rows = work.run(
            self._good,
            owner_is=owner,
            leases_are=[(each.instance, each.epoch) for each in leases],
        )
        return {row.id for row in rows}

    @cached_property
    def _good(self) -> Select[Any]:
        leases: BindParameter[Any] = bindparam("leases_are", expanding=True)
        return select(self._c.id).where(
            self._c.lease_owner == bindparam("owner_is"),
            tuple_(self._c.id, self._c.epoch).in_(leases),
        )

    # --- giving up ---

    def release(self, work: UnitOfWork, lease: Lease) -> bool:
        """Give a lease back; False if it is not good."""
        work.woke = True
        return work.run(self._release, **held(lease)).rowcount == 1

    @cached_property
    def _release(self) -> Update:
        ledger = self._ledger
        changes = ledger.paced(**ledger.released, updated_at=ledger.now)
        return update(self._table).where(*ledger.is_held).values(changes)

    def force(self, work: UnitOfWork, key: Key) -> bool:
        """End a lease, whoever has it; False if nobody has."""
        work.woke = True
        return work.run(self._force, **keyed(key)).rowcount == 1

    @cached_property
    def _force(self) -> Update:
        ledger = self._ledger
        changes = ledger.paced(**ledger.released, updated_at=ledger.now)
        leased = self._c.lease_owner.is_not(None)
        return update(self._table).where(*ledger.has_key, leased).values(changes)

    def expire(self, work: UnitOfWork, owners: Collection[str]) -> int:
        """Let the leases of ``owners`` run out now; how many."""
        return work.run(self._expire, owners_are=list(owners)).rowcount

    @cached_property
    def _expire(self) -> Update:
        theirs = self._c.lease_owner.in_(bindparam("owners_are", expanding=True))
        lasting = self._c.lease_until > self._ledger.now
        free = (
            select(self._c.id).where(theirs, lasting).with_for_update(skip_locked=True)
        )
        changes = self._ledger.paced(lease_until=self._ledger.now)
        return update(self._table).where(self._c.id.in_(free)).values(changes)

    def owners(self, work: UnitOfWork) -> frozenset[str]:
        """Whoever holds a lease that is not over."""
        return frozenset(work.run(self._owners).scalars())

    @cached_property
    def _owners(self) -> Select[Any]:
        owner, until = self._c.lease_owner, self._c.lease_until
        return (
            select(owner).distinct().where(owner.is_not(None), until > self._ledger.now)
        )
