"""Answers what a body yields: at once, from the journal, or not yet.

The desk keeps the names: which are in use, who waits for which, and which recorded
entries can be delivered, lowest position first. What each command means is said by its
performer, in `performers`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from workflow_engine.core import commands
from workflow_engine.core.answers import WAITS, handle_of, type_of, wait_of
from workflow_engine.core.attempts import Pause, step_tried
from workflow_engine.core.branches import Branch, whereabouts
from workflow_engine.core.commands import Command, Step
from workflow_engine.core.context import Context
from workflow_engine.core.failure import rebuild
from workflow_engine.core.identity import RETRY_PREFIX, TIMEOUT_PREFIX
from workflow_engine.core.journal import STEP_KINDS, WAKE_KINDS, Draft, Entry, Kind
from workflow_engine.core.outcome import Answer, Returned, Thrown
from workflow_engine.core.requests import Wait
from workflow_engine.core.topics import (
    Untaken,
    name_answered,
    timeout_name,
    wait_timed_by,
)
from workflow_engine.core.waits import Awakeable, OpenAwakeable, StartTimer
from workflow_engine.errors import (
    AuthorError,
    DuplicateStepName,
    NameKindMismatch,
    NotACommand,
    StepDecodeError,
    ValueProblem,
    WaitTimeout,
)

NEUTRAL = frozenset(
    {
        commands.Patch,
        commands.CurrentWorkflow,
        commands.CurrentGeneration,
        commands.FreshOrdinal,
    }
)
"""Commands that only ask; a body that yields one has not gone on after a failure."""


class Desk:
    """Names, and who waits for them.

    Attributes:
        unsent: steps nobody has been asked to perform yet, by name, in order.
        chosen: values to record before the body may see them.
        records: patch decisions to record with the next commit.
        abandoned: steps in flight that lost the branch that waited.
        rotation: the encoded seed, once the body yielded `ContinueAsNew`.
        fatal: an author's error that ends the run whatever the body does.
        went_on: whether the body did more than ask about itself since it was set False.
        failures: the exceptions of recorded entries that were thrown, by identity.
        ordinals: the next number of each namespace.
        consumed: the names of wakes that a yield was answered from.
        handles: the awakeables that the body has been given.
        used: the names in use, each as ``a step`` or ``a wait``, and the line.
        patched: the names of patch decisions that are, or will be, recorded.
    """

    def __init__(self, context: Context, performers: Mapping[type, Performer]) -> None:
        self.context = context
        self._performers = performers
        self.unsent: dict[str, Step[Any]] = {}
        self.chosen: list[Draft] = []
        self.records: list[Draft] = []
        self.abandoned: list[str] = []
        self.rotation: str | None = None
        self.fatal: AuthorError | None = None
        self.went_on = False
        self.failures: dict[int, tuple[BaseException, str]] = {}
        self.ordinals: dict[str, int] = {}
        self.consumed: set[str] = set()
        self.handles: list[Awakeable[Any]] = []
        self._waiting: dict[str, list[Branch]] = {}
        self._outside: dict[str, None] = {}
        self._recorded: dict[str, Entry] = {}
        self._untaken = Untaken()
        self._attempts: dict[str, int] = {}
        self._pauses: dict[str, Pause] = {}
        self._reached: dict[str, None] = {}
        self._candidates: list[tuple[int, Entry]] = []
        self.used: dict[str, tuple[str, str]] = {}
        self.patched: set[str] = set()

    # --- what the tree asks (see `Answerer`) ---

    @property
    def is_halted(self) -> bool:
        """Whether the body must not run any more."""
        return self.rotation is not None or self.fatal is not None

    def answer(self, branch: Branch, command: Any) -> Answer | None:
        """The answer to go on with at once, or None: the branch waits."""
        performer = self._performers.get(type(command))
        if performer is None:
            return Thrown(self.not_a_command(command))
        if type(command) not in NEUTRAL:
            self.went_on = True
        try:
            return performer(self, branch, command)
        except AuthorError as error:
            return Thrown(error)

    def withdraw(self, branch: Branch, command: Any) -> None:
        """The branch no longer waits for the command."""
        self._leave(branch, branch.limit_name)
        self._leave(branch, branch.name)
        if branch.name in self._waiting:
            return
        if isinstance(command, Step) and self.unsent.pop(command.name, None) is None:
            self.abandoned.append(command.name)

    def branch_returned(self) -> None:
        """A branch ended with a value: the body has gone on."""
        self.went_on = True

    # --- what the interpreter asks ---

    def absorb(self, entries: Iterable[Entry]) -> None:
        """Take note of recorded entries, in order of position."""
        for entry in entries:
            if not entry.is_known or entry.kind == Kind.CANCEL:
                heapq.heappush(self._candidates, (entry.position, entry))
            elif entry.kind == Kind.PATCH and entry.name is not None:
                self.patched.add(entry.name)
            elif entry.kind == Kind.STEP_ATTEMPT and entry.live:
                pause = Pause.of(entry)
                self._attempts[pause.step] = pause.attempt
                self._pauses[pause.step] = pause
                self._reached[pause.name] = None
            elif entry.answers and entry.name is not None:
                self._take_note(entry, entry.name)

    def _take_note(self, entry: Entry, name: str) -> None:
        if entry.kind == Kind.MESSAGE:
            self._untaken.put(entry)
        else:
            self._recorded[name] = entry
            self.unsent.pop(name, None)
        self._offer(name_answered(entry))
        if name.startswith(RETRY_PREFIX):
            step = step_tried(name)
            if step in self._pauses and self._pauses[step].name == name:
                del self._pauses[step]
            self.send_again(step)

    def has_recorded(self, name: str) -> bool:
        """Whether the journal holds an outcome under this name."""
        return name in self._recorded

    def waits_for(self, name: str) -> bool:
        """Whether a branch waits for this name."""
        return name in self._waiting

    def waits(self) -> Iterator[Wait]:
        """The waits that are outstanding, in the order they were reached; then the
        pauses of steps that are tried again."""
        for name in self._outside:
            yield from self._outside_waits(name)
        for step in self._pauses:
            yield from self._pauses_of(step)

    def take_reached(self) -> Iterator[Wait]:
        """Those of the waits that were reached since the last call."""
        names, self._reached = self._reached, {}
        for name in names:
            if name in self._outside:
                yield from self._outside_waits(name)
            elif name.startswith(RETRY_PREFIX):
                yield from self._pauses_of(step_tried(name))

    def _outside_waits(self, name: str) -> Iterator[Wait]:
        for branch in self._waiting[name][:1]:
            if isinstance(branch.waits_for, Command):
                yield wait_of(name, branch.waits_for)

    def _pauses_of(self, step: str) -> Iterator[Wait]:
        pause = self._pauses.get(step)
        if pause is not None and step in self._waiting:
            yield Wait(pause.name, pause.timer)

    @property
    def outstanding(self) -> tuple[str, ...]:
        """All names somebody waits for, in the order they were reached."""
        return tuple(self._waiting)

    def next_candidate(self) -> Entry | None:
        """Take the recorded entry with the lowest position that answers somebody."""
        while self._candidates:
            entry = heapq.heappop(self._candidates)[1]
            if not entry.is_known or entry.kind == Kind.CANCEL:
                return entry
            name = name_answered(entry)
            if name in self._waiting and entry is self._find(name):
                return entry
        return None

    def take_branches(self, entry: Entry) -> list[Branch]:
        """The branches that an entry answers; they wait no more.

        A message answers only the branch that has waited longest.
        """
        name = name_answered(entry)
        taken = list(self._waiting.get(name, ()))
        if entry.kind == Kind.MESSAGE:
            taken = taken[:1]
            self._untaken.take_first(name)
        for branch in taken:
            self._leave(branch, branch.limit_name)
            self._leave(branch, branch.name)
        self._offer(name)
        return taken

    def _leave(self, branch: Branch, name: str) -> None:
        branches = self._waiting.get(name, [])
        if branch in branches:
            branches.remove(branch)
        if not branches:
            self._waiting.pop(name, None)
            self._outside.pop(name, None)

    def decode(self, entry: Entry, command: Command[Any]) -> Answer:
        """What ``entry`` answers to ``command``.

        Raises:
            StepDecodeError: the recorded value does not fit the declared type.
        """
        name, payload = entry.name or "", entry.payload or "null"
        kinds = WAKE_KINDS if isinstance(command, WAITS) else STEP_KINDS
        if entry.kind not in kinds:
            return Thrown(self.mismatch(name, command, f"a {entry.kind}"))
        if entry.kind in WAKE_KINDS:
            self.consumed.add(name)
        if name.startswith(TIMEOUT_PREFIX):
            wait = wait_timed_by(name)
            error = WaitTimeout(workflow=self.context.workflow, wait=wait)
            return self._thrown(error, name)
        try:
            if entry.kind in (Kind.STEP_OK, Kind.WAKE, Kind.MESSAGE):
                value = self.context.codec.decode(payload, type_of(command))
                return Returned(self._given(value, command))
            return self._thrown(rebuild(payload, name, command), name)
        except ValueProblem as problem:
            raise StepDecodeError(
                workflow=self.context.workflow,
                step=name,
                path=problem.path,
                expected=problem.expected,
                problem=problem.problem,
            ) from None

    def _thrown(self, error: BaseException, name: str) -> Thrown:
        self.failures[id(error)] = (error, name)
        return Thrown(error)

    def _given(self, value: Any, command: Command[Any]) -> Any:
        given = handle_of(value, command)
        if isinstance(command, OpenAwakeable):
            self.handles.append(given)
        return given

    # --- steps ---

    def attempts(self, step: str) -> int:
        """How many attempts of a step have failed, as its retry policy counts."""
        return self._attempts.get(step, 0)

    def send(self, step: Step[Any]) -> None:
        """Have a step performed, unless it has an outcome or waits for another try."""
        pause = self._pauses.get(step.name)
        if pause is not None:
            self._reached[pause.name] = None
        elif not self.has_recorded(step.name):
            self.unsent[step.name] = step

    def send_again(self, name: str) -> None:
        """Have the step performed that a branch waits for under a name, if one does."""
        for branch in self._waiting.get(name, ()):
            if isinstance(branch.waits_for, Step):
                self.send(branch.waits_for)

    # --- what the performers ask ---

    def wait(self, branch: Branch, name: str) -> None:
        """Let a branch wait for what this run records under a name."""
        branch.name, branch.limit_name = name, ""
        self._waiting.setdefault(name, []).append(branch)
        self._offer(name)

    def wait_outside(
        self, branch: Branch, name: str, limit: StartTimer | None = None
    ) -> None:
        """Let a branch wait for what others record, and for the end of its time."""
        self.wait(branch, name)
        self._outside[name] = self._reached[name] = None
        if limit is not None:
            ordinal = self.count(TIMEOUT_PREFIX + name)
            branch.limit_name = timeout_name(name, ordinal)
            self._waiting[branch.limit_name] = [branch]
            self._outside[branch.limit_name] = None
            self._reached[branch.limit_name] = None
            self._offer(branch.limit_name)

    def _offer(self, name: str) -> None:
        """What is recorded under a name can be delivered, if somebody waits for it."""
        entry = self._find(name)
        if entry is not None and name in self._waiting:
            heapq.heappush(self._candidates, (entry.position, entry))

    def _find(self, name: str) -> Entry | None:
        return self._recorded.get(name) or self._untaken.find_first(name)

    def use_once(self, name: str, branch: Branch, kind: str) -> None:
        """Take a name.

        Raises:
            DuplicateStepName: it is in use.
        """
        where = whereabouts(branch.body)
        if name in self.used:
            raise DuplicateStepName(
                workflow=self.context.workflow,
                step=name,
                first=f"at {self.used[name][1]}",
                second=f"at {where}",
            )
        self.used[name] = (kind, where)

    def use_again(self, name: str, branch: Branch, kind: str, command: object) -> None:
        """Take a name, or use it again for the same kind.

        Raises:
            NameKindMismatch: it is in use for the other kind.
        """
        taken, _ = self.used.setdefault(name, (kind, whereabouts(branch.body)))
        if taken != kind:
            raise self.mismatch(name, command, taken)

    def count(self, namespace: str) -> int:
        """The next number of a namespace, from 0."""
        ordinal = self.ordinals.get(namespace, 0)
        self.ordinals[namespace] = ordinal + 1
        return ordinal

    # --- sentences ---

    def mismatch(self, name: str, command: object, found: str) -> NameKindMismatch:
        """The sentence about a name that is in use for another kind."""
        wanted = "a wait" if isinstance(command, WAITS) else "a Step"
        return NameKindMismatch(
            workflow=self.context.workflow, step=name, wanted=wanted, found=found
        )

    def not_a_command(self, found: object) -> NotACommand:
        """The sentence about something that is no command."""
        advice = "yield Step(...), Await(...) or another command of workflow_engine"
        if isinstance(found, Generator):
            name = getattr(found, "__name__", "helper")
            advice = f"use `yield from {name}(...)` to run a part of the body"
        return NotACommand(
            workflow=self.context.workflow,
            found=f"{found!r:.80} ({type(found).__name__})",
            advice=advice,
        )


Performer: TypeAlias = Callable[[Desk, Branch, Any], Answer | None]
"""Gives the answer to a command at once, or None: the branch waits."""
