"""What the runtime asks of a store. Each method is one transaction.

A store keeps instances, their journals and their snapshots. Its promises:

- **Positions** of a generation count from 1 without gaps, and commit order is position
  order, since the counter in the instance row moves under that row's lock.
- **First writer wins** for a live name. A second append of the name changes nothing,
  and its answer carries the stored entry.
- **Fencing.** A `Lease` is good while the instance row holds its epoch. Every claim and
  every release raises the epoch, so a former owner can write nothing.
- **The instance row is the ledger.** Whatever makes an instance runnable writes that
  row in the same transaction.
- **Time** is the database's, or a value the clock binds for tests. Durations are whole
  microseconds; instants are microseconds since 1970-01-01 UTC.
- **Expected results are data.** Methods return what happened. They raise only for a
  database that is away or full (`StoreUnavailable`: nothing is known to have happened,
  trying again is safe) and for one that cannot be used (`StoreRefused`).

Every method may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from workflow_engine.core.collecting import Collecting
from workflow_engine.core.faults import Examining
from workflow_engine.core.journal import Draft, Entry, Prefix
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.requests import Appended, Moved
from workflow_engine.core.rows import (
    Ambiguous,
    AwakeableRow,
    AwakeableStatus,
    Batch,
    ChildRow,
    Claim,
    Crashed,
    Done,
    Ended,
    Fired,
    Held,
    Instance,
    Key,
    Lease,
    Message,
    Missing,
    NewInstance,
    Overdue,
    Raised,
    Refusal,
    Resolved,
    Sent,
    Timer,
    TimerRow,
)


class Listening(Protocol):
    """Hints are being heard."""

    def close(self) -> None:
        """Hear no more."""


class Store(Examining, Collecting, Protocol):
    """The store of one database (and, on PostgreSQL, one schema)."""

    def joined(self, session: Any) -> Store:
        """This store, doing all it does in the open transaction of a caller's session:
        nobody sees anything before the caller commits.

        Its methods raise `StoreRefused`, too, when the session is of no use for that.
        """

    # --- starting and owning ---

    def start(self, key: Key, new: NewInstance) -> tuple[Instance, bool]:
        """Record an instance unless it exists; the row with ``input``, and whether this
        call created it."""

    def claim(
        self,
        key: Key,
        owner: str,
        lease: int,
        patches: Collection[str],
        new: NewInstance | None = None,
    ) -> Claim | Held | Ended | Missing:
        """Take the lease of one instance for ``lease`` microseconds, whatever its
        pacing (``next_attempt_at``, ``wake_after``); with ``new``, start it first if
        missing.

        ``patches`` become the generation's set if it has none yet. Counts no takeover.
        A claim does not change the status of a blocked or suspended instance to running
        in a way that loses why it waits; it becomes running, and park or block set it
        again. One whose deadline has passed fails instead, whoever holds its lease.
        """

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
        """Take up to ``limit`` runnable instances of ``names``, oldest due first, each
        name having its fair share; never waits for a row somebody else holds.

        Runnable: running, suspended or blocked; no unexpired lease; ``next_attempt_at``
        null or due; when suspended, ``wake_after`` due. Claiming another owner's
        expired lease counts a takeover; the claim that reaches ``max_takeovers`` writes
        the failed marker instead. ``exclude`` are instances to leave alone.
        """

    def renew(self, owner: str, lease: int, leases: Sequence[Lease]) -> frozenset[int]:
        """Extend the leases with one statement; the instances still held."""

    def release(self, lease: Lease) -> bool:
        """Give the lease back, raising the epoch; the instance is runnable at once.
        False if it was not good any more."""

    def owners(self) -> frozenset[str]:
        """The owners of unexpired leases."""

    def expire(self, owners: Collection[str]) -> int:
        """End the leases of owners known to be dead, as if their time had run out."""

    def listen(self, heard: Callable[[], None], *, others: bool = True) -> Listening:
        """Call ``heard``, from any thread, when something may have become runnable.

        A hint: it may come without need, late, or never. Without ``others`` it comes
        from this process alone, and no connection or socket is opened for it.
        """

    # --- the journal of a run ---

    def load(self, instance: int, generation: int, page_size: int) -> Prefix:
        """The current prefix of a generation: its snapshot, if one is usable, and the
        tail. Never shorter than the row's position: a short read is read again."""

    def append(
        self, lease: Lease, drafts: Sequence[Draft], known: int, expect: int | None
    ) -> Appended | Moved | Refusal:
        """Record drafts whose name is not taken; all entries after ``known``.

        With ``expect``, `Moved` unless the position is still that. A recorded outcome
        is progress: attempts, takeovers and last error are reset.
        """

    def transact(
        self,
        lease: Lease,
        name: str,
        known: int,
        work: Callable[[Any], Draft | BaseException],
        tried: int = 0,
        isolation: str | None = None,
    ) -> Appended | Raised | Refusal:
        """Call ``work`` with a session of the database, and record what it answers in
        the same transaction; an error that it answers rolls all of it back.

        Everything is rolled back, too, when the lease is not good any more or the name
        is taken: then the tail is answered, as in `append`. Conflicts with other
        transactions are `StoreUnavailable`, unless there are too many. ``tried`` says
        how often ``work`` was called in vain before. ``isolation`` is for PostgreSQL.
        """

    def park(
        self,
        lease: Lease,
        drafts: Sequence[Draft],
        expect: int,
        cancel_seen: bool,
        waits_on: Sequence[str] = (),
        timers: Sequence[Timer] | None = None,
    ) -> Done | Appended | Refusal:
        """Suspend and release, if the position is ``expect`` and no cancel came that
        was not seen; else nothing changes and the tail is answered. Repeating a park
        whose acknowledgement was lost answers Done.

        ``waits_on`` are the names it waits for, for people to see.
        ``timers`` is the full list of sleeps: those that are new are started, those
        that run keep their due time, others are dropped. One that is due fires, and
        the tail is answered. None when there is no timer and was none before."""

    def watch(self, lease: Lease, known: int) -> Appended | Refusal:
        """What was recorded after ``known``. Fires the generation's timers if one is
        due; else it reads, and writes nothing."""

    def arm(
        self, lease: Lease, timers: Sequence[Timer], known: int
    ) -> Appended | Refusal:
        """Start timers while the run goes on; all entries after ``known``."""

    def fire_due(self, limit: int, exclude: Collection[int] = ()) -> Fired:
        """Deliver up to ``limit`` timers that are due, whoever holds the leases.

        A timer of an older generation or of an ended instance delivers nothing.

        An instance whose row cannot be read or contradicts its journal keeps its timers
        and holds up no other. ``exclude`` are instances to leave alone.
        """

    def fail_overdue(self, limit: int, exclude: Collection[int] = ()) -> Overdue:
        """Fail up to ``limit`` instances whose deadline has passed, each in a
        transaction of its own, whoever holds their leases. ``exclude`` and what is
        broken are as in `fire_due`."""

    def finish(
        self, lease: Lease, status: Status, payload: str | None, drafts: Sequence[Draft]
    ) -> Done | Refusal:
        """Record drafts and the marker of ``status`` (completed, cancelled), set the
        result, end the instance and release the lease."""

    def fail(
        self, lease: Lease, payload: str, expect: int, drafts: Sequence[Draft] = ()
    ) -> Done | Moved | Refusal:
        """Write the failed marker with this record, end the instance, release."""

    def crash(
        self, lease: Lease, payload: str, expect: int, max_attempts: int
    ) -> Crashed | Moved | Refusal:
        """Record an attempt as history, count it, set the backoff (2, 4, 8 … 64 s) and
        release; at the ceiling write the failed marker instead."""

    def block(
        self, lease: Lease, payload: str, expect: int, delay: int
    ) -> Done | Moved | Refusal:
        """Set status blocked with the reason, paced by ``delay`` microseconds, and
        release. Counts no attempt; writes no entry."""

    def rotate(
        self,
        lease: Lease,
        seed: str,
        patches: Collection[str],
        consumed: Collection[str],
        drafts: Sequence[Draft],
    ) -> Done | Refusal:
        """Open the next generation with its seed and patch set, carry over live wakes
        whose name is not ``consumed`` in order, write the old generation's marker and
        release. The instance is runnable at once."""

    def snapshot(self, lease: Lease, prefix: Prefix) -> None:
        """Keep ``prefix`` so that a load starts there. Advisory: may do nothing."""

    # --- from outside ---

    def find(self, key: Key, payloads: bool = False) -> Instance | None:
        """The row, with ``input`` and ``result`` if asked."""

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
        """Instances by ascending ``instance`` after ``after``, without payloads.
        ``prefix`` is the literal beginning of the workflow id. Rows that cannot be read
        are logged and left out."""

    def journal(
        self, instance: int, generation: int, after: int, limit: int
    ) -> Sequence[tuple[Entry, int, str]]:
        """Every entry, history too, with ``recorded_at`` and entry id, by position."""

    def resolve(
        self, key: Key, name: str, payload: str, generation: int | None
    ) -> Resolved | Missing:
        """Record a wake for a name, and make a suspended instance runnable."""

    def send(
        self,
        key: Key,
        message: Message,
        new: NewInstance | None = None,
        fits: Callable[[Instance], None] | None = None,
    ) -> Sent | Missing:
        """Record a message, and make a suspended instance runnable; with ``new``, start
        it first if missing.

        An instance that has failed or was cancelled is owed the message: it gets it
        when it is resurrected. ``fits`` is called with the row of an instance that
        exists, and may raise: then nothing has happened.
        """

    def settle(
        self, id: str, status: AwakeableStatus, payload: str | None
    ) -> bool | Missing:
        """Settle an awakeable, and deliver to the generation that opened it; whether
        this call did. Not if it is settled already, its generation is over or its
        instance completed. An instance that has failed is owed the delivery."""

    def find_awakeable(self, id: str) -> AwakeableRow | None:
        """An awakeable by its id."""

    def awakeables(self, instance: int, generation: int) -> Sequence[AwakeableRow]:
        """The awakeables of a generation, oldest first."""

    def timers(self, instance: int, generation: int) -> Sequence[TimerRow]:
        """The timers of a generation, first due first."""

    def children(self, instance: int, generation: int) -> Sequence[ChildRow]:
        """The children that a generation has attached to, first attached first."""

    def cancel(
        self, key: Key, *, cleanup: bool = False, cascade: bool = False
    ) -> Instance | Missing:
        """Write the cancelled marker unless the instance has ended; the row after.

        With ``cleanup``, set ``cancel_requested`` instead, and let it be claimed at
        once unless it is leased or blocked. With ``cascade``, the same for all
        descendants, in the same transaction, even if the instance itself has ended.
        """

    def resurrect(
        self, key: Key, rerun: Collection[str] | None, forget_cancel: bool = False
    ) -> Done | Ambiguous | Instance | Missing:
        """Make a failed or blocked instance runnable: supersede the failure that left
        the body, drop the generation's snapshots, reset the counts and record it.

        With ``forget_cancel``, a cancelled one too: supersede a delivered cancellation
        and every step after it. Without, a request that was not delivered is cleared.
        `Ambiguous` when live step entries lie after the failure and ``rerun`` is None;
        the row when its status does not allow it.
        """

    def discard(self, key: Key, position: int) -> Done | Instance | Missing:
        """Turn the live wake entry at ``position`` of a blocked instance's generation
        into history; the row when there is no such entry or it is not blocked."""

    def force_release(self, key: Key) -> bool | Missing:
        """Take the lease away from its owner; whether there was one."""
