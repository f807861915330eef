"""What a run writes, and what each answer of the store means for it.

Each method makes one commit and returns either an answer for the interpreter or the
ending of the run. While the database is away they try again until the lease has run
out. A commit that releases the lease (park, crash, rotate, …) may have been carried out
by an earlier try whose answer was lost; the next try is then fenced, and counts as
done.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs

from workflow_engine.core import requests
from workflow_engine.core.failure import Reason
from workflow_engine.core.journal import (
    Draft,
    NewAwakeable,
    NewChild,
    NewMessage,
    Prefix,
)
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.outcome import (
    Cancelled,
    Completed,
    ContinuedAsNew,
    Failed,
    Suspended,
)
from workflow_engine.core.rows import Crashed as CrashRecorded
from workflow_engine.core.rows import Done, Fenced, Lease, Raised, Refused, Timer
from workflow_engine.errors import EngineError, JournalAppendError
from workflow_engine.runtime.endings import (
    Blocked,
    Crashed,
    Interrupted,
    Lost,
    RunEnding,
    decode_result,
    ending_of,
)
from workflow_engine.runtime.equipment import Equipment
from workflow_engine.runtime.lease import HeldLease
from workflow_engine.runtime.persistence import persist
from workflow_engine.runtime.registry import Workflow
from workflow_engine.runtime.transacting import Transacting

BLOCK_PAUSE = 30_000_000
"""Microseconds before a worker looks again at an instance it could not read."""

Came: TypeAlias = RunEnding | requests.Answer
"""What comes of a request: an answer for the interpreter, or the end of the run."""


class Commits:
    """The commits of one run, under one lease."""

    def __init__(
        self, equipment: Equipment, workflow: Workflow[..., Any], held: HeldLease
    ) -> None:
        self._equipment = equipment
        self._store = equipment.store
        self._workflow = workflow
        self._held = held
        self._lease: Lease = held.lease

    def load(self) -> Prefix:
        """The journal so far."""
        lease, page_size = self._lease, self._equipment.options.page_size
        prefix: Prefix
        prefix, _ = self._persist(
            "load",
            lambda: self._store.load(lease.instance, lease.generation, page_size),
        )
        return prefix

    def append(self, request: requests.Append, known: int) -> Came:
        """Record drafts."""
        drafts = tuple(map(_named, request.drafts))
        return self._commit(
            "append",
            lambda: self._store.append(self._lease, drafts, known, request.expect),
            done=None,
        )

    def transact(self, transacting: Transacting, known: int) -> Came:
        """Do the work of a `Transaction`, and record it with that."""

        def operation() -> object:
            answer = self._store.transact(
                self._lease,
                transacting.name,
                known,
                transacting,
                transacting.calls,
                transacting.isolation,
            )
            if isinstance(answer, Raised):
                return transacting.failed(answer.error)
            return answer

        return self._commit("transaction", operation, done=None)

    def watch(self, known: int) -> Came:
        """Look what others have recorded, and fire timers that are due."""
        return self._commit(
            "watch", lambda: self._store.watch(self._lease, known), done=None
        )

    def arm(self, timers: Sequence[Timer], known: int) -> Came:
        """Start timers while the run goes on."""
        return self._commit(
            "arm", lambda: self._store.arm(self._lease, timers, known), done=None
        )

    def park(
        self,
        request: requests.Park,
        cancel_seen: bool,
        timers: Sequence[Timer] | None,
    ) -> Came:
        """Suspend the instance, unless its journal has moved."""
        names = tuple(wait.name for wait in request.waits if not wait.is_limit)
        return self._commit(
            "park",
            lambda: self._store.park(
                self._lease, request.drafts, request.expect, cancel_seen, names, timers
            ),
            done=Suspended(names),
        )

    def finish(self, request: requests.Finish) -> Came:
        """End the instance as completed, or as cancelled after its cleanup."""
        cancelled = request.result is None
        status = Status.CANCELLED if cancelled else Status.COMPLETED
        came = self._commit(
            "finish",
            lambda: self._store.finish(
                self._lease, status, request.result, request.drafts
            ),
            done=Cancelled() if cancelled else Completed(None),
        )
        if isinstance(came, Completed) and came.result is None:
            codec = self._equipment.codec
            return Completed(decode_result(request.result, self._workflow, codec))
        return came

    def rotate(self, request: requests.Rotate) -> Came:
        """Open the next generation."""
        return self._commit(
            "rotate",
            lambda: self._store.rotate(
                self._lease,
                request.seed,
                self._equipment.options.active_patches,
                request.consumed,
                request.drafts,
            ),
            done=ContinuedAsNew(self._lease.generation + 1),
        )

    def fail(self, request: requests.Crash) -> Came:
        """End the instance as failed."""
        record = Reason.of(request.error, request.entry)
        return self._commit(
            "fail",
            lambda: self._store.fail(self._lease, record.encode(), request.expect),
            done=Failed(record.reason),
        )

    def crash(self, request: requests.Crash, max_attempts: int) -> Came:
        """Count an attempt; fail the instance at the last one."""
        record = Reason.of(request.error, request.entry)
        came = self._commit(
            "crash",
            lambda: self._store.crash(
                self._lease, record.encode(), request.expect, max_attempts
            ),
            done=Crashed(request.error),
        )
        return Failed(record.reason) if came is _AT_THE_CEILING else came

    def block(self, request: requests.Block) -> Came:
        """Set the instance aside until code comes that can read it."""
        record = Reason.of(request.error, None)
        return self._commit(
            "block",
            lambda: self._store.block(
                self._lease, record.encode(), request.expect, BLOCK_PAUSE
            ),
            done=Blocked(request.error),
        )

    def release(self) -> Interrupted:
        """Give the lease back; the instance is runnable at once."""
        self._persist("release", lambda: self._store.release(self._lease))
        return Interrupted()

    def give_back(self) -> None:
        """Release the lease without insisting: somebody wants to stop.

        It runs out by itself if the database does not answer.
        """
        try:
            self._store.release(self._lease)
        except EngineError as error:
            self._equipment.log.warning("the lease was not given back: %s", error)

    def snapshot(self, prefix: Prefix) -> None:
        """Keep a snapshot. A run does not depend on it, so trouble is only logged."""
        try:
            self._store.snapshot(self._lease, prefix)
        except EngineError as error:
            self._equipment.log.warning("no snapshot was kept: %s", error)

    def _commit(
        self, kind: str, operation: Callable[[], object], *, done: RunEnding | None
    ) -> Came:
        points = self._equipment.points
        points.reach("before_commit", kind)
        answer, again = self._persist(kind, operation)
        points.reach("after_commit", kind)
        match answer:
            case requests.Appended() | requests.Moved() | requests.Performed():
                return answer
            case Done() if done is not None:
                return done
            case CrashRecorded(failed):
                return _AT_THE_CEILING if failed or done is None else done
            case Refused(instance):
                codec = self._equipment.codec
                # Not ended and yet refused: the generation has been rotated away from.
                rotated = ContinuedAsNew(self._lease.generation + 1)
                return ending_of(instance, self._workflow, codec) or rotated
            case Fenced() if again and done is not None:
                return done
            case Fenced():
                return Lost()
        key = self._lease.key
        raise JournalAppendError(
            workflow=key.workflow,
            id=key.id,
            entries=kind,
            problem=f"the store answered {answer!r}",
        )

    def _persist(self, kind: str, operation: Callable[[], Any]) -> tuple[Any, bool]:
        clock = self._equipment.clock
        key = self._lease.key
        return persist(
            operation,
            f"{kind} of {key.workflow!r}, {key.id!r}",
            give_up=lambda: not self._held.is_good(clock.monotonic()),
        )


def _named(draft: Draft) -> Draft:
    """Draw what has to be random: chance is no business of the interpreter."""
    match draft.deed:
        case NewAwakeable() as deed:
            id = secrets.token_hex(16)
            deed = attrs.evolve(deed, id=id)
            return attrs.evolve(draft, payload=json.dumps(id), deed=deed)
        case NewChild() as child:
            child = attrs.evolve(child, incarnation=secrets.token_hex(16))
            return attrs.evolve(draft, deed=child)
        case NewMessage() as message:
            message = attrs.evolve(message, drawn=secrets.token_hex(16))
            return attrs.evolve(draft, deed=message)
        case _:
            return draft


_AT_THE_CEILING = Failed("")
"""Stands, between two methods, for an instance that failed at its last attempt."""
