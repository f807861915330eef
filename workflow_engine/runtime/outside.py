"""What may be asked of an instance and done to it from outside, run or not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from workflow_engine.core.commands import UNDECLARED
from workflow_engine.core.context import Context
from workflow_engine.core.identity import check_name, check_step_name
from workflow_engine.core.inference import infer_type
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.ports import Store
from workflow_engine.core.rows import Ambiguous, Instance, Key, Missing
from workflow_engine.errors import (
    EntryNotFound,
    IllegalMove,
    InstanceNotFound,
    ResurrectAmbiguous,
)
from workflow_engine.runtime.equipment import Equipment
from workflow_engine.runtime.registry import Workflow, name_of
from workflow_engine.runtime.views import (
    AwakeableView,
    ChildView,
    Description,
    JournalEntry,
    Page,
    TimerView,
)

Named = Workflow[..., Any] | str
"""A workflow, or its name."""

JOURNAL_PAGE = 500


def key_of(workflow: Named, id: str) -> Key:
    """The identity of an instance.

    Raises:
        InvalidName: the name or the id cannot be one.
    """
    return Key(name_of(workflow), check_name(id, "workflow id"))


class Outside:
    """The half of `Engine` that runs nothing."""

    def _equip(self) -> Equipment:
        raise NotImplementedError

    @property
    def _store(self) -> Store:
        return self._equip().store

    def describe(self, workflow: Named, id: str) -> Description:
        """How an instance stands.

        Raises:
            InstanceNotFound: there is none.
        """
        return Description.of(self._get(key_of(workflow, id)))

    def list(
        self,
        *,
        status: Status | str | Iterable[Status | str] | None = None,
        name: Named | None = None,
        prefix: str | None = None,
        tags: Mapping[str, str] | None = None,
        after: int | Description | None = None,
        limit: int = 100,
    ) -> Page:
        """A page of instances, in the order they were started.

        Args:
            status: one status, or several.
            name: of one workflow only.
            prefix: the literal beginning of the workflow id.
            tags: all of these must be set to these values.
            after: where the last page ended: its ``after``.
            limit: instances on a page.

        Raises:
            ValueError: a status that does not exist, or a limit below 1.
            InvalidName: no id can begin so.
        """
        if prefix and not prefix.isspace():
            check_name(prefix, "beginning of an id")
        if limit < 1:
            raise ValueError(f"limit must be 1 or more, not {limit}")
        rows = self._store.list(
            statuses=_statuses(status),
            workflow=None if name is None else name_of(name),
            prefix=prefix,
            tags=dict(tags or {}),
            after=after.number if isinstance(after, Description) else after,
            limit=limit,
        )
        items = tuple(Description.of(row) for row in rows)
        return Page(items, items[-1].number if len(items) == limit else None)

    def journal(
        self, workflow: Named, id: str, generation: int | None = None
    ) -> tuple[JournalEntry, ...]:
        """Every entry of a generation, the current one by default, history too.

        Raises:
            InstanceNotFound: there is no such instance.
        """
        row = self._get(key_of(workflow, id))
        wanted = row.generation if generation is None else generation
        entries: list[JournalEntry] = []
        while True:
            after = entries[-1].position if entries else 0
            page = self._store.journal(row.instance, wanted, after, JOURNAL_PAGE)
            entries += [JournalEntry.of(*read) for read in page]
            if len(page) < JOURNAL_PAGE:
                return tuple(entries)

    def awakeables(self, workflow: Named, id: str) -> tuple[AwakeableView, ...]:
        """The awakeables of the current generation, oldest first.

        Raises:
            InstanceNotFound: there is no such instance.
        """
        row = self._get(key_of(workflow, id))
        rows = self._store.awakeables(row.instance, row.generation)
        return tuple(AwakeableView.of(each) for each in rows)

    def timers(self, workflow: Named, id: str) -> tuple[TimerView, ...]:
        """The timers that run in the current generation, the first due first.

        Raises:
            InstanceNotFound: there is no such instance.
        """
        row = self._get(key_of(workflow, id))
        rows = self._store.timers(row.instance, row.generation)
        return tuple(TimerView.of(each) for each in rows)

    def children(self, workflow: Named, id: str) -> tuple[ChildView, ...]:
        """What the current generation has spawned or attached to, oldest first.

        Raises:
            InstanceNotFound: there is no such instance.
        """
        row = self._get(key_of(workflow, id))
        rows = self._store.children(row.instance, row.generation)
        return tuple(ChildView.of(each) for each in rows)

    def resolve(
        self,
        workflow: Named,
        id: str,
        step_name: str,
        value: object,
        generation: int | None = None,
        *,
        returns: Any = UNDECLARED,
    ) -> bool:
        """Deliver the value that an `Await` of this name waits for, or will.

        The first delivery wins. It is kept if nobody waits yet.

        Args:
            generation: deliver to this generation only; by default to the current one.
            returns: the type the value is recorded as, when the value alone does not
                show it (the declared type is a union of classes, say).

        Returns:
            Whether this call resolved it. False: it was resolved before, the instance
            has ended, or ``generation`` is not the current one.

        Raises:
            InstanceNotFound: there is no such instance.
            JournalEncodeError: the value cannot be recorded; nothing was.
            InvalidName: ``step_name`` cannot be one.
        """
        key = key_of(workflow, id)
        check_step_name(step_name)
        declared = infer_type(value) if returns is UNDECLARED else returns
        payload = self._encode(key, value, declared, step_name)
        answer = self._store.resolve(key, step_name, payload, generation)
        if isinstance(answer, Missing):
            raise InstanceNotFound(workflow=key.workflow, id=key.id)
        return answer.delivered

    def cancel(
        self,
        workflow: Named,
        id: str,
        *,
        cleanup: bool = False,
        cascade: bool = False,
    ) -> bool:
        """End an instance now. A step that is running may finish; no more are begun.

        Args:
            cleanup: do not end it, but ask it to end: `CancelRequested` is thrown into
                the body where it stands, which may run further steps. A run in progress
                learns of it at its next commit.
            cascade: the same for the children, and theirs, in one transaction; also
                when the instance itself has ended.

        Returns:
            Whether the instance is cancelled, or asked to end; False if it had ended
            otherwise.

        Raises:
            InstanceNotFound: there is none.
        """
        key = key_of(workflow, id)
        answer = self._store.cancel(key, cleanup=cleanup, cascade=cascade)
        if isinstance(answer, Missing):
            raise InstanceNotFound(workflow=key.workflow, id=key.id)
        return answer.status == Status.CANCELLED or not answer.status.is_ended

    def resurrect(
        self,
        workflow: Named,
        id: str,
        *,
        rerun: Collection[str] | None = None,
        forget_cancel: bool = False,
    ) -> None:
        """Make a failed or blocked instance runnable again.

        The failure that left the body is superseded, so that its step runs again; what
        was recorded before it stays. Workers take the instance up. If it was asked to
        end and its body was told so, its cleanup goes on; if it was not told, the
        request is dropped.

        Args:
            rerun: which of the steps recorded after the failure (a compensation) run
                again too; ``()`` for none. Needed only if there are any.
            forget_cancel: take the cancellation back. A cancelled instance goes on,
                too, where it was. What its cleanup recorded becomes history; what that
                did is not undone.

        Raises:
            ResurrectAmbiguous: there are such steps, and ``rerun`` was not given.
            EntryNotFound: ``rerun`` names a step that is none of them.
            IllegalMove: the instance is neither failed nor blocked, nor cancelled with
                ``forget_cancel``.
            InstanceNotFound: there is none.
        """
        if isinstance(rerun, str):
            raise TypeError(f"rerun takes several names; write rerun=({rerun!r},)")
        key = key_of(workflow, id)
        answer = self._store.resurrect(key, rerun, forget_cancel)
        if isinstance(answer, Missing):
            raise InstanceNotFound(workflow=key.workflow, id=key.id)
        if isinstance(answer, Ambiguous):
            raise ResurrectAmbiguous(
                workflow=key.workflow, id=key.id, names=answer.names
            )
        if isinstance(answer, Instance):
            problem = "only failed and blocked instances are resurrected"
            if answer.status == Status.CANCELLED:
                problem += "; forget_cancel takes a cancellation back"
            raise _illegal(answer, problem)

    def discard(self, workflow: Named, id: str, position: int) -> None:
        """Turn a wake that blocks its instance into history; the wait is open again.

        Raises:
            IllegalMove: the instance is not blocked.
            EntryNotFound: there is no wake at that position.
            InstanceNotFound: there is no such instance.
        """
        key = key_of(workflow, id)
        answer = self._store.discard(key, position)
        if isinstance(answer, Missing):
            raise InstanceNotFound(workflow=key.workflow, id=key.id)
        if isinstance(answer, Instance):
            if answer.status != Status.BLOCKED:
                raise _illegal(answer, "only a blocked instance's entry is discarded")
            raise EntryNotFound(
                workflow=key.workflow, id=key.id, what=f"wake at position {position}"
            )

    def release_lease(self, workflow: Named, id: str) -> bool:
        """Take the lease away from whoever runs the instance.

        The owner stops at its next boundary and can record nothing more.

        Returns:
            Whether there was an owner.

        Raises:
            InstanceNotFound: there is no such instance.
        """
        key = key_of(workflow, id)
        answer = self._store.force_release(key)
        if isinstance(answer, Missing):
            raise InstanceNotFound(workflow=key.workflow, id=key.id)
        return answer

    def _encode(self, key: Key, value: object, declared: Any, step_name: str) -> str:
        codec = self._equip().codec
        context = Context(key.workflow, key.id, 0, codec)
        return context.encode(value, declared, f"the value for {step_name!r}")

    def _get(self, key: Key) -> Instance:
        row = self._store.find(key)
        if row is None:
            raise InstanceNotFound(workflow=key.workflow, id=key.id)
        return row


def _statuses(
    status: Status | str | Iterable[Status | str] | None,
) -> frozenset[Status] | None:
    if status is None:
        return None
    several = [status] if isinstance(status, str) else status
    return frozenset(Status(one) for one in several)


def _illegal(row: Instance, problem: str) -> IllegalMove:
    return IllegalMove(
        workflow=row.key.workflow, id=row.key.id, status=row.status, problem=problem
    )
