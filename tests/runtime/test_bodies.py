"""Bodies of unusual make: without source, very deep, very long, of another process."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    Engine,
    Failed,
    Step,
    Suspended,
    WorkflowBody,
    workflow,
)

from .bench import Bench, steps

WITHOUT_SOURCE = """
from workflow_engine import Step, WorkflowBody, workflow

@workflow
def order(n: int) -> "WorkflowBody[int]":
    value = yield from Step("a", int, n)
    yield 5
"""


def test_a_body_made_by_exec_works_and_its_mistakes_are_told(bench: Bench) -> None:
    scope: dict[str, Any] = {}
    exec(WITHOUT_SOURCE, scope)
    order = scope["order"]
    engine = bench.engine(order)
    ending = engine.run(order, "1", 3)
    assert isinstance(ending, Failed)
    assert "'order' yielded 5 (int)" in ending.reason
    assert steps(engine, order, "1") == ["a"]


def test_a_body_from_a_zip_archive_works(bench: Bench, tmp_path: Path) -> None:
    archive = tmp_path / "flows.zip"
    with zipfile.ZipFile(archive, "w") as flows:
        whole = WITHOUT_SOURCE.replace("yield 5", "return value")
        flows.writestr("zipped_flow.py", whole)
    sys.path.insert(0, str(archive))
    try:
        import zipped_flow  # type: ignore[import-not-found]  # noqa: PLC0415
    finally:
        sys.path.remove(str(archive))
    engine = bench.engine(zipped_flow.order)
    assert engine.run(zipped_flow.order, "1", 3) == Completed(3)


FAN = """
    import sys
    from workflow_engine import Await, Engine, Step, workflow
    from workflow_engine.testing import Crashes

    names = sorted({"a", "b", "c", "d"})          # a set has another order each time

    def work(name):
        with open(sys.argv[2], "a") as done:
            done.write(name)
        return name

    @workflow
    def fan():
        values = {}
        for name in {name for name in names}:
            values[name] = yield Step(name, work, name)
        for name in {"x", "y", "z"}:
            values[name] = yield Await(name)
        return values

    points = Crashes().at("after_step", nth=int(sys.argv[3]), kill=True)
    with Engine(sys.argv[1], workflows=[fan], points=points) as engine:
        engine.start(fan, "1")
        for name in ("z", "x", "y"):
            engine.resolve(fan, "1", name, name)
        ending = engine.run(fan, "1")
        print(sorted(ending.result.items()))
"""


def test_a_run_goes_on_in_a_process_that_hashes_otherwise(
    bench: Bench, tmp_path: Path
) -> None:
    done = tmp_path / "done"

    def run(seed: int, kill_at: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(FAN), bench.url, done, str(kill_at)],
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert run(1, 3).returncode < 0
    ended = run(2, 99)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == str([(name, name) for name in "abcdxyz"])
    # The step that was killed before its commit happened twice, the others once.
    assert sorted(set(done.read_text())) == ["a", "b", "c", "d"]
    assert len(done.read_text()) == 5


def test_helpers_nested_too_deeply_crash_the_run_and_nothing_else(
    sqlite_bench: Bench,
) -> None:
    def helper(depth: int) -> WorkflowBody[int]:
        if depth:
            return (yield from helper(depth - 1)) + 1
        return (yield from Step("a", int, 0))

    @workflow
    def deep(depth: int) -> WorkflowBody[int]:
        return (yield from helper(depth))

    engine = sqlite_bench.engine(deep)
    with pytest.raises(RecursionError):
        engine.run(deep, "1", 5_000)
    assert engine.run(deep, "2", 500) == Completed(500)


def test_a_long_journal_is_replayed_in_time_that_grows_with_it(
    sqlite_bench: Bench,
) -> None:
    """Five thousand entries, at once; the law is linear, this only shows it ends."""
    length = 5_000

    @workflow
    def long() -> WorkflowBody[int]:
        total = 0
        for number in range(length):
            total += yield from Await(f"n{number}", returns=int)
        yield Await("go")
        return total

    engine = sqlite_bench.engine(long)
    engine.start(long, "1")
    row = "(1, 0, {0} + 1, 'wake', 'n{0}', 1, 1, '1', 0, '')"
    for start in range(0, length, 1_000):
        rows = ", ".join(row.format(n) for n in range(start, start + 1_000))
        sqlite_bench.execute(
            "INSERT INTO wf_journal (instance_id, generation, position, kind,"
            f" step_name, live, format, payload, recorded_at, entry_id) VALUES {rows}"
        )
    sqlite_bench.execute("UPDATE wf_instances SET position = :n", n=length)
    assert engine.run(long, "1") == Suspended(("go",))
    engine.resolve(long, "1", "go", None)
    assert engine.run(long, "1") == Completed(length)


def test_a_body_is_a_plain_generator_that_can_be_stepped_by_hand() -> None:
    @workflow
    def order(n: int) -> WorkflowBody[int]:
        return (yield from Step("a", int, n))

    body = order(3)
    assert next(body) == Step("a", int, 3)
    with pytest.raises(StopIteration) as ended:
        body.send(7)
    assert ended.value.value == 7


def test_workflows_of_two_engines_do_not_meet(bench: Bench) -> None:
    @workflow(name="same")
    def one() -> WorkflowBody[int]:
        return 1
        yield

    @workflow(name="same")
    def two() -> WorkflowBody[int]:
        return 2
        yield

    assert bench.engine(one).run("same", "1") == Completed(1)
    assert bench.engine(two).run("same", "2") == Completed(2)


def test_an_engine_is_made_from_the_environment(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    @workflow
    def order() -> WorkflowBody[str]:
        return json.dumps("x")
        yield

    monkeypatch.setenv("WORKFLOW_ENGINE_URL", bench.url)
    with Engine.from_env(workflows=[order]) as engine:
        assert engine.run(order, "1") == Completed('"x"')
    assert bench.engine(order).run(order, "1") == Completed('"x"')
