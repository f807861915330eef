"""How long crashes pause, and steps between their attempts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from workflow_engine.core.retry import SECOND, RetryPolicy, crash_backoff
from workflow_engine.errors import (
    DuplicateStepName,
    InvalidDuration,
    NonRetryable,
    RetryAfter,
)


def test_pauses_double_up_to_64_seconds() -> None:
    pauses = [crash_backoff(attempts) // SECOND for attempts in range(1, 9)]
    assert pauses == [2, 4, 8, 16, 32, 64, 64, 64]
    assert crash_backoff(10**9) == 64 * SECOND


@pytest.mark.parametrize("attempts", [0, -1])
def test_there_is_no_pause_before_the_first_crash(attempts: int) -> None:
    with pytest.raises(ValueError, match="nothing to wait for"):
        crash_backoff(attempts)


# --- policies -------------------------------------------------------------------------

BROKEN = OSError("away")


def pauses(policy: RetryPolicy, error: BaseException = BROKEN) -> list[int | None]:
    """After each attempt, in microseconds; None: there is no other."""
    tries = range(1, policy.attempts + 1)
    return [policy.pause_after(attempt, error, "seed") for attempt in tries]


def test_a_pause_grows_up_to_the_maximum_and_the_last_attempt_has_none() -> None:
    policy = RetryPolicy(attempts=6, initial=1, factor=3, maximum=20, jitter=0)
    expected = [1, 3, 9, 20, 20]
    assert pauses(policy) == [*(pause * SECOND for pause in expected), None]


def test_a_policy_that_says_nothing_pauses_1_2_4_8_seconds_about() -> None:
    policy = RetryPolicy()
    assert (policy.initial, policy.maximum) == (SECOND, 60 * SECOND)
    rounded = [round((pause or 0) / SECOND) for pause in pauses(policy)[:3]]
    assert rounded == [1, 2, 4]
    assert pauses(policy)[4] is None


def test_a_pause_that_no_float_can_hold_is_the_maximum() -> None:
    policy = RetryPolicy(attempts=2001, factor=1e300, jitter=0)
    assert policy.pause_after(2000, BROKEN, "seed") == 60 * SECOND


def test_jitter_stays_in_its_share_and_is_the_same_for_the_same_step() -> None:
    policy = RetryPolicy(attempts=9, initial=100, factor=1, maximum=100, jitter=0.25)
    first = pauses(policy)[:-1]
    assert first == pauses(policy)[:-1]
    assert len({*first}) == 8
    assert all(75 * SECOND <= (pause or 0) <= 125 * SECOND for pause in first)
    other = policy.pause_after(1, BROKEN, "another")
    assert other != first[0]


def caused(error: BaseException) -> Exception:
    outer = ValueError("outer")
    outer.__cause__ = error
    return outer


class Hopeless(NonRetryable):
    """An author's own."""


@pytest.mark.parametrize(
    "error",
    [
        NonRetryable(),
        Hopeless("no"),
        caused(caused(Hopeless("no"))),
        caused(DuplicateStepName(workflow="w", step="s", first="a", second="b")),
        KeyboardInterrupt(),
        SystemExit(1),
    ],
)
def test_what_no_other_attempt_could_change_is_not_tried_again(
    error: BaseException,
) -> None:
    assert RetryPolicy().pause_after(1, error, "seed") is None


@pytest.mark.parametrize("delay", [5, 5.0, timedelta(seconds=5)])
def test_an_error_says_itself_how_long_wherever_it_is_in_the_chain(delay: Any) -> None:
    policy = RetryPolicy(attempts=2, maximum=2)
    for error in (RetryAfter(delay), caused(RetryAfter(delay))):
        assert pauses(policy, error) == [5 * SECOND, None]


def test_a_delay_that_is_none_is_refused_when_the_pause_is_needed() -> None:
    with pytest.raises(InvalidDuration):
        RetryPolicy().pause_after(1, RetryAfter(-1), "seed")


def test_the_author_chooses_which_errors_are_tried_again() -> None:
    picky = RetryPolicy(
        retry_if=lambda error: "later" in str(error), give_up_on=(LookupError,)
    )
    assert picky.pause_after(1, OSError("later"), "seed") is not None
    assert picky.pause_after(1, OSError("never"), "seed") is None
    assert picky.pause_after(1, KeyError("later"), "seed") is None


@pytest.mark.parametrize("numbers", [{"initial": -1}, {"maximum": float("nan")}])
def test_a_pause_that_is_no_duration_is_refused(numbers: dict[str, Any]) -> None:
    with pytest.raises(InvalidDuration):
        RetryPolicy(**numbers)
