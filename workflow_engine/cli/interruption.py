"""What ``run`` says when it does not come to an ending: how to go on."""

from __future__ import annotations

import re
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from workflow_engine import errors
from workflow_engine.cli.report import Trouble, find_sentence, is_debugging

_OURS = str(Path(__file__).parents[1])


class _Terminated(KeyboardInterrupt):
    """SIGTERM. Like Ctrl-C, it is no failure of the step that it interrupts."""


@contextmanager
def telling_how_to_go_on(workflow: str, id: str, again: str) -> Iterator[None]:
    """Report interruptions and errors of the workflow in one line.

    SIGTERM interrupts, as Ctrl-C does.

    Args:
        again: the command that goes on.

    Raises:
        Trouble: with the exit code 130 after Ctrl-C, 143 after SIGTERM, and 1 for an
            error that left the body.
    """
    try:
        with _sigterm_interrupts():
            yield
    except _Terminated:
        raise _stopped("terminated", signal.SIGTERM, again) from None
    except KeyboardInterrupt:
        raise _stopped("interrupted", signal.SIGINT, again) from None
    except Exception as error:
        problem = _find_crash(error, workflow, id)
        if problem is None or is_debugging():
            raise
        raise Trouble(
            f"{problem}; what is recorded stays. Try again: {again}"
        ) from error


def _stopped(how: str, number: signal.Signals, again: str) -> Trouble:
    kept = "what is recorded stays, and the lease is released"
    return Trouble(f"{how}; {kept}. Go on: {again}", 128 + number)


def _find_crash(error: Exception, workflow: str, id: str) -> str | None:
    """What to say of an error that left the body; None if it is the engine's."""
    if isinstance(error, errors.StepFailed):
        crash, trace = str(error), error.remote_traceback
    elif isinstance(error, click.ClickException) or find_sentence(error) is not None:
        return None
    else:
        crash = (
            f"workflow {workflow!r}, instance {id!r}: {type(error).__name__}: {error}"
        )
        trace = "".join(traceback.format_exception(error, chain=False))
    return crash + _place_in(trace)


def _place_in(trace: str) -> str:
    """The innermost line in a traceback that is not ours."""
    found = re.findall(r'^  File "(.+)", line (\d+), in (\S+)', trace, re.MULTILINE)
    places = [place for place in found if not place[0].startswith(_OURS)]
    if not places:
        return ""
    file, line, function = places[-1]
    return f" (in {function}, {file}, line {line})"


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
