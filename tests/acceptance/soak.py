"""Workers that are killed, stopped and cut off for minutes, and all comes right.

Four worker processes run instances that sleep, talk, have children, give up and are
cancelled. Meanwhile processes are killed, or stopped for longer than their leases last,
and a PostgreSQL server dies and comes back. Then they are left in peace until all has
ended, and everything is looked at. In the folder above ``tests``::

    python -m tests.acceptance.soak sqlite
    python -m tests.acceptance.soak postgres --seconds 300 --instances 2000
    python -m tests.acceptance.soak postgresql://user@host/empty --seed 7

Whatever chance decides follows from the seed, which is printed; how processes are
interleaved does not.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import itertools
import json
import math
import random  # noqa: TID251  the choices of a test, from a seed that is printed
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import attrs

from workflow_engine import Engine, Status, StoreUnavailable

from .. import postgres
from ..wholeness import check_whole
from .processes import Process, Processes, processes
from .soak_cases import Case, NotYet, cases
from .soak_flows import WORKFLOWS

T = TypeVar("T")

FLOWS = Path(__file__).with_name("soak_flows.py")

LEASE = 2.0
"""Seconds. A process that is stopped is stopped for longer."""

WORKER = json.dumps({"concurrency": 4, "lease": LEASE, "poll": 0.2})

PEACE = 240.0
"""Seconds after which what should have ended counts as not ending."""


@attrs.frozen
class Plan:
    """How long and how hard."""

    seconds: float
    instances: int
    workers: int
    outages: int
    seed: int


@attrs.define
class Report:
    """What happened."""

    plan: Plan
    instances: int = 0
    messages: int = 0
    kills: int = 0
    stops: int = 0
    outages: int = 0
    retried: int = 0
    effects: int = 0
    repeats: int = 0
    troubled: float = 0.0
    seconds: float = 0.0
    endings: Counter[str] = attrs.field(factory=Counter)

    def __str__(self) -> str:
        endings = ", ".join(f"{n} {name}" for name, n in sorted(self.endings.items()))
        return (
            f"{self.instances} instances in {self.troubled:.0f} s of trouble and "
            f"{self.seconds - self.troubled:.0f} s of peace ({endings}); "
            f"{self.messages} messages; {self.kills} killed, {self.stops} stopped, "
            f"{self.outages} outages; {self.effects} effects, {self.repeats} of them "
            f"repeated; {self.retried} calls made again"
        )


class Soak:
    """One soak on one database."""

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        others: Processes,
        down: Callable[[], AbstractContextManager[None]] | None,
    ) -> None:
        self.report = Report(plan)
        self._plan, self._engine, self._others = plan, engine, others
        self._down = down
        self._chance = random.Random(plan.seed)
        self._running: list[Process] = []
        self._asleep: dict[Process, float] = {}
        self._is_over = threading.Event()

    def run(self) -> Report:
        """Go through with it, and see that all has come right.

        Raises:
            AssertionError: something has not.
        """
        began = time.monotonic()
        chosen = list(cases(self._plan.instances, self._plan.seconds, self._chance))
        self._running = [self._new_worker() for _ in range(self._plan.workers)]
        with self._troubled():
            self._act(chosen)
        self.report.troubled = time.monotonic() - began
        self._wait_for_all()
        self.report.seconds = time.monotonic() - began
        for worker in self._running:
            worker.signal(signal.SIGTERM)
        # One that was started a moment ago may not listen to it yet.
        for worker in self._running:
            assert worker.wait() in (0, -signal.SIGTERM), worker.said[-50:]
        self._check(chosen)
        return self.report

    def _new_worker(self) -> Process:
        return self._others.start("worker", WORKER, gated=False)

    # --- what others do ---

    def _act(self, chosen: list[Case]) -> None:
        """Do what each case wants done, when it wants it."""
        order = itertools.count()
        acts = [(act.at, next(order), act) for case in chosen for act in case.acts]
        heapq.heapify(acts)
        began = time.monotonic()
        while acts:
            at, _, act = heapq.heappop(acts)
            self._is_over.wait(max(0.0, began + at - time.monotonic()))
            try:
                self._insist(lambda: act.do(self._engine))  # noqa: B023
            except NotYet:
                heapq.heappush(acts, (at + 0.2, next(order), act))
        left = began + self._plan.seconds - time.monotonic()
        self._is_over.wait(max(0.0, left))

    def _insist(self, operation: Callable[[], T]) -> T:
        """Call until the database is there to answer."""
        while True:
            try:
                return operation()
            except StoreUnavailable:
                self.report.retried += 1
                self._is_over.wait(0.1)

    def _wait_for_all(self) -> None:
        deadline = time.monotonic() + PEACE
        open_statuses = [each for each in Status if not each.is_ended]
        while left := self._engine.list(status=open_statuses, limit=5).items:
            assert time.monotonic() < deadline, f"not within {PEACE:g} s: {left}"
            threading.Event().wait(0.2)

    # --- trouble ---

    @contextmanager
    def _troubled(self) -> Iterator[None]:
        problems: list[BaseException] = []

        def trouble() -> None:
            try:
                self._make_trouble()
            except BaseException as problem:  # noqa: BLE001  raised below
                problems.append(problem)

        thread = threading.Thread(target=trouble)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()
        if problems:
            raise problems[0]

    def _make_trouble(self) -> None:
        chance = random.Random(self._plan.seed + 1)
        began, share = time.monotonic(), self._plan.seconds / (self._plan.outages + 1)
        try:
            while not self._is_over.wait(chance.uniform(0.2, 1.0)):
                now = time.monotonic()
                self._wake(now)
                if now > began + share * (self.report.outages + 1):
                    self._cut_off(chance.uniform(0.2, LEASE))
                victim, longer = chance.choice(self._running), chance.uniform(0.1, 1.5)
                if victim in self._asleep or not victim.has_said("working"):
                    continue
                if chance.random() < 0.5:
                    self._kill(victim)
                else:
                    self._stop(victim, now + LEASE + longer)
        finally:
            self._wake(math.inf)

    def _kill(self, victim: Process) -> None:
        victim.kill()
        self._running[self._running.index(victim)] = self._new_worker()
        self.report.kills += 1

    def _stop(self, victim: Process, until: float) -> None:
        """Stop a process for longer than its leases last."""
        victim.pause()
        self._asleep[victim] = until
        self.report.stops += 1

    def _wake(self, now: float) -> None:
        """Let those go on that have been stopped for long enough."""
        for process in [each for each, until in self._asleep.items() if until <= now]:
            del self._asleep[process]
            process.signal(signal.SIGCONT)

    def _cut_off(self, seconds: float) -> None:
        if self.report.outages < self._plan.outages and self._down is not None:
            with self._down():
                threading.Event().wait(seconds)
            self.report.outages += 1

    # --- the end ---

    def _check(self, chosen: list[Case]) -> None:
        done = self._others.count()
        for case in chosen:
            case.check(self._engine, done)
        for row in self._everything():
            self.report.endings[row] += 1
        self.report.messages = sum(case.messages for case in chosen)
        self.report.instances = self.report.endings.total()
        assert self.report.instances == sum(case.size for case in chosen)
        self.report.effects = done.total()
        self.report.repeats = self._others.repeats()
        assert not [line for line in self._others.said() if "Traceback" in line]
        found = self._engine.doctor()
        assert not found, found

    def _everything(self) -> Iterator[str]:
        page = self._engine.list(limit=500)
        yield from (row.status for row in page.items)
        while page.after is not None:
            page = self._engine.list(limit=500, after=page.after)
            yield from (row.status for row in page.items)


def soak(
    plan: Plan,
    url: str,
    folder: Path,
    down: Callable[[], AbstractContextManager[None]] | None = None,
) -> Report:
    """Soak the database at ``url``, which is empty. ``down`` takes it away meanwhile.

    Raises:
        AssertionError: something has not come right.
    """
    print(f"{plan}", flush=True)
    with (
        processes(url, folder, FLOWS) as others,
        Engine(url, workflows=WORKFLOWS) as engine,
    ):
        report = Soak(plan, engine, others, down).run()
    check_whole(url)
    return report


@contextmanager
def target(
    name: str, folder: Path
) -> Iterator[tuple[str, Callable[[], AbstractContextManager[None]] | None]]:
    """A database for a soak, and how it is taken away."""
    with ExitStack() as life:
        if name == "sqlite":
            yield f"sqlite:///{folder}/soak.db", None
        elif name == "postgres":
            server = life.enter_context(postgres.running())
            url = life.enter_context(server.database(postgres.TEMPLATE))
            yield url, server.down
        else:
            with contextlib.closing(Engine(name)) as engine:
                engine.upgrade_schema()
            yield name, None


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", help="sqlite, postgres, or a postgresql:// URL")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--instances", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--outages", type=int, default=2, help="of our own server")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    plan = Plan(
        given.seconds, given.instances, given.workers, given.outages, given.seed
    )
    with (
        tempfile.TemporaryDirectory() as name,
        target(given.target, Path(name)) as (url, down),
    ):
        print(soak(plan, url, Path(name), down))


if __name__ == "__main__":
    main()
