"""Real processes: signals, pipes, terminals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from .conftest import CommandLine

PROGRAM = (sys.executable, "-m", "workflow_engine")
LONG = ("flows.py:long", "1")


@contextmanager
def process(
    environment: dict[str, str], *words: str, stdout: int | None = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """A command as a process, which a failing test does not leave behind."""
    child = subprocess.Popen(
        [*PROGRAM, *words],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


def read_until(stream: IO[str] | None, words: str) -> list[str]:
    """Lines up to the one that has ``words``. Fails when the process ends before."""
    assert stream is not None
    lines: list[str] = []
    for line in stream:
        lines.append(line.rstrip("\n"))
        if words in line:
            return lines
    raise AssertionError(f"{words!r} was not written, but {lines}")


def answer(child: subprocess.Popen[str]) -> None:
    """Let the step that waits for input end."""
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
def test_a_run_that_is_stopped_says_how_to_go_on_and_the_next_one_does(
    on: CommandLine,
    environment: dict[str, str],
    effects: Callable[[], list[str]],
    number: signal.Signals,
    word: str,
) -> None:
    with process(environment, "run", *LONG) as child:
        assert read_until(child.stdout, "in second") == ["recorded  first", "in second"]
        child.send_signal(number)
        stdout, stderr = child.communicate()
        assert child.returncode == 128 + number
    assert stdout == ""
    assert stderr == (
        f"Error: {word}; what is recorded stays, and the lease is released. "
        "Go on: workflow-engine run flows.py:long 1\n"
    )
    found = on.json("show", "long", "1")
    assert (found["status"], found["owner"], found["position"]) == ("running", None, 1)
    with process(environment, "run", *LONG) as child:
        stdout, _ = child.communicate("go\n")
        assert child.returncode == 0
    assert stdout.splitlines() == [
        "resumed   after 1 recorded entry",
        "in second",
        "recorded  second",
        "recorded  third",
        'completed ["first", "go", "third"]',
    ]
    assert effects() == ["first", "second", "second", "third"]


def test_a_worker_that_is_terminated_lets_running_steps_end(
    on: CommandLine, environment: dict[str, str], effects: Callable[[], list[str]]
) -> None:
    on.ok("start", *LONG)
    with process(environment, "worker", "flows.py") as child:
        read_until(child.stdout, "in second")
        child.terminate()
        read_until(child.stderr, "stopping")
        answer(child)
        stdout, _ = child.communicate()
        assert child.returncode == 0
    assert stdout == "1 discovered, 1 advanced, 1 resumed\n"
    assert effects() == ["first", "second"]
    found = on.json("show", "long", "1")
    assert (found["owner"], found["position"]) == (None, 2)
    assert on.json("worker", "flows.py", "--drain")["completed"] == 1
    assert effects() == ["first", "second", "third"]


@pytest.mark.parametrize("option", ["--once", "--drain"])
def test_a_pass_is_stopped_like_a_worker(
    on: CommandLine, environment: dict[str, str], option: str
) -> None:
    on.ok("start", *LONG)
    with process(environment, "worker", "flows.py", option) as child:
        read_until(child.stdout, "in second")
        child.send_signal(signal.SIGINT)
        read_until(child.stderr, "stopping")
        answer(child)
        child.communicate()
        assert child.returncode == 0
    assert on.json("show", "long", "1")["position"] == 2


def test_a_second_signal_ends_a_worker_at_once(
    on: CommandLine, environment: dict[str, str]
) -> None:
    on.ok("start", *LONG)
    for words in (("worker", "flows.py"), ("worker", "flows.py", "--drain")):
        with process(environment, *words) as child:
            read_until(child.stdout, "in second")
            child.terminate()
            read_until(child.stderr, "stopping")
            child.terminate()
            assert child.wait(timeout=20) == 128 + signal.SIGTERM
    found = on.json("show", "long", "1")
    assert (found["status"], found["position"]) == ("running", 1)


def test_an_instance_in_another_process_is_seen_refused_and_released(
    on: CommandLine, environment: dict[str, str]
) -> None:
    with process(environment, "run", *LONG) as child:
        read_until(child.stdout, "in second")
        owner = f"pid {child.pid}"
        shown = on.ok("show", "long", "1")
        assert "long 1: being run by " in shown
        assert f"{owner}, whose lease ends in " in shown
        assert "  next        workflow-engine release long 1\n" in shown
        assert owner in on.ok("list")
        line = on.refused("run", *LONG)
        assert "is being run by " in line
        assert owner in line
        assert on.ok("release", "long", "1") == "long 1 is released\n"
        _, stderr = child.communicate("go\n")
        assert child.returncode == 1
    assert "the lease was lost" in stderr
    assert on.json("show", "long", "1")["position"] == 1


def test_a_killed_run_is_continued_at_once(
    on: CommandLine, environment: dict[str, str], effects: Callable[[], list[str]]
) -> None:
    with process(environment, "run", *LONG) as child:
        read_until(child.stdout, "in second")
        child.kill()
        child.wait()
    with process(environment, "run", *LONG) as child:
        child.communicate("go\n")
        assert child.returncode == 0
    assert effects() == ["first", "second", "second", "third"]


def test_a_run_whose_reader_has_gone_goes_on_quietly(
    on_sqlite: CommandLine,
    sqlite_environment: dict[str, str],
    effects: Callable[[], list[str]],
) -> None:
    with process(sqlite_environment, "run", *LONG) as child:
        assert child.stdout is not None
        read_until(child.stdout, "in second")
        child.stdout.close()
        answer(child)
        assert child.stderr is not None
        assert child.stderr.read() == ""
        assert child.wait() == 0
    assert effects() == ["first", "second", "third"]


def test_a_listing_whose_reader_has_gone_is_quiet(
    on_sqlite: CommandLine, sqlite_environment: dict[str, str]
) -> None:
    on_sqlite.ok("start", "flows:approve", "1")
    for words in (("list",), ("list", "--json"), ("--help",)):
        reader, writer = os.pipe()
        os.close(reader)
        with process(sqlite_environment, *words, stdout=writer) as child:
            os.close(writer)
            _, stderr = child.communicate()
            assert (child.returncode, stderr) == (1, "")


def test_on_a_terminal_the_running_step_is_shown_and_goes_away(
    on_sqlite: CommandLine, sqlite_environment: dict[str, str]
) -> None:
    terminal, side = pty.openpty()
    environment = {**sqlite_environment, "TERM": "xterm", "COLUMNS": "80"}
    with process(environment, "run", *LONG, stdout=side) as child:
        os.close(side)
        shown = b""
        while b"second" not in shown or b"0:00:0" not in shown:
            shown += os.read(terminal, 4096)
        answer(child)
        while True:
            try:
                shown += os.read(terminal, 4096)
            except OSError:  # how a terminal says that the other side is closed
                break
        assert child.wait() == 0
    os.close(terminal)
    assert b"\x1b[" in shown
    assert b'completed ["first", "go", "third"]' in shown
    for step in (b"first", b"second", b"third"):
        assert b"recorded  \x1b[0m" + step in shown


@pytest.mark.parametrize("words", [("--version",), ("db", "current")])
def test_it_runs_as_a_module(
    sqlite_environment: dict[str, str], words: tuple[str, ...]
) -> None:
    subprocess.run([*PROGRAM, "db", "upgrade"], env=sqlite_environment, check=True)
    done = subprocess.run(
        [*PROGRAM, *words],
        env=sqlite_environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout


def test_output_that_cannot_be_encoded_is_escaped(
    on_sqlite: CommandLine, sqlite_environment: dict[str, str], place: Path
) -> None:
    on_sqlite.ok("start", "flows:approve", "zł")
    environment = {**sqlite_environment, "PYTHONIOENCODING": "latin-1"}
    with process(environment, "list") as child:
        stdout, stderr = child.communicate()
        assert (child.returncode, stderr) == (0, "")
    assert "z\\u0142" in stdout
