"""What the processes of the acceptance tests run.

::

    program.py URL worker {"concurrency": 2, "lease": 1}
    program.py URL run fulfil order-1

A process says on its standard output, line by line, what happens to it, and stops where
a test wants it: a step waits at its *gate*, a FIFO named after the instance and the
step, until the test opens it. Each process appends the effects of its steps to a file
of its own. The folders of both come from the environment; without a folder, nothing
waits or is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workflow_engine import (
    Await,
    ContinueAsNew,
    Engine,
    Step,
    WorkflowBody,
    current_step,
    restore_seed,
    workflow,
)
from workflow_engine.telemetry.events import Event, RunEnded
from workflow_engine.testing import Crashes

GATES = os.environ.get("GATES")
EFFECTS = os.environ.get("EFFECTS")


def say(*words: object) -> None:
    """Write a line for the test in one piece, whatever other threads write."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def pass_gate(name: str) -> None:
    """Wait until the test opens the gate, if there is one."""
    with contextlib.suppress(FileNotFoundError):
        Path(GATES or "/nowhere", name).read_bytes()


def act(value: int) -> int:
    """The effect of every step here."""
    step = current_step()
    name = f"{step.id}.{step.step}"
    if EFFECTS:
        with (Path(EFFECTS) / str(os.getpid())).open("a") as file:
            file.write(name + "\n")
    if GATES:
        say("entered", name)
        pass_gate(name)
    return value


@workflow
def ten_steps(base: int) -> WorkflowBody[int]:
    """Ten steps in a row; ten times ``base`` plus 45."""
    total = 0
    for number in range(10):
        total += yield from Step(f"s{number}", act, base + number)
    return total


@workflow
def one_step(base: int) -> WorkflowBody[int]:
    """One step; ``base``."""
    return (yield from Step("only", act, base))


@workflow
def two_steps(base: int) -> WorkflowBody[int]:
    """Two steps; twice ``base``."""
    first = yield from Step("first", act, base)
    return first + (yield from Step("second", act, base))


@workflow
def everything(base: int) -> WorkflowBody[int]:
    """A step, a wait, and a second generation with the sum as its seed."""
    total = yield from restore_seed(base)
    total += yield from Step("before", act, 1)
    if total > base + 1:
        return total
    total += yield from Await("word", returns=int)
    total += yield from Step("after", act, 10)
    yield ContinueAsNew(total)
    return 0


WORKFLOWS = [ten_steps, one_step, two_steps, everything]


def _tell(event: Event) -> None:
    if isinstance(event, RunEnded):
        say("ended", event.id, event.ending)


class _Gates(Crashes):
    """Points that have gates, too."""

    def reach(self, point: Any, subject: str) -> None:
        name = f"{point}.{subject}"
        if Path(GATES or "/nowhere", name).exists():
            say("reached", name)
            pass_gate(name)


def _work(engine: Engine, options: str = "{}") -> None:
    worker = engine.worker(**json.loads(options))
    say("working")
    worker.run()
    say("stopped")


def _work_in_a_thread(engine: Engine, options: str = "{}") -> None:
    numbers = signal.SIGTERM, signal.SIGINT
    before = [signal.getsignal(number) for number in numbers]
    worker = engine.worker(**json.loads(options))
    thread = threading.Thread(target=worker.run)
    thread.start()
    say("working")
    sys.stdin.readline()
    say("unchanged", before == [signal.getsignal(number) for number in numbers])
    worker.stop()
    thread.join()
    say("stopped")


async def _work_beside_a_loop(engine: Engine, options: str) -> None:
    worker = engine.worker(**json.loads(options))
    working = asyncio.create_task(asyncio.to_thread(worker.run))
    say("working")
    await asyncio.to_thread(sys.stdin.readline)
    worker.stop()
    await working
    say("stopped")


def _run(engine: Engine, name: str, id: str, *arguments: str) -> None:
    say("running")
    say("came", engine.run(name, id, *map(json.loads, arguments)))


def _await_result(engine: Engine, name: str, id: str, handles: str) -> None:
    several = [engine.handle(name, id) for _ in range(int(handles))]
    say("waiting")
    say("results", *(handle.result(timeout=60) for handle in several))


COMMANDS: dict[str, Callable[..., None]] = {
    "worker": _work,
    "worker-in-a-thread": _work_in_a_thread,
    "worker-beside-a-loop": lambda *given: asyncio.run(_work_beside_a_loop(*given)),
    "run": _run,
    "result": _await_result,
}


def main(url: str, command: str, *arguments: str) -> None:
    """Run a command on a database."""
    logging.basicConfig(
        stream=os.fdopen(1, "w", buffering=1, closefd=False),
        format="log %(message)s",
        level=logging.INFO,
    )
    observer, points = (_tell, _Gates()) if GATES else (None, Crashes())
    with Engine(url, workflows=WORKFLOWS, observer=observer, points=points) as engine:
        COMMANDS[command](engine, *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
