"""Answers what a body yields: at once, from the journal, or not yet.

The desk keeps the names: which are in use, who waits for which, and which recorded
entries can be delivered, lowest position first. One performer a command type, in
`PERFORMERS`; a new command is a new row there.
"""

from __future__ import annotations

import heapq
import inspect
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeAlias

import attrs

from workflow_engine.core import commands
from workflow_engine.core.branches import MAX_CANCEL_THROWS, Branch, whereabouts
from workflow_engine.core.codec import Codec
from workflow_engine.core.commands import (
    Await,
    Awakeable,
    CancelChild,
    Child,
    Chosen,
    Command,
    OpenAwakeable,
    Sleep,
    SpawnChild,
    Step,
)
from workflow_engine.core.failure import rebuild
from workflow_engine.core.identity import (
    AWAKEABLE_ID_PREFIX,
    AWAKEABLE_PREFIX,
    CHILD_CANCEL_PREFIX,
    CHILD_ID_PREFIX,
    CHILD_PREFIX,
    PATCH_PREFIX,
    SLEEP_PREFIX,
)
from workflow_engine.core.inference import infer_type
from workflow_engine.core.journal import (
    STEP_KINDS,
    WAKE_KINDS,
    Draft,
    EndChild,
    Entry,
    Kind,
    NewAwakeable,
    NewChild,
)
from workflow_engine.core.outcome import Answer, Returned, Thrown
from workflow_engine.core.requests import Wait
from workflow_engine.errors import (
    AuthorError,
    CancelRequested,
    DeclarationError,
    DuplicateStepName,
    EmptyCompound,
    ForgottenYieldFrom,
    IgnoredCancellation,
    IllegalRotation,
    JournalEncodeError,
    NameKindMismatch,
    NotACommand,
    StepDecodeError,
    ValueProblem,
)

WAITS = (Await, Sleep, Awakeable, Child)
"""Commands that are answered from outside."""


@attrs.frozen
class Context:
    """What a run knows of itself.

    Attributes:
        result_type: what the body's value is recorded as.
        patches: the generation's patch set.
    """

    workflow: str
    id: str
    generation: int
    codec: Codec
    result_type: Any = Any
    patches: frozenset[str] = frozenset()

    def encode(self, value: object, type_: Any, where: str) -> str:
        """``value`` as JSON.

        Raises:
            JournalEncodeError: it cannot be carried; names the workflow, ``where`` in
                it, the path in the value and the type.
            UnsupportedType, UnresolvedAnnotation: nothing of that type can be.
        """
        try:
            return self.codec.encode(value, type_)
        except DeclarationError as error:
            raise error.placed(self.workflow, where) from None
        except ValueProblem as problem:
            raise JournalEncodeError(
                workflow=self.workflow,
                where=where,
                path=problem.path,
                expected=problem.expected,
                problem=problem.problem,
            ) from None


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
    """

    def __init__(self, context: Context) -> None:
        self.context = context
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
        self._waiting: dict[str, list[Branch]] = {}
        self._recorded: dict[str, Entry] = {}
        self._candidates: list[tuple[int, Entry]] = []
        self._used: dict[str, tuple[str, str]] = {}
        self._patched: set[str] = set()

    # --- what the tree asks (see `Answerer`) ---

    @property
    def is_halted(self) -> bool:
        """Whether the body must not run any more."""
        return self.rotation is not None or self.fatal is not None

    def answer(self, branch: Branch, command: Any) -> Answer | None:
        """The answer to go on with at once, or None: the branch waits."""
        performer = PERFORMERS.get(type(command))
        if performer is None:
            return Thrown(self._not_a_command(command))
        if type(command) not in NEUTRAL:
            self.went_on = True
        try:
            return performer(self, branch, command)
        except AuthorError as error:
            return Thrown(error)

    def withdraw(self, branch: Branch, command: Any) -> None:
        """The branch no longer waits for the command."""
        branches = self._waiting.get(branch.name, [])
        if branch in branches:
            branches.remove(branch)
        if branches:
            return
        self._waiting.pop(branch.name, None)
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
                self._patched.add(entry.name)
            elif entry.answers and entry.name is not None:
                self._recorded[entry.name] = entry
                self.unsent.pop(entry.name, None)
                if entry.name in self._waiting:
                    heapq.heappush(self._candidates, (entry.position, entry))

    def has_recorded(self, name: str) -> bool:
        """Whether the journal holds an outcome under this name."""
        return name in self._recorded

    def waits_for(self, name: str) -> bool:
        """Whether a branch waits for this name."""
        return name in self._waiting

    def waits(self) -> tuple[Wait, ...]:
        """The waits that are outstanding, in the order they were reached."""
        first = (branches[0] for branches in self._waiting.values())
        return tuple(
            _wait_of(branch.name, branch.waits_for)
            for branch in first
            if isinstance(branch.waits_for, WAITS)
        )

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
            if entry.name in self._waiting:
                return entry
        return None

    def take_branches(self, name: str) -> list[Branch]:
        """The branches that wait for a name; they wait no more."""
        return self._waiting.pop(name, [])

    def decode(self, entry: Entry, command: Command[Any]) -> Answer:
        """What ``entry`` answers to ``command``.

        Raises:
            StepDecodeError: the recorded value does not fit the declared type.
        """
        name, payload = entry.name or "", entry.payload or "null"
        kinds = WAKE_KINDS if isinstance(command, WAITS) else STEP_KINDS
        if entry.kind not in kinds:
            return Thrown(self._mismatch(name, command, f"a {entry.kind}"))
        if entry.kind in WAKE_KINDS:
            self.consumed.add(name)
        try:
            if entry.kind in (Kind.STEP_OK, Kind.WAKE):
                value = self.context.codec.decode(payload, _type_of(command))
                return Returned(_handle(value, command))
            error = rebuild(payload, name, command)
        except ValueProblem as problem:
            raise StepDecodeError(
                workflow=self.context.workflow,
                step=name,
                path=problem.path,
                expected=problem.expected,
                problem=problem.problem,
            ) from None
        self.failures[id(error)] = (error, name)
        return Thrown(error)

    # --- performers, one a command type ---

    def _step(self, branch: Branch, step: Step[Any]) -> None:
        where = whereabouts(branch.body)
        if step.name in self._used:
            kind, first = self._used[step.name]
            if kind != "a step":
                raise self._mismatch(step.name, step, kind)
            raise DuplicateStepName(
                workflow=self.context.workflow,
                step=step.name,
                first=f"at {first}",
                second=f"at {where}",
            )
        self._check(step, f"step {step.name!r}")
        self._used[step.name] = ("a step", where)
        if step.name not in self._recorded:
            self.unsent[step.name] = step
        self._wait(branch, step.name)

    def _sleep(self, branch: Branch, sleep: Sleep) -> Answer | None:
        if branch.cancellation is not None:
            return self._cancel_again(branch)
        name = sleep.name
        if name is None:  # numbered where it stands; names are for what may move
            scope = f"{SLEEP_PREFIX}{branch.path}"
            name = f"{branch.path}{self._count(scope)}"
        self._use_once(SLEEP_PREFIX + name, branch, "a wait")
        self._wait(branch, SLEEP_PREFIX + name)
        return None

    def _use_once(self, name: str, branch: Branch, kind: str) -> None:
        where = whereabouts(branch.body)
        if name in self._used:
            raise DuplicateStepName(
                workflow=self.context.workflow,
                step=name,
                first=f"at {self._used[name][1]}",
                second=f"at {where}",
            )
        self._used[name] = (kind, where)

    def _open_awakeable(self, branch: Branch, command: OpenAwakeable[Any]) -> None:
        name = AWAKEABLE_ID_PREFIX + command.label
        self.context.codec.check(command.returns)
        self._use_once(name, branch, "a step")
        if name not in self._recorded:
            deed = NewAwakeable(command.label)
            self.chosen.append(Draft(Kind.STEP_OK, name, None, deed=deed))
        self._wait(branch, name)

    def _awakeable(self, branch: Branch, awakeable: Awakeable[Any]) -> Answer | None:
        if branch.cancellation is not None:
            return self._cancel_again(branch)
        self._wait(branch, AWAKEABLE_PREFIX + awakeable.label)
        return None

    def _spawn_child(self, branch: Branch, command: SpawnChild[Any]) -> None:
        child = command.child
        name = CHILD_ID_PREFIX + child.key
        self.context.codec.check(child.returns)
        self._use_once(name, branch, "a step")
        if name not in self._recorded:
            text = command.definition.parameters.encode(
                self.context.codec, child.workflow, command.args, command.kwargs
            )
            result_name = CHILD_PREFIX + child.key
            deed = NewChild(child.workflow, child.id, text, result_name)
            self.chosen.append(Draft(Kind.STEP_OK, name, "null", deed=deed))
        self._wait(branch, name)

    def _child(self, branch: Branch, child: Child[Any]) -> Answer | None:
        if branch.cancellation is not None:
            return self._cancel_again(branch)
        self._wait(branch, CHILD_PREFIX + child.key)
        return None

    def _cancel_child(self, branch: Branch, command: CancelChild) -> None:
        child = command.child
        name = CHILD_CANCEL_PREFIX + child.key
        if name not in self._recorded and name not in self._used:
            deed = EndChild(child.workflow, child.id)
            self.chosen.append(Draft(Kind.STEP_OK, name, "null", deed=deed))
        self._used[name] = ("a step", whereabouts(branch.body))
        self._wait(branch, name)

    def _await(self, branch: Branch, wait: Await[Any]) -> Answer | None:
        if branch.cancellation is not None:
            return self._cancel_again(branch)
        kind, _ = self._used.setdefault(wait.name, ("a wait", whereabouts(branch.body)))
        if kind != "a wait":
            raise self._mismatch(wait.name, wait, kind)
        self._check(wait, f"await {wait.name!r}")
        self._wait(branch, wait.name)
        return None

    def _check(self, command: Step[Any] | Await[Any], where: str) -> None:
        """See before anything happens that its value can be recorded."""
        if isinstance(command, Step) and inspect.isgeneratorfunction(command.function):
            raise ForgottenYieldFrom(
                workflow=self.context.workflow,
                where=where,
                found=command.function.__name__,
            )
        try:
            self.context.codec.check(_type_of(command))
        except DeclarationError as error:
            raise error.placed(self.context.workflow, where) from None

    def _cancel_again(self, branch: Branch) -> Answer | None:
        assert branch.cancellation is not None
        branch.cancellation.throws += 1
        if branch.cancellation.throws > MAX_CANCEL_THROWS:
            self.fatal = IgnoredCancellation(
                workflow=self.context.workflow, times=MAX_CANCEL_THROWS
            )
            return None
        return Thrown(CancelRequested())

    def _chosen(self, branch: Branch, chosen: Chosen[Any]) -> None:
        known = chosen.name in self._recorded or chosen.name in self._used
        if not known:
            payload = self.context.encode(chosen.value, chosen.declared, chosen.name)
            self.chosen.append(Draft(Kind.STEP_OK, chosen.name, payload))
        self._used[chosen.name] = ("a step", whereabouts(branch.body))
        self._wait(branch, chosen.name)

    def _wait(self, branch: Branch, name: str) -> None:
        branch.name = name
        self._waiting.setdefault(name, []).append(branch)
        entry = self._recorded.get(name)
        if entry is not None:
            heapq.heappush(self._candidates, (entry.position, entry))

    def _patch(self, branch: Branch, patch: commands.Patch) -> Answer:
        decision = patch.patch_id in self.context.patches
        name = PATCH_PREFIX + patch.patch_id
        if name not in self._patched:
            self._patched.add(name)
            payload = "true" if decision else "false"
            self.records.append(Draft(Kind.PATCH, name, payload))
        return Returned(decision)

    def _current_workflow(self, branch: Branch, _: object) -> Answer:
        return Returned((self.context.workflow, self.context.id))

    def _current_generation(self, branch: Branch, _: object) -> Answer:
        return Returned(self.context.generation)

    def _fresh_ordinal(self, branch: Branch, command: commands.FreshOrdinal) -> Answer:
        return Returned(self._count(command.namespace))

    def _count(self, namespace: str) -> int:
        ordinal = self.ordinals.get(namespace, 0)
        self.ordinals[namespace] = ordinal + 1
        return ordinal

    def _continue_as_new(self, branch: Branch, command: commands.ContinueAsNew) -> None:
        if not branch.is_root or branch.cancellation is not None:
            where = "in a branch" if not branch.is_root else "after its cancellation"
            raise IllegalRotation(workflow=self.context.workflow, where=where)
        declared = command.returns
        if declared is commands.UNDECLARED:
            declared = infer_type(command.seed)
        self.rotation = self.context.encode(command.seed, declared, "ContinueAsNew")

    def _compound(
        self, branch: Branch, command: commands.AllOf | commands.AnyOf
    ) -> None:
        if isinstance(command, commands.AnyOf) and not command.members:
            raise EmptyCompound(workflow=self.context.workflow)

    # --- sentences ---

    def _mismatch(self, name: str, command: object, found: str) -> NameKindMismatch:
        wanted = "a wait" if isinstance(command, WAITS) else "a Step"
        return NameKindMismatch(
            workflow=self.context.workflow, step=name, wanted=wanted, found=found
        )

    def _not_a_command(self, found: object) -> NotACommand:
        advice = "yield Step(...), Await(...) or another command of workflow_engine"
        if isinstance(found, Generator):
            name = getattr(found, "__name__", "helper")
            advice = f"use `yield from {name}(...)` to run a part of the body"
        return NotACommand(
            workflow=self.context.workflow,
            found=f"{found!r:.80} ({type(found).__name__})",
            advice=advice,
        )


def _type_of(command: Command[Any]) -> Any:
    if isinstance(command, Step):
        return command.result_type
    if isinstance(command, Await | Awakeable | Child):
        return command.returns
    if isinstance(command, OpenAwakeable):
        return str
    if isinstance(command, Sleep | SpawnChild | CancelChild):
        return type(None)
    assert isinstance(command, Chosen)
    return command.declared


def _handle(value: Any, command: Command[Any]) -> Any:
    """What a body gets of a recorded value: a handle, for what is waited for later."""
    if isinstance(command, OpenAwakeable):
        return Awakeable(value, command.label, command.returns)
    if isinstance(command, SpawnChild):
        return command.child
    return value


def _wait_of(name: str, command: Command[Any]) -> Wait:
    if isinstance(command, Sleep):
        return Wait(name, command.timer)
    if isinstance(command, Awakeable):
        return Wait(name, awakeable=command)
    return Wait(name, getattr(command, "arm", None))


Performer: TypeAlias = Callable[[Desk, Branch, Any], Answer | None]

PERFORMERS: dict[type, Performer] = {
    Step: Desk._step,
    Await: Desk._await,
    Sleep: Desk._sleep,
    OpenAwakeable: Desk._open_awakeable,
    Awakeable: Desk._awakeable,
    SpawnChild: Desk._spawn_child,
    Child: Desk._child,
    CancelChild: Desk._cancel_child,
    Chosen: Desk._chosen,
    commands.Patch: Desk._patch,
    commands.CurrentWorkflow: Desk._current_workflow,
    commands.CurrentGeneration: Desk._current_generation,
    commands.FreshOrdinal: Desk._fresh_ordinal,
    commands.ContinueAsNew: Desk._continue_as_new,
    commands.AllOf: Desk._compound,
    commands.AnyOf: Desk._compound,
}

NEUTRAL = frozenset(
    {
        commands.Patch,
        commands.CurrentWorkflow,
        commands.CurrentGeneration,
        commands.FreshOrdinal,
    }
)
"""Commands that only ask; a body that yields one has not gone on after a failure."""
