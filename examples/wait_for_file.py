"""A wake source of one's own: a workflow that waits for a file to appear.

    python examples/wait_for_file.py FILE [--database waiting.db]

The first run arms the wait and parks. This script then watches the directory and
delivers the file's size; kill it and start it again as often as you like.
"""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from workflow_engine import Await, Engine, Suspended, WorkflowBody, workflow

ARRIVED = "arrived"
LOOK = 0.2
"""Seconds between two looks at the directory."""


@workflow
def wait_for_file(path: str) -> WorkflowBody[str]:
    """Wait until the file is there, and say how large it is."""

    def arm() -> None:
        # Idempotent: the directory is all that is needed to see the file appear.
        Path(path).parent.mkdir(parents=True, exist_ok=True)

    size = yield from Await(ARRIVED, arm, returns=int)
    return f"{path} has {size} bytes"


def deliver_when_there(engine: Engine, id: str, path: Path) -> None:
    """Watch for the file, then resolve the wait. Doing so twice does no harm."""
    pause = threading.Event()
    while not path.exists():
        pause.wait(LOOK)
    engine.resolve(wait_for_file, id, ARRIVED, path.stat().st_size)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Wait for a file to appear.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--database", default="waiting.db")
    given = parser.parse_args()
    path: Path = given.file.absolute()
    url = f"sqlite:///{given.database}"
    with Engine(url, workflows=[wait_for_file]) as engine:
        id = str(path)[-255:]
        ending = engine.run(wait_for_file, id, str(path))
        if isinstance(ending, Suspended):
            print(f"waiting for {path}", flush=True)
            deliver_when_there(engine, id, path)
            ending = engine.run(wait_for_file, id)
        print(getattr(ending, "result", ending))


if __name__ == "__main__":
    main()
