"""Steps that were recorded with their effects, and not by a request of the run's."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from workflow_engine.core.commands import Step
from workflow_engine.core.compounds import AllOf
from workflow_engine.core.requests import Appended, Crash, Finish, Park, Perform
from workflow_engine.core.transaction import Transaction
from workflow_engine.core.waits import Await
from workflow_engine.errors import StepFailed

from .conversation import Conversation, entries, ok, wake

Body = Generator[Any, Any, Any]


def write(session: Any) -> Any:
    """Stand for an effect; never called here."""


def recorded(name: str, *drafts: Any) -> Appended:
    """What a driver answers when a transaction was committed."""
    return Appended(entries(drafts), len(drafts), performed=frozenset({name}))


def test_it_is_delivered_without_being_recorded_again() -> None:
    def body() -> Body:
        return (yield Transaction("t", write))

    with Conversation(body) as talk:
        assert talk.only(Perform).name == "t"
        talk.answer(recorded("t", ok("t", 5)))
        assert talk.only(Finish) == Finish("5", ())


def test_it_is_not_in_flight_any_more() -> None:
    def body() -> Body:
        yield Transaction("t", write)
        yield Await("n")

    with Conversation(body) as talk:
        talk.answer(recorded("t", ok("t")))
        assert [wait.name for wait in talk.only(Park).waits] == ["n"]


@pytest.mark.parametrize("before", [(), (wake("n"),)], ids=["alone", "after another"])
def test_a_failure_that_is_tried_goes_on_beside_it_unless_others_moved(
    before: Any,
) -> None:
    def body() -> Body:
        yield AllOf(Step("s", print), Transaction("t", write))

    with Conversation(body) as talk:
        talk.fail("s", ValueError("x"))
        talk.answer(recorded("t", *before, ok("t")))
        assert talk.interpreter.stale == bool(before)
        if not before:
            crash = talk.only(Crash)
            assert isinstance(crash.error, StepFailed)
            assert (crash.final, crash.expect) == (False, 1)
