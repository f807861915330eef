"""How long crashes pause."""

from __future__ import annotations

import pytest

from workflow_engine.core.retry import SECOND, crash_backoff


def test_pauses_double_up_to_64_seconds() -> None:
    pauses = [crash_backoff(attempts) // SECOND for attempts in range(1, 9)]
    assert pauses == [2, 4, 8, 16, 32, 64, 64, 64]
    assert crash_backoff(10**9) == 64 * SECOND


@pytest.mark.parametrize("attempts", [0, -1])
def test_there_is_no_pause_before_the_first_crash(attempts: int) -> None:
    with pytest.raises(ValueError, match="nothing to wait for"):
        crash_backoff(attempts)
