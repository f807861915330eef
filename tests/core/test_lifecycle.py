"""The table of legal moves, walked in full."""

from __future__ import annotations

from itertools import product

import pytest

from workflow_engine.core.lifecycle import (
    ENDED,
    LIVE,
    MOVES,
    Event,
    IllegalTransition,
    Status,
    move,
)


@pytest.mark.parametrize(("status", "event"), list(product(Status, Event)))
def test_every_pair_is_a_move_or_a_sentence(status: Status, event: Event) -> None:
    if (status, event) in MOVES:
        assert move(status, event) is MOVES[status, event]
    else:
        with pytest.raises(IllegalTransition, match=f"{status} cannot {event}"):
            move(status, event)


def test_an_ended_instance_does_nothing_but_be_resurrected() -> None:
    moves = {(status, event) for status, event in MOVES if status in ENDED}
    assert moves == {
        (Status.FAILED, Event.RESURRECT),
        (Status.CANCELLED, Event.RESURRECT),
    }


def test_every_live_status_can_end() -> None:
    for status in LIVE:
        assert move(status, Event.CANCEL) is Status.CANCELLED


def test_stored_values_never_change() -> None:
    assert [status.value for status in Status] == [
        "running",
        "suspended",
        "blocked",
        "completed",
        "failed",
        "cancelled",
    ]
