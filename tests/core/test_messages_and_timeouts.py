"""Messages are taken in order, once; timed waits give up. One conversation each."""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest

from workflow_engine.core.commands import ContinueAsNew, Step
from workflow_engine.core.compounds import AllOf, AnyOf
from workflow_engine.core.journal import Draft, Kind, NewMessage
from workflow_engine.core.requests import (
    Append,
    ArmWaits,
    Block,
    Crash,
    Finish,
    Park,
    Perform,
    Rotate,
    Wait,
)
from workflow_engine.core.topics import message_name
from workflow_engine.core.waits import Await, Awakeable, Child, Send, StartTimer
from workflow_engine.errors import InvalidDuration, InvalidName, WaitTimeout
from workflow_engine.wake.message import receive

from .conversation import Conversation, ok, wake

Body = Generator[Any, Any, Any]

SECOND = StartTimer(delay=1_000_000)


def message(topic: str, key: str, value: object) -> Draft:
    return Draft(Kind.MESSAGE, message_name(topic, key), json.dumps(value))


def timeout(wait: str, ordinal: int = 0) -> Draft:
    escaped = wait.replace("%", "%25").replace(":", "%3A")
    return wake(f"timeout:{escaped}:{ordinal}")


def work() -> None:
    """Stand for an effect; never called here."""


def patiently(wait: Any) -> Body:
    try:
        return (yield wait)
    except WaitTimeout as error:
        return f"no {error.wait}"


# --- messages -------------------------------------------------------------------------


def test_messages_are_taken_in_the_order_they_were_sent() -> None:
    def body() -> Body:
        first = yield from receive("word")
        second = yield from receive("word")
        return [first, second]

    before = [
        message("word", "z", 1),
        message("other", "b", 9),
        message("word", "a", 2),
    ]
    with Conversation(body, *before) as talk:
        assert talk.only(Finish).result == "[1,2]"


def test_a_message_that_comes_to_a_wait_answers_it() -> None:
    def body() -> Body:
        return (yield receive("a:b"))

    with Conversation(body) as talk:
        assert talk.only(Park).waits == (Wait("message:a%3Ab"),)
        talk.tail(message("a", "b:1", 7), message("a:b", "1", 8))
        assert talk.only(Finish).result == "8"


def test_the_wait_that_was_reached_first_gets_the_first_message() -> None:
    def body() -> Body:
        return (yield AllOf([receive("word"), receive("word"), receive("word")]))

    with Conversation(body) as talk:
        talk.tail(message("word", "1", "one"), message("word", "2", "two"))
        assert talk.only(Park).waits == (Wait("message:word"),)
        talk.tail(message("word", "3", "three"))
        assert talk.only(Finish).result == '["one","two","three"]'


def test_a_wait_that_lost_its_race_takes_nothing() -> None:
    def body() -> Body:
        winner, _ = yield AnyOf([receive("word"), Await("go")])
        return [winner, (yield receive("word"))]

    with Conversation(body, wake("go"), message("word", "1", "kept")) as talk:
        assert talk.only(Finish).result == '[1,"kept"]'


def test_a_rotation_takes_along_what_nobody_took() -> None:
    def body() -> Body:
        yield receive("word")
        yield ContinueAsNew(1)

    taken, left = message("word", "1", 1), message("word", "2", 2)
    with Conversation(body, taken, left) as talk:
        assert talk.only(Rotate).consumed == {taken.name}


def test_a_message_that_does_not_fit_blocks_and_is_not_thrown() -> None:
    def body() -> Body:
        try:
            return (yield receive("word", returns=int))
        except Exception as error:
            raise AssertionError from error

    with Conversation(body, message("word", "1", "text")) as talk:
        block = talk.only(Block)
        assert block.position == 1
        assert "message:word:1" in str(block.error)


def test_what_is_sent_is_recorded_before_the_body_goes_on() -> None:
    def body() -> Body:
        first = yield Send("other", "7", "word", [1])
        second = yield Send("other", "7", "word", [1], key="k", name="again")
        return [first, second]

    with Conversation(body) as talk:
        (draft,) = talk.only(Append).drafts
        assert draft.name == "messagesend:0"
        assert draft.deed == NewMessage("other", "7", "word", "[1]")
        talk.tail(ok("messagesend:0", True))
        (draft,) = talk.only(Append).drafts
        assert draft.deed == NewMessage("other", "7", "word", "[1]", "k")
        talk.tail(ok("messagesend:again", False))
        assert talk.only(Finish).result == "[true,false]"


@pytest.mark.parametrize(
    "make",
    [
        lambda: receive(""),
        lambda: Send("", "1", "t", 1),
        lambda: Send("w", "\n", "t", 1),
        lambda: Send("w", "1", " ", 1),
        lambda: Send("w", "1", "t", 1, key=""),
        lambda: Send("w", "1", "t", 1, name="n" * 250),
    ],
)
def test_names_that_cannot_be_ones_are_refused_at_once(make: Any) -> None:
    with pytest.raises(InvalidName):
        make()


# --- timed waits ----------------------------------------------------------------------

TIMED = [
    (Await("go"), "go"),
    (receive("word"), "message:word"),
    (Awakeable("id", "approval", Any), "awk:approval"),
    (Child("w", "1", Any), "child:w:1"),
]


@pytest.mark.parametrize(("command", "name"), TIMED)
def test_a_timed_wait_parks_with_its_timer_and_raises_when_it_fires(
    command: Any, name: str
) -> None:
    with Conversation(lambda: patiently(command.timeout(1))) as talk:
        waits = talk.only(Park).waits
        assert [wait.name for wait in waits if not wait.is_limit] == [name]
        (limit,) = [wait for wait in waits if wait.is_limit]
        assert limit == Wait(timeout(name).name or "", SECOND)
        talk.tail(timeout(name))
        assert talk.only(Finish).result == json.dumps(f"no {name}")


@pytest.mark.parametrize("late", [False, True])
def test_the_lower_position_answers(late: bool) -> None:
    came, over = wake("go", "came"), timeout("go")
    entries = [over, came] if late else [came, over]
    with Conversation(lambda: patiently(Await("go").timeout(1)), *entries) as talk:
        assert talk.only(Finish).result == ('"no go"' if late else '"came"')


def test_what_came_too_late_answers_a_later_wait() -> None:
    def body() -> Body:
        first = yield from patiently(Await("go").timeout(1))
        second = yield from patiently(Await("go").timeout(1))
        return [first, second]

    with Conversation(body, timeout("go"), wake("go", "late")) as talk:
        assert talk.only(Finish).result == '["no go","late"]'


def test_a_message_that_came_too_late_is_taken_by_a_later_wait() -> None:
    def body() -> Body:
        first = yield from patiently(receive("word").timeout(1))
        return [first, (yield receive("word"))]

    late = message("word", "1", "late")
    with Conversation(body, timeout("message:word"), late) as talk:
        assert talk.only(Finish).result == '["no message:word","late"]'


def test_each_timed_wait_for_a_name_has_a_timer_of_its_own() -> None:
    def body() -> Body:
        yield from patiently(receive("word").timeout(1))
        yield from patiently(receive("word").timeout(1))

    with Conversation(body, timeout("message:word")) as talk:
        names = [wait.name for wait in talk.only(Park).waits]
        assert names == ["message:word", timeout("message:word", 1).name]


def test_a_wait_that_was_answered_wants_its_timer_no_more() -> None:
    def body() -> Body:
        yield Await("go").timeout(1)
        yield Await("on")

    with Conversation(body) as talk:
        talk.tail(wake("go"))
        assert talk.only(Park).waits == (Wait("on"),)


def test_timers_are_armed_while_a_step_is_in_flight() -> None:
    def body() -> Body:
        yield AllOf([Step("s", work), Await("go").timeout(1)])

    with Conversation(body) as talk:
        assert [type(asked) for asked in talk.asked] == [Perform, ArmWaits]
        armed = talk.asked[1]
        assert isinstance(armed, ArmWaits)
        assert Wait("timeout:go:0", SECOND) in armed.waits


def test_waits_in_branches_share_a_deadline() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    due = StartTimer(due=1_767_225_600_000_000)

    def body() -> Body:
        waits = [Await("a").deadline(moment), receive("b").deadline(moment)]
        return (yield AllOf([patiently(wait) for wait in waits]))

    with Conversation(body) as talk:
        arms = [wait.arm for wait in talk.only(Park).waits if wait.is_limit]
        assert arms == [due, due]
        talk.tail(timeout("a"), timeout("message:b"))
        assert talk.only(Finish).result == '["no a","no message:b"]'


def test_a_branch_that_lost_leaves_no_timer() -> None:
    def body() -> Body:
        yield AnyOf([Await("a").timeout(1), receive("b").timeout(1)])
        yield Await("c")

    with Conversation(body) as talk:
        talk.tail(wake("a"))
        assert talk.only(Park).waits == (Wait("c"),)


def test_a_timeout_that_is_let_out_fails_the_instance_at_once() -> None:
    def body() -> Body:
        yield Await("go").timeout(1)

    with Conversation(body, timeout("go")) as talk:
        crash = talk.only(Crash)
        assert crash.final
        assert crash.entry == "timeout:go:0"
        assert isinstance(crash.error, TimeoutError)


def test_two_waits_for_one_name_time_out_one_by_one() -> None:
    def body() -> Body:
        waits = [Await("go").timeout(1), Await("go").timeout(2), Await("go")]
        return (yield AllOf([patiently(wait) for wait in waits]))

    with Conversation(body, timeout("go", 1), wake("go", "came")) as talk:
        assert talk.only(Finish).result == '["came","no go","came"]'


@pytest.mark.parametrize("duration", [float("nan"), -1, float("inf"), 1e18, "1", True])
def test_a_duration_that_is_none_is_refused_at_once(duration: Any) -> None:
    with pytest.raises(InvalidDuration):
        Await("go").timeout(duration)


def test_a_naive_deadline_is_refused_at_once() -> None:
    with pytest.raises(InvalidDuration):
        receive("word").deadline(datetime(2026, 1, 1))  # noqa: DTZ001 - that is it


def test_a_timed_wait_is_another_command_and_leaves_the_first_alone() -> None:
    wait = Await("go", returns=int)
    assert wait.timeout(1) == wait.timeout(1)
    assert wait.timeout(1) != wait
    assert wait.limit is None
    assert wait.timeout(1).returns is int
