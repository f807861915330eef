"""How long to wait before trying again."""

from __future__ import annotations

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
