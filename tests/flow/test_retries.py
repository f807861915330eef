"""Steps that are tried again: durable attempts, durable pauses."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from workflow_engine import (
    AllOf,
    AnyOf,
    Completed,
    ContinueAsNew,
    Failed,
    FaultKind,
    NonRetryable,
    RetryAfter,
    RetryPolicy,
    Status,
    Step,
    StepFailed,
    StepTimeout,
    Suspended,
    WaitTimeout,
    WorkflowBody,
    current_step,
    receive,
    restore_seed,
    sleep,
    workflow,
)
from workflow_engine.runtime.points import Point

from ..core.samples import ALL, same
from ..runtime.bench import Bench, kinds, steps
from ..wholeness import check_whole

EVEN = RetryPolicy(attempts=3, initial=10, factor=1, jitter=0)


class Flaky:
    """Fails so many times, then works."""

    def __init__(self, bench: Bench, failures: int, error: BaseException) -> None:
        self.bench = bench
        self.failures = failures
        self.error = error
        self.attempts: list[int] = []
        self.keys: set[str] = set()

    def __call__(self) -> int:
        step = current_step()
        self.attempts.append(step.attempt)
        self.keys.add(step.idempotency_key)
        self.bench.done.append("try")
        if len(self.attempts) <= self.failures:
            raise self.error
        return 7


def trying(flaky: Flaky, policy: RetryPolicy | None = EVEN) -> Any:
    @workflow(name="trying")
    def body() -> WorkflowBody[int]:
        step = Step("try", flaky).returns(int)
        return (yield from step if policy is None else step.retry(policy))

    return body


def test_attempts_are_made_after_durable_pauses(bench: Bench) -> None:
    flaky = Flaky(bench, 2, OSError("away"))
    body = trying(flaky)
    engine = bench.engine(body)
    engine.start(body, "1")
    worker = engine.worker()
    for tries in (1, 2, 3):
        worker.drain()
        assert bench.calls("try") == tries
        bench.clock.advance(9)
        worker.drain()
        assert bench.calls("try") == tries
        bench.clock.advance(1)
    assert engine.handle(body, "1").result(0) == 7
    assert flaky.attempts == [1, 2, 3]
    assert len(flaky.keys) == 1
    assert steps(engine, body, "1") == ["try"]
    assert kinds(engine, body, "1").count("step_attempt") == 2
    check_whole(bench.url)


def test_the_last_attempt_fails_at_once_and_without_another_pause(
    bench: Bench,
) -> None:
    body = trying(Flaky(bench, 9, OSError("away")))
    engine = bench.engine(body)
    engine.start(body, "1")
    worker, started = engine.worker(), bench.clock.instant()
    while not engine.describe(body, "1").status.is_ended:
        worker.drain()
        bench.clock.advance(1)
    assert bench.calls("try") == 3
    # Pauses of 10 seconds: at 0, 10 and 20; the clock has gone on by one since.
    assert bench.clock.instant() - started == 21_000_000
    assert "OSError: away" in str(engine.describe(body, "1").reason)
    check_whole(bench.url)


@pytest.mark.parametrize("point", ["before_commit", "after_commit", "after_step"])
def test_attempts_survive_a_crash(bench: Bench, point: Point) -> None:
    flaky = Flaky(bench, 9, OSError("away"))
    body = trying(flaky)
    of = "try" if point == "after_step" else "append"
    bench.crash(body, "1", at=point, of=of)
    engine = bench.engine(body)
    for _ in range(4):
        engine.run(body, "1")
        bench.clock.advance(10)
    assert isinstance(engine.run(body, "1"), Failed)
    assert bench.calls("try") == (3 if point == "after_commit" else 4)
    check_whole(bench.url)


def test_a_waiting_step_is_parked_on_and_holds_no_thread(bench: Bench) -> None:
    body = trying(Flaky(bench, 1, OSError("away")))
    engine = bench.engine(body)
    assert engine.run(body, "1") == Suspended(("stepretry:try:1",))
    assert engine.run(body, "1") == Suspended(("stepretry:try:1",))
    assert bench.calls("try") == 1
    bench.clock.advance(10)
    assert engine.run(body, "1") == Completed(7)
    assert engine.run(body, "1") == Completed(7)


def test_an_error_may_say_when_to_try_again(bench: Bench) -> None:
    body = trying(Flaky(bench, 1, RetryAfter(timedelta(minutes=5))))
    engine = bench.engine(body)
    engine.run(body, "1")
    bench.clock.advance(299)
    assert isinstance(engine.run(body, "1"), Suspended)
    bench.clock.advance(1)
    assert engine.run(body, "1") == Completed(7)


def caused(error: Exception) -> Exception:
    outer = ValueError("outer")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "policy"),
    [
        (NonRetryable("no use"), EVEN),
        (caused(NonRetryable("no use")), EVEN),
        (KeyError("x"), RetryPolicy(give_up_on=(LookupError,))),
        (ValueError("x"), RetryPolicy(retry_if=lambda e: isinstance(e, OSError))),
        (OSError("x"), RetryPolicy(attempts=1)),
    ],
)
def test_some_errors_are_not_tried_again(
    bench: Bench, error: Exception, policy: RetryPolicy
) -> None:
    body = trying(Flaky(bench, 1, error), policy)
    assert isinstance(bench.engine(body).run(body, "1"), Failed)
    assert bench.calls("try") == 1


def test_the_default_of_an_engine_counts_for_steps_that_say_nothing(
    bench: Bench,
) -> None:
    default = RetryPolicy(attempts=7, initial=0, jitter=0)
    for id, policy, tries in (("1", None, 7), ("2", RetryPolicy(attempts=1), 1)):
        bench.done.clear()
        body = trying(Flaky(bench, 99, OSError("away")), policy)
        ending = bench.engine(body, retry=default).run(body, id)
        assert isinstance(ending, Failed)
        assert bench.calls("try") == tries


@pytest.mark.parametrize(
    "numbers",
    [{"attempts": 0}, {"attempts": 1.5}, {"factor": 0.5}, {"jitter": 2}],
)
def test_a_policy_that_makes_no_sense_is_refused(numbers: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(numbers))):
        RetryPolicy(**numbers)


def test_a_failure_that_was_caught_after_its_last_attempt_stays(bench: Bench) -> None:
    flaky = Flaky(bench, 9, OSError("away"))

    @workflow
    def coping() -> WorkflowBody[str]:
        try:
            yield Step("try", flaky).retry(RetryPolicy(attempts=2, initial=0))
        except StepFailed as failure:
            return failure.message
        return "worked"

    engine = bench.engine(coping)
    assert engine.run(coping, "1") == Completed("away")
    assert engine.run(coping, "1") == Completed("away")
    assert bench.calls("try") == 2


def test_a_resurrection_gives_a_step_all_its_attempts_again(bench: Bench) -> None:
    flaky = Flaky(bench, 4, OSError("away"))
    body = trying(flaky, RetryPolicy(attempts=2, initial=0))
    engine = bench.engine(body)
    for tries in (2, 4):
        assert isinstance(engine.run(body, "1"), Failed)
        assert bench.calls("try") == tries
        engine.resurrect(body, "1")
    assert engine.run(body, "1") == Completed(7)
    check_whole(bench.url)


def test_a_pause_beside_other_branches_keeps_nobody_waiting(bench: Bench) -> None:
    flaky = Flaky(bench, 1, OSError("away"))

    @workflow
    def both() -> WorkflowBody[list[int]]:
        first = Step("try", flaky).retry(EVEN)
        return list((yield AllOf([first, receive("word", returns=int)])))

    engine = bench.engine(both)
    on = ("message:word", "stepretry:try:1")
    assert engine.run(both, "1") == Suspended(on)
    engine.send(both, "1", "word", 5)
    assert engine.run(both, "1") == Suspended(on[1:])
    bench.clock.advance(10)
    assert engine.run(both, "1") == Completed([7, 5])


def test_the_pause_of_a_branch_that_lost_wakes_nobody(bench: Bench) -> None:
    flaky = Flaky(bench, 9, OSError("away"))

    @workflow
    def racing() -> WorkflowBody[int]:
        index, _ = yield from AnyOf(
            Step("try", flaky).retry(EVEN), receive("word", returns=int)
        )
        yield sleep(60, name="on")
        return index

    engine = bench.engine(racing)
    engine.run(racing, "1")
    engine.send(racing, "1", "word", 5)
    engine.run(racing, "1")
    assert [view.name for view in engine.timers(racing, "1")] == ["sleep:on"]
    bench.clock.advance(60)
    assert engine.run(racing, "1") == Completed(1)
    assert bench.calls("try") == 1


def test_values_keep_their_types_when_an_attempt_failed_before(bench: Bench) -> None:
    samples = [(type_, value) for type_, values in ALL for value in values]
    policy = RetryPolicy(initial=0, jitter=0)

    def give(value: Any) -> Any:
        if current_step().attempt == 1:
            raise OSError("away")
        return value

    @workflow
    def giving() -> WorkflowBody[list[int]]:
        members = [
            Step(f"{number}", give, value).returns(type_).retry(policy)
            for number, (type_, value) in enumerate(samples)
        ]
        given = yield from AllOf(members)
        pairs = enumerate(zip(given, samples, strict=True))
        return [number for number, (one, (_, other)) in pairs if not same(one, other)]

    engine = bench.engine(giving)
    assert engine.run(giving, "1") == Completed([])
    assert kinds(engine, giving, "1").count("step_attempt") == len(samples)


def test_a_keyed_message_of_a_step_that_is_tried_again_is_sent_once(
    bench: Bench,
) -> None:
    def announce() -> bool:
        attempt = current_step().attempt
        sent = other.send("listening", "1", "word", attempt, key="announced")
        if attempt == 1:
            raise OSError("away")
        return sent

    @workflow
    def announcing() -> WorkflowBody[bool]:
        policy = RetryPolicy(initial=0, jitter=0)
        return (yield from Step("announce", announce).retry(policy))

    @workflow
    def listening() -> WorkflowBody[list[int]]:
        first = yield from receive("word", returns=int)
        try:
            return [first, (yield from receive("word", returns=int).timeout(0))]
        except WaitTimeout:
            return [first]

    other = bench.engine(listening)
    other.start(listening, "1")
    assert isinstance(bench.engine(announcing).run(announcing, "1"), Completed)
    assert other.run(listening, "1") == Completed([1])


def test_a_deadline_of_the_instance_beats_a_pause(bench: Bench) -> None:
    body = trying(Flaky(bench, 9, OSError("away")))
    engine = bench.engine(body)
    engine.starting(timeout=15).start(body, "1")
    worker = engine.worker()
    for seconds in (10, 5, 10):
        worker.drain()
        bench.clock.advance(seconds)
    assert engine.describe(body, "1").status is Status.FAILED
    assert "deadline" in (engine.describe(body, "1").reason or "")
    worker.drain()
    assert bench.calls("try") == 2
    check_whole(bench.url)


def test_a_new_generation_begins_with_the_first_attempt_and_no_pause(
    bench: Bench,
) -> None:
    flaky = Flaky(bench, 1, OSError("away"))

    @workflow
    def again() -> WorkflowBody[int]:
        count = yield from restore_seed(0)
        yield Step("try", flaky).retry(EVEN)
        if count < 1:
            flaky.failures += 2
            yield ContinueAsNew(count + 1)
        return count

    engine = bench.engine(again)
    for _ in range(2):
        assert engine.run(again, "1") == Suspended(("stepretry:try:1",))
        bench.clock.advance(10)
    assert engine.run(again, "1") == Completed(1)
    assert flaky.attempts == [1, 2, 1, 2]
    assert kinds(engine, again, "1", 1).count("wake") == 1
    check_whole(bench.url)


def test_a_pause_whose_timer_is_gone_is_found_and_mended(bench: Bench) -> None:
    body = trying(Flaky(bench, 1, OSError("away")))
    engine = bench.engine(body)
    engine.run(body, "1")
    bench.execute("DELETE FROM wf_timers")
    bench.execute("UPDATE wf_instances SET wake_after = NULL, runnable_at = NULL")
    (finding,) = engine.doctor()
    assert finding.kind is FaultKind.TIMER_MISSING
    engine.repair(finding)
    assert engine.worker().run_once().still_suspended == 1
    bench.clock.advance(10)
    assert engine.worker().drain().completed == 1
    check_whole(bench.url)


# --- timeouts of steps ----------------------------------------------------------------


def test_a_step_that_takes_too_long_is_abandoned_and_fenced(bench: Bench) -> None:
    go_on, seen = threading.Event(), threading.Event()

    def slow() -> str:
        step = current_step()
        assert go_on.wait(30)
        if step.cancelled:
            seen.set()
        return "late"

    @workflow
    def hasty() -> WorkflowBody[str]:
        try:
            return (yield from Step("slow", slow).timeout(0.05))
        except StepTimeout as timeout:
            return f"{timeout.step} {timeout.seconds}"

    engine = bench.engine(hasty)
    assert engine.run(hasty, "1") == Completed("slow 0.05")
    go_on.set()
    assert seen.wait(30)
    assert engine.run(hasty, "1") == Completed("slow 0.05")


def test_an_async_step_past_its_timeout_is_cancelled(bench: Bench) -> None:
    cleaned: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    @workflow
    def hasty() -> WorkflowBody[str]:
        try:
            yield Step("slow", slow).timeout(0.05)
        except StepTimeout:
            return "over"
        return "never"

    assert bench.engine(hasty).run(hasty, "1") == Completed("over")
    assert cleaned == ["up"]


def test_a_timeout_counts_for_an_attempt_and_not_for_the_pauses(bench: Bench) -> None:
    gates = [threading.Event() for _ in range(2)]

    def slow() -> int:
        attempt = current_step().attempt
        if attempt < 3:
            gates[attempt - 1].wait(30)
        return attempt

    @workflow
    def hasty() -> WorkflowBody[int]:
        return (yield from Step("slow", slow).timeout(0.05).retry(EVEN))

    engine = bench.engine(hasty)
    for _ in range(2):
        assert isinstance(engine.run(hasty, "1"), Suspended)
        bench.clock.advance(10)
    assert engine.run(hasty, "1") == Completed(3)
    for gate in gates:
        gate.set()
