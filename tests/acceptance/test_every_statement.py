"""A process dies before each statement of an operation, and before each commit."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import attrs
import pytest
import sqlalchemy
from sqlalchemy import event

from workflow_engine import (
    Await,
    ContinueAsNew,
    Engine,
    Every,
    InstanceNotFound,
    ResurrectAmbiguous,
    RunOptions,
    Status,
    Step,
    StepFailed,
    Workflow,
    WorkflowBody,
    restore_seed,
    workflow,
)
from workflow_engine.core.journal import Kind
from workflow_engine.testing import TestClock

from ..pools import pooled
from ..wholeness import check_whole

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

clock = TestClock()
is_broken = False


def fragile() -> int:
    """A step that fails as long as something is broken."""
    if is_broken:
        raise ConnectionError("not now")
    return 1


@workflow
def rotating(base: int) -> WorkflowBody[int]:
    """A step, a wait, and a second generation with the sum as its seed."""
    total = yield from restore_seed(base)
    total += yield from Step("fragile", fragile)
    if total > base + 1:
        return total
    total += yield from Await("word", returns=int)
    total += yield from Step("after", int, 10)
    yield ContinueAsNew(total)
    return 0


@workflow
def compensating(base: int) -> WorkflowBody[int]:
    """A step, and another when it fails."""
    try:
        return base + (yield from Step("fragile", fragile))
    except StepFailed:
        yield Step("compensate", int, 0)
        raise


WORD = 5
RESULTS = {rotating.name: 1 + WORD + 10 + 1, compensating.name: 1}

# --- what is done, in the process that dies -------------------------------------------

Definition = Workflow[..., Any]
Action = Callable[[Engine, Definition, str], object]


def start(engine: Engine, definition: Definition, id: str) -> None:
    engine.start(definition, id, 0)


def run(engine: Engine, definition: Definition, id: str) -> None:
    engine.run(definition, id, 0)


def work(engine: Engine, definition: Definition, id: str) -> None:
    engine.worker(max_attempts=2).run_once()


def resolve(engine: Engine, definition: Definition, id: str) -> None:
    engine.resolve(definition, id, "word", WORD)


def resolve_with_text(engine: Engine, definition: Definition, id: str) -> None:
    engine.resolve(definition, id, "word", "no number")


def discard(engine: Engine, definition: Definition, id: str) -> None:
    for entry in engine.journal(definition, id):
        if entry.kind == Kind.WAKE and entry.live:
            engine.discard(definition, id, entry.position)


def cancel(engine: Engine, definition: Definition, id: str) -> None:
    engine.cancel(definition, id)


def resurrect(engine: Engine, definition: Definition, id: str) -> None:
    try:
        engine.resurrect(definition, id)
    except ResurrectAmbiguous as error:
        engine.resurrect(definition, id, rerun=error.names)


def wait(engine: Engine, definition: Definition, id: str) -> None:
    clock.advance(timedelta(hours=1))


def collect(engine: Engine, definition: Definition, id: str) -> None:
    engine.gc(timedelta(minutes=1))


def restart(engine: Engine, definition: Definition, id: str) -> None:
    engine.starting(on_conflict="restart").start(definition, id, 0)


def break_it(engine: Engine, definition: Definition, id: str) -> None:
    global is_broken
    is_broken = True


@attrs.frozen
class Case:
    """An operation to die in, after what leads up to it.

    Attributes:
        deaths: at least so many places to die it has.
        endings: how the instance may end when everybody does what is left to do.
    """

    name: str
    definition: Definition
    before: tuple[Action, ...]
    act: Action
    deaths: int
    endings: tuple[Status, ...] = (Status.COMPLETED,)

    def __str__(self) -> str:
        return self.name


PARKED = (start, work)
OLD = (*PARKED, resolve, work, work, wait)
BLOCKED = (*PARKED, resolve_with_text, work)
CASES = [
    Case("start", rotating, (), start, 2),
    Case("run and park", rotating, (), run, 8),
    Case("work and park", rotating, (start,), work, 10),
    Case("resolve", rotating, PARKED, resolve, 4),
    Case("rotate and complete", rotating, (*PARKED, resolve), work, 20),
    Case("crash", rotating, (start, break_it), work, 6),
    Case("crash too often", rotating, (start, break_it, work, wait), work, 6),
    Case("fail", compensating, (start, break_it), work, 8),
    Case("resurrect", compensating, (start, break_it, work), resurrect, 6),
    Case("block", rotating, (*PARKED, resolve_with_text), work, 6),
    Case("discard", rotating, BLOCKED, discard, 5),
    Case("cancel", rotating, PARKED, cancel, 4, (Status.COMPLETED, Status.CANCELLED)),
    Case("collect", rotating, OLD, collect, 12),
    Case("start afresh", rotating, OLD, restart, 12),
]


def die_at(number: int) -> None:
    """Die before the statement or the commit of this number, counted from now."""
    counted = 0

    def count(*_: object) -> None:
        nonlocal counted
        counted += 1
        if counted == number:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(sqlalchemy.Engine, "before_cursor_execute", count)
    event.listen(sqlalchemy.Engine, "commit", count)


def open_engine(url: str, clock: TestClock) -> Engine:
    return Engine(
        url,
        workflows=[rotating, compensating],
        options=RunOptions(snapshot_policy=Every(2)),
        clock=clock,
    )


def has_died(number: int, case: Case, url: str, id: str) -> bool:
    """Act in a process that dies at this place, if it ever gets there."""
    with warnings.catch_warnings():
        # Newer versions of Python warn of forks beside threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            with open_engine(url, clock) as engine:
                for action in case.before:
                    action(engine, case.definition, id)
                die_at(number)
                case.act(engine, case.definition, id)
        except BaseException:  # noqa: BLE001 - nothing of the test run happens twice
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, "its traceback is above"
    return os.WIFSIGNALED(status)


# --- what everybody else does afterwards ----------------------------------------------


def do_what_is_left(engine: Engine, case: Case, id: str, clock: TestClock) -> Status:
    """Do what an operator and a worker would do, until it has ended well."""
    left: dict[Status | None, Action] = {
        None: start,
        Status.SUSPENDED: resolve,
        Status.BLOCKED: discard,
        Status.FAILED: resurrect,
    }
    for _ in range(8):
        status = find_status(engine, case, id)
        if status in (Status.COMPLETED, Status.CANCELLED):
            return status
        if status in left:
            left[status](engine, case.definition, id)
        engine.worker().run_once()
        clock.advance(timedelta(minutes=1))
    raise AssertionError(f"{id} is {find_status(engine, case, id)}")


def find_status(engine: Engine, case: Case, id: str) -> Status | None:
    try:
        return engine.describe(case.definition, id).status
    except InstanceNotFound:
        return None


@pytest.mark.parametrize("case", CASES, ids=str)
def test_wherever_a_process_dies_nothing_is_half_made_and_others_go_on(
    database_url: str, case: Case
) -> None:
    with pooled(database_url):  # for those who look; who dies opens its own
        die_everywhere(database_url, case)


def die_everywhere(database_url: str, case: Case) -> None:
    # The databases are asked much the same, in much the same order: together they
    # leave out every third statement.
    number = 1 if database_url.startswith("sqlite") else 2
    later = TestClock(clock.now + timedelta(days=1))
    with open_engine(database_url, later) as engine:
        is_dead = True
        while is_dead:
            id = str(number)
            is_dead = has_died(number, case, database_url, id)
            number += 3 if is_dead else 0
            check_whole(database_url)
            ending = do_what_is_left(engine, case, id, later)
            assert ending in case.endings
            if ending == Status.COMPLETED:
                result = engine.handle(case.definition, id).result()
                assert result == RESULTS[case.definition.name]
    assert number > case.deaths
