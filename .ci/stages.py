"""Checks everything, stage by stage, each within its budget of seconds.

The first stage is the README's own test command, so that what it promises and what is
checked cannot drift apart; it makes the environment in ``.venv`` that the others use.
``.ci/run`` does all this on a clean checkout. By hand, from the root of a checkout,
arguments name the stages to run.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / ".venv" / "bin"

BUDGETS = {
    "tests": 680,
    "lint": 20,
    "imports": 20,
    "types": 100,
    "wheel": 280,
    "setup": 90,
}
"""Seconds. Together they stay below 20 minutes."""


class StageFailed(Exception):
    """A command of a stage failed, or took longer than the stage may."""


class Stage:
    """One stage, with what is left of its budget."""

    def __init__(self, budget: float) -> None:
        self._deadline = time.monotonic() + budget

    def run(self, *command: str | Path, cwd: Path = ROOT, **variables: str) -> None:
        """Run a command, with environment variables, and let its output through."""
        words = [str(word) for word in command]
        print("$", *words, flush=True)
        # A session of its own, so that it can be ended with all it started.
        try:
            process = subprocess.Popen(
                words, cwd=cwd, env={**os.environ, **variables}, start_new_session=True
            )
        except FileNotFoundError:
            raise StageFailed(f"there is no {words[0]}") from None
        try:
            code = process.wait(max(0.0, self._deadline - time.monotonic()))
        except BaseException as error:
            _end(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise StageFailed("exceeded its budget") from None
            raise
        if code != 0:
            raise StageFailed(f"{words[0]} ended with {code}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command as Ctrl-C does, so that it stops what it started."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def readme_command(directive: str) -> str:
    """Find the block of the README that is marked with ``<!-- directive -->``."""
    marked = rf"^<!-- {directive} -->\n```sh\n(.*?)^```$"
    text = (ROOT / "README.md").read_text()
    found: list[str] = re.findall(marked, text, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        raise StageFailed(f"README.md has {len(found)} blocks marked {directive}")
    return found[0]


def tests(stage: Stage) -> None:
    """The README's command; the acceptance tests are left to the wheel."""
    stage.run(
        "bash",
        "-euo",
        "pipefail",
        "-c",
        readme_command("test"),
        PYTEST_ADDOPTS="--ignore=tests/acceptance --durations=15",
    )


def lint(stage: Stage) -> None:
    """Format and rules."""
    stage.run(SCRIPTS / "ruff", "format", "--check")
    stage.run(SCRIPTS / "ruff", "check")


def imports(stage: Stage) -> None:
    """Layers, the pure core, no cycles."""
    stage.run(SCRIPTS / "lint-imports")


def types(stage: Stage) -> None:
    """Strict types, everywhere."""
    stage.run(SCRIPTS / "mypy")


def wheel(stage: Stage) -> None:
    """The acceptance tests, against a wheel that was made from the sdist."""
    with folder() as here:
        dist, environment, copy = here / "dist", here / "venv", here / "copy"
        stage.run(SCRIPTS / "python", "-m", "build", "--outdir", dist, ROOT)
        (built,) = dist.glob("*.whl")
        stage.run(SCRIPTS / "python", "-m", "venv", environment)
        python = environment / "bin" / "python"
        stage.run(python, "-m", "pip", "install", "-q", f"{built}[postgres,testing]")
        # The package itself stays behind, so that only the installed one is there.
        copy.mkdir()
        for part in ("tests", "examples"):
            shutil.copytree(ROOT / part, copy / part)
        shutil.copy(ROOT / "tox.ini", copy)
        stage.run(
            python,
            "-P",
            "-m",
            "pytest",
            "tests/acceptance",
            "-n2",
            "--dist=worksteal",
            "--durations=15",
            cwd=copy,
        )


def setup(stage: Stage) -> None:
    """The README's command for a fresh machine: install, run the audit."""
    with folder() as here:
        copy = here / "checkout"
        left_out = shutil.ignore_patterns(".venv", ".git", "*.db*", "*.egg-info")
        shutil.copytree(ROOT, copy, ignore=left_out)
        stage.run("bash", "-euo", "pipefail", "-c", readme_command("setup"), cwd=copy)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A temporary folder that PostgreSQL's own user can reach."""
    with tempfile.TemporaryDirectory(prefix="we-ci-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


STAGES: dict[str, Callable[[Stage], None]] = {
    "tests": tests,
    "lint": lint,
    "imports": imports,
    "types": types,
    "wheel": wheel,
    "setup": setup,
}


def main(names: list[str]) -> int:
    """Run the named stages, or all; print the seconds each took."""
    if unknown := set(names) - set(STAGES):
        print(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
        return 2
    # A shell starts what runs in the background deaf to Ctrl-C, and so would be all
    # that is started from here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rows: list[str] = []
    failed = False
    for name in names or STAGES:
        print(f"--- {name}", flush=True)
        started = time.monotonic()
        problem = ""
        try:
            STAGES[name](Stage(BUDGETS[name]))
        except StageFailed as error:
            failed, problem = True, f"  FAILED: {error}"
        seconds = time.monotonic() - started
        rows.append(f"{name:8} {seconds:5.0f} s of {BUDGETS[name]:3} s{problem}")
    print("---", *rows, sep="\n", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
