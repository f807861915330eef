"""One instance that listens, in every order of what may happen to it, by a model.

Others send to it, let time pass, cancel it in both ways, resurrect it, collect it and
start it again: between its runs, and within a run, just before or after any commit. The
model knows what was accepted; what the body took of it stands in its journal.
"""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from workflow_engine import (
    CancelRequested,
    ContinueAsNew,
    Description,
    Engine,
    Every,
    InstanceNotFound,
    JournalEntry,
    LeaseLost,
    Never,
    Status,
    Step,
    StepFailed,
    WaitTimeout,
    WorkflowBody,
    receive,
    restore_seed,
    workflow,
)
from workflow_engine.runtime.points import Point, Points, ProcessDied

from ..runtime.bench import Bench
from ..wholeness import check_whole

PATIENCE, LONGER = 60, 61
"""Seconds."""

BROKEN: set[str] = set()
CLEANED: list[str] = []


def take(word: str, name: str) -> str:
    if word.startswith("break") and name in BROKEN:
        raise OSError("broken")
    return word


@workflow
def listening(name: str) -> WorkflowBody[list[str]]:
    """Takes word after word, and does as it is told."""
    before = yield from restore_seed([""])
    assert len(before) < 300, "it hears the same again and again"
    heard: list[str] = []
    try:
        for turn in range(1000):
            try:
                word = yield from receive("word", returns=str).timeout(PATIENCE)
            except WaitTimeout:
                yield Step(f"give up {turn}", str, turn)
                continue
            heard.append((yield from Step(f"take {turn}", take, word, name)))
            if word.startswith("rotate"):
                yield ContinueAsNew([*before, *heard])
            if word.startswith("end"):
                break
    except CancelRequested:
        yield Step("clean up", CLEANED.append, name)
        raise
    return [*before, *heard][1:]


class Interruption(Points):
    """Does something once, where a point is reached for the nth time.

    The plan names the point, the commit (or any), and how often it is reached.
    """

    def __init__(self) -> None:
        self.plan: tuple[Point, str, int] | None = None
        self.act: Callable[[], object] = lambda: None
        self.problem: BaseException | None = None

    def reach(self, point: Point, subject: str) -> None:
        if self.plan is None or self.plan[0] != point:
            return
        _, only, left = self.plan
        if only in ("", subject):
            self.plan = (point, only, left - 1) if left > 1 else None
        if self.plan is None:
            try:
                self.act()
            except (Exception, ProcessDied) as problem:
                self.problem = problem
                raise


def die() -> None:
    raise ProcessDied


Act = tuple[str, str, bool]
Where = tuple[Point, str, int]

WORDS = st.sampled_from(["keep", "keep", "keep", "rotate", "rotate", "break", "end"])
SOME = st.lists(WORDS, min_size=1, max_size=3)
SEND = st.tuples(st.just("send"), WORDS, st.booleans())
ANY = st.one_of(
    SEND,
    SEND,
    st.tuples(
        st.sampled_from(["cancel", "resurrect", "collect", "wait"]),
        st.just(""),
        st.booleans(),
    ),
)
POINTS = st.sampled_from(["before_commit", "after_commit"])
LEADS_TO = {"rotate": "rotate", "park": "keep", "finish": "end"}
"""The word that brings a commit about."""

WHERE = st.one_of(
    st.tuples(POINTS, st.just(""), st.integers(1, 4)),
    st.tuples(POINTS, st.sampled_from(sorted(LEADS_TO)), st.just(1)),
)


class Listening(RuleBasedStateMachine):
    """What one identity lives through, incarnation after incarnation."""

    bench: Bench
    points: Interruption
    runner: Engine
    others: Engine
    count = 0

    @initialize(policy=st.sampled_from([Never(), Every(2)]))
    def begin(self, policy: Never | Every) -> None:
        type(self).count += 1
        self.name = f"machine {self.count}"
        self.engine = self.runner.with_options(snapshot_policy=policy)
        self.worker = self.engine.worker(max_attempts=1)
        self.number = 0
        self.is_there = False
        self.start()

    @precondition(lambda self: not self.is_there)
    @rule()
    def start(self) -> None:
        self.accepted = [self._word("keep")]
        self.keyed: dict[str, str] = {}
        self.is_asked = self.cancelled_at_once = False
        self.is_there = True
        self.others.send_with_start(
            listening, self.name, "word", self.accepted[0], self.name
        )
        assert self._row().generation == self._row().position - 1 == 0

    # --- runs ---

    @precondition(lambda self: self.is_there)
    @rule()
    def run(self) -> None:
        """A worker's passes, until nothing moves."""
        self.worker.drain()
        if self.is_there:
            self._check_rest()

    @precondition(lambda self: self.is_there)
    @rule(words=SOME, where=WHERE, act=ANY)
    def run_and_meanwhile(self, words: list[str], where: Where, act: Act) -> None:
        self._come_alive()
        self.send_some(words)
        self._run_with(where, lambda: self.perform(act))
        self.run()

    @precondition(lambda self: self.is_there)
    @rule(words=SOME, where=WHERE, act=ANY)
    def die_and_then(self, words: list[str], where: Where, act: Act) -> None:
        self._come_alive()
        self.send_some(words)
        self._run_with(where, die)
        self.perform(act)
        self._check_taken()

    @precondition(lambda self: self.is_there)
    @rule()
    def give_up(self) -> None:
        """A wait that gives up is one step on, and waits again."""
        self.run()
        if self._row().status is Status.SUSPENDED:
            before = self._steps("give up")
            self.bench.clock.advance(LONGER)
            self.run()
            assert len(self._steps("give up")) == len(before) + 1

    @precondition(lambda self: self.is_there)
    @rule(point=POINTS)
    def call_off(self, point: Point) -> None:
        """It is asked to end around each commit that gives its lease back."""
        for commit, word in LEADS_TO.items():
            self._come_alive()
            self._send(word, keyed=False)
            self._run_with((point, commit, 1), lambda: self._cancel(cleanup=True))
            self.run()

    @precondition(lambda self: self.is_there)
    @rule(words=SOME, cleanup=st.booleans(), mend=st.booleans())
    def fall_and_rise(self, words: list[str], cleanup: bool, mend: bool) -> None:
        """What an instance that has ended is sent, it gets when it is resurrected."""
        self._cancel(cleanup=cleanup)
        self.run()
        self.send_some(words)
        self._resurrect(mend=mend)
        self.run()

    def _come_alive(self) -> None:
        """Go on with what has ended, or begin again: there is more to see then."""
        status = self._row().status
        if status is Status.COMPLETED:
            self._collect()
            self.start()
        elif status.is_ended:
            self._resurrect(mend=True)

    def _run_with(self, where: Where, act: Callable[[], object]) -> None:
        points = self.points
        points.plan, points.act, points.problem = where, act, None
        try:
            self.engine.run(listening, self.name, self.name)
        except StepFailed:
            pass  # it counts nothing here, and the next run goes on
        except (LeaseLost, ProcessDied):
            # Sooner than by its time, which a heartbeat may have just prolonged.
            if self.is_there:
                self.others.release_lease(listening, self.name)
        finally:
            points.plan = None
        if points.problem is not None and not isinstance(points.problem, ProcessDied):
            raise points.problem

    # --- what others do ---

    @rule(words=SOME)
    def send_some(self, words: list[str]) -> None:
        for word in words:
            self._send(word, keyed=False)

    @rule(act=ANY)
    def perform(self, act: Act) -> None:
        what, word, flag = act
        acts: dict[str, Callable[[], object]] = {
            "send": lambda: self._send(word, keyed=flag),
            "cancel": lambda: self._cancel(cleanup=flag),
            "resurrect": lambda: self._resurrect(mend=flag),
            "collect": self._collect,
            "wait": lambda: self.bench.clock.advance(LONGER),
        }
        acts[what]()

    def _send(self, word: str, *, keyed: bool) -> None:
        if not self.is_there:
            with pytest.raises(InstanceNotFound):
                self.others.send(listening, self.name, "word", word)
            return
        is_open = self._row().status is not Status.COMPLETED
        said = self._word(word)
        if keyed:
            sends = [is_open and word not in self.keyed, False]
            said = self.keyed.setdefault(word, said) if is_open else said
        else:
            sends = [is_open]
        for is_sent in sends:
            key = word if keyed else None
            answer = self.others.send(listening, self.name, "word", said, key)
            assert answer is is_sent
        if sends[0]:
            self.accepted.append(said)

    def _word(self, word: str) -> str:
        self.number += 1
        if word == "break":
            BROKEN.add(self.name)
        return f"{word} {self.number}"

    def _cancel(self, *, cleanup: bool) -> None:
        if self.is_there:
            status = self._row().status
            answer = self.others.cancel(listening, self.name, cleanup=cleanup)
            assert answer is (status is Status.CANCELLED or not status.is_ended)
            if not status.is_ended:
                self.is_asked = True
                self.cancelled_at_once |= not cleanup

    def _resurrect(self, *, mend: bool) -> None:
        if mend:
            BROKEN.discard(self.name)
        if self.is_there and self._row().status in (Status.FAILED, Status.CANCELLED):
            self.others.resurrect(listening, self.name, forget_cancel=True)
            self.is_asked = self.cancelled_at_once = False
            assert "cancel" not in {entry.kind for entry in self._live()}

    def _collect(self) -> None:
        """It goes with all that is its own, once it has ended."""
        if not self.is_there:
            return
        before = self._row()
        self.others.gc(0)
        if not before.status.is_ended:
            assert self._row() == before
            return
        self.is_there = False
        with pytest.raises(InstanceNotFound):
            self.others.describe(listening, self.name)
        for table in ("journal", "snapshots", "timers", "awakeables", "messages"):
            question = f"SELECT count(*) FROM wf_{table} WHERE instance_id = :number"
            assert self.bench.execute(question, number=before.number) == [(0,)]

    # --- what is so ---

    def _check_rest(self) -> None:
        self._check_taken()
        row, taken = self._row(), self._steps("take")
        told = [entry for entry in self._live() if entry.kind == "cancel"]
        cleaned = self._steps("clean up", of=self._live())
        assert len(told) == len(cleaned) or self.cancelled_at_once
        match row.status:
            case Status.SUSPENDED:
                assert taken == self.accepted
                assert not self.is_asked
                assert row.waits_on == ("message:word",)
            case Status.COMPLETED:
                assert taken[-1].startswith("end")
                assert self.others.handle(listening, self.name).result(0) == taken
            case Status.FAILED:
                assert self.accepted[len(taken)].startswith("break")
            case Status.CANCELLED:
                assert self.cancelled_at_once or (told and self.name in CLEANED)
            case other:
                raise AssertionError(f"it does not move, and is {other}")

    def _check_taken(self) -> None:
        if self.is_there:
            taken = self._steps("take")
            assert taken == self.accepted[: len(taken)]

    def _row(self) -> Description:
        return self.others.describe(listening, self.name)

    def _live(self, generation: int | None = None) -> list[JournalEntry]:
        journal = self.others.journal(listening, self.name, generation)
        return [entry for entry in journal if entry.live]

    def _steps(self, name: str, of: list[JournalEntry] | None = None) -> list[str]:
        """The outcomes of the steps called so; in all generations by default."""
        if of is None:
            generations = range(self._row().generation + 1)
            of = [entry for number in generations for entry in self._live(number)]
        return [
            entry.value
            for entry in of
            if entry.kind == "step_ok" and str(entry.step).startswith(name)
        ]

    def teardown(self) -> None:
        if self.is_there:  # it would go on giving up, beside those that come
            self.others.cancel(listening, self.name)
        BROKEN.clear()
        CLEANED.clear()


def test_messages_timeouts_and_endings_in_every_order(bench: Bench) -> None:
    points = Interruption()
    known = {
        "bench": bench,
        "points": points,
        "runner": bench.engine(listening, points=points),
        "others": bench.engine(listening),
    }
    run_state_machine_as_test(
        type("ListeningOnBench", (Listening,), known),
        settings=settings(
            max_examples=10,
            stateful_step_count=12,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
    check_whole(bench.url)
