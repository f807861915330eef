"""The laws of replay, for generated bodies under generated schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from workflow_engine.core.requests import Finish, Park

from .simulation import (
    ALWAYS,
    POLICY,
    TOPICS,
    Program,
    Runner,
    World,
    awaits_of,
    programs,
    races,
)

MOVES = ["do", "do", "do", "wake", "send", "time", "crash", "cancel"]

QUICK = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def run_straight(program: Program) -> World:
    """Uninterrupted: everything is done in order, every wake is there at once."""
    with World(program) as world:
        finish(world, Runner(world))
    return world


def finish(world: World, runner: Runner) -> None:
    for _ in range(500):
        if world.ended is not None:
            return
        if runner.over:
            world.happen()
            runner.restart()
        elif runner.choices():
            runner.do(0)
            runner.check_law()
    raise AssertionError("the body does not come to an end")


@QUICK
@given(programs())
def test_a_replay_performs_nothing_and_sees_the_same(program: Program) -> None:
    with run_straight(program) as world:
        asked = world.open([]).requests()
        assert world.ended is not None
        if world.ended[0] == "finished":
            assert [type(request) for request in asked] == [Finish]
        else:
            assert not any(isinstance(request, Park) for request in asked)


@QUICK
@given(programs(), st.data())
def test_any_schedule_of_crashes_and_wakes_keeps_the_laws(
    program: Program, data: st.DataObject
) -> None:
    with World(program) as world:
        runner = Runner(world)
        crashes = stir(world, [runner], data, crash=True)
        event(f"crashes {min(crashes, 3)}")
        finish(world, runner)
        assert all(count <= 8 + crashes for count in world.performed.values())
        check_attempts(world, crashes)
        if not races(program):
            straight = run_straight(program)
            assert world.ended == straight.ended
            assert set(world.performed) == set(straight.performed)
            assert names_of(world) == names_of(straight)


@QUICK
@given(programs(), st.data())
def test_two_runners_on_one_journal_agree(
    program: Program, data: st.DataObject
) -> None:
    with World(program, lenient=True) as world:
        runners = [Runner(world), Runner(world)]
        stir(world, runners, data, crash=True)
        for runner in runners:
            finish(world, runner)
        names = [entry.name for entry in world.entries]
        assert len(names) == len(set(names)), "a name was recorded twice"
        if not races(program):
            assert world.ended == run_straight(program).ended


@QUICK
@given(programs(), st.data())
def test_cancel_with_cleanup_ends_cancelled_and_keeps_the_laws(
    program: Program, data: st.DataObject
) -> None:
    with World(program) as world:
        runner = Runner(world)
        stir(world, [runner], data, crash=True, cancel=True)
        finish(world, runner)
        assert world.ended is not None
        places = [entry.position for entry in world.entries if entry.kind == "cancel"]
        if places and world.ended[0] == "finished":
            asked = world.open([], places[0] - 1).requests()
            returned_first = [type(request) for request in asked] == [Finish]
            assert returned_first == (world.ended != ("finished", None))


@QUICK
@given(programs().filter(lambda program: not races(program)))
def test_a_crash_at_every_point_loses_at_most_the_steps_in_flight(
    program: Program,
) -> None:
    straight = run_straight(program)
    for point in range(2 * len(straight.entries) + 2):
        with World(program) as world:
            runner = Runner(world)
            for _ in range(point):
                if runner.choices():
                    runner.do(0)
            runner.crash()
            finish(world, runner)
        assert world.ended == straight.ended
        assert names_of(world) == names_of(straight)
        extra = sum(world.performed.values()) - sum(straight.performed.values())
        assert 0 <= extra <= widest(program)


def check_attempts(world: World, crashes: int) -> None:
    """No step is tried more often than its policy says, but for what crashes lost."""
    for name in world.retried:
        assert world.performed[name] <= POLICY.attempts + crashes


def widest(program: Program) -> int:
    """How many steps may be in flight at once."""
    width = 1
    for node in program:
        if node[0] in ("all", "gather"):
            width = max(width, sum(widest(part) for part in node[1]))
        elif node[0] == "guard":
            width = max(width, widest(node[1]))
    return width


def names_of(world: World) -> set[str | None]:
    """What is recorded, but for what others sent."""
    return {entry.name for entry in world.entries if entry.kind != "message"}


def stir(
    world: World,
    runners: list[Runner],
    data: st.DataObject,
    *,
    crash: bool = False,
    cancel: bool = False,
) -> int:
    """Do random things in random order; how often a process died."""
    crashes = 0
    for _ in range(data.draw(st.integers(0, 25), label="moves")):
        if world.ended is not None:
            break
        runner = data.draw(st.sampled_from(runners)) if len(runners) > 1 else runners[0]
        what = data.draw(st.sampled_from(MOVES), label="move")
        if what in OUTSIDE:
            happen(world, what, data)
        elif what == "crash" and crash:
            crashes += 1
            runner.crash()
        elif what == "cancel" and cancel:
            world.cancel_requested = True
        elif runner.over:
            runner.restart()
        elif runner.choices():
            runner.do(data.draw(st.sampled_from(runner.choices())))
        runner.check_law()
    return crashes


Others = tuple[Callable[[World], Sequence[str]], Callable[[World, str], None]]

OUTSIDE: dict[str, Others] = {
    "wake": (lambda world: awaits_of(world.program), World.wake),
    "send": (lambda world: TOPICS, World.send),
    "time": (lambda world: sorted(world.timers), World.fire),
}
"""What others do, and to which names."""


def happen(world: World, what: str, data: st.DataObject) -> None:
    find, act = OUTSIDE[what]
    if names := find(world):
        act(world, data.draw(st.sampled_from(names)))


assert ALWAYS > 8, "a step that always fails must outlast the attempts"
