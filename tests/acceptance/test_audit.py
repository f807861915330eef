"""The audit example against SIGKILL: real processes, on both databases.

A kill is synchronised by what the child says on its standard output; nothing sleeps.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random  # noqa: TID251 - seeded, so it can be replayed

import attrs
import pytest

from workflow_engine import Completed, Engine, Status

from ..distributions import install
from ..examples import EXAMPLES, environment, load

EXAMPLE = EXAMPLES / "audit_packages.py"
DYING = Path(__file__).with_name("dying_audit.py")

NAMES = [f"d{number:03}-{'with-a-long-name' * 6}" for number in range(120)]
"""Long, so that a child is never far ahead of us: what it says fills its pipe, and it
waits until we read. At most some 35 lines fit."""

PIPE = 4096
"""Bytes. The smallest there is."""

PATIENCE = 60.0
"""Seconds after which a child that says nothing is given up."""

HOWS = ["inside"] * 4 + ["after_step"] * 4 + ["line"] * 2
"""Ten ways to die, eight of them in the middle of a step."""

Kill = tuple[str, int]
"""How to die, and at which step of that run."""


def seeded_kills(seed: int) -> list[Kill]:
    chance = Random(seed)
    hows = chance.sample(HOWS, len(HOWS))
    return [(how, chance.randint(1, 3)) for how in hows]


@attrs.frozen
class Audit:
    """One audit, which may need several processes."""

    url: str
    site: Path
    report: Path
    id: str

    def command(self, *program: str | Path) -> list[str]:
        """The command line of a process that works on it."""
        options = {
            "--database": self.url,
            "--report": str(self.report),
            "--id": self.id,
            "--path": str(self.site),
        }
        words = [word for option in options.items() for word in option]
        return [sys.executable, *map(str, program), *words]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages with many small distributions, one of them damaged."""
    site = tmp_path / "site-packages"
    for name in NAMES:
        files = {f"{name}/__init__.py": b"", f"{name}/code.py": name.encode() * 99}
        install(site, name, "1.0", files)
    (site / NAMES[7] / "code.py").write_bytes(b"something else")
    (site / NAMES[11] / "code.py").unlink()
    (site / NAMES[13] / "extra.py").write_bytes(b"nobody knows me")
    return site


@contextmanager
def started(command: list[str], cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """A child process, which is killed if it takes too long."""
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pipesize=PIPE,
        text=True,
    ) as process:
        overdue = threading.Timer(PATIENCE, process.terminate)
        overdue.start()
        try:
            yield process
        finally:
            overdue.cancel()
            process.kill()


def run_until_killed(audit: Audit, kill: Kill, cwd: Path) -> list[str]:
    """Start a process, have it die as ``kill`` says; what it said before."""
    how, nth = kill
    program = (EXAMPLE,) if how == "line" else (DYING, how, str(nth))
    with started(audit.command(*program), cwd) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line.rstrip("\n"))
            if is_time(how, nth, said):
                process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, said
    return said


def is_time(how: str, nth: int, said: list[str]) -> bool:
    """Whether to kill now, from outside."""
    if how == "inside":
        return said[-1].startswith("inside ")
    if how == "line":
        return sum(line.startswith("recorded ") for line in said) == nth
    return False


def run_to_the_end(audit: Audit, cwd: Path) -> list[str]:
    """Start a process and let it end; what it said."""
    with started(audit.command(EXAMPLE), cwd) as process:
        said, _ = process.communicate()
        assert process.returncode == 1, said  # the tree is damaged
    return said.splitlines()


def lines(said: list[str], beginning: str) -> list[str]:
    return [line for line in said if line.startswith(beginning)]


@pytest.mark.parametrize("seed", [7])
def test_an_audit_killed_ten_times_ends_as_if_nothing_had_happened(
    database_url: str, site: Path, tmp_path: Path, seed: int
) -> None:
    whole = Audit(database_url, site, tmp_path / "whole.json", "whole")
    killed = Audit(database_url, site, tmp_path / "killed.json", "killed")
    run_to_the_end(whole, tmp_path)

    kills = seeded_kills(seed)
    said = [line for kill in kills for line in run_until_killed(killed, kill, tmp_path)]
    said += run_to_the_end(killed, tmp_path)

    assert killed.report.read_bytes() == whole.report.read_bytes()
    recorded = lines(said, "recorded ")
    assert len(set(recorded)) == len(recorded)
    counts = [int(line.split()[1]) for line in lines(said, "resumed, ")]
    assert counts == sorted(counts)
    assert len(counts) >= len(kills) - 1  # the first kill may come before any commit
    check_journals(killed, whole)


def check_journals(killed: Audit, whole: Audit) -> None:
    """Each distribution is in the journal once, and the results are equal."""
    workflow = load("audit_packages").audit_packages
    with Engine(killed.url, workflows=[workflow]) as engine:
        results = []
        for audit in (killed, whole):
            journal = engine.journal(workflow, audit.id)
            steps = [entry.step for entry in journal if entry.step is not None]
            assert steps == [
                "list distributions",
                *(f"verify {name} 1.0" for name in NAMES),
                "write report",
            ]
            assert all(entry.live for entry in journal if entry.step is not None)
            positions = [entry.position for entry in journal]
            assert positions == list(range(1, len(journal) + 1))
            assert engine.describe(workflow, audit.id).status is Status.COMPLETED
            ending = engine.run(workflow, audit.id)
            assert isinstance(ending, Completed)
            results.append(ending.result)
        assert results[0] == results[1]
        assert results[0].totals.changed == 1


def test_a_report_whose_step_was_not_recorded_is_written_again(
    database_url: str, site: Path, tmp_path: Path
) -> None:
    audit = Audit(database_url, site, tmp_path / "report.json", "audit")
    writing = ("after_step", len(NAMES) + 2)

    run_until_killed(audit, writing, tmp_path)
    written = audit.report.read_bytes()
    audit.report.unlink()
    said = run_to_the_end(audit, tmp_path)

    assert lines(said, "recorded ") == ["recorded write report"]
    assert audit.report.read_bytes() == written
