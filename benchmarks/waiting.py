"""What parked instances cost, and how soon a wake is followed by its next step.

Many instances are parked. Then a worker in a process of its own stays idle, and its
processor time and statements are counted; and messages are sent one by one to another
instance, from the sending to the beginning of the step that follows: by a worker in the
same process, and by one in another.

    python benchmarks/waiting.py sqlite
    python benchmarks/waiting.py postgres --parked 10000 --idle 60 --samples 1000

Percentiles are nearest-rank. On a machine with other work the figures mean little.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy
from sqlalchemy import event
from steps import server

from workflow_engine import (
    ContinueAsNew,
    Engine,
    Step,
    WorkflowBody,
    awakeable,
    receive,
    restore_seed,
    sleep,
    workflow,
)

ROUND = 50
"""Messages a generation."""

told = sys.stdout.fileno()


def tell(sent: float) -> None:
    """Say how long ago it was sent. The clock is the system's, for all processes."""
    os.write(told, f"{time.monotonic() - sent}\n".encode())


@workflow
def parked(number: int) -> WorkflowBody[None]:
    """Waits for a person, or sleeps for a day."""
    if number % 2:
        yield sleep(86_400)
    else:
        asked = yield from awakeable("answer")
        yield asked


@workflow
def answering() -> WorkflowBody[None]:
    """Takes one step for each message."""
    done = yield from restore_seed(0)
    for number in range(ROUND):
        sent = yield from receive("ping", returns=float)
        yield Step(f"pong {number}", tell, sent)
    yield ContinueAsNew(done + ROUND)


def park(url: str, count: int) -> None:
    """Park so many instances."""
    with Engine(url, workflows=[parked, answering]) as engine:
        for number in range(count):
            engine.start(parked, f"{number}", number)
        engine.worker(concurrency=8, listen=False).drain()


def idle(url: str, seconds: float) -> None:
    """Run a worker for so long, and print what it used."""
    statements = [0]

    def count(*_: object) -> None:
        statements[0] += 1

    with Engine(url, workflows=[parked, answering]) as engine:
        worker = engine.worker()
        thread = threading.Thread(target=worker.run)
        thread.start()
        time.sleep(3)  # it settles
        event.listen(sqlalchemy.Engine, "before_cursor_execute", count)
        before = resource.getrusage(resource.RUSAGE_SELF)
        time.sleep(seconds)
        after = resource.getrusage(resource.RUSAGE_SELF)
        found = statements[0]
        worker.stop()
        thread.join()
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"cpu": used, "statements": found}))


def serve(url: str) -> None:
    """Run a worker until the process is told to end."""
    with Engine(url, workflows=[parked, answering]) as engine:
        engine.worker().run()


@contextmanager
def same_process(url: str) -> Iterator[int]:
    """A worker in a thread; where it tells what it did."""
    global told
    out, told = os.pipe()
    with Engine(url, workflows=[parked, answering]) as engine:
        worker = engine.worker()
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield out
        finally:
            worker.stop()
            thread.join()


@contextmanager
def other_process(url: str) -> Iterator[int]:
    """A worker in a process of its own; where it tells what it did."""
    with subprocess.Popen(
        [sys.executable, __file__, "serve", "--url", url], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.fileno()
        finally:
            process.terminate()


def latencies(url: str, out: int, samples: int) -> list[float]:
    """Seconds from each sending to the step that follows."""
    found: list[float] = []
    with (
        Engine(url, workflows=[parked, answering]) as engine,
        os.fdopen(os.dup(out)) as lines,
    ):
        engine.start(answering, "1")
        for number in range(samples + 20):
            time.sleep(0.005)  # it parks
            engine.send(answering, "1", "ping", time.monotonic())
            took = float(lines.readline())
            if number >= 20:  # the first ones warm up
                found.append(took)
    return found


def percentile(found: list[float], share: float) -> float:
    """By nearest rank, in milliseconds."""
    return sorted(found)[max(0, math.ceil(share * len(found)) - 1)] * 1000


def measure(target: str, url: str, given: argparse.Namespace) -> None:
    """Print everything."""
    began = time.perf_counter()
    park(url, given.parked)
    took = time.perf_counter() - began
    print(f"{target}: {given.parked} parked in {took:.0f} s", flush=True)
    for count in ("first", "second"):
        words = [sys.executable, __file__, "idle", "--url", url]
        out = subprocess.run(
            [*words, "--idle", str(given.idle)], capture_output=True, check=True
        )
        used = json.loads(out.stdout)
        print(
            f"{target}: idle for {given.idle:.0f} s, {count} time: "
            f"{used['cpu'] / given.idle:.2%} of a core, "
            f"{used['statements'] / given.idle * 60:.0f} statements a minute",
            flush=True,
        )
    for name, working in (("same", same_process), ("another", other_process)):
        with working(url) as out_:
            found = latencies(url, out_, given.samples)
        shown = ", ".join(
            f"{share:.0%} {percentile(found, share):.1f} ms"
            for share in (0.5, 0.9, 0.99, 1)
        )
        print(f"{target}: woken in {name} process: {shown}", flush=True)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", help="sqlite or postgres")
    parser.add_argument("--parked", type=int, default=10_000)
    parser.add_argument("--idle", type=float, default=60, help="seconds")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.target == "idle":
        idle(given.url, given.idle)
    elif given.target == "serve":
        serve(given.url)
    elif given.target == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            measure("sqlite", f"sqlite:///{Path(folder) / 'bench.db'}", given)
    else:
        with server() as url:
            engine = Engine(url)
            engine.upgrade_schema()
            engine.close()
            measure("postgresql", url, given)


if __name__ == "__main__":
    main()
