"""What others than its run do to an instance, and what they may see."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from workflow_engine.core.attempts import step_tried
from workflow_engine.core.failure import Reason
from workflow_engine.core.identity import (
    ATTEMPT_PREFIX,
    AWAKEABLE_ID_PREFIX,
    AWAKEABLE_PREFIX,
    RESERVED_PREFIXES,
    RETRY_PREFIX,
)
from workflow_engine.core.journal import STEP_KINDS, Draft, Entry, Kind
from workflow_engine.core.lifecycle import MOVES, Event, Status
from workflow_engine.core.rows import (
    Ambiguous,
    Done,
    Instance,
    Key,
    Message,
    Missing,
    NewInstance,
    Resolved,
    Sent,
)
from workflow_engine.errors import EntryNotFound
from workflow_engine.store.cancellation import Cancellation
from workflow_engine.store.ledger import Locked
from workflow_engine.store.unit_of_work import UnitOfWork

logger = logging.getLogger("workflow_engine")


class Outside(Cancellation):
    """The part of the store that needs no lease."""

    # --- looking ---

    def find(self, key: Key, payloads: bool = False) -> Instance | None:
        """See `Store.find`."""
        with self._read() as work:
            found = self._instances.find(work, key, payloads=payloads)
        return None if found is None else found.instance

    def list(
        self,
        *,
        statuses: Collection[Status] | None,
        workflow: str | None,
        prefix: str | None,
        tags: Mapping[str, str],
        after: int | None,
        limit: int,
    ) -> Sequence[Instance]:
        """See `Store.list`."""
        page: list[Instance] = []
        with self._read() as work:
            while (room := limit - len(page)) > 0:
                found, broken = self._instances.list(
                    work,
                    statuses=statuses,
                    workflow=workflow,
                    prefix=prefix,
                    tags=tags,
                    after=after,
                    limit=room,
                )
                page += [row.instance for row in found]
                for problem in broken.values():
                    logger.error("an instance is not listed: %s", problem)
                if not broken:
                    break
                after = max([*broken, *(row.instance.instance for row in found)])
        return page

    def journal(
        self, instance: int, generation: int, after: int, limit: int
    ) -> Sequence[tuple[Entry, int, str]]:
        """See `Store.journal`."""
        with self._read() as work:
            return self._journal.page(work, instance, generation, after, limit)

    # --- acting ---

    def resolve(
        self, key: Key, name: str, payload: str, generation: int | None
    ) -> Resolved | Missing:
        """See `Store.resolve`."""
        with self._write() as work:
            row = self._instances.lock(work, key)
            if row is None:
                return Missing()
            instance = row.instance
            current = generation in (None, instance.generation)
            if instance.status.is_ended or not current:
                return Resolved(False, instance)
            wake = Draft(Kind.WAKE, name, payload)
            absent = self._journal.find_absent(work, row.stream, [wake])
            if not absent:
                return Resolved(False, instance)
            self._insert(work, row.stream, instance.position, absent)
            return Resolved(True, self._instances.wake(work, row).instance)

    def send(
        self,
        key: Key,
        message: Message,
        new: NewInstance | None = None,
        fits: Callable[[Instance], None] | None = None,
    ) -> Sent | Missing:
        """See `Store.send`."""
        with self._write() as work:
            row = self._find_or_insert(work, key, new, fits)
            if row is None:
                return Missing()
            repeated = self._messages.is_noted(work, row.instance.instance, message)
            return Sent(self._post(work, row, message), repeated, row.instance)

    def _find_or_insert(
        self,
        work: UnitOfWork,
        key: Key,
        new: NewInstance | None,
        fits: Callable[[Instance], None] | None,
    ) -> Locked | None:
        """The row, locked; a new one if ``new`` is given and there is none."""
        while True:
            row = None if new is None else self._instances.insert(work, key, new)
            if row is not None:
                return row
            row = self._instances.lock(work, key, payloads=new is not None)
            if row is not None and fits is not None:
                fits(row.instance)
            if row is not None or new is None:
                return row
            # It was there, and was collected since.

    def force_release(self, key: Key) -> bool | Missing:
        """See `Store.force_release`."""
        with self._write() as work:
            if self._leases.force(work, key):
                return True
            found = self._instances.find(work, key)
        return Missing() if found is None else False

    # --- repairing ---

    def resurrect(
        self, key: Key, rerun: Collection[str] | None, forget_cancel: bool = False
    ) -> Done | Ambiguous | Instance | Missing:
        """See `Store.resurrect`.

        Without a journaled failure, ``rerun`` may name any step.

        Raises:
            EntryNotFound: ``rerun`` names a step that was not recorded after the
                failure.
        """
        with self._write() as work:
            row = self._instances.lock(work, key)
            if row is None:
                return Missing()
            if not _may_be_resurrected(row.instance, forget_cancel):
                return row.instance
            live = self._journal.live(work, row.stream)
            forgotten = _after_the_cancel(live) if forget_cancel else []
            failure = self._find_failure(work, row, live)
            gone = {entry.position for entry in forgotten}
            kept = [entry for entry in live if entry.position not in gone]
            later = _steps_after(failure, kept)
            if rerun is None and failure is not None and later:
                return Ambiguous(tuple(later))
            superseded = _superseded(key, failure, later, rerun or ())
            superseded = [each for each in superseded if each.position not in gone]
            self._forget(work, row, forgotten)
            superseded = [*forgotten, *superseded]
            self._revive(work, row, kept, [*superseded, *_tries_of(superseded, live)])
            return Done()

    def _find_failure(
        self, work: UnitOfWork, row: Locked, live: Sequence[Entry]
    ) -> Entry | None:
        """The live entry whose error left the body, if it was one's."""
        if row.instance.status is not Status.FAILED:
            return None
        marker = self._journal.find_last_failure(work, row.stream)
        name = Reason.decode(marker.payload).entry if marker is not None else None
        if name is None:
            return None
        return next((entry for entry in live if entry.name == name), None)

    def _forget(
        self, work: UnitOfWork, row: Locked, forgotten: Sequence[Entry]
    ) -> None:
        """See to it that what a forgotten cleanup has opened answers nothing later."""
        labels = [
            entry.name.removeprefix(AWAKEABLE_ID_PREFIX)
            for entry in forgotten
            if entry.name and entry.name.startswith(AWAKEABLE_ID_PREFIX)
        ]
        self._awakeables.forget(work, row.stream, labels)

    def _revive(
        self,
        work: UnitOfWork,
        row: Locked,
        live: Sequence[Entry],
        superseded: Sequence[Entry],
    ) -> None:
        if superseded:
            positions = [entry.position for entry in superseded]
            self._journal.supersede(work, row.stream, positions)
            self._reopen(work, row.stream, list(superseded))
        self._snapshots.drop(work, row.stream)
        names = [entry.name for entry in superseded]
        record = Draft(Kind.RESURRECTED, None, json.dumps({"superseded": names}))
        self._insert(work, row.stream, row.instance.position, [record])
        # A request that the body has not seen is dropped, a delivered one stands.
        delivered = any(entry.kind == Kind.CANCEL for entry in live)
        requested = row.instance.cancel_requested and delivered
        revived = self._instances.revive(work, row, cancel_requested=requested)
        self._deliver_owed(work, revived)

    def discard(self, key: Key, position: int) -> Done | Instance | Missing:
        """See `Store.discard`."""
        with self._write() as work:
            row = self._instances.lock(work, key)
            if row is None:
                return Missing()
            if row.instance.status is not Status.BLOCKED:
                return row.instance
            wake = self._journal.find_live_wake(work, row.stream, position)
            if wake is None:
                return row.instance
            self._journal.supersede(work, row.stream, [position])
            self._reopen(work, row.stream, [wake])
            self._snapshots.drop(work, row.stream)
            fenced = self._instances.fence(work, row)
            # A child ends once: what it left is delivered again.
            self._tell_of_children(work, fenced)
            return Done()


def _may_be_resurrected(instance: Instance, forget_cancel: bool) -> bool:
    cancelled = instance.status is Status.CANCELLED
    return (instance.status, Event.RESURRECT) in MOVES and (
        forget_cancel or not cancelled
    )


def _after_the_cancel(live: Sequence[Entry]) -> list[Entry]:
    """What a delivered cancellation brought about: its entry, and the cleanup's steps.

    What the engine chose for the cleanup is part of it: the body does not come to it
    any more, or in another place.
    """
    cancels = [entry.position for entry in live if entry.kind == Kind.CANCEL]
    if not cancels:
        return []
    steps = [
        entry
        for entry in live
        if entry.position >= cancels[0] and entry.kind in {Kind.CANCEL, *STEP_KINDS}
    ]
    names = {entry.name or "" for entry in steps}
    answers = [
        entry
        for entry in live
        if entry.name
        and entry.name.startswith(AWAKEABLE_PREFIX)
        and AWAKEABLE_ID_PREFIX + entry.name.removeprefix(AWAKEABLE_PREFIX) in names
    ]
    return [*steps, *answers]


def _steps_after(failure: Entry | None, live: Sequence[Entry]) -> dict[str, Entry]:
    """The steps recorded after a failure, by name; all of them if it left no entry.

    What the engine chose, such as a seed or the id of an awakeable, is none of them.
    """
    after = 0 if failure is None else failure.position
    return {
        entry.name: entry
        for entry in live
        if entry.kind in STEP_KINDS
        and entry.position > after
        and entry.name is not None
        and not entry.name.startswith(RESERVED_PREFIXES)
    }


def _tries_of(superseded: Sequence[Entry], live: Sequence[Entry]) -> list[Entry]:
    """The failed attempts of superseded steps, and the pauses after them."""
    steps = {entry.name for entry in superseded}
    return [
        entry
        for entry in live
        if entry.name is not None
        and entry.name.startswith((ATTEMPT_PREFIX, RETRY_PREFIX))
        and entry not in superseded
        and step_tried(entry.name) in steps
    ]


def _superseded(
    key: Key, failure: Entry | None, later: Mapping[str, Entry], rerun: Collection[str]
) -> list[Entry]:
    """The entries that a resurrection turns into history, in order."""
    for name in sorted(rerun):
        if name not in later:
            what = f"step {name!r} was recorded after the failure"
            raise EntryNotFound(workflow=key.workflow, id=key.id, what=what)
    named = [entry for name, entry in later.items() if name in rerun]
    return named if failure is None else [failure, *named]
