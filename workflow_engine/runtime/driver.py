"""One run of one instance.

The driver performs what the interpreter asks for and feeds it the answers. It decides
nothing about the body: what is delivered, recorded or parked, and in which order, is
the interpreter's business. No transaction is open while a step or an arm runs,
unless the step is a `Transaction`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from workflow_engine.core import requests
from workflow_engine.core.commands import WorkflowBody
from workflow_engine.core.context import Context
from workflow_engine.core.identity import RESERVED_PREFIXES
from workflow_engine.core.interpreter import Interpreter
from workflow_engine.core.journal import (
    STEP_KINDS,
    WAKE_KINDS,
    Draft,
    Entry,
    Kind,
    Prefix,
)
from workflow_engine.core.outcome import (
    Cancelled,
    Completed,
    ContinuedAsNew,
    Failed,
)
from workflow_engine.core.rows import Claim, Timer
from workflow_engine.core.snapshots import is_due
from workflow_engine.core.waits import Awakeable, StartTimer
from workflow_engine.errors import (
    AuthorError,
    LeaseLost,
    StepDecodeError,
    StoreUnavailable,
    ValueProblem,
)
from workflow_engine.runtime.commits import Came, Commits
from workflow_engine.runtime.dropping import report
from workflow_engine.runtime.endings import Crashed, Lost, RunEnding, in_a_word
from workflow_engine.runtime.equipment import Awaited, Equipment
from workflow_engine.runtime.lease import HeldLease
from workflow_engine.runtime.points import ProcessDied
from workflow_engine.runtime.registry import Workflow
from workflow_engine.runtime.starting import check_declarations
from workflow_engine.runtime.steps import Steps
from workflow_engine.runtime.transacting import Transacting
from workflow_engine.telemetry.events import (
    RunEnded,
    RunStarted,
    StepRecorded,
)

FIRST_LOOK, LAST_LOOK = 0.05, 1.0
"""Seconds between looks at the journal while steps are in flight; each pause doubles
the last."""

_FINAL = (Cancelled, Completed, ContinuedAsNew, Failed)

_ANSWERS = (
    requests.Performed,
    requests.NotBegun,
    requests.Appended,
    requests.Moved,
    requests.ArmFailed,
)


class Driver:
    """Runs one claimed instance until it ends, parks, crashes or must stop.

    Args:
        max_attempts: crashes after which the instance fails; None to count none, as
            `Engine.run` does.
        stop: when set, the run ends at its next boundary.

    Attributes:
        moved: whether anything durable came of the run.
    """

    def __init__(
        self,
        equipment: Equipment,
        workflow: Workflow[..., Any],
        claim: Claim,
        held: HeldLease,
        *,
        max_attempts: int | None,
        stop: threading.Event,
    ) -> None:
        self.moved = False
        self._equipment = equipment
        self._workflow = workflow
        self._instance = claim.instance
        self._lease = claim.lease
        self._held = held
        self._max_attempts = max_attempts
        self._commits = Commits(equipment, workflow, held)
        self._steps = Steps(equipment, claim.instance, held, stop)
        self._watch_pause = FIRST_LOOK
        self._armed: set[str] = set()
        self._entries: list[Entry] = []
        self._superseded: dict[str, int] = {}
        # A row without a time to wake has no timers either.
        self._sleeps = claim.instance.wake_after is not None
        self._last_own = 0
        key = claim.lease.key
        self._names = (key.workflow, key.id, claim.lease.generation)
        self._context = Context(*self._names, equipment.codec)

    def run(self) -> RunEnding:
        """Drive the body. Releases the lease unless it is lost or the process dies.

        Raises:
            StoreUnavailable: the database stayed away until the lease had run out.
            KeyboardInterrupt: raised in the body or a step; the lease is released, if
                the database answers.
        """
        try:
            ending = self._run()
        except LeaseLost:
            ending = Lost()
        except (ProcessDied, StoreUnavailable):
            raise
        except BaseException:
            self._commits.give_back()
            raise
        finally:
            self._steps.close()
        self._equipment.tell(RunEnded(*self._names, in_a_word(ending)))
        return ending

    def _run(self) -> RunEnding:
        while True:
            prefix = self._commits.load()
            self._entries = list(prefix.entries)
            self._superseded = dict(prefix.superseded)
            # Deliveries since then are growth too, which no run has looked at.
            own = (e.position for e in prefix.entries if e.kind not in WAKE_KINDS)
            self._last_own = max(own, default=0)
            self._equipment.tell(RunStarted(*self._names, len(prefix.entries)))
            ending = self._drive(prefix)
            if ending is not None:
                return ending

    def _drive(self, prefix: Prefix) -> RunEnding | None:
        """Run the body once from its top; None if that went stale."""
        try:
            body = self._prepare()
        except StepDecodeError as error:
            blocked = self._commits.block(requests.Block(error, 0, prefix.position))
            return None if isinstance(blocked, _ANSWERS) else blocked
        except Exception as error:  # noqa: BLE001 - whatever the author's function does
            final = isinstance(error, AuthorError)
            came = self._crash(requests.Crash(error, final, None, prefix.position))
            return None if isinstance(came, _ANSWERS) else came
        interpreter = Interpreter(
            body,
            self._context,
            prefix,
            cancel_requested=self._instance.cancel_requested,
        )
        ending: RunEnding | None = None
        try:
            ending = self._converse(interpreter)
        finally:
            rotated = isinstance(ending, ContinuedAsNew)
            report(interpreter.drop(), self._equipment.log, *self._names[:2], rotated)
        return ending

    def _prepare(self) -> WorkflowBody[Any]:
        codec = self._equipment.codec
        check_declarations(codec, self._workflow)
        try:
            args, kwargs = self._workflow.parameters.decode(
                codec, self._instance.input or "{}"
            )
        except ValueProblem as problem:
            raise StepDecodeError(
                workflow=self._workflow.name,
                step="its input",
                path=problem.path,
                expected=problem.expected,
                problem=problem.problem,
            ) from None
        patches = self._instance.patches or frozenset()
        result_type = self._workflow.result_type
        self._context = Context(*self._names, codec, result_type, patches)
        return self._workflow(*args, **kwargs)

    def _converse(self, interpreter: Interpreter) -> RunEnding | None:
        todo: deque[requests.Request] = deque()
        while True:
            self._remember(interpreter.take_handles())
            for request in interpreter.requests():
                if isinstance(request, requests.Perform):
                    self._steps.ask(request)
                else:
                    todo.append(request)
            came = self._turn(interpreter, todo)
            if not isinstance(came, list):
                self.moved |= isinstance(came, _FINAL)
                return came
            for answer in came:
                interpreter.feed(answer)
            if interpreter.stale:
                self._steps.forget_asker(interpreter.uncommitted())
                return None

    def _turn(
        self, interpreter: Interpreter, todo: deque[requests.Request]
    ) -> RunEnding | list[requests.Answer]:
        """Do what is asked first: commits, then steps; else wait for a step to end.

        What is done becomes durable before more is begun.
        """
        if todo:
            request = todo.popleft()
            came = PERFORMERS[type(request)](self, interpreter, request)
            if came is None:
                return []
            return [came] if isinstance(came, _ANSWERS) else came
        answers = self._steps.perform(
            self._context,
            called_off=interpreter.is_called_off,
            watched=interpreter.waits_outside,
        )
        if answers:
            return answers
        transaction = self._steps.take_transaction(self._context)
        if transaction is not None:
            came = self._transact(interpreter, transaction)
            return [came] if isinstance(came, _ANSWERS) else came
        if not self._steps.are_in_flight:  # it was told to stop, and began none
            return self._commits.release()
        return self._land(interpreter)

    def _land(self, interpreter: Interpreter) -> RunEnding | list[requests.Answer]:
        """Wait for a step to end, and look now and then what happens outside."""
        answers = self._steps.land(self._watch_pause)
        if answers:
            self._watch_pause = FIRST_LOOK
            return answers
        self._equipment.heartbeat.check(self._held)
        self._watch_pause = min(2 * self._watch_pause, LAST_LOOK)
        came = self._commits.watch(interpreter.position)
        if not isinstance(came, requests.Appended):
            return came if not isinstance(came, _ANSWERS) else [came]
        self._learn(came)
        news = came.entries or came.cancel_requested != interpreter.cancel_requested
        return [came] if news else []

    def _transact(self, interpreter: Interpreter, transaction: Transacting) -> Came:
        came = self._commits.transact(transaction, interpreter.position)
        if isinstance(came, requests.Appended):
            entries = [e for e in came.entries if e.name in came.performed]
            self._recorded(came, entries)
        return came

    # --- performers, one a request type ---

    def _abandon(
        self, _: Interpreter, request: requests.Abandon
    ) -> requests.NotBegun | None:
        return self._steps.abandon(request.name)

    def _append(self, interpreter: Interpreter, request: requests.Append) -> Came:
        known = interpreter.position
        came = self._commits.append(request, known)
        if isinstance(came, requests.Appended):
            self._recorded(came, request.drafts)
        return came

    def _arm(self, interpreter: Interpreter, request: requests.ArmWaits) -> Came:
        failed = self._arm_all(request.waits)
        timers = _timers(request.waits)
        position, cancel = interpreter.position, interpreter.cancel_requested
        if failed or not timers:
            return failed or requests.Appended((), position, cancel)
        self._sleeps = True
        came = self._commits.arm(timers, position)
        if isinstance(came, requests.Appended):
            self._learn(came)
        return came

    def _arm_all(self, waits: tuple[requests.Wait, ...]) -> requests.ArmFailed | None:
        for wait in waits:
            if not callable(wait.arm) or wait.name in self._armed:
                continue
            self._equipment.heartbeat.check(self._held)
            try:
                wait.arm()
            except (KeyboardInterrupt, ProcessDied):
                raise
            except BaseException as error:  # noqa: BLE001 - the author's function
                return requests.ArmFailed(error)
            self._armed.add(wait.name)
        return None

    def _park(self, interpreter: Interpreter, request: requests.Park) -> Came:
        failed = self._arm_all(request.waits)
        if failed is not None:
            return failed
        timers = _timers(request.waits)
        self._sleeps |= bool(timers)
        came = self._commits.park(
            request, interpreter.cancel_requested, timers if self._sleeps else None
        )
        if isinstance(came, requests.Appended):
            self._learn(came)
        return came

    def _finish(self, interpreter: Interpreter, request: requests.Finish) -> Came:
        came = self._commits.finish(request)
        policy, position = self._equipment.options.snapshot_policy, interpreter.position
        if isinstance(came, Completed) and is_due(
            policy, position, position, ended=True
        ):
            self._commits.snapshot(self._prefix(position))
        return came

    def _rotate(self, _: Interpreter, request: requests.Rotate) -> Came:
        return self._commits.rotate(request)

    def _crash_run(self, _: Interpreter, request: requests.Crash) -> Came:
        return self._crash(request)

    def _crash(self, request: requests.Crash) -> Came:
        if request.final:
            return self._commits.fail(request)
        if self._max_attempts is None:
            self._commits.release()
            return Crashed(request.error)
        return self._commits.crash(request, self._max_attempts)

    def _block(self, _: Interpreter, request: requests.Block) -> Came:
        return self._commits.block(request)

    # --- small things ---

    def _remember(self, handles: list[Awakeable[Any]]) -> None:
        """Whoever signals in this process is told when the value does not fit."""
        for handle in handles:
            awaited = Awaited(self._workflow.name, handle.label, handle.returns)
            self._equipment.awaited.add(handle.id, awaited)

    def _learn(self, answer: requests.Appended) -> None:
        self.moved |= bool(answer.entries)
        self._entries += [e for e in answer.entries if e.live or not e.is_known]

    def _recorded(
        self, answer: requests.Appended, recorded: Iterable[Draft | Entry]
    ) -> None:
        self._learn(answer)
        position = answer.position
        for each in recorded:
            if each.kind in STEP_KINDS and each.name and not _is_ours(each.name):
                ok = each.kind == Kind.STEP_OK
                event = StepRecorded(*self._names, each.name, ok, position)
                self._equipment.tell(event)
        policy = self._equipment.options.snapshot_policy
        if is_due(policy, self._last_own, position, ended=False):
            self._commits.snapshot(self._prefix(position))
        self._last_own = position

    def _prefix(self, position: int) -> Prefix:
        return Prefix(tuple(self._entries), position, self._superseded)


def _timers(waits: tuple[requests.Wait, ...]) -> list[Timer]:
    return [
        Timer(wait.name, wait.arm.delay, wait.arm.due)
        for wait in waits
        if isinstance(wait.arm, StartTimer)
    ]


def _is_ours(name: str) -> bool:
    """Whether an entry is the engine's own, such as a seed."""
    return name.startswith(RESERVED_PREFIXES)


PERFORMERS: dict[type, Callable[[Driver, Interpreter, Any], Came | None]] = {
    requests.Abandon: Driver._abandon,
    requests.Append: Driver._append,
    requests.ArmWaits: Driver._arm,
    requests.Park: Driver._park,
    requests.Finish: Driver._finish,
    requests.Rotate: Driver._rotate,
    requests.Crash: Driver._crash_run,
    requests.Block: Driver._block,
}
