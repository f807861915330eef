"""The commits of a run, each by the protocol of `Protocol`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import attrs

from workflow_engine.core.identity import RESERVED_PREFIXES, SEED
from workflow_engine.core.journal import (
    FORMAT,
    STEP_KINDS,
    Draft,
    Entry,
    Kind,
)
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.requests import Appended, Moved
from workflow_engine.core.retry import crash_backoff
from workflow_engine.core.rows import Crashed, Done, Lease, Refusal, Timer
from workflow_engine.store.claims import write_patches
from workflow_engine.store.family import concerns_others
from workflow_engine.store.ledger import Locked
from workflow_engine.store.protocol import Advance, Advanced, Commit, check
from workflow_engine.store.unit_of_work import UnitOfWork
from workflow_engine.store.waiting import Waiting


class Commits(Waiting):
    """The part of the store through which the holder of a lease writes."""

    # --- going on ---

    def append(
        self, lease: Lease, drafts: Sequence[Draft], known: int, expect: int | None
    ) -> Appended | Moved | Refusal:
        """See `Store.append`."""
        if not drafts:
            return self._catch_up(lease, known, expect)

        answer = self._commit(
            Commit(
                lease,
                drafts,
                known,
                self._advance(lease),
                objection=_moved_from(expect),
                hopeful=expect in (None, known) and not _concerns_others(drafts),
            )
        )
        if not isinstance(answer, Advanced):
            return answer
        tail = entries_of(drafts, known) if answer.tail is None else answer.tail
        return Appended(tail, answer.position, answer.cancel_requested)

    def _advance(self, lease: Lease) -> Advance:
        """The update of the row that goes with recorded outcomes."""

        def advance(
            work: UnitOfWork, position: int, drafts: Sequence[Draft]
        ) -> Advanced | None:
            progress = any(draft.kind in STEP_KINDS for draft in drafts)
            cancel = self._progress.append(
                work, lease, position, len(drafts), progress=progress
            )
            return None if cancel is None else Advanced(position + len(drafts), cancel)

        return advance

    def _catch_up(
        self, lease: Lease, known: int, expect: int | None
    ) -> Appended | Moved | Refusal:
        """An append of nothing, which is a look and writes nothing."""
        with self._read() as work:
            found = self._instances.find_by_id(work, lease.instance)
            held = check(lease, found)
            if not isinstance(held, Locked):
                return held
            moved = _moved_from(expect)(work, held)
            return moved or self._look(work, lease, held, known)

    def _look(
        self, work: UnitOfWork, lease: Lease, row: Locked, known: int
    ) -> Appended:
        instance = row.instance
        news = instance.position > known
        tail = self._tail(work, lease, known) if news else ()
        return Appended(tail, instance.position, instance.cancel_requested)

    def park(
        self,
        lease: Lease,
        drafts: Sequence[Draft],
        expect: int,
        cancel_seen: bool,
        waits_on: Sequence[str] = (),
        timers: Sequence[Timer] | None = None,
    ) -> Done | Appended | Refusal:
        """See `Store.park`."""
        if timers is not None:
            return self._park_on_timers(
                lease, drafts, expect, cancel_seen, waits_on, timers
            )

        def advance(
            work: UnitOfWork, position: int, drafts: Sequence[Draft]
        ) -> Advanced | None:
            parked = self._progress.park(
                work,
                lease,
                position,
                len(drafts),
                cancel_seen=cancel_seen,
                waits_on=waits_on,
            )
            return Advanced(position + len(drafts)) if parked else None

        def repeated(row: Locked) -> Done | None:
            # Nobody but the holder of the lease can have suspended it in this epoch.
            same = row.instance.generation == lease.generation
            released = same and row.epoch == lease.epoch + 1
            suspended = row.instance.status is Status.SUSPENDED
            return Done() if released and suspended else None

        def objection(work: UnitOfWork, row: Locked) -> Appended | None:
            unseen = row.instance.cancel_requested and not cancel_seen
            if row.instance.position == expect and not unseen:
                return None
            return self._look(work, lease, row, expect)

        commit = Commit[Done | Appended](
            lease, drafts, expect, advance, repeated, objection
        )
        answer = self._commit(commit)
        return Done() if isinstance(answer, Advanced) else answer

    # --- ending ---

    def finish(
        self, lease: Lease, status: Status, payload: str | None, drafts: Sequence[Draft]
    ) -> Done | Refusal:
        """See `Store.finish`."""
        completed = status is Status.COMPLETED

        def advance(
            work: UnitOfWork, _: int, drafts: Sequence[Draft]
        ) -> Advanced | None:
            if completed:
                last = self._progress.complete(work, lease, len(drafts), payload)
            else:
                last = self._progress.cancel(work, lease, len(drafts))
            return None if last is None else Advanced(last)

        kind = Kind.COMPLETED if completed else Kind.CANCELLED
        marked = [*drafts, Draft(kind, None, payload)]
        answer = self._commit(Commit[Done](lease, marked, 0, advance, ends=True))
        return Done() if isinstance(answer, Advanced) else answer

    def fail(
        self, lease: Lease, payload: str, expect: int, drafts: Sequence[Draft] = ()
    ) -> Done | Moved | Refusal:
        """See `Store.fail`."""

        def advance(
            work: UnitOfWork, position: int, drafts: Sequence[Draft]
        ) -> Advanced | None:
            failed = self._progress.fail(work, lease, position, len(drafts), payload)
            return Advanced(position + len(drafts)) if failed else None

        marked = [*drafts, Draft(Kind.FAILED, None, payload)]
        objection = _moved_from(expect)
        answer = self._commit(
            Commit(lease, marked, expect, advance, objection=objection, ends=True)
        )
        return Done() if isinstance(answer, Advanced) else answer

    # --- stopping for a while ---

    def crash(
        self, lease: Lease, payload: str, expect: int, max_attempts: int
    ) -> Crashed | Moved | Refusal:
        """See `Store.crash`."""
        return self._in_order(
            lambda first: self._crash(first, lease, payload, expect, max_attempts)
        )

    def _crash(
        self,
        first: frozenset[int],
        lease: Lease,
        payload: str,
        expect: int,
        max_attempts: int,
    ) -> Crashed | Moved | Refusal:
        with self._write(first) as work:
            row = self._hold(work, lease)
            if not isinstance(row, Locked):
                return row
            if row.instance.position != expect:
                return Moved()
            attempts = row.instance.attempts + 1
            failed = attempts >= max_attempts
            retry_at = None
            if failed:
                self._progress.fail(work, lease, expect, 1, payload, attempts=1)
            else:
                pause = crash_backoff(attempts)
                retry_at = self._progress.crash(work, lease, expect, payload, pause)
            kind = Kind.FAILED if failed else Kind.ATTEMPT
            self._insert(work, row.stream, expect, [Draft(kind, None, payload)])
            if failed:
                self._tell_parents(work, lease.instance)
            return Crashed(failed, attempts, retry_at)

    def block(
        self, lease: Lease, payload: str, expect: int, delay: int
    ) -> Done | Moved | Refusal:
        """See `Store.block`."""

        def advance(
            work: UnitOfWork, position: int, _: Sequence[Draft]
        ) -> Advanced | None:
            blocked = self._progress.block(work, lease, position, payload, delay)
            return Advanced(position) if blocked else None

        commit = Commit(lease, (), expect, advance, objection=_moved_from(expect))
        answer = self._commit(commit)
        return Done() if isinstance(answer, Advanced) else answer

    def rotate(
        self,
        lease: Lease,
        seed: str,
        patches: Collection[str],
        consumed: Collection[str],
        drafts: Sequence[Draft],
    ) -> Done | Refusal:
        """See `Store.rotate`.

        The next generation is complete before the marker that ends this one.
        """
        with self._write() as work:
            row = self._hold(work, lease)
            if not isinstance(row, Locked):
                return row
            old, position = row.stream, row.instance.position
            new = attrs.evolve(old, generation=old.generation + 1)
            absent = self._journal.find_absent(work, old, drafts)
            self._insert(work, old, position, absent)
            wakes = self._journal.wakes(work, old)
            carried = [wake for wake in wakes if _moves_along(wake, consumed)]
            self._insert(work, new, 0, [Draft(Kind.STEP_OK, SEED, seed)])
            self._journal.carry(work, new, 1, carried)
            marker = Draft(Kind.CONTINUED_AS_NEW, None, str(new.generation))
            self._insert(work, old, position + len(absent), [marker])
            patch_set = write_patches(patches)
            self._progress.rotate(work, lease, position, len(carried), patch_set)
            return Done()


def _concerns_others(drafts: Sequence[Draft]) -> bool:
    """Whether other instances have to be locked, too."""
    return any(concerns_others(draft.deed) for draft in drafts)


def _moved_from(
    expect: int | None,
) -> Callable[[UnitOfWork, Locked], Moved | None]:
    """The objection that the journal holds more than was expected."""

    def objection(_: UnitOfWork, row: Locked) -> Moved | None:
        fits = expect is None or row.instance.position == expect
        return None if fits else Moved()

    return objection


def entries_of(drafts: Sequence[Draft], known: int) -> tuple[Entry, ...]:
    """What the journal holds of drafts that were inserted after ``known``."""
    return tuple(
        Entry(
            position, draft.kind.value, draft.name, draft.payload, draft.is_live, FORMAT
        )
        for position, draft in enumerate(drafts, known + 1)
    )


def _moves_along(wake: Entry, consumed: Collection[str]) -> bool:
    """Whether it goes to the next generation: a message or a user's wake, not taken."""
    name = wake.name or ""
    is_ours = wake.kind != Kind.MESSAGE and name.startswith(RESERVED_PREFIXES)
    return name not in consumed and not is_ours
