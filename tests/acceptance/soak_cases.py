"""What the instances of a soak are to live through, and how they should have ended."""

from __future__ import annotations

import contextlib
import random  # noqa: TID251  the choices of a test, from a seed that is printed
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from workflow_engine import DeadlineExceeded, Engine, JournalEntry, Status, Workflow

from .soak_flows import booking, deserted, listener, napper, parent, teller

Done = Counter[str]
"""How often each effect happened."""

MESSAGES = 6
"""To each listener; half of them from a body."""

TAIL = 0.7
"""The part of a soak in which instances are started; the rest is for what follows."""


STEPS = ("wake", "take", "give", "lose", "begin", "book", "say")
"""How the names of steps with effects begin."""


class NotYet(Exception):
    """An act has to wait for something that workers do."""


@attrs.frozen
class Act:
    """What is done to an instance, so many seconds after the beginning.

    Doing it again, when its answer was lost, changes nothing.
    """

    at: float
    do: Callable[[Engine], object]


@attrs.frozen
class Case:
    """A few instances that belong together.

    Attributes:
        size: how many they are.
        check: raises AssertionError if they have not ended as they should.
        messages: how many are sent to them.
    """

    size: int
    acts: Sequence[Act]
    check: Callable[[Engine, Done], None]
    messages: int = 0


def cases(instances: int, seconds: float, chance: random.Random) -> Iterator[Case]:
    """Cases with about so many instances, over so much time."""
    makers = (
        *(a_nap, a_talk, a_talk, a_family, a_desertion, a_deadline),
        *CANCELLATIONS,
    )
    count = number = 0
    while count < instances:
        for maker in makers:
            case = maker(f"{number}", chance.uniform(0, seconds * TAIL), chance)
            count += case.size
            number += 1
            yield case


def a_nap(id: str, at: float, chance: random.Random) -> Case:
    """Sleeps three times."""
    seconds = chance.uniform(0.0, 2.0)

    def check(engine: Engine, done: Done) -> None:
        completed(engine, napper, id, "012")
        recorded(engine, napper, id, done, ["wake 0", "wake 1", "wake 2"])

    start = Act(at, lambda engine: engine.start(napper, id, seconds))
    return Case(1, [start], check)


def a_talk(id: str, at: float, chance: random.Random) -> Case:
    """Messages of two senders, some of them sent twice, are each taken once."""
    count, nap = MESSAGES // 2, chance.uniform(0.0, 1.0)

    def send(number: int) -> Callable[[Engine], object]:
        return lambda engine: engine.send_with_start(
            listener, id, "word", f"d{number}", MESSAGES, key=f"d{number}"
        )

    times = sorted(at + chance.uniform(0.0, 3.0) for _ in range(count))
    acts = [Act(when, send(n)) for n, when in enumerate(times)]
    again = chance.randrange(count)
    acts.append(Act(times[again] + 0.5, send(again)))
    tell = Act(
        times[0] + 0.1,
        lambda engine: engine.start(teller, f"to {id}", id, count, nap),
    )

    def check(engine: Engine, done: Done) -> None:
        completed(engine, teller, f"to {id}", "told")
        heard = engine.handle(listener, id).result(timeout=0)
        for who in "dt":
            said = [word for word in heard if word.startswith(who)]
            assert said == [f"{who}{n}" for n in range(count)], (id, heard)
        assert len(heard) == MESSAGES, (id, heard)
        steps = recorded(engine, listener, id, done)
        taken = [step for step in steps if step.startswith("take")]
        assert taken == [f"take {word}" for word in heard], (id, taken)

    return Case(2, [*acts, tell], check, MESSAGES)


def a_family(id: str, at: float, chance: random.Random) -> Case:
    """A parent waits for two children, and gives one of the waits up."""
    seconds = chance.uniform(0.1, 1.0)

    def check(engine: Engine, done: Done) -> None:
        completed(engine, parent, id, ["012", "012"])
        recorded(engine, parent, id, done)
        for child in ("first", "second"):
            completed(engine, napper, f"{id} {child}", "012")

    start = Act(at, lambda engine: engine.start(parent, id, id, seconds))
    return Case(3, [start], check)


def a_desertion(id: str, at: float, chance: random.Random) -> Case:
    """A wait that gives up, uncaught, fails its instance."""
    seconds = chance.uniform(0.1, 2.0)

    def check(engine: Engine, done: Done) -> None:
        row = engine.describe(deserted, id)
        assert row.status is Status.FAILED, row
        assert "message:never" in str(row.reason), row
        recorded(engine, deserted, id, done, ["begin"])

    start = Act(at, lambda engine: engine.start(deserted, id, seconds))
    return Case(1, [start], check)


def a_deadline(id: str, at: float, chance: random.Random) -> Case:
    """What has not ended by its deadline has failed, and does not clean up."""
    seconds = chance.uniform(0.1, 2.0)

    def check(engine: Engine, done: Done) -> None:
        assert engine.describe(booking, id).status is Status.FAILED
        with contextlib.suppress(DeadlineExceeded):
            raise AssertionError(engine.handle(booking, id).result(timeout=0))
        assert set(recorded(engine, booking, id, done)) <= {"book"}

    start = Act(
        at,
        lambda engine: engine.starting(timeout=seconds).start(booking, id, id, 0),
    )
    return Case(1, [start], check)


def a_cancellation(cleanup: bool, cascade: bool) -> Callable[..., Case]:
    """A booking is cancelled, plainly or with its cleanup, with its children or not."""

    def maker(id: str, at: float, chance: random.Random) -> Case:
        children = 2 if cascade else 0
        family = [id, *(f"{id} {number}" for number in range(children))]

        def cancel(engine: Engine) -> None:
            # A child that is spawned after the call would not be among the cancelled.
            if len(engine.children(booking, id)) < children:
                raise NotYet
            assert engine.cancel(booking, id, cleanup=cleanup, cascade=cascade)

        def check(engine: Engine, done: Done) -> None:
            for member in family:
                row = engine.describe(booking, member)
                assert row.status is Status.CANCELLED, row
                steps = recorded(engine, booking, member, done)
                told = steps.count("give back"), steps.count("say so")
                assert told == (cleanup, cleanup), (member, steps)

        start = Act(at, lambda engine: engine.start(booking, id, id, children))
        end = Act(at + chance.uniform(0.0, 3.0), cancel)
        return Case(len(family), [start, end], check)

    return maker


CANCELLATIONS = [
    a_cancellation(cleanup, cascade)
    for cleanup in (False, True)
    for cascade in (False, True)
]


def completed(engine: Engine, of: Workflow[..., Any], id: str, result: object) -> None:
    """See that an instance has completed so."""
    row = engine.describe(of, id)
    assert row.status is Status.COMPLETED, row
    assert engine.handle(of, id).result(timeout=0) == result


def recorded(
    engine: Engine,
    of: Workflow[..., Any],
    id: str,
    done: Done,
    expected: Sequence[str] | None = None,
) -> list[str]:
    """The steps of all generations, each recorded once, after its effect."""
    entries: list[JournalEntry] = []
    for generation in range(engine.describe(of, id).generation + 1):
        entries += engine.journal(of, id, generation)
    names = [str(each.step) for each in entries if each.kind == "step_ok"]
    steps = [name for name in names if name.startswith(STEPS)]
    assert len(steps) == len(set(steps)), (id, steps)
    assert all(f"{id}.{step}" in done for step in steps), (id, steps)
    if expected is not None:
        assert steps == expected, (id, steps)
    return steps
