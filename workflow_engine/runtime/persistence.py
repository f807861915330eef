"""Keeps trying while the database is away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from workflow_engine.errors import StoreUnavailable
from workflow_engine.runtime.clock import pause

T = TypeVar("T")
logger = logging.getLogger("workflow_engine")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
"""Seconds between tries; each pause doubles the last."""


def persist(
    operation: Callable[[], T],
    what: str,
    give_up: Callable[[], bool],
) -> tuple[T, bool]:
    """Call ``operation`` until the database answers.

    Returns:
        The answer, and whether it took more than one try: then an earlier one may have
        been committed although its answer was lost.

    Raises:
        StoreUnavailable: it was still away when ``give_up`` said so.
    """
    seconds, again = FIRST_PAUSE, False
    while True:
        try:
            return operation(), again
        except StoreUnavailable as error:
            if give_up():
                raise
            logger.warning("%s: trying again in %.2g s: %s", what, seconds, error)
        again = True
        pause(seconds)
        seconds = min(2 * seconds, LONGEST_PAUSE)
