"""What the workers of a soak run, and a worker.

::

    soak_flows.py URL worker {"concurrency": 4, "lease": 2}

Each effect is a line, ``<id>.<step>``, in a file of the process that had it, in the
folder that the environment names.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

from workflow_engine import (
    CancelRequested,
    ContinueAsNew,
    Engine,
    Send,
    Step,
    StoreUnavailable,
    WaitTimeout,
    Workflow,
    WorkflowBody,
    current_step,
    receive,
    restore_seed,
    sleep,
    spawn_child,
    workflow,
)

EFFECTS = os.environ.get("EFFECTS", "/nowhere")

PATIENCE = 1.0
"""Seconds after which a listener gives up a wait, and waits again."""


def act(value: str) -> str:
    """The effect of every step here."""
    step = current_step()
    with (Path(EFFECTS) / str(os.getpid())).open("a") as file:
        file.write(f"{step.id}.{step.step}\n")
    return value


@workflow
def napper(seconds: float) -> WorkflowBody[str]:
    """Sleeps and acts, in turns."""
    said = ""
    for number in range(3):
        said += yield from Step(f"wake {number}", act, str(number))
        yield sleep(seconds, name=f"nap {number}")
    return said


@workflow
def listener(count: int) -> WorkflowBody[list[str]]:
    """Takes so many messages, two in each generation, and gives up now and then."""
    heard = yield from restore_seed([""])
    given_up, before = 0, len(heard)
    while len(heard) <= count:
        if len(heard) == before + 2:
            yield ContinueAsNew(heard)
        try:
            word = yield from receive("word", returns=str).timeout(PATIENCE)
        except WaitTimeout:
            given_up += 1
            yield Step(f"give up {len(heard)} {given_up}", act, "")
            continue
        heard = [*heard, (yield from Step(f"take {word}", act, word))]
    return heard[1:]


@workflow
def teller(to: str, count: int, seconds: float) -> WorkflowBody[str]:
    """Sends messages to a listener, between naps."""
    for number in range(count):
        yield Send(listener, to, "word", f"t{number}", name=f"tell {number}")
        yield sleep(seconds, name=f"nap {number}")
    return "told"


@workflow
def parent(name: str, seconds: float) -> WorkflowBody[list[str]]:
    """Has two children, and loses patience with the second."""
    first = yield from spawn_child(napper, f"{name} first", seconds)
    second = yield from spawn_child(napper, f"{name} second", seconds * 3)
    told = [(yield from first)]
    try:
        told.append((yield from second.timeout(seconds / 2)))
    except WaitTimeout:
        yield Step("lose patience", act, "")
        told.append((yield from second))
    return told


@workflow
def deserted(seconds: float) -> WorkflowBody[str]:
    """Waits for what never comes, and fails."""
    yield Step("begin", act, "")
    return (yield from receive("never", returns=str).timeout(seconds))


@workflow
def booking(name: str, children: int) -> WorkflowBody[str]:
    """Waits to be cancelled, with children that do the same."""
    try:
        yield Step("book", act, "")
        for number in range(children):
            yield spawn_child(booking, f"{name} {number}", f"{name} {number}", 0)
        yield from receive("never")
    except CancelRequested:
        yield Step("give back", act, "")
        yield Step("say so", act, "")
        raise
    return "never"


WORKFLOWS: list[Workflow[..., Any]] = [
    napper,
    listener,
    teller,
    parent,
    deserted,
    booking,
]


def _is_there(engine: Engine) -> bool:
    """Whether its database is: a process may be started while it is not."""
    try:
        engine.list(limit=1)
    except StoreUnavailable:
        return False
    return True


def work(url: str, options: str) -> None:
    """Be a worker until stopped."""
    logging.basicConfig(
        stream=os.fdopen(1, "w", buffering=1, closefd=False),
        format="log %(levelname)s %(message)s",
        level=logging.WARNING,
    )
    with contextlib.closing(Engine(url, workflows=WORKFLOWS)) as engine:
        while not _is_there(engine):
            threading.Event().wait(0.2)
        worker = engine.worker(**json.loads(options))
        print("working", flush=True)
        worker.run()


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[3])
