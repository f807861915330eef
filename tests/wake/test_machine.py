"""A wake in every order of what may happen to it, on both databases, by a model.

The model knows what is promised of an awakeable: one winner, one delivery, to the
generation that opened it; an instance that has failed is owed the delivery, and a
failure that becomes history opens the question again.
"""

from __future__ import annotations

from typing import Any

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from workflow_engine import (
    Await,
    AwakeableCancelled,
    AwakeableNotFound,
    AwakeableRejected,
    ContinueAsNew,
    Status,
    Step,
    WorkflowBody,
    awakeable,
    restore_seed,
    workflow,
)
from workflow_engine.core.compounds import AnyOf

from ..runtime.bench import Bench
from ..wholeness import check_whole

HOW = {"signal": "resolved", "reject": "rejected", "cancel": "cancelled"}


@workflow
def questioning(name: str) -> WorkflowBody[str]:
    """Opens a question in each generation; goes on, fails or ends when told to."""
    generation = yield from restore_seed(0)
    asked = yield from awakeable("word", returns=str)
    index, told = yield from AnyOf(Await("order", returns=str), guarded(asked))
    if index == 1:
        return f"{told}"
    if told == "rotate":
        yield ContinueAsNew(generation + 1)
    if told == "break":
        yield Step("break", break_if_broken, name)
    if told == "end":
        return "told to end"
    return str((yield from asked if told == "trust" else guarded(asked)))


def guarded(asked: Any) -> WorkflowBody[str]:
    try:
        return str((yield from asked))
    except AwakeableRejected:
        return "rejected"
    except AwakeableCancelled:
        return "cancelled"


BROKEN: set[str] = set()


def break_if_broken(name: str) -> None:
    if name in BROKEN:
        raise OSError("broken")


@attrs.define
class Question:
    """What the model knows of one awakeable."""

    id: str
    generation: int
    status: str = "pending"
    value: str = ""


class Wake(RuleBasedStateMachine):
    """The awakeables of one instance, generation after generation."""

    bench: Bench
    count = 0

    @initialize()
    def begin(self) -> None:
        type(self).count += 1
        self.name = f"machine {self.count}"
        self.engine = self.bench.engine(questioning)
        self.worker = self.engine.worker(max_attempts=1)
        self.engine.start(questioning, self.name, self.name)
        self.questions: list[Question] = []
        self.status = Status.RUNNING
        self.result = ""
        self.order = ""
        self.asked = False
        self.run()

    @property
    def current(self) -> Question:
        return self.questions[-1]

    # --- what happens to the instance ---

    @rule()
    def run(self) -> None:
        """A worker's passes, until nothing moves."""
        self.worker.drain()
        if self.status is Status.RUNNING:
            self._expect_progress()

    def _expect_progress(self) -> None:
        (view,) = self.engine.awakeables(questioning, self.name)
        if not self.questions or self.current.id != view.id:
            generation = self.engine.describe(questioning, self.name).generation
            self.questions.append(Question(view.id, generation))
            self.order = ""  # it was taken, and is not carried along
        self.status = self.engine.describe(questioning, self.name).status
        if self.status is Status.COMPLETED:
            self.result = self.engine.handle(questioning, self.name).result()
            self._check_result()
        if self.status is Status.SUSPENDED:
            # It parks only while nothing it waits for is there.
            assert not self.asked
            assert self.current.status == "pending"
            self.status = Status.RUNNING

    def _check_result(self) -> None:
        expected = {
            "pending": "told to end",
            "resolved": self.current.value,
            "rejected": "rejected",
            "cancelled": "cancelled",
        }
        assert self.result in {expected[self.current.status], "told to end"}

    @precondition(lambda self: self.status is Status.RUNNING and not self.order)
    @rule(order=st.sampled_from(["rotate", "break", "end", "wait", "trust"]))
    def give_order(self, order: str) -> None:
        if order == "break":
            BROKEN.add(self.name)
        delivered = self.engine.resolve(questioning, self.name, "order", order)
        assert delivered
        self.order = order

    @precondition(lambda self: self.status is Status.FAILED)
    @rule(mend=st.booleans())
    def resurrect(self, mend: bool) -> None:
        if mend:
            BROKEN.discard(self.name)
        self.engine.resurrect(questioning, self.name)
        self.status, self.asked = Status.RUNNING, False  # its body was not told
        if self.order == "trust":  # it was the wait that failed, and is history now
            self.current.status = "pending"

    @precondition(lambda self: self.status is Status.RUNNING)
    @rule()
    def end_from_outside(self) -> None:
        assert self.engine.cancel(questioning, self.name)
        self.status = Status.CANCELLED

    @precondition(lambda self: self.status is Status.RUNNING)
    @rule()
    def ask_to_end(self) -> None:
        assert self.engine.cancel(questioning, self.name, cleanup=True)
        self.asked = True

    @precondition(lambda self: self.status is Status.CANCELLED)
    @rule()
    def forget_the_cancellation(self) -> None:
        self.engine.resurrect(questioning, self.name, forget_cancel=True)
        self.status, self.asked = Status.RUNNING, False
        self.run()

    @rule(restart=st.booleans())
    def collect(self, restart: bool) -> None:
        """What has ended is deleted, and begins afresh; what has not stays."""
        if restart:
            starting = self.engine.starting(on_conflict="restart")
            starting.start(questioning, self.name, self.name)
        else:
            self.engine.gc(0, workflows=[questioning])
        if not self.status.is_ended:
            return
        for question in self.questions:
            with pytest.raises(AwakeableNotFound):
                self.engine.signal(question.id, "too late")
        self.engine.start(questioning, self.name, self.name)
        self.questions, self.status, self.order = [], Status.RUNNING, ""
        self.asked = False
        self.run()
        assert self.current.generation == 0

    # --- what happens to its awakeables ---

    @rule(how=st.sampled_from(sorted(HOW)), which=st.integers(0, 5), value=st.text())
    def settle(self, how: str, which: int, value: str) -> None:
        question = self.questions[which % len(self.questions)]
        calls = {
            "signal": lambda: self.engine.signal(question.id, value),
            "reject": lambda: self.engine.reject(question.id, value),
            "cancel": lambda: self.engine.cancel_awakeable(question.id),
        }
        row = self.engine.describe(questioning, self.name)
        accepted = (
            question.generation == row.generation
            and row.status is not Status.COMPLETED
            and question.status == "pending"
        )
        assert calls[how]() is accepted
        if accepted:
            question.status, question.value = HOW[how], value

    # --- what is always so ---

    @invariant()
    def rows_say_what_the_model_says(self) -> None:
        for question in getattr(self, "questions", []):
            ((status,),) = self.bench.execute(
                "SELECT status FROM wf_awakeables WHERE id = :id", id=question.id
            )
            assert status == question.status

    @invariant()
    def a_wake_is_delivered_once_to_its_own_generation(self) -> None:
        for question in getattr(self, "questions", []):
            journal = self.engine.journal(questioning, self.name, question.generation)
            wakes = [e for e in journal if e.step == "awk:word" and e.live]
            assert len(wakes) <= (question.status != "pending")
            if wakes:
                assert (wakes[0].kind == "wake") == (question.status == "resolved")
                if question.status == "resolved":
                    assert wakes[0].value == question.value

    @invariant()
    def a_live_instance_is_owed_nothing(self) -> None:
        for question in getattr(self, "questions", [])[-1:]:
            row = self.engine.describe(questioning, self.name)
            current = question.generation == row.generation
            if current and not row.status.is_ended and question.status != "pending":
                journal = self.engine.journal(questioning, self.name)
                assert "awk:word" in {entry.step for entry in journal if entry.live}

    def teardown(self) -> None:
        BROKEN.clear()


def test_a_wake_in_every_order(bench: Bench) -> None:
    run_state_machine_as_test(
        type("WakeOnBench", (Wake,), {"bench": bench}),
        settings=settings(
            max_examples=25,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    check_whole(bench.url)
