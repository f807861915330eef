"""Collection: deleting what ended long ago, and starting an ended instance afresh.

Locks never wait for each other here: rows of instances that somebody has locked are
passed over, and an instance that is locked and not held stays so, since whoever wants
to attach to it has to lock its row first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection as Names
from collections.abc import Iterator, Sequence
from functools import cached_property

import attrs
from sqlalchemy.exc import DBAPIError

from workflow_engine.core.collecting import (
    Collectable,
    CollectedBatch,
    Place,
    Uncollected,
)
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Instance, Key, NewInstance
from workflow_engine.store.belongings import FIRST, Belongings, Old, Terms
from workflow_engine.store.ledger import Ledger
from workflow_engine.store.room import Room
from workflow_engine.store.unit_of_work import UnitOfWork
from workflow_engine.store.waiting import RECOVERABLE

PAGE = 500
"""Instances looked at in one transaction, and deleted in one, at most."""

_LAST = 2**63 - 1


@attrs.frozen
class _Gone:
    """What a transaction deleted, and which instances that freed."""

    deleted: int = 0
    freed: tuple[int, ...] = ()


class Collection(Room):
    """The part of the store that deletes."""

    @cached_property
    def _belongings(self) -> Belongings:
        tables = self._database.tables
        return Belongings(tables, Ledger(tables, self._database.dialect))

    # --- what ended long ago ---

    def collect(
        self,
        older_than: int,
        limit: int,
        workflows: Names[str] | None = None,
        place: Place | None = None,
    ) -> CollectedBatch:
        """See `Collecting.collect`."""
        terms = _terms(older_than, workflows)
        chosen, onward = self._choose(terms, min(limit, PAGE), place or FIRST)
        if not chosen:
            return CollectedBatch(0, (), onward)
        failed: tuple[Uncollected, ...] = ()
        try:
            gone = self._delete_old(terms, chosen)
        except DBAPIError:
            gone, failed = self._delete_one_by_one(terms, chosen)
        if gone.freed:
            onward = onward or Place(_LAST, 0)
            onward = attrs.evolve(onward, freed=(*onward.freed, *gone.freed))
        return CollectedBatch(gone.deleted, failed, onward)

    def _choose(
        self, terms: Terms, limit: int, place: Place
    ) -> tuple[Sequence[int], Place | None]:
        """Which to delete next, and where to go on after them."""
        if place.freed:
            rest = attrs.evolve(place, freed=place.freed[limit:])
            return place.freed[:limit], rest
        with self._read() as work:
            page = self._belongings.old(work, terms, place, PAGE)
            old = [each for each in page if terms.allow(each.workflow)]
            held = self._held(work, [each.instance for each in old])
        free = [each for each in old if each.instance not in held]
        chosen = [each.instance for each in free[:limit]]
        if len(free) > limit:
            return chosen, _after(free[limit - 1])
        return chosen, _after(page[-1]) if len(page) == PAGE else None

    def _held(self, work: UnitOfWork, instances: Sequence[int]) -> Names[int]:
        return self._belongings.holders(work, instances) if instances else ()

    def _delete_old(self, terms: Terms, instances: Sequence[int]) -> _Gone:
        with self._write() as work:
            rows = self._belongings.lock(work, terms, instances)
            # Looked for under the locks: nobody can attach to them any more.
            held = self._held(work, [row.instance.instance for row in rows])
            free = {
                row.instance.instance: row.instance.status
                for row in rows
                if row.instance.instance not in held
            }
            if not free:
                return _Gone()
            links = self._belongings.delete(work, free)
        # A completed parent held nobody.
        recoverable = {
            number for number, status in free.items() if status in RECOVERABLE
        }
        freed = {child for parent, child in links if parent in recoverable}
        return _Gone(len(free), tuple(sorted(freed - free.keys())))

    def _delete_one_by_one(
        self, terms: Terms, instances: Sequence[int]
    ) -> tuple[_Gone, tuple[Uncollected, ...]]:
        total, failed = _Gone(), list[Uncollected]()
        for instance in instances:
            try:
                gone = self._delete_old(terms, [instance])
            except DBAPIError as error:
                problem = " ".join(str(error.orig).split())
                failed.append(Uncollected(self._key_of(instance), problem))
            else:
                total = _Gone(total.deleted + gone.deleted, (*total.freed, *gone.freed))
        return total, tuple(failed)

    def _key_of(self, instance: int) -> Key:
        with self._read() as work:
            row = self._instances.find_by_id(work, instance)
        return Key("", "") if row is None else row.instance.key

    # --- what would be deleted ---

    def collectable(
        self, older_than: int, workflows: Names[str] | None = None
    ) -> Sequence[Collectable]:
        """See `Collecting.collectable`."""
        terms, foreseen = _terms(older_than, workflows), _Foreseen()
        with self._read() as work:
            for page in self._pages(work, terms):
                page = [old for old in page if terms.allow(old.workflow)]
                held = self._belongings.holders(work, [old.instance for old in page])
                for old in page:
                    foreseen.add(old, held.get(old.instance, set()))
        return [
            Collectable(workflow, status, count)
            for (workflow, status), count in sorted(foreseen.counts.items())
        ]

    def _pages(self, work: UnitOfWork, terms: Terms) -> Iterator[Sequence[Old]]:
        place = FIRST
        while page := self._belongings.old(work, terms, place, PAGE):
            yield page
            place = _after(page[-1])

    # --- afresh ---

    def restart(self, key: Key, new: NewInstance) -> tuple[Instance, bool]:
        """See `Collecting.restart`."""
        with self._write() as work:
            while True:
                created = self._instances.insert(work, key, new)
                if created is not None:
                    return created.instance, True
                row = self._instances.lock(work, key, payloads=True)
                if row is None:
                    continue  # it was there, and was deleted since
                number = row.instance.instance
                if not row.instance.status.is_ended or self._held(work, [number]):
                    return row.instance, False
                self._belongings.delete(work, [number])


@attrs.define
class _Foreseen:
    """What would be deleted, while it is being found out.

    Those that are held wait for their parents, who may be deleted before them.
    """

    counts: Counter[tuple[str, Status]] = attrs.field(factory=Counter)
    _gone: set[int] = attrs.field(factory=set)
    _held: dict[int, tuple[Old, set[int]]] = attrs.field(factory=dict)
    _waiting: dict[int, list[int]] = attrs.field(factory=dict)

    def add(self, old: Old, holders: set[int]) -> None:
        """Count an instance, now or when the last of its holders is counted."""
        left = holders - self._gone
        if not left:
            self._count(old)
            return
        self._held[old.instance] = (old, left)
        for parent in left:
            self._waiting.setdefault(parent, []).append(old.instance)

    def _count(self, first: Old) -> None:
        going = [first]
        while going:
            old = going.pop()
            self.counts[old.workflow, old.status] += 1
            if old.status in RECOVERABLE:  # others hold nobody
                self._gone.add(old.instance)
            for child in self._waiting.pop(old.instance, ()):
                held, left = self._held[child]
                left.discard(old.instance)
                if not left:
                    going.append(held)


def _terms(older_than: int, workflows: Names[str] | None) -> Terms:
    return Terms(older_than, None if workflows is None else frozenset(workflows))


def _after(old: Old) -> Place:
    return Place(old.ended_at, old.instance)
