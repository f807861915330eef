"""The append protocol: how a run adds to its journal.

A commit is one conditional update of the instance's row and one insert. That is all, as
long as the run knows the journal to its end: a fresh step is one transaction without a
read. When the update finds nothing to change, or a name turns out to be taken, the row
is locked and looked at, and what is missing is inserted.

The update comes first, so that commits of one instance happen one after the other, and
positions are handed out in the order of the commits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

import attrs

from workflow_engine.core.journal import Draft, Entry
from workflow_engine.core.rows import Fenced, Lease, Refusal, Refused
from workflow_engine.errors import StoreRefused
from workflow_engine.store.family import Family
from workflow_engine.store.journal import NameTaken, Stream
from workflow_engine.store.ledger import Locked
from workflow_engine.store.unit_of_work import UnitOfWork

Answer = TypeVar("Answer")


@attrs.frozen
class Advanced:
    """It is committed: the position of the last entry, and the row's cancel flag.

    ``tail`` are the entries after those that the run knew, when they are not just the
    drafts it brought.
    """

    position: int
    cancel_requested: bool = False
    tail: tuple[Entry, ...] | None = None


Advance: TypeAlias = Callable[[UnitOfWork, int, Sequence[Draft]], Advanced | None]
"""Update the row at a position for these drafts; None if it is not as expected."""


def never(_: Locked) -> None:
    """No row is a special case."""


@attrs.frozen
class Commit(Generic[Answer]):
    """What a run wants to commit.

    Attributes:
        known: the position to which the run knows the journal.
        advance: the update that goes with the drafts.
        repeated: the answer, when a row shows that this is committed already.
        objection: the answer, when a row that the lease is good for does not fit.
        hopeful: whether the row is expected to be as the run knows it.
        ends: whether the instance has ended by it, which concerns parents.
    """

    lease: Lease
    drafts: Sequence[Draft]
    known: int
    advance: Advance
    repeated: Callable[[Locked], Answer | None] = never
    objection: Callable[[UnitOfWork, Locked], Answer | None] = lambda _, row: never(row)
    hopeful: bool = True
    ends: bool = False

    @property
    def stream(self) -> Stream:
        """The journal that it goes to."""
        return Stream(self.lease.key, self.lease.instance, self.lease.generation)


class Protocol(Family):
    """The steps of a commit."""

    def _commit(self, commit: Commit[Answer]) -> Advanced | Answer | Refusal:
        """Commit, or say why not: nothing has happened unless it is `Advanced`."""
        return self._in_order(lambda first: self._attempt(commit, first))

    def _attempt(
        self, commit: Commit[Answer], first: frozenset[int]
    ) -> Advanced | Answer | Refusal:
        if commit.hopeful:
            try:
                with self._write(first) as work:
                    advanced = self._hope(work, commit)
                    if advanced is None:
                        return self._settle(work, commit)
                    return advanced
            except NameTaken:
                # The transaction is lost; what the name holds has to be looked at.
                pass
        with self._write(first) as work:
            return self._settle(work, commit)

    def _hope(self, work: UnitOfWork, commit: Commit[Answer]) -> Advanced | None:
        advanced = commit.advance(work, commit.known, commit.drafts)
        if advanced is not None:
            before = advanced.position - len(commit.drafts)
            self._journal.insert(work, commit.stream, before, commit.drafts)
            self._register(work, commit.stream, commit.drafts)
            if commit.ends:
                self._tell_parents(work, commit.lease.instance)
        return advanced

    def _settle(
        self, work: UnitOfWork, commit: Commit[Answer]
    ) -> Advanced | Answer | Refusal:
        row = self._instances.lock_by_id(work, commit.lease.instance)
        repeated = row and commit.repeated(row)
        if repeated:
            return repeated
        held = check(commit.lease, row)
        if not isinstance(held, Locked):
            return held
        objection = commit.objection(work, held)
        if objection is not None:
            return objection
        position = held.instance.position
        absent = self._journal.find_absent(work, commit.stream, commit.drafts)
        absent = self._undertake(work, held, absent)
        advanced = commit.advance(work, position, absent)
        if advanced is None:
            raise StoreRefused(
                problem=f"row {held.instance.instance} contradicts itself"
            )
        self._insert(work, commit.stream, position, absent)
        self._register(work, commit.stream, absent)
        self._end_children(work, held, absent)
        if commit.ends:
            self._tell_parents(work, commit.lease.instance)
        tail = self._tail(work, commit.lease, commit.known)
        last = tail[-1].position if tail else advanced.position
        return attrs.evolve(advanced, tail=tail, position=last)

    def _hold(self, work: UnitOfWork, lease: Lease) -> Locked | Refusal:
        """Lock the row of a lease, or say why the lease is not good."""
        return check(lease, self._instances.lock_by_id(work, lease.instance))

    def _tail(self, work: UnitOfWork, lease: Lease, known: int) -> tuple[Entry, ...]:
        read = self._journal.read
        return tuple(read(work, lease.instance, lease.generation, known))


def check(lease: Lease, row: Locked | None) -> Locked | Refusal:
    """The row if the lease is good; else what became of it."""
    if row is None:
        return Fenced()
    instance = row.instance
    if instance.generation != lease.generation or instance.status.is_ended:
        return Refused(instance)
    if row.epoch != lease.epoch or instance.lease_owner != lease.owner:
        return Fenced()
    return row
