"""Attempts, pauses and failures that are tried at once. One conversation each."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from workflow_engine.core.attempts import (
    Pause,
    attempt_name,
    record_attempt,
    retry_name,
    step_tried,
)
from workflow_engine.core.commands import Step
from workflow_engine.core.compounds import AllOf, AnyOf
from workflow_engine.core.journal import Draft, Entry, Kind
from workflow_engine.core.outcome import Again
from workflow_engine.core.requests import (
    Abandon,
    Append,
    ArmWaits,
    Crash,
    Finish,
    Moved,
    Park,
    Perform,
    Wait,
)
from workflow_engine.core.waits import Await, StartTimer
from workflow_engine.errors import StepFailed

from .conversation import Conversation, failed, ok, wake

Body = Generator[Any, Any, Any]

SECOND = StartTimer(delay=1_000_000)

ODD = ["s", "a:b", "100%", "%3A:1", ":", "stepretry", "ü☂"]


def work() -> Any:
    """Stand for an effect; never called here."""


def tried(step: str, number: int = 1, pause: int = 1_000_000) -> Draft:
    """The entry of a failed attempt."""
    payload = record_attempt('{"type":"OSError"}', pause)
    return Draft(Kind.STEP_ATTEMPT, attempt_name(step, number), payload)


def over(step: str, number: int = 1) -> Draft:
    """The end of the pause after it."""
    return wake(retry_name(step, number))


def one() -> Body:
    return (yield Step("s", work))


# --- names ----------------------------------------------------------------------------


@pytest.mark.parametrize("step", ODD)
def test_the_names_of_attempts_tell_their_step(step: str) -> None:
    draft = tried(step, 12, 7)
    pause = Pause.of(Entry(1, draft.kind, draft.name, draft.payload, live=True))
    assert pause == Pause(step, 12, StartTimer(delay=7))
    assert pause.name == retry_name(step, 12)
    assert step_tried(attempt_name(step, 12)) == step
    assert step_tried(retry_name(step, 12)) == step


def test_the_names_of_attempts_are_told_apart() -> None:
    pairs = [(step, number) for step in (*ODD, "s:1", "s:1:1") for number in (1, 11)]
    assert len({retry_name(*pair) for pair in pairs}) == len(pairs)


# --- attempts -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ODD)
def test_an_attempt_is_recorded_then_paused_after_then_made_again(name: str) -> None:
    def body() -> Body:
        return (yield Step(name, work))

    with Conversation(body) as talk:
        assert talk.only(Perform).attempt == 1
        talk.try_again(name, 1_000_000)
        (draft,) = talk.only(Append).drafts
        assert (draft.kind, draft.name) == (Kind.STEP_ATTEMPT, attempt_name(name, 1))
        talk.append()
        assert talk.only(Park).waits == (Wait(retry_name(name, 1), SECOND),)
        talk.tail(over(name))
        assert talk.only(Perform).attempt == 2
        talk.perform(name, 7)
        talk.append()
        assert talk.only(Finish).result == "7"


def test_a_replay_parks_on_the_last_pause_and_performs_nothing() -> None:
    with Conversation(one, tried("s"), over("s"), tried("s", 2, 5)) as talk:
        assert talk.only(Park).waits == (Wait("stepretry:s:2", StartTimer(delay=5)),)


def test_a_replay_goes_on_with_the_attempt_that_is_due() -> None:
    with Conversation(one, tried("s"), over("s")) as talk:
        assert talk.only(Perform).attempt == 2


def test_an_outcome_ends_the_pause_that_another_runner_waits_for() -> None:
    with Conversation(one, tried("s")) as talk:
        talk.tail(over("s"), ok("s", 3))
        assert talk.only(Finish).result == "3"


def test_the_last_failure_is_recorded_before_the_body_is_told() -> None:
    with Conversation(one, tried("s"), over("s")) as talk:
        talk.give_up("s")
        append = talk.only(Append)
        assert (append.expect, append.drafts[0].kind) == (None, Kind.STEP_FAILED)
        talk.append()
        crash = talk.only(Crash)
        assert (crash.final, crash.entry) == (True, "s")


def test_a_pause_is_armed_while_another_step_is_in_flight_and_only_once() -> None:
    def body() -> Body:
        yield AllOf([Step("s", work), Step("t", work), Step("u", work)])

    with Conversation(body) as talk:
        talk.try_again("s", 1_000_000)
        talk.append()
        assert talk.only(ArmWaits).waits == (Wait("stepretry:s:1", SECOND),)
        talk.tail()
        talk.perform("t")
        talk.append()
        assert talk.asked == []
        talk.perform("u")
        talk.append()
        assert talk.only(Park).waits == (Wait("stepretry:s:1", SECOND),)


def test_the_pause_of_a_branch_that_lost_is_not_waited_for() -> None:
    def body() -> Body:
        yield AnyOf([Step("s", work), Await("go")])
        yield Await("on")

    with Conversation(body, tried("s")) as talk:
        talk.tail(wake("go"))
        assert talk.only(Park).waits == (Wait("on"),)
        talk.tail(over("s"))
        assert talk.only(Park).waits == (Wait("on"),)


def test_an_attempt_that_fails_after_its_branch_lost_is_the_last() -> None:
    def body() -> Body:
        yield AnyOf([Step("s", work), Await("go")])
        yield Await("on")

    with Conversation(body) as talk:
        assert [type(asked) for asked in talk.asked] == [Perform, ArmWaits]
        talk.tail(wake("go"))
        assert [type(asked) for asked in talk.asked] == [Abandon, ArmWaits]
        talk.tail()
        talk.try_again("s", 1_000_000)
        assert talk.only(Append).drafts[0].name == "stepattempt:s:1"
        talk.append()
        assert talk.only(Park).waits == (Wait("on"),)


def test_a_crash_records_attempts_and_last_failures_of_other_steps_first() -> None:
    def body() -> Body:
        names = ("broken", "tried", "spent", "fine")
        yield AllOf([Step(name, work) for name in names])

    with Conversation(body) as talk:
        talk.fail("broken", ValueError("broken"))
        assert {*talk.names(Abandon)} == set()
        talk.try_again("tried", 1)
        talk.give_up("spent")
        talk.perform("fine")
        (append,) = [asked for asked in talk.asked if isinstance(asked, Append)]
        kinds = [draft.kind for draft in append.drafts]
        assert kinds == [Kind.STEP_ATTEMPT, Kind.STEP_FAILED, Kind.STEP_OK]
        talk.append()
        assert not talk.only(Crash).final


def test_an_attempt_is_kept_for_the_next_interpreter_when_this_one_went_stale() -> None:
    def body() -> Body:
        yield AllOf([careless(Step("broken", work)), Step("s", work)])

    with Conversation(body) as talk:
        talk.fail("broken", ValueError("broken"))
        talk.try_again("s", 1)
        talk.answer(Moved())
        assert talk.interpreter.stale
        held = talk.interpreter.uncommitted()
        assert {*held} == {"broken", "s"}
        assert isinstance(held["s"], Again)


def careless(step: Step[Any]) -> Body:
    """Goes on after a failure, with another wait."""
    try:
        return (yield step)
    except StepFailed as failure:
        yield Await(f"after {step.name}")
        return failure.message


# --- several failures at once ---------------------------------------------------------


def all_errors() -> Body:
    steps, messages = [Step(name, work) for name in "abc"], [""]
    try:
        yield AllOf(steps, all_errors=True)
    except* StepFailed as group:
        messages = [str(error) for error in group.exceptions]
    return (yield Step("after", len, messages))


def test_failures_that_are_tried_at_once_are_recorded_together_when_it_goes_on() -> (
    None
):
    with Conversation(all_errors) as talk:
        for name in "ba":
            talk.fail(name, ValueError(name))
            assert talk.asked == []  # thrown into its branch; nobody has gone on
        talk.fail("c", ValueError("c"))
        append = talk.only(Append)
        assert [draft.name for draft in append.drafts] == ["b", "a", "c"]
        assert append.expect == 0
        talk.append()
        assert talk.only(Perform).name == "after"


def test_a_success_among_them_makes_it_start_over_with_what_it_holds() -> None:
    with Conversation(all_errors) as talk:
        talk.fail("a", ValueError("a"))
        talk.perform("b")
        talk.append()  # recorded, and delivered: its branch returns, so it has gone on
        append = talk.only(Append)
        assert [draft.name for draft in append.drafts] == ["a"]
        assert (append.expect, talk.interpreter.position) == (0, 1)
        talk.answer(Moved())  # the failure came first in memory only
        assert talk.interpreter.stale
        assert {*talk.interpreter.uncommitted()} == {"a"}
    with Conversation(all_errors, ok("b")) as talk:
        assert talk.names(Perform) == ["a", "c"]
        for name in "ac":
            talk.fail(name, ValueError(name))
        assert talk.only(Append).expect == 1
        talk.append()
        assert talk.only(Perform).name == "after"


def test_failures_that_leave_the_body_together_are_recorded_by_nobody() -> None:
    def body() -> Body:
        yield AllOf([Step("a", work), Step("b", work)], all_errors=True)

    with Conversation(body) as talk:
        talk.fail("a", ValueError("a"))
        talk.fail("b", ValueError("b"))
        crash = talk.only(Crash)
        assert isinstance(crash.error, ExceptionGroup)
        assert not crash.final


def test_one_recorded_failure_in_a_group_makes_its_crash_final() -> None:
    def body() -> Body:
        yield AllOf([Step("a", work), Step("b", work)], all_errors=True)

    with Conversation(body, failed("b", ValueError("b"))) as talk:
        talk.fail("a", ValueError("a"))
        crash = talk.only(Crash)
        assert (crash.final, crash.entry) == (True, "b")
