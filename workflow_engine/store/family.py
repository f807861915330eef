"""What one instance does to others: parents and children, and messages.

A child's end is delivered in the transaction that ends it. It looks for parents after
the child's row is locked, and whoever attaches locks that row too, so no end is missed.
Rows of parents and children are locked in the order of their numbers: a transaction
that finds that it would have to break the order is given up, and made again with those
rows locked first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeGuard, TypeVar

import attrs

from workflow_engine.core.failure import Reason, record_of
from workflow_engine.core.journal import (
    Draft,
    EndChild,
    Kind,
    NewAwakeable,
    NewChild,
    NewMessage,
)
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Instance, Key, Message, NewInstance
from workflow_engine.core.topics import message_name
from workflow_engine.errors import (
    ChildCancelled,
    ChildFailed,
    ChildOwned,
    InputConflict,
    InstanceNotFound,
    StoreRefused,
    StoreUnavailable,
)
from workflow_engine.store.children import Link
from workflow_engine.store.journal import NameTaken, Stream
from workflow_engine.store.ledger import Locked
from workflow_engine.store.room import Room
from workflow_engine.store.unit_of_work import UnitOfWork

T = TypeVar("T")


class OutOfOrder(Exception):
    """These rows have to be locked first. The transaction is lost."""

    def __init__(self, instances: Iterable[int]) -> None:
        super().__init__(*instances)
        self.instances = frozenset(instances)


class Family(Room):
    """The part of the store that knows parents from children."""

    # --- the order of locks ---

    def _in_order(self, attempt: Callable[[frozenset[int]], T]) -> T:
        """Make a transaction, again and again until it locks rows in their order.

        ``attempt`` is given the rows to lock before all others.
        """
        first: frozenset[int] = frozenset()
        while True:
            try:
                return attempt(first)
            except OutOfOrder as found:
                first |= found.instances

    # --- the end of a child ---

    def _tell_parents(
        self, work: UnitOfWork, child: int, locked: Collection[int] = ()
    ) -> None:
        """Deliver the end of a child, whose row this transaction has locked.

        ``locked`` are other rows that it has locked.

        Raises:
            OutOfOrder: a parent with a lower number has not been locked.
        """
        links = self._children.links_to(work, child)
        if not links:
            return
        row = self._instances.find_by_id(work, child)
        if row is None or not row.instance.status.is_ended:
            return
        early = {link.parent for link in links if link.parent < child}
        if not early <= {*work.locked_first, *locked}:
            raise OutOfOrder({*early, child})
        for link in links:
            parent = self._instances.lock_by_id(work, link.parent)
            if parent is None or not _is_current(parent.instance, link):
                continue
            if _concerns(row.instance, parent.instance):
                self._add(work, parent, [ending_draft(link.name, row.instance)])

    def _tell_of_children(self, work: UnitOfWork, parent: Locked) -> Locked:
        """Deliver to a revived parent the ends it has missed."""
        for link in self._children.links_of(work, parent.stream):
            child = self._instances.find_by_id(work, link.child)
            if child is None or not child.instance.status.is_ended:
                continue
            if _concerns(child.instance, parent.instance):
                draft = ending_draft(link.name, child.instance)
                parent = self._add(work, parent, [draft])
        return parent

    # --- what goes with an entry ---

    def _undertake(
        self, work: UnitOfWork, row: Locked, drafts: Sequence[Draft]
    ) -> list[Draft]:
        """Do what drafts say is done to others; the drafts as they came out."""
        self._lock_others(work, row.instance.instance, drafts)
        came: dict[str | None, list[Draft]] = {}
        # In one order, too: two parents may be about to start the same children.
        for draft in sorted(drafts, key=lambda each: each.name or ""):
            if isinstance(draft.deed, NewChild):
                came[draft.name] = self._spawn(work, row, draft, draft.deed)
            if isinstance(draft.deed, NewMessage):
                came[draft.name] = self._post_draft(work, row, draft, draft.deed)
        return [each for draft in drafts for each in came.get(draft.name, [draft])]

    def _lock_others(
        self, work: UnitOfWork, parent: int, drafts: Sequence[Draft]
    ) -> None:
        """Lock what drafts do something to, as far as it exists, in order.

        Raises:
            OutOfOrder: one of them comes before the parent, which is locked already.
        """
        deeds = [draft.deed for draft in drafts]
        keys = [Key(each.workflow, each.id) for each in deeds if concerns_others(each)]
        found = [self._instances.find(work, key) for key in keys]
        numbers = sorted({row.instance.instance for row in found if row is not None})
        if numbers and numbers[0] < parent and not work.locked_first >= set(numbers):
            raise OutOfOrder({parent, *numbers})
        for number in numbers:
            self._instances.lock_by_id(work, number)

    def _spawn(
        self, work: UnitOfWork, parent: Locked, draft: Draft, deed: NewChild
    ) -> list[Draft]:
        key = Key(deed.workflow, deed.id)
        deadline = parent.instance.deadline_at
        new = NewInstance(deed.input, deed.incarnation, deadline=deadline)
        child = self._instances.insert(work, key, new)
        if child is None:
            child = self._instances.lock(work, key, payloads=True)
            if child is None:
                raise StoreUnavailable(problem="the child is being deleted")
            refusal = self._refuse(work, parent, child, deed)
            if refusal is not None:
                return [attrs.evolve(draft, kind=Kind.STEP_FAILED, payload=refusal)]
        instance = child.instance
        self._children.attach(work, parent.stream, deed.result_name, instance.instance)
        if not instance.status.is_ended:
            return [draft]
        return [draft, ending_draft(deed.result_name, instance)]

    def _refuse(
        self, work: UnitOfWork, parent: Locked, child: Locked, deed: NewChild
    ) -> str | None:
        """The record of why a parent may not attach to what exists; None if it may."""
        mine = parent.instance.instance
        links = self._children.links_to(work, child.instance.instance)
        itself = child.instance.instance == mine
        if itself or any(link.parent != mine for link in links):
            return record_of(ChildOwned(workflow=deed.workflow, id=deed.id))
        differing = deed.differing(child.instance.input or "{}")
        if differing:
            names = ", ".join(differing)
            conflict = InputConflict(
                workflow=deed.workflow, id=deed.id, differing=names
            )
            return record_of(conflict)
        return None

    # --- messages ---

    def _post_draft(
        self, work: UnitOfWork, sender: Locked, draft: Draft, deed: NewMessage
    ) -> list[Draft]:
        """Send what a body sends; the draft says how it went."""
        receiver = self._instances.lock(work, Key(deed.workflow, deed.id))
        if receiver is None:
            error = InstanceNotFound(workflow=deed.workflow, id=deed.id)
            return [
                attrs.evolve(draft, kind=Kind.STEP_FAILED, payload=record_of(error))
            ]
        key, is_keyed = deed.key or deed.drawn, deed.key is not None
        message = Message(deed.topic, deed.payload, key, is_keyed)
        if receiver.instance.instance != sender.instance.instance:
            delivered = self._post(work, receiver, message)
            return [attrs.evolve(draft, payload=json.dumps(delivered))]
        # To itself: its journal gets it with the very append that is under way.
        if not self._note(work, receiver, message):
            return [attrs.evolve(draft, payload="false")]
        return [draft, message_draft(message)]

    def _post(self, work: UnitOfWork, row: Locked, message: Message) -> bool:
        """Put a message into the journal of a live instance; others are owed it."""
        if not self._note(work, row, message):
            return False
        if not row.instance.status.is_ended:
            self._add(work, row, [message_draft(message)])
        return True

    def _note(self, work: UnitOfWork, row: Locked, message: Message) -> bool:
        """Whether a message is anything new to an instance that can take it."""
        if row.instance.status is Status.COMPLETED:
            return False
        owed, instance = row.instance.status.is_ended, row.instance.instance
        if not (owed or message.is_keyed):
            return True
        return self._messages.note(work, instance, message, owed=owed)

    # --- what goes with an entry, and is not done to others ---

    def _register(
        self, work: UnitOfWork, stream: Stream, drafts: Sequence[Draft]
    ) -> None:
        """Register the awakeables of entries that have just been recorded."""
        opened = [d.deed for d in drafts if isinstance(d.deed, NewAwakeable)]
        if opened:
            self._awakeables.register(work, stream, opened)

    def _end_children(
        self, work: UnitOfWork, row: Locked, drafts: Sequence[Draft]
    ) -> None:
        """Cancel the children that entries just recorded say are cancelled."""
        for draft in drafts:
            if isinstance(draft.deed, EndChild):
                self._end_child(work, row, draft.deed)

    def _end_child(self, work: UnitOfWork, parent: Locked, deed: EndChild) -> None:
        child = self._instances.lock(work, Key(deed.workflow, deed.id))
        if child is None or child.instance.status.is_ended:
            return
        self._cancel_row(work, child)
        self._tell_parents(work, child.instance.instance, [parent.instance.instance])

    # --- entries, under the lock of the row ---

    def _insert(
        self, work: UnitOfWork, stream: Stream, after: int, drafts: Sequence[Draft]
    ) -> None:
        """Insert drafts whose names are known to be free."""
        try:
            self._journal.insert(work, stream, after, drafts)
        except NameTaken as error:
            raise StoreRefused(
                problem=f"the journal of instance {stream.instance} holds entries that "
                "its row does not count"
            ) from error

    def _add(self, work: UnitOfWork, row: Locked, drafts: Sequence[Draft]) -> Locked:
        """Record wakes whose names are free, and wake the instance."""
        absent = self._journal.find_absent(work, row.stream, drafts)
        if not absent:
            return row
        self._insert(work, row.stream, row.instance.position, absent)
        return self._instances.wake(work, row, len(absent))

    def _cancel_row(self, work: UnitOfWork, row: Locked) -> Locked:
        """Write the cancelled marker of a live instance, and end it."""
        marker = Draft(Kind.CANCELLED, None, None)
        self._insert(work, row.stream, row.instance.position, [marker])
        return self._instances.cancel(work, row)


def concerns_others(deed: object) -> TypeGuard[NewChild | EndChild | NewMessage]:
    """Whether what goes with an entry is done to another instance."""
    return isinstance(deed, NewChild | EndChild | NewMessage)


def message_draft(message: Message) -> Draft:
    """The entry by which a message is delivered."""
    name = message_name(message.topic, message.key)
    return Draft(Kind.MESSAGE, name, message.payload)


def ending_draft(name: str, child: Instance) -> Draft:
    """The wake by which an ended child is delivered."""
    key = child.key
    if child.status is Status.COMPLETED:
        return Draft(Kind.WAKE, name, child.result or "null")
    if child.status is Status.CANCELLED:
        cancelled = ChildCancelled(workflow=key.workflow, id=key.id)
        return Draft(Kind.WAKE_FAILED, name, record_of(cancelled))
    reason = Reason.decode(child.last_error)
    failed = ChildFailed(
        workflow=key.workflow,
        id=key.id,
        reason=reason.reason,
        type=reason.type,
        message=reason.message,
        remote_traceback=reason.traceback,
    )
    return Draft(Kind.WAKE_FAILED, name, record_of(failed))


def _concerns(child: Instance, parent: Instance) -> bool:
    """Whether a live parent is told how a child ended.

    One that was asked to end is not told that a child was cancelled, too: it would take
    that for a failure, and its cleanup would not run.
    """
    return not (parent.cancel_requested and child.status is Status.CANCELLED)


def _is_current(parent: Instance, link: Link) -> bool:
    return not parent.status.is_ended and parent.generation == link.generation
