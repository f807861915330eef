"""How often to try, and how long to wait before trying again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta

import attrs

from workflow_engine.core.chains import chain_of
from workflow_engine.core.durations import microseconds
from workflow_engine.errors import AuthorError, NonRetryable, RetryAfter

SECOND = 1_000_000
"""Microseconds in a second."""

LONGEST = 6
"""Attempts after which the pause grows no more."""


def crash_backoff(attempts: int) -> int:
    """The pause after the so many-th crash in a row: 2, 4, 8, 16, 32, then 64 seconds.

    In microseconds. ``attempts`` counts the crash that was just recorded.
    """
    if attempts < 1:
        raise ValueError(f"{attempts} crashes: there is nothing to wait for")
    return int(2 ** min(attempts, LONGEST)) * SECOND


def _duration(value: timedelta | float) -> int:
    return microseconds(value, "a pause between attempts")


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """How a step is tried again, by durable pauses: attempts survive crashes, and a
    waiting step holds no thread.

    Before the n-th retry it waits ``initial * factor ** (n - 1)``, at most ``maximum``,
    plus or minus a part of that. An error that is `RetryAfter` says itself how long. An
    author's error, and one with `NonRetryable` in its cause chain, is not tried again.

    Args:
        attempts: how often at most, the first time included.
        initial, maximum: timedeltas, or seconds. Kept as microseconds.
        factor: by which each pause is longer than the last.
        jitter: the part, from 0 to 1, by which a pause may be longer or shorter. What
            it is for an attempt follows from the step, so tests can repeat it.
        retry_if: says of an error whether to try again; it must not do anything.
        give_up_on: classes of errors that are not tried again.

    Raises:
        ValueError: a number that is none.
        InvalidDuration: likewise.
    """

    attempts: int = 5
    initial: int = attrs.field(default=1, converter=_duration)
    factor: float = 2.0
    maximum: int = attrs.field(default=60, converter=_duration)
    jitter: float = 0.1
    retry_if: Callable[[Exception], bool] | None = None
    give_up_on: tuple[type[Exception], ...] = ()

    def __attrs_post_init__(self) -> None:
        whole = type(self.attempts) is int
        if not whole or self.attempts < 1:
            raise ValueError(
                f"attempts must be a whole number above 0, not {self.attempts!r}"
            )
        if not self.factor >= 1:
            raise ValueError(f"factor must be 1 or more, not {self.factor!r}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must lie between 0 and 1, not {self.jitter!r}")

    def pause_after(self, attempt: int, error: BaseException, seed: str) -> int | None:
        """Microseconds until the next attempt; None if there is none.

        Args:
            attempt: which one failed, from 1.
            seed: of the jitter; the same for the same step.
        """
        if attempt >= self.attempts or not self._is_worth_it(error):
            return None
        for link in chain_of(error):
            if isinstance(link, RetryAfter):
                return microseconds(link.delay, "RetryAfter")
        return self._jittered(self._backoff(attempt), f"{seed}:{attempt}")

    def _is_worth_it(self, error: BaseException) -> bool:
        if not isinstance(error, Exception) or isinstance(error, self.give_up_on):
            return False
        if any(isinstance(one, NonRetryable | AuthorError) for one in chain_of(error)):
            return False
        return self.retry_if is None or bool(self.retry_if(error))

    def _backoff(self, attempt: int) -> int:
        try:
            pause = self.initial * self.factor ** (attempt - 1)
        except OverflowError:
            return self.maximum
        return int(min(pause, self.maximum))

    def _jittered(self, pause: int, seed: str) -> int:
        digest = hashlib.sha256(seed.encode()).digest()[:8]
        share = int.from_bytes(digest) / 2**64  # from 0 to 1, without 1
        return max(0, int(pause * (1 + self.jitter * (2 * share - 1))))
