"""Checks everything, stage by stage, each within its budget of seconds.

Run it from the root of a checkout, with the Python of an environment that has
``pip install -e '.[dev,postgres,testing]'``. Arguments name the stages to run; without
any, all run. The first that fails, or exceeds its budget, ends the run.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
SCRIPTS = Path(PYTHON).parent

BUDGETS = {
    "lint": 60,
    "imports": 60,
    "types": 150,
    "tests": 420,
    "wheel": 330,
    "readme": 150,
}
"""Seconds. Together they stay below 20 minutes."""


class StageFailed(Exception):
    """A command of a stage failed, or took longer than the stage may."""


class Stage:
    """One stage, with what is left of its budget."""

    def __init__(self, budget: float) -> None:
        self._deadline = time.monotonic() + budget

    def run(
        self,
        *command: str | Path,
        cwd: Path = ROOT,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Run a command and let its output through."""
        words = [str(word) for word in command]
        print("$", *words, flush=True)
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
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


def tests(stage: Stage) -> None:
    """Everything but the acceptance tests, which the next stage runs."""
    stage.run(PYTHON, "-m", "pytest", "--ignore=tests/acceptance", "--durations=10")


def wheel(stage: Stage) -> None:
    """The acceptance tests, against a wheel that was made from the sdist."""
    with tempfile.TemporaryDirectory(prefix="we-wheel-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL's own user runs what is installed here
        dist, environment, copy = folder / "dist", folder / "venv", folder / "copy"
        stage.run(PYTHON, "-m", "build", "--outdir", dist, ROOT)
        (built,) = dist.glob("*.whl")
        stage.run(PYTHON, "-m", "venv", environment)
        python = environment / "bin" / "python"
        stage.run(python, "-m", "pip", "install", "-q", f"{built}[postgres,testing]")
        # The package itself stays behind, so that only the installed one is there.
        copy.mkdir()
        for part in ("tests", "examples"):
            shutil.copytree(ROOT / part, copy / part)
        for part in ("tox.ini", "README.md"):
            shutil.copy(ROOT / part, copy)
        stage.run(
            python,
            "-m",
            "pytest",
            "tests/acceptance",
            "--durations=10",
            cwd=copy,
            environment={"PYTHONSAFEPATH": "1"},
        )


def readme(stage: Stage) -> None:
    """Every command block of the README that is marked ``<!-- run -->``, in turn."""
    marked = r"^<!-- run -->\n+```\w*\n(.*?)^```"
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(marked, text, re.MULTILINE | re.DOTALL)
    if not blocks:
        raise StageFailed("README.md has no block after <!-- run -->")
    with tempfile.TemporaryDirectory(prefix="we-readme-") as name:
        copy = Path(name) / "checkout"
        left_out = shutil.ignore_patterns(".venv", ".git", "*.db*", "*.egg-info")
        shutil.copytree(ROOT, copy, ignore=left_out)
        for block in blocks:
            print(block, end="", flush=True)
            stage.run("bash", "-euo", "pipefail", "-c", block, cwd=copy)


STAGES: dict[str, Callable[[Stage], None]] = {
    "lint": lint,
    "imports": imports,
    "types": types,
    "tests": tests,
    "wheel": wheel,
    "readme": readme,
}


def main(names: list[str]) -> int:
    """Run the named stages, or all; print the seconds each took."""
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
        if failed:
            break
    print("---", *rows, sep="\n", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
