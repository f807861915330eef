"""Drives a body against its journal. Sans-I/O: requests out, answers in.

The interpreter knows an exact prefix of the journal, positions 1 to k. Of the entries
that answer names now outstanding, it delivers the one with the lowest position first;
on the first run too, since an outcome is delivered only once it is recorded. So what a
body has seen is a function of the prefix alone. The law, kept by property tests: after
every answer (unless a failure is being tried) everything the body observed, all that is
outstanding and the ending equal those of a fresh interpreter on the same prefix.

A driver's whole part::

    while asked := interpreter.requests():
        for request in asked:
            ...  # perform it, then interpreter.feed(answer)
    interpreter.drop()

When ``stale``, the body has seen a failure that the journal did not keep: the driver
builds a new interpreter from the journal and offers it `uncommitted`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import attrs

from workflow_engine.core.commands import Command
from workflow_engine.core.context import Context
from workflow_engine.core.desk import Desk
from workflow_engine.core.ends import (
    Tried,
    encode_result,
    finality,
    outcome_of,
    recorded_as,
    unreadable,
)
from workflow_engine.core.identity import CANCEL_REQUESTED
from workflow_engine.core.journal import Draft, Entry, Kind, Prefix
from workflow_engine.core.outcome import Error, Outcome, Thrown
from workflow_engine.core.performers import PERFORMERS
from workflow_engine.core.requests import (
    Abandon,
    Answer,
    Append,
    Appended,
    ArmFailed,
    ArmWaits,
    Block,
    Commit,
    Crash,
    Finish,
    Moved,
    NotBegun,
    Park,
    Perform,
    Performed,
    Request,
    Rotate,
)
from workflow_engine.core.tree import Dropped, Tree
from workflow_engine.core.waits import Awakeable
from workflow_engine.errors import AuthorError, CancelRequested, EngineError


class Interpreter:
    """One run of one body.

    Args:
        body: the generator, not started.
        context: what the run knows of itself.
        prefix: the journal so far.
        cancel_requested: whether a cancellation with cleanup was asked for.
    """

    def __init__(
        self,
        body: Generator[Any, Any, Any],
        context: Context,
        prefix: Prefix,
        *,
        cancel_requested: bool = False,
    ) -> None:
        self.stale = False
        self.position = prefix.position
        self._context = context
        self._superseded = prefix.superseded
        self._cancel_requested = cancel_requested
        self._cancel_recorded = False
        self._ready: list[Draft] = []
        self._failures: deque[tuple[str, str]] = deque()
        self._tried: list[Tried] = []
        self._in_flight: set[str] = set()
        self._death: Crash | Block | None = None
        self._committing: Commit | None = None
        self._requests: list[Request] = []
        self._desk = Desk(context, PERFORMERS)
        self._absorb(prefix.entries)
        self._tree = Tree(body, self._desk)
        self._tree.start()
        self._advance()

    def requests(self) -> list[Request]:
        """What the driver is asked to do now; each request is returned once."""
        asked, self._requests = self._requests, []
        return asked

    def feed(self, answer: Answer) -> None:
        """Take the answer to an earlier request, and go on as far as it allows."""
        match answer:
            case Performed(name, outcome):
                self._performed(name, outcome)
            case NotBegun(request):
                self._in_flight.discard(request.name)
                self._desk.send_again(request.name)
            case Appended():
                self._appended(answer)
            case Moved():
                self._committing = None
                self.stale = True
            case ArmFailed(error):
                self._committing = None
                self._death = Crash(error, False, None, self.position)
        self._advance()

    def take_handles(self) -> list[Awakeable[Any]]:
        """The awakeables that the body has been given since the last call."""
        handles, self._desk.handles = self._desk.handles, []
        return handles

    @property
    def waits_outside(self) -> bool:
        """Whether anything but a step may be what it goes on with."""
        return any(True for _ in self._desk.waits())

    @property
    def cancel_requested(self) -> bool:
        """Whether the last answer said that a cancellation was asked for."""
        return self._cancel_requested

    @property
    def is_called_off(self) -> bool:
        """Whether a cancellation is to be delivered: no step is begun before it is."""
        return self._cancel_requested and not self._cancel_recorded

    @property
    def observed(self) -> tuple[object, ...]:
        """What the law compares: all that is outstanding, the ordinals, the ending."""
        ending = self._tree.ending
        shown = repr(ending.error) if isinstance(ending, Thrown) else repr(ending)
        ordinals = tuple(sorted(self._desk.ordinals.items()))
        return (self._desk.outstanding, ordinals, self._desk.rotation, shown)

    @property
    def is_trying(self) -> bool:
        """Whether the body has seen a failure that is not recorded yet."""
        return bool(self._tried)

    def uncommitted(self) -> dict[str, Outcome]:
        """Outcomes of performed steps that are not recorded, by step name."""
        held: dict[str, Outcome] = dict(map(outcome_of, self._ready))
        held.update((name, Error(payload)) for name, payload in self._failures)
        held.update((tried.name, Error(tried.payload)) for tried in self._tried)
        return held

    def drop(self) -> Dropped:
        """End the body and all its branches. Emits nothing, records nothing."""
        return self._tree.drop()

    # --- answers ---

    def _performed(self, name: str, outcome: Outcome) -> None:
        self._in_flight.discard(name)
        if self._desk.has_recorded(name):
            return  # somebody else was first; the body gets what is stored
        if isinstance(outcome, Error) and not outcome.is_final:
            self._failures.append((name, outcome.payload))
        else:
            kind, name = recorded_as(name, outcome, self._desk.attempts(name))
            self._ready.append(self._draft(kind, name, outcome.payload))

    def _appended(self, answer: Appended) -> None:
        commit, self._committing = self._committing, None
        if isinstance(commit, Park):  # it did not park, and recorded nothing
            self._desk.records += commit.drafts
        drafts = commit.drafts if isinstance(commit, Append) else ()
        own = len(drafts) + len(answer.performed)
        moved_by_others = answer.position - self.position > own
        self._in_flight -= answer.performed
        if self._tried and isinstance(commit, Append) and commit.expect is not None:
            for tried in self._tried:
                self._desk.failures[id(tried.error)] = (tried.error, tried.name)
            self._tried.clear()
        elif self._tried and moved_by_others:
            self.stale = True
        self.position = answer.position
        self._cancel_requested = answer.cancel_requested
        self._absorb(answer.entries)
        dying = self._death is not None or isinstance(self._tree.ending, Thrown)
        self.stale |= dying and moved_by_others

    def _absorb(self, entries: tuple[Entry, ...]) -> None:
        self._cancel_recorded |= any(entry.kind == Kind.CANCEL for entry in entries)
        self._desk.absorb(entries)

    # --- going on: the order of these stages is the order of the rules ---

    def _advance(self) -> None:
        while self._committing is None and not self.stale and self._stage():
            pass

    def _stage(self) -> bool:
        """Do the first thing that is due; whether to look again."""
        stages: tuple[Callable[[], bool | None], ...] = (
            self._settle,
            self._end,
            self._deliver,
            self._record,
            self._try_failure,
            self._request_cancel,
            self._emit_steps,
            self._rest,
        )
        for stage in stages:
            again = stage()
            if again is not None:
                return again
        return False

    def _settle(self) -> bool | None:
        """Record failures that the body went on after, before anything else."""
        if not self._tried or not self._desk.went_on:
            return None
        drafts = [self._draft(Kind.STEP_FAILED, t.name, t.payload) for t in self._tried]
        # The first was thrown at the lowest position.
        expect = self._tried[0].position
        return self._commit(Append((*drafts, *self._records()), expect))

    def _end(self) -> bool | None:
        if self._desk.rotation is not None:
            consumed = frozenset(self._desk.consumed)
            drafts = self._last_drafts()
            return self._commit(Rotate(self._desk.rotation, consumed, drafts))
        death = self._find_death()
        if death is not None:
            return self._die(death)
        if self._tree.ending is None:
            return None
        return self._finish()

    def _find_death(self) -> Crash | Block | None:
        if self._death is not None:
            return self._death
        if self._desk.fatal is not None:
            return Crash(self._desk.fatal, True, None, self.position)
        ending = self._tree.ending
        if not isinstance(ending, Thrown):
            return None
        if self._was_cancelled and isinstance(ending.error, CancelRequested):
            return None
        final, entry = finality(ending.error, self._desk.failures)
        return Crash(ending.error, final, entry, self.position)

    def _die(self, death: Crash | Block) -> bool:
        """Crash or block, once steps in flight ended, and what stands is recorded.

        Failures that the body has not seen do not stand: those steps run again.
        """
        if self._in_flight:
            return False
        if self._ready:
            drafts, self._ready = tuple(self._ready), []
            return self._commit(Append(drafts))
        return self._commit(attrs.evolve(death, expect=self.position))

    def _finish(self) -> bool:
        assert self._tree.ending is not None
        if self._was_cancelled:
            return self._commit(Finish(None, self._last_drafts()))
        value = getattr(self._tree.ending, "value", None)
        try:
            result = encode_result(self._context, value)
        except AuthorError as error:
            self._death = Crash(error, True, None, self.position)
            return True
        return self._commit(Finish(result, self._last_drafts()))

    def _deliver(self) -> bool | None:
        entry = self._desk.next_candidate()
        if entry is None:
            return None
        if not entry.is_known:
            error = unreadable(self._context, entry)
            self._death = Block(error, entry.position, self.position)
        elif entry.kind == Kind.CANCEL:
            self._tree.cancel()
        else:
            self._deliver_outcome(entry)
        return True

    def _deliver_outcome(self, entry: Entry) -> None:
        waiting = [
            (branch, branch.waits_for) for branch in self._desk.take_branches(entry)
        ]
        for branch, command in waiting:
            if branch.waits_for is not command or not isinstance(command, Command):
                continue  # an earlier delivery of this entry ended its wait
            try:
                answer = self._desk.decode(entry, command)
            except EngineError as error:
                self._death = Block(error, entry.position, self.position)
                return
            self._tree.resume(branch, answer)

    def _record(self) -> bool | None:
        """Make outcomes and chosen values durable; the body sees them afterwards."""
        self._ready += self._desk.chosen
        self._desk.chosen.clear()
        if not self._ready:
            return None
        drafts = (*self._ready, *self._records())
        self._ready = []
        return self._commit(Append(drafts))

    def _try_failure(self) -> bool | None:
        """Throw the next failure into the body. It is recorded if the body goes on."""
        if not self._failures:
            return None
        name, payload = self._failures.popleft()
        if not self._desk.waits_for(name):  # its branch has lost since
            self._ready.append(self._draft(Kind.STEP_FAILED, name, payload))
            return True
        entry = Entry(self.position + 1, Kind.STEP_FAILED, name, payload, live=True)
        (branch,) = self._desk.take_branches(entry)
        assert isinstance(branch.waits_for, Command)
        answer = self._desk.decode(entry, branch.waits_for)
        assert isinstance(answer, Thrown)
        del self._desk.failures[id(answer.error)]  # not a recorded one, yet
        self._tried.append(Tried(name, payload, answer.error, self.position))
        self._desk.went_on = False
        self._tree.resume(branch, answer)
        return True

    def _request_cancel(self) -> bool | None:
        if not self.is_called_off:
            return None
        if self._in_flight:
            return False
        draft = Draft(Kind.CANCEL, CANCEL_REQUESTED, None)
        # What came meanwhile has a lower position, and is delivered first.
        return self._commit(Append((draft, *self._records())))

    def _emit_steps(self) -> None:
        lost, self._desk.abandoned = self._desk.abandoned, []
        self._requests += [Abandon(name) for name in lost if name in self._in_flight]
        for name, step in self._desk.unsent.items():
            again = self._superseded.get(name, 0)
            attempt = self._desk.attempts(name) + 1
            self._requests.append(Perform(name, step, again, attempt))
            self._in_flight.add(name)
        self._desk.unsent.clear()

    def _rest(self) -> bool:
        """Wait: for steps in flight, or, when there are none, parked."""
        if not self._in_flight:
            waits = tuple(self._desk.waits())
            return self._commit(Park(waits, self._records(), self.position))
        reached = tuple(self._desk.take_reached())
        return self._commit(ArmWaits(reached)) if reached else False

    # --- small things ---

    def _commit(self, commit: Commit) -> bool:
        self._committing = commit
        self._requests.append(commit)
        return False

    def _draft(self, kind: Kind, name: str, payload: str) -> Draft:
        return Draft(kind, name, payload, self._superseded.get(name, 0))

    def _records(self) -> tuple[Draft, ...]:
        records = tuple(self._desk.records)
        self._desk.records.clear()
        return records

    def _last_drafts(self) -> tuple[Draft, ...]:
        ready, self._ready = tuple(self._ready), []
        return (*ready, *self._records())

    @property
    def _was_cancelled(self) -> bool:
        return self._tree.root.cancellation is not None
