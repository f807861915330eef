"""Random bodies and a journal in memory, to try the interpreter under every schedule.

A *program* is plain data; `play` turns it into a body that logs all it observes. A
`World` is one journal without leases, so that several runners may write to it: harsher
than the real store, which fences. Nothing here knows how the interpreter works inside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any

import attrs
from hypothesis import strategies as st

from workflow_engine.core import commands, requests
from workflow_engine.core.attempts import record_attempt
from workflow_engine.core.codec import Codec
from workflow_engine.core.commands import Chosen, FreshOrdinal, Patch, Step
from workflow_engine.core.compounds import AllOf, AnyOf
from workflow_engine.core.context import Context
from workflow_engine.core.failure import Reason, capture
from workflow_engine.core.interpreter import Interpreter
from workflow_engine.core.journal import Draft, Entry, Kind, Prefix
from workflow_engine.core.outcome import Again, Error, Outcome, Value
from workflow_engine.core.retry import RetryPolicy
from workflow_engine.core.topics import message_name, topic_name
from workflow_engine.core.waits import Await, Send, StartTimer, Timed
from workflow_engine.errors import CancelRequested, StepFailed, WaitTimeout
from workflow_engine.wake.message import receive

Program = list[Any]
Log = list[tuple[str, ...]]

ALWAYS = 99
"""A step that fails this often never succeeds."""

TOPICS = ("red", "blue:")

POLICY = RetryPolicy(attempts=3, initial=1, jitter=0)

CODEC = Codec()


class Declared(Exception):
    """Raised by some steps, declared by some."""


def leaves() -> st.SearchStrategy[Any]:
    reactions = st.sampled_from(["raise", "catch", "neutral", "compensate", "finally"])
    return st.one_of(
        st.tuples(st.just("step"), st.just(0), st.just("raise")),
        st.tuples(st.just("step"), st.sampled_from([1, 2, ALWAYS]), reactions),
        st.tuples(st.just("retried"), st.sampled_from([0, 1, 2, ALWAYS]), reactions),
        st.tuples(st.just("await")),
        st.tuples(st.just("timed")),
        st.tuples(st.just("receive"), st.sampled_from(TOPICS), st.booleans()),
        st.tuples(st.just("send")),
        st.tuples(st.just("again")),
        st.tuples(st.just("ordinal")),
        st.tuples(st.just("patch"), st.sampled_from(["new", "old"])),
        st.tuples(st.just("choose")),
    )


def _grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    programs = st.lists(inner, max_size=3)
    return st.one_of(
        st.tuples(st.sampled_from(["all", "gather"]), st.lists(programs, max_size=3)),
        st.tuples(st.just("any"), st.lists(programs, min_size=1, max_size=3)),
        st.tuples(st.just("guard"), programs),
    )


def programs() -> st.SearchStrategy[Program]:
    return st.lists(st.recursive(leaves(), _grow, max_leaves=6), max_size=5)


def races(program: Program) -> bool:
    """Whether its result may depend on which branch is faster."""
    for node in program:
        if node[0] in ("any", "timed", "receive") or (node[0] == "step" and node[1]):
            return True
        if node[0] == "retried" and node[1] >= POLICY.attempts:
            return True
        if node[0] == "guard" and races(node[1]):
            return True
        if node[0] in ("all", "gather") and any(races(part) for part in node[1]):
            return True
    return False


def play(program: Program, path: str, log: Log) -> Generator[Any, Any, str]:
    """The body of a program. Names are paths, so they never clash."""
    awaited: str | None = None
    for index, node in enumerate(program):
        name = f"{path}.{index}"
        match node[0]:
            case "await":
                awaited = name
                log.append((name, repr((yield Await(name)))))
            case "again" if awaited is not None:
                log.append((name, repr((yield Await(awaited)))))
            case "all" | "any" | "gather":
                log.append((name, repr((yield _compound(node, name, log)))))
            case part if part in PARTS:
                yield from PARTS[part](node, name, log)
            case simple if simple in SIMPLE:
                log.append((name, repr((yield SIMPLE[simple](name, node)))))
    log.append((path, "returns"))
    return path


SIMPLE: dict[str, Callable[[str, Any], commands.Command[Any]]] = {
    "ordinal": lambda name, node: FreshOrdinal("all"),
    "patch": lambda name, node: Patch(node[1]),
    "choose": lambda name, node: Chosen(name, [name], Any),
    "send": lambda name, node: Send("w", "2", "red", name),
}


def _patiently(node: Any, name: str, log: Log) -> Generator[Any, Any, None]:
    """Wait, perhaps for some time only, and go on when that was in vain."""
    wait: Timed[Any] = Await(name) if node[0] == "timed" else receive(node[1])
    try:
        limited = node[0] == "timed" or node[2]
        log.append((name, repr((yield wait.timeout(1) if limited else wait))))
    except WaitTimeout as error:
        log.append((name, f"in vain: {error.wait}"))


def _compound(node: Any, name: str, log: Log) -> commands.Command[Any]:
    parts = [play(part, f"{name}.{i}", log) for i, part in enumerate(node[1])]
    if node[0] == "any":
        return AnyOf(parts)
    return AllOf(parts, all_errors=node[0] == "gather")


def _step(node: Any, name: str, log: Log) -> Generator[Any, Any, None]:
    kind, fails, reaction = node
    step = Step(name, effect, name, fails)
    if kind == "retried":
        step = step.retry(POLICY)
    try:
        try:
            log.append((name, repr((yield step))))
        finally:
            if reaction == "finally":
                log.append((name, "finally"))
                yield Step(f"{name}.cleanup", effect, f"{name}.cleanup", 0)
    except StepFailed as failure:
        log.append((name, repr(failure)))
        if reaction == "neutral":
            log.append((name, repr((yield FreshOrdinal("all")))))
            raise
        if reaction == "compensate":
            yield Step(f"{name}.undo", effect, f"{name}.undo", 0)
            raise
        if reaction in ("raise", "finally"):
            raise


def _guard(node: Any, name: str, log: Log) -> Generator[Any, Any, None]:
    try:
        yield from play(node[1], name, log)
    except CancelRequested:
        log.append((name, "cancelled"))
        yield Step(f"{name}.release", effect, f"{name}.release", 0)
        raise


PARTS: dict[str, Callable[[Any, str, Log], Generator[Any, Any, None]]] = {
    "step": _step,
    "retried": _step,
    "timed": _patiently,
    "receive": _patiently,
    "guard": _guard,
}


def effect(name: str, fails: int) -> Any:
    """Never called: the world performs it, counting."""
    raise AssertionError(name, fails)


@attrs.define
class World:
    """One journal, its effects, and how the instance ended."""

    program: Program
    entries: list[Entry] = attrs.field(factory=list)
    performed: dict[str, int] = attrs.field(factory=dict)
    retried: set[str] = attrs.field(factory=set)
    ended: tuple[str, object] | None = None
    attempts: int = 0
    cancel_requested: bool = False
    lenient: bool = False
    opened: list[Interpreter] = attrs.field(factory=list)
    timers: set[str] = attrs.field(factory=set)
    wanted: list[str] = attrs.field(factory=list)
    sent: int = 0

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        for interpreter in self.opened:
            interpreter.drop()

    @property
    def position(self) -> int:
        return len(self.entries)

    def prefix(self, position: int | None = None) -> Prefix:
        end = self.position if position is None else position
        return Prefix(tuple(self.entries[:end]), end, {})

    def open(
        self, log: Log, position: int | None = None, **options: Any
    ) -> Interpreter:
        body = play(self.program, "p", log)
        context = Context("w", "1", 0, CODEC, Any, frozenset({"new"}))
        interpreter = Interpreter(body, context, self.prefix(position), **options)
        self.opened.append(interpreter)
        return interpreter

    def is_recorded(self, name: str) -> bool:
        return any(entry.name == name for entry in self.entries)

    def append(self, drafts: tuple[Draft, ...], known: int) -> requests.Appended:
        for draft in drafts:
            if draft.name is None or not self.is_recorded(draft.name):
                self._insert(draft)
        return self.tail(known)

    def _insert(self, draft: Draft) -> None:
        entry = Entry(
            self.position + 1, draft.kind, draft.name, draft.payload, draft.is_live
        )
        self.entries.append(entry)

    def tail(self, known: int) -> requests.Appended:
        tail = tuple(self.entries[known:])
        return requests.Appended(tail, self.position, self.cancel_requested)

    def wake(self, name: str) -> None:
        """Somebody outside delivers; the first one wins."""
        if self.ended is None and not self.is_recorded(name):
            self._insert(Draft(Kind.WAKE, name, json.dumps({"woke": name})))

    def send(self, topic: str) -> None:
        """Somebody sends a message, which is one of its kind."""
        if self.ended is None:
            self.sent += 1
            name = message_name(topic, f"{self.sent}")
            self._insert(Draft(Kind.MESSAGE, name, json.dumps({"sent": self.sent})))

    def fire(self, name: str) -> None:
        """The time of a wait is up."""
        self.timers.discard(name)
        if self.ended is None and not self.is_recorded(name):
            self._insert(Draft(Kind.WAKE, name, "null"))

    def happen(self) -> None:
        """All that the last park waits for."""
        for name in awaits_of(self.program):
            self.wake(name)
        for topic in TOPICS:
            if topic_name(topic) in self.wanted:
                self.send(topic)
        for name in sorted(self.timers):
            self.fire(name)

    def perform(self, request: requests.Perform) -> Outcome:
        name = request.name
        assert not self.is_recorded(name) or self.lenient, f"{name} ran again"
        self.performed[name] = self.performed.get(name, 0) + 1
        _, fails = request.step.args
        policy = request.step.policy
        tries = self.performed[name] if policy is None else request.attempt
        if tries > fails:
            return Value(json.dumps({"did": name}))
        error = ValueError(f"{name} is broken")
        record = capture(error, request.step)
        if policy is None:
            return Error(record)
        self.retried.add(name)
        pause = policy.pause_after(tries, error, name)
        if pause is None:
            return Error(record, is_final=True)
        return Again(record_attempt(record, pause))

    def commit(self, request: requests.Commit, known: int) -> requests.Answer | None:
        """Do it; None when the run is over."""
        if self.ended is not None:
            return None
        return COMMITS[type(request)](self, request, known)

    def _append(self, request: requests.Append, known: int) -> requests.Answer:
        if request.expect is not None and request.expect != self.position:
            return requests.Moved()
        return self.append(request.drafts, known)

    def _arm(self, request: requests.ArmWaits, known: int) -> requests.Answer:
        self.timers |= _timers(request.waits)
        return self.tail(known)

    def _park(self, request: requests.Park, known: int) -> requests.Answer | None:
        if request.expect != self.position:
            return self.tail(known)
        self.append(request.drafts, known)
        self.timers = _timers(request.waits)
        self.wanted = [wait.name for wait in request.waits]
        return None

    def _finish(self, request: requests.Finish, known: int) -> None:
        self.append(request.drafts, known)
        self.ended = ("finished", request.result)

    def _crash(self, request: requests.Crash, known: int) -> requests.Answer | None:
        if request.expect != self.position:
            return requests.Moved()
        self.attempts += 1
        if request.final or self.attempts >= 4:
            reason = Reason.of(request.error, request.entry)
            self.ended = ("failed", reason.reason)
        return None

    def _block(self, request: requests.Block, known: int) -> None:
        raise AssertionError(request.error)


def _timers(waits: tuple[requests.Wait, ...]) -> set[str]:
    return {wait.name for wait in waits if isinstance(wait.arm, StartTimer)}


COMMITS: dict[type, Callable[..., requests.Answer | None]] = {
    requests.Append: World._append,
    requests.ArmWaits: World._arm,
    requests.Park: World._park,
    requests.Finish: World._finish,
    requests.Crash: World._crash,
    requests.Block: World._block,
}


@attrs.define
class Runner:
    """A driver by hand: it does one thing when told to."""

    world: World
    held: dict[str, Outcome] = attrs.field(factory=dict)
    log: Log = attrs.field(factory=list)
    interpreter: Interpreter = attrs.field(init=False)
    todo: list[requests.Request] = attrs.field(factory=list)
    over: bool = False

    def __attrs_post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.log = []
        self.interpreter = self.world.open(
            self.log, cancel_requested=self.world.cancel_requested
        )
        self.todo = self.interpreter.requests()
        self.over = False

    def crash(self) -> None:
        """The process dies: everything in memory is gone."""
        self.interpreter.drop()
        self.held = {}
        self.restart()

    def choices(self) -> list[int]:
        """Which of the requests can be done now."""
        return [] if self.over else list(range(len(self.todo)))

    def do(self, index: int) -> None:
        request = self.todo.pop(index)
        if isinstance(request, requests.Abandon):
            return
        if isinstance(request, requests.Perform):
            outcome = self.held.pop(request.name, None) or self.world.perform(request)
            self._feed(requests.Performed(request.name, outcome))
            return
        answer = self.world.commit(request, self.interpreter.position)
        if answer is None:
            self.interpreter.drop()
            self.over = True
        else:
            self._feed(answer)

    def _feed(self, answer: requests.Answer) -> None:
        self.interpreter.feed(answer)
        if self.interpreter.stale:
            self.held.update(self.interpreter.uncommitted())
            self.interpreter.drop()
            self.restart()
        else:
            self.todo += self.interpreter.requests()

    def check_law(self) -> None:
        """What this runner saw equals what a fresh one sees on the same prefix."""
        if self.over or self.interpreter.is_trying:
            return
        log: Log = []
        fresh = self.world.open(
            log,
            self.interpreter.position,
            cancel_requested=self.world.cancel_requested,
        )
        assert log == self.log
        taken = [told for _, *rest in log for told in rest if "'sent'" in told]
        assert len(taken) == len(set(taken)), "a message was taken twice"
        assert fresh.observed == self.interpreter.observed
        fresh.drop()


def awaits_of(program: Program, path: str = "p") -> list[str]:
    """The names a program may wait for."""
    names: list[str] = []
    for index, node in enumerate(program):
        name = f"{path}.{index}"
        if node[0] in ("await", "timed"):
            names.append(name)
        elif node[0] in ("all", "any", "gather"):
            for i, part in enumerate(node[1]):
                names += awaits_of(part, f"{name}.{i}")
        elif node[0] == "guard":
            names += awaits_of(node[1], name)
    return names


__all__ = ["Runner", "World", "awaits_of", "commands", "programs", "races"]
