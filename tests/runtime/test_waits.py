"""Waits and their arms."""

from __future__ import annotations

import pytest

from workflow_engine import (
    Await,
    Completed,
    Suspended,
    WorkflowBody,
    workflow,
)

from .bench import Bench


def test_an_arm_runs_on_each_miss_and_not_once_there_is_a_value(bench: Bench) -> None:
    @workflow
    def armed() -> WorkflowBody[int]:
        return (yield from Await("n", lambda: bench.do("arm"), returns=int))

    engine = bench.engine(armed)
    for _ in range(2):
        assert engine.run(armed, "1") == Suspended(("n",))
    assert bench.done == ["arm", "arm"]
    engine.resolve(armed, "1", "n", 1)
    assert engine.run(armed, "1") == Completed(1)
    assert bench.done == ["arm", "arm"]


def test_an_arm_may_deliver_at_once(bench: Bench) -> None:
    @workflow
    def armed() -> WorkflowBody[int]:
        arm = lambda: engine.resolve("armed", "1", "n", 7)  # noqa: E731
        return (yield from Await("n", arm, returns=int))

    engine = bench.engine(armed)
    assert engine.run(armed, "1") == Completed(7)


def test_an_arm_that_raises_is_a_crash_and_never_thrown_into_the_body(
    bench: Bench,
) -> None:
    errors = [OSError("no network")]

    def arm() -> None:
        bench.do("arm")
        if errors:
            raise errors.pop()

    @workflow
    def armed() -> WorkflowBody[str]:
        try:
            return str((yield from Await("n", arm)))
        except OSError:
            return "caught"

    engine = bench.engine(armed)
    with pytest.raises(OSError, match="no network"):
        engine.run(armed, "1")
    assert engine.run(armed, "1") == Suspended(("n",))
    errors.append(OSError("again"))
    engine.release_lease(armed, "1")
    engine.start(armed, "2")
    assert engine.worker().run_once().paced == 1
    assert engine.describe(armed, "2").reason == "OSError: again"


def test_an_arm_that_exits_is_a_crash_as_well(bench: Bench) -> None:
    @workflow
    def armed() -> WorkflowBody[None]:
        yield Await("n", arm)

    def arm() -> None:
        raise SystemExit(3)

    engine = bench.engine(armed)
    engine.start(armed, "1")
    assert engine.worker().run_once().paced == 1
    assert engine.describe(armed, "1").reason == "SystemExit: 3"
