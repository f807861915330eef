"""Starts real processes, listens to them, stops and kills them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from ..examples import environment

PATIENCE = 30.0
"""Seconds after which something that should have happened counts as not happening."""

PROGRAM = Path(__file__).with_name("program.py")


class Process:
    """A process of `program`, or of another file that is run likewise.

    Attributes:
        said: the lines of its output, so far.
    """

    def __init__(
        self, *arguments: str, environment: dict[str, str], program: Path = PROGRAM
    ) -> None:
        self.said: list[str] = []
        self._passed = 0
        self._is_silent = False
        self._news = threading.Condition()
        self._popen = subprocess.Popen(
            [sys.executable, program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._popen.pid

    def _listen(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            with self._news:
                self.said.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._is_silent = True
            self._news.notify_all()

    def expect(self, beginning: str, patience: float = PATIENCE) -> str:
        """Wait for a line that begins so; what comes before it is passed over."""
        deadline = time.monotonic() + patience
        with self._news:
            while True:
                for line in self.said[self._passed :]:
                    self._passed += 1
                    if line.startswith(beginning):
                        return line
                left = deadline - time.monotonic()
                if self._is_silent or not self._news.wait(max(0.0, left)):
                    said = "\n".join(self.said[-50:])
                    raise AssertionError(f"not said: {beginning!r}, but:\n{said}")

    def has_said(self, beginning: str) -> bool:
        """Whether there is a line that begins so."""
        with self._news:
            return any(line.startswith(beginning) for line in self.said)

    def tell(self, line: str = "") -> None:
        """Write a line to its standard input."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(line + "\n")
        self._popen.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._popen.send_signal(number)

    def pause(self) -> None:
        """Stop it by SIGSTOP, and see that it stands still."""
        self.signal(signal.SIGSTOP)
        eventually(lambda: self._stat()[0] == "T", "it stands still")

    def _stat(self) -> list[str]:
        # From the third field on; the second may hold anything.
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()

    def kill(self) -> None:
        """End it by SIGKILL, and see that it is gone."""
        self._popen.kill()
        self.wait()

    def wait(self, patience: float = PATIENCE) -> int:
        """Wait for its end; the exit code, or a signal's number, negative."""
        code = self._popen.wait(patience)
        self._listener.join(patience)
        return code

    def cpu_seconds(self) -> float:
        """How much processor time it has used so far."""
        stat = self._stat()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def dispose(self) -> None:
        """End it if it runs, and give its pipes back."""
        self._popen.kill()
        self._popen.wait()
        self._listener.join()
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Processes:
    """Starts the processes of a test on one database, and ends them with it.

    Attributes:
        effects: what each process did, a file a process.
    """

    def __init__(self, url: str, folder: Path, program: Path = PROGRAM) -> None:
        self._url, self._program = url, program
        self.effects = folder / "effects"
        self._gates_folder = folder / "gates"
        self.effects.mkdir()
        self._gates_folder.mkdir()
        self._started: list[Process] = []
        self._gates: list[Gate] = []

    def start(self, command: str, *arguments: str, gated: bool = True) -> Process:
        """Start a process; without ``gated`` it waits nowhere and says little."""
        process_environment = {
            **environment(),
            "EFFECTS": str(self.effects),
            "GATES": str(self._gates_folder) if gated else "",
        }
        process = Process(
            self._url,
            command,
            *arguments,
            environment=process_environment,
            program=self._program,
        )
        self._started.append(process)
        return process

    def gate(self, name: str) -> Gate:
        """Put a gate where processes wait: ``<id>.<step>`` or ``<point>.<subject>``."""
        gate = Gate(self._gates_folder / name)
        self._gates.append(gate)
        return gate

    def repeats(self) -> int:
        """How many effects happened more often than once, added up."""
        return self.count().total() - len(self.count())

    def count(self) -> Counter[str]:
        """How often each effect happened."""
        counter: Counter[str] = Counter()
        for file in self.effects.iterdir():
            counter.update(file.read_text().splitlines())
        return counter

    def said(self) -> list[str]:
        """What all of them have said so far."""
        return [line for process in self._started for line in list(process.said)]

    def dispose(self) -> None:
        """End what still runs."""
        for gate in self._gates:
            gate.open()
        for process in self._started:
            process.dispose()


class Gate:
    """A place where processes wait until they may go on."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._path = path
        # As long as somebody could write, whoever reads waits.
        self._descriptor = os.open(path, os.O_RDWR)
        self._is_open = False

    def open(self) -> None:
        """Let those that wait here go on, and those that come later pass."""
        if not self._is_open:
            self._is_open = True
            self._path.unlink()
            os.close(self._descriptor)


@contextlib.contextmanager
def processes(url: str, folder: Path, program: Path = PROGRAM) -> Iterator[Processes]:
    """Processes on one database, ended at the end."""
    started = Processes(url, folder, program)
    try:
        yield started
    finally:
        started.dispose()


def eventually(
    is_so: Callable[[], object], what: str, patience: float = PATIENCE
) -> None:
    """Look again and again until something is so.

    Raises:
        AssertionError: it was not, in all that time.
    """
    deadline = time.monotonic() + patience
    pause = threading.Event()
    while not is_so():
        assert time.monotonic() < deadline, f"not within {patience:g} s: {what}"
        pause.wait(0.05)
