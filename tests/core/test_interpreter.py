"""The rules of the interpreter, one small conversation each."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import attrs
import pytest

from workflow_engine.core.commands import (
    ContinueAsNew,
    CurrentGeneration,
    CurrentWorkflow,
    FreshOrdinal,
    Patch,
    Step,
    restore_seed,
)
from workflow_engine.core.compounds import AllOf, AnyOf
from workflow_engine.core.journal import Draft, Entry, Kind
from workflow_engine.core.requests import (
    Abandon,
    Append,
    Appended,
    ArmFailed,
    ArmWaits,
    Block,
    Crash,
    Finish,
    Moved,
    Park,
    Perform,
    Rotate,
    Wait,
)
from workflow_engine.core.waits import Await
from workflow_engine.errors import (
    CancelRequested,
    DuplicateStepName,
    EmptyCompound,
    ForgottenYieldFrom,
    IgnoredCancellation,
    IllegalRotation,
    JournalDecodeError,
    JournalEncodeError,
    NameKindMismatch,
    NotACommand,
    StepDecodeError,
    StepFailed,
)

from .conversation import Conversation, failed, ok, wake

Body = Generator[Any, Any, Any]


def work(*_: object) -> Any:
    """Stand for an effect; never called here."""


def whole(*_: object) -> int:
    """Declare an int."""
    return 0


def step(name: str) -> Step[Any]:
    return Step(name, work)


def one_step() -> Body:
    return (yield step("a"))


# --- steps, waits, endings ---


def test_an_outcome_is_seen_only_once_it_is_recorded() -> None:
    with Conversation(one_step) as talk:
        assert talk.only(Perform).name == "a"
        talk.perform("a", 5)
        assert talk.only(Append) == Append((ok("a", 5),), None)
        talk.append()
        assert talk.only(Finish) == Finish("5", ())


def test_a_recorded_step_is_not_performed() -> None:
    with Conversation(one_step, ok("a", 5)) as talk:
        assert talk.only(Finish).result == "5"


def test_who_comes_second_adopts_what_is_stored() -> None:
    with Conversation(one_step) as talk:
        talk.perform("a", 5)
        talk.tail(ok("a", 7))
        assert talk.only(Finish).result == "7"


def test_a_body_without_a_yield_that_is_reached_completes() -> None:
    def body() -> Body:
        return 5
        yield

    with Conversation(body) as talk:
        assert talk.only(Finish).result == "5"


def test_a_miss_parks_on_condition_that_the_journal_has_not_moved() -> None:
    def body() -> Body:
        return (yield Await("go"))

    with Conversation(body, ok("other")) as talk:
        assert talk.only(Park) == Park((Wait("go"),), (), 1)
        talk.tail(wake("go", 3))
        assert talk.only(Finish).result == "3"


def test_a_renamed_step_runs_anew_and_its_old_entry_is_an_orphan() -> None:
    with Conversation(one_step, ok("old name")) as talk:
        assert talk.names(Perform) == ["a"]


def test_a_wait_can_be_awaited_twice() -> None:
    def body() -> Body:
        return [(yield Await("go")), (yield Await("go"))]

    with Conversation(body, wake("go", 3)) as talk:
        assert talk.only(Finish).result == "[3,3]"


# --- order ---


def branch(name: str, seen: list[str]) -> Body:
    seen.append((yield step(name)))
    return name


def test_the_lowest_position_is_delivered_first_whatever_was_yielded_first() -> None:
    seen: list[str] = []

    def body() -> Body:
        return (yield AllOf([branch(name, seen) for name in "abc"]))

    with Conversation(body, ok("c", "c"), ok("a", "a"), ok("b", "b")) as talk:
        assert seen == ["c", "a", "b"]
        assert talk.only(Finish).result == '["a","b","c"]'


def test_an_early_wake_is_delivered_at_its_own_position() -> None:
    seen: list[Any] = []

    def waits(name: str) -> Body:
        yield step(name)
        seen.append((yield Await("early")))

    def body() -> Body:
        yield AllOf([waits("b"), branch("a", seen)])

    with Conversation(body, wake("early", "w"), ok("b"), ok("a", "a")):
        assert seen == ["w", "a"]


def test_steps_are_asked_for_only_when_nothing_is_left_to_deliver() -> None:
    def body() -> Body:
        yield AllOf([branch("a", []), branch("b", [])])

    with Conversation(body, ok("b")) as talk:
        assert talk.names(Perform) == ["a"]


def test_outcomes_that_are_ready_together_share_a_commit() -> None:
    def body() -> Body:
        yield AllOf([branch(name, []) for name in "abc"])

    with Conversation(body) as talk:
        talk.perform("a")
        first = talk.only(Append)
        talk.perform("b")
        talk.perform("c")
        assert talk.asked == []
        talk.tail(*first.drafts)
        assert talk.only(Append).drafts == (ok("b"), ok("c"))


def test_waits_are_armed_at_once_while_steps_are_in_flight() -> None:
    def waits() -> Body:
        yield Await("go")

    def body() -> Body:
        yield AllOf([waits(), branch("a", [])])

    with Conversation(body) as talk:
        assert talk.names(Perform) == ["a"]
        assert talk.asked[-1] == ArmWaits((Wait("go"),))
        talk.tail()
        talk.perform("a")
        talk.append()
        assert talk.only(Park).waits == (Wait("go"),)


# --- failures ---


def test_a_failure_nobody_catches_is_a_crash_and_not_recorded() -> None:
    with Conversation(one_step, ok("z")) as talk:
        talk.fail("a", ValueError("x"))
        crash = talk.only(Crash)
        assert isinstance(crash.error, StepFailed)
        assert (crash.final, crash.entry, crash.expect) == (False, None, 1)


def catching() -> Body:
    try:
        yield step("a")
    except StepFailed:
        yield FreshOrdinal("n")
        yield step("undo")
        raise


def test_a_failure_is_recorded_before_anything_else_once_the_body_goes_on() -> None:
    with Conversation(catching) as talk:
        talk.fail("a", ValueError("x"))
        append = talk.only(Append)
        assert [draft.kind for draft in append.drafts] == [Kind.STEP_FAILED]
        assert append.expect == 0
        talk.append()
        assert talk.names(Perform) == ["undo"]


def test_a_failure_that_leaves_the_body_after_compensation_is_final() -> None:
    with Conversation(catching) as talk:
        talk.fail("a", ValueError("x"))
        talk.append()
        talk.perform("undo")
        talk.append()
        crash = talk.only(Crash)
        assert (crash.final, crash.entry) == (True, "a")


def test_a_body_that_returns_after_a_failure_has_it_recorded() -> None:
    def body() -> Body:
        try:
            yield step("a")
        except StepFailed as failure:
            return failure.message

    with Conversation(body) as talk:
        talk.fail("a", ValueError("x"))
        talk.append()
        assert talk.only(Finish).result == '"x"'


def test_a_journal_that_moved_since_a_failure_was_thrown_makes_the_run_stale() -> None:
    with Conversation(catching) as talk:
        talk.fail("a", ValueError("x"))
        talk.answer(Moved())
        assert talk.interpreter.stale
        assert list(talk.interpreter.uncommitted()) == ["a"]


def test_a_crash_waits_for_steps_in_flight_and_records_their_successes() -> None:
    def body() -> Body:
        yield AllOf([branch("a", []), branch("b", [])])

    with Conversation(body) as talk:
        talk.fail("a", ValueError("x"))
        assert talk.asked == []
        talk.perform("b", 1)
        assert talk.only(Append).drafts == (ok("b", 1),)
        talk.append()
        assert talk.only(Crash).expect == 1


def test_an_exception_raised_from_a_recorded_failure_is_final() -> None:
    def body() -> Body:
        try:
            yield step("a")
        except StepFailed as failure:
            raise RuntimeError("wrapped") from failure

    with Conversation(body, failed("a", ValueError("x"))) as talk:
        crash = talk.only(Crash)
        assert isinstance(crash.error, RuntimeError)
        assert (crash.final, crash.entry) == (True, "a")


def test_an_arm_that_raises_is_a_crash() -> None:
    def body() -> Body:
        yield Await("go")

    with Conversation(body) as talk:
        talk.answer(ArmFailed(OSError("no route")))
        crash = talk.only(Crash)
        assert isinstance(crash.error, OSError)
        assert not crash.final


# --- entries that cannot be read ---


def test_a_value_of_another_type_blocks_and_is_not_thrown_into_the_body() -> None:
    def body() -> Body:
        try:
            return (yield Step("a", whole))
        except BaseException:  # noqa: BLE001 - nothing at all must arrive
            pytest.fail("the body must not see it")

    with Conversation(body, ok("a", "text")) as talk:
        block = talk.only(Block)
        assert isinstance(block.error, StepDecodeError)
        assert (block.error.step, block.error.path) == ("a", "$")
        assert "int" in str(block.error)


def test_an_unknown_kind_blocks_once_everything_before_it_was_delivered() -> None:
    seen: list[str] = []

    def body() -> Body:
        yield AllOf([branch("a", seen), branch("b", seen)])

    talk = Conversation(body, ok("a", "a"))
    with talk:
        unknown = Entry(2, "teleported", "x", None, live=True)
        later = Entry(3, Kind.STEP_OK, "b", '"b"', live=True)
        talk.perform("b", "mine")
        talk.answer(Appended((unknown, later), 3))
        assert isinstance(talk.only(Block).error, JournalDecodeError)
        assert seen == ["a"]


def test_an_unknown_format_of_a_known_kind_blocks_too() -> None:
    with Conversation(one_step) as talk:
        talk.perform("a")
        talk.answer(Appended((Entry(1, Kind.STEP_OK, "a", "1", True, format=9),), 1))
        assert "version 9" in str(talk.only(Block).error)


# --- the author's mistakes ---


def let_out(body: Any, *drafts: Draft, **options: Any) -> BaseException:
    """The author's error that ends ``body``, after checking that it is final."""
    with Conversation(body, *drafts, **options) as talk:
        crash = talk.only(Crash)
        assert crash.final
        return crash.error


def test_a_step_name_is_used_once_even_if_a_losing_branch_used_it() -> None:
    def body() -> Body:
        yield AnyOf([one_step(), branch("b", [])])
        yield step("b")

    error = let_out(body, ok("a"))
    assert isinstance(error, DuplicateStepName)
    assert str(error).count("test_interpreter.py:") == 2


def test_a_step_does_not_accept_a_wake_nor_a_wait_a_step() -> None:
    assert isinstance(let_out(one_step, wake("a")), NameKindMismatch)

    def body() -> Body:
        yield Await("a")

    assert isinstance(let_out(body, ok("a")), NameKindMismatch)


@pytest.mark.parametrize("thing", [5, None, "step", one_step])
def test_what_is_not_a_command_is_refused_at_the_line(thing: Any) -> None:
    def body() -> Body:
        yield thing

    error = let_out(body)
    assert isinstance(error, NotACommand)
    assert isinstance(error, TypeError)
    assert error.__traceback__ is not None


def test_a_forgotten_yield_from_is_named() -> None:
    def yields() -> Body:
        yield one_step()

    assert "yield from one_step(...)" in str(let_out(yields))

    def returns() -> Body:
        yield Patch("p")
        return one_step()

    error = let_out(returns)
    assert isinstance(error, ForgottenYieldFrom)
    assert "yield from one_step" in str(error)


def test_a_result_that_cannot_be_recorded_fails_at_once() -> None:
    def body() -> Body:
        yield Patch("p")
        return {"deep": [object()]}

    error = let_out(body)
    assert isinstance(error, JournalEncodeError)
    assert "$.deep[0]" in str(error)


def test_a_race_of_nobody_is_the_authors_mistake_and_all_of_nothing_is_nothing() -> (
    None
):
    def race() -> Body:
        yield AnyOf([])

    assert isinstance(let_out(race), EmptyCompound)

    def nothing() -> Body:
        return (yield AllOf([]))

    with Conversation(nothing) as talk:
        assert talk.only(Finish).result == "[]"


# --- compounds ---


def guarded(name: str, log: list[str]) -> Body:
    try:
        yield Await(name)
    except CancelRequested:
        log.append("cancelled")
        yield step(f"{name} cleanup")
        raise


def test_a_loser_is_cancelled_and_the_race_ends_when_its_cleanup_has() -> None:
    log: list[str] = []

    def body() -> Body:
        return (yield AnyOf([guarded("slow", log), branch("fast", log)]))

    with Conversation(body, ok("fast", "won")) as talk:
        assert log == ["won", "cancelled"]
        assert talk.names(Perform) == ["slow cleanup"]
        talk.perform("slow cleanup")
        talk.append()
        assert talk.only(Finish).result == '[1,"fast"]'


def test_a_step_of_a_loser_is_abandoned_and_its_late_outcome_is_recorded() -> None:
    def body() -> Body:
        yield AnyOf([branch("slow", []), branch("fast", [])])
        yield Await("go")

    with Conversation(body) as talk:
        talk.perform("fast")
        talk.append()
        assert Abandon("slow") in talk.asked
        assert ArmWaits((Wait("go"),)) in talk.asked
        talk.tail()
        talk.perform("slow", 9)
        assert talk.only(Append).drafts == (ok("slow", 9),)


def test_the_first_error_of_a_member_is_thrown_once_the_others_have_ended() -> None:
    log: list[str] = []

    def body() -> Body:
        try:
            yield AllOf([guarded("slow", log), branch("b", log)])
        except StepFailed as failure:
            return failure.message

    with Conversation(body, failed("b", ValueError("x"))) as talk:
        assert talk.names(Perform) == ["slow cleanup"]
        talk.perform("slow cleanup")
        talk.append()
        assert talk.only(Finish).result == '"x"'


def test_compounds_nest() -> None:
    def body() -> Body:
        inner = AllOf([Await("a"), Await("b")])
        return (yield AnyOf([inner, Await("late")]))

    with Conversation(body, wake("b", 2), wake("a", 1), wake("late", 9)) as talk:
        assert talk.only(Finish).result == "[0,[1,2]]"
    with Conversation(body, wake("b", 2), wake("late", 9), wake("a", 1)) as talk:
        assert talk.only(Finish).result == "[1,9]"


def test_an_error_in_a_losers_cleanup_does_not_vanish() -> None:
    def clumsy() -> Body:
        try:
            yield Await("slow")
        except CancelRequested:
            raise ValueError("cleanup failed") from None

    def body() -> Body:
        try:
            yield AnyOf([clumsy(), Await("fast")])
        except ValueError as error:
            return str(error)

    with Conversation(body, wake("fast")) as talk:
        assert talk.only(Finish).result == '"cleanup failed"'


def test_fan_in_is_linear() -> None:
    """Counted in calls of functions: ten times the branches, ten times the calls."""

    def calls(width: int) -> int:
        def body() -> Body:
            yield AllOf([step(str(index)) for index in range(width)])

        counted = 0

        def count(*_: object) -> None:
            nonlocal counted
            counted += 1

        drafts = [ok(str(index)) for index in reversed(range(width))]
        sys.setprofile(count)
        try:
            with Conversation(body, *drafts) as talk:
                talk.only(Finish)
        finally:
            sys.setprofile(None)
        return counted

    calls(10)
    assert calls(2000) < 11 * calls(200)


# --- cancel with cleanup ---


def test_a_cancellation_is_recorded_then_thrown_where_the_body_stands() -> None:
    log: list[str] = []

    def body() -> Body:
        yield from guarded("go", log)

    with Conversation(body, cancel_requested=True) as talk:
        append = talk.only(Append)
        assert [draft.kind for draft in append.drafts] == [Kind.CANCEL]
        assert log == []
        talk.append(cancel_requested=True)
        assert log == ["cancelled"]
        talk.perform("go cleanup")
        talk.append(cancel_requested=True)
        assert talk.only(Finish).result is None


def test_a_body_that_swallows_its_cancellation_fails() -> None:
    def body() -> Body:
        while True:
            with suppress(CancelRequested):
                yield Await("go")

    with Conversation(body, cancel_requested=True) as talk:
        talk.append(cancel_requested=True)
        crash = talk.only(Crash)
        assert crash.final
        assert isinstance(crash.error, IgnoredCancellation)


def test_a_body_cannot_evade_that_by_opening_new_branches() -> None:
    def body() -> Body:
        while True:
            with suppress(CancelRequested):
                yield AllOf([Await("go")])

    with Conversation(body, cancel_requested=True) as talk:
        talk.append(cancel_requested=True)
        assert isinstance(talk.only(Crash).error, IgnoredCancellation)


# --- asking about itself, patches, seeds, rotation ---


def test_a_body_learns_its_name_generation_ordinals_and_patches_at_once() -> None:
    def body() -> Body:
        first = [(yield FreshOrdinal("n")), (yield FreshOrdinal("n"))]
        other = yield FreshOrdinal("m")
        me = yield CurrentWorkflow()
        patches = [(yield Patch("new")), (yield Patch("old")), (yield Patch("new"))]
        return [first, other, list(me), (yield CurrentGeneration()), patches]

    with Conversation(body, patches=frozenset({"new"})) as talk:
        finish = talk.only(Finish)
        assert finish.result == '[[0,1],0,["w","1"],0,[true,false,true]]'
        assert [draft.name for draft in finish.drafts] == ["patch:new", "patch:old"]


def test_a_recorded_patch_decision_is_not_recorded_again() -> None:
    def body() -> Body:
        return (yield Patch("new"))

    recorded = Draft(Kind.PATCH, "patch:new", "false")
    with Conversation(body, recorded, patches=frozenset({"new"})) as talk:
        assert talk.only(Finish) == Finish("true", ())


def test_a_patch_decision_survives_a_park_that_did_not_happen() -> None:
    def body() -> Body:
        yield Patch("new")
        yield Await("go")

    decision = Draft(Kind.PATCH, "patch:new", "false")
    with Conversation(body) as talk:
        assert talk.only(Park).drafts == (decision,)
        talk.tail(wake("go"))
        assert talk.only(Finish).drafts == (decision,)


def test_the_first_seed_is_recorded_before_the_body_sees_it() -> None:
    def body() -> Body:
        return (yield restore_seed(7))

    with Conversation(body) as talk:
        assert talk.only(Append).drafts == (ok("__workflow_seed__", 7),)
        talk.append()
        assert talk.only(Finish).result == "7"


def test_continue_as_new_ends_the_run_and_names_the_wakes_that_were_taken() -> None:
    def body() -> Body:
        yield Await("taken")
        yield ContinueAsNew({"total": 3})
        pytest.fail("it never returns")

    with Conversation(body, wake("taken"), wake("kept")) as talk:
        rotate = talk.only(Rotate)
        assert rotate.seed == '{"total":3}'
        assert rotate.consumed == {"taken"}


def test_continue_as_new_in_a_branch_is_refused() -> None:
    def rotating() -> Body:
        yield ContinueAsNew(1)

    def body() -> Body:
        yield AllOf([rotating()])

    assert isinstance(let_out(body), IllegalRotation)


def test_continue_as_new_in_a_finally_wins_over_the_error_and_reports_it() -> None:
    def body() -> Body:
        try:
            yield step("a")
            raise ValueError("pending")
        finally:
            yield ContinueAsNew(1)

    talk = Conversation(body, ok("a"))
    assert talk.only(Rotate).seed == "1"
    (pending,) = talk.interpreter.drop().pending
    assert str(pending) == "pending"


def test_a_seed_that_cannot_be_recorded_is_thrown_at_the_yield() -> None:
    def body() -> Body:
        yield ContinueAsNew({1: object()})

    assert isinstance(let_out(body), JournalEncodeError)


# --- dropping ---


def test_a_dropped_body_runs_its_finally_and_commands_there_are_ignored() -> None:
    log: list[str] = []

    def body() -> Body:
        try:
            yield Await("go")
        finally:
            log.append("finally")
            yield step("clean")

    talk = Conversation(body)
    dropped = talk.interpreter.drop()
    assert log == ["finally"]
    assert (dropped.ignored, dropped.undead) == (1, 0)
    assert talk.interpreter.requests() == []


def test_a_body_that_will_not_end_is_set_aside() -> None:
    def body() -> Body:
        while True:
            with suppress(BaseException):
                yield Await("go")

    assert Conversation(body).interpreter.drop().undead == 1


def test_an_inner_branch_is_dropped_before_the_one_that_opened_it() -> None:
    log: list[str] = []

    def inner() -> Body:
        try:
            yield Await("go")
        finally:
            log.append("inner")

    def body() -> Body:
        try:
            yield AllOf([inner()])
        finally:
            log.append("outer")

    Conversation(body).interpreter.drop()
    assert log == ["inner", "outer"]


def test_a_keyboard_interrupt_in_a_body_is_not_a_crash_of_the_workflow() -> None:
    def body() -> Body:
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        Conversation(body)


def test_an_empty_iterator_in_a_body_is_an_error_and_not_an_ending() -> None:
    def body() -> Body:
        next(iter(()))
        yield

    with Conversation(body) as talk:
        assert isinstance(talk.only(Crash).error, RuntimeError)


def test_a_value_object_of_a_command_can_be_yielded_by_two_bodies() -> None:
    shared = step("a")

    def body() -> Body:
        return (yield shared)

    for _ in range(2):
        with Conversation(body, ok("a", 1)) as talk:
            assert talk.only(Finish).result == "1"


@attrs.frozen
class Point:
    """A value with a type."""

    x: int


def test_values_come_back_as_the_declared_type() -> None:
    seen: list[Any] = []

    def body() -> Body:
        seen.append((yield step("a").returns(Point)))
        seen.append((yield Await("b", returns=Point)))

    with Conversation(body, ok("a", {"x": 1}), wake("b", {"x": 2})):
        assert seen == [Point(1), Point(2)]
