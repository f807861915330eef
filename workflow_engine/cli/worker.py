"""``workflow-engine worker``: run instances until it is stopped."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from workflow_engine.cli.options import (
    Duration,
    Seconds,
    Where,
    json_option,
    patch_options,
    split_pairs,
    where_options,
)
from workflow_engine.cli.output import print_json, quiet_output
from workflow_engine.cli.targets import all_workflows, load_target
from workflow_engine.telemetry.events import Event, RunEnded

if TYPE_CHECKING:
    from workflow_engine.runtime.resume import Worker
    from workflow_engine.runtime.summary import PassSummary

logger = logging.getLogger("workflow_engine")

_LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Instances that run at the same time, each in a thread.",
)
@click.option(
    "--max-attempts",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Crashes in a row before an instance fails.",
)
@click.option(
    "--lease",
    type=Seconds(min=0.001),
    default=60.0,
    show_default=True,
    help="Seconds that a claim is good without renewal.",
)
@click.option(
    "--poll",
    type=Seconds(min=0.001),
    default=1.0,
    show_default=True,
    help="Seconds to wait before looking again when there was nothing.",
)
@click.option(
    "--grace",
    type=Seconds(min=0),
    default=30.0,
    show_default=True,
    help="Seconds to wait for running steps when stopped.",
)
@click.option(
    "--listen/--no-listen",
    default=True,
    help="Hear at once of what other processes do, or at the next poll.",
)
@click.option(
    "--retention",
    "kept",
    multiple=True,
    metavar="[NAME=]DURATION",
    help="Delete instances that ended so long ago, such as 30d: those of workflow "
    "NAME, or of all that it runs. May be repeated, with names.  [default: keep them]",
)
@click.option("--once", is_flag=True, help="Run what can move now, once, and end.")
@click.option(
    "--drain", is_flag=True, help="Run until nothing moves any more, and end."
)
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="What to log to standard error.",
)
@patch_options
@where_options
@json_option
def worker(
    targets: tuple[str, ...],
    once: bool,
    drain: bool,
    log_level: str,
    kept: tuple[str, ...],
    patches: tuple[str, ...],
    retired: tuple[str, ...],
    where: Where,
    as_json: bool,
    **settings: Any,
) -> None:
    """Run the instances of some workflows, until stopped.

    A TARGET is module:attribute or path/to/file.py:attribute; every workflow in the
    module is run, so that the attribute may be left out.

    SIGTERM and Ctrl-C stop it: nothing new is begun, running steps end and are
    recorded. A second one ends it at once. At the end it says what it did.
    """
    if once and drain:
        raise click.UsageError("--once and --drain exclude each other")
    from workflow_engine.runtime.options import RunOptions

    settings["retention"] = _read_retention(kept)
    options = RunOptions(
        active_patches=frozenset(patches), retired_patches=frozenset(retired)
    )
    with quiet_output(as_json), _logging_to_stderr(log_level):
        workflows = all_workflows([load_target(target) for target in targets])
        with where.engine(
            workflows, may_create=True, options=options, observer=_log_ending
        ) as engine:
            names = ", ".join(sorted(each.name for each in workflows))
            logger.info("working on %s: %s", where.shown(), names)
            summary = _work(engine.worker(**settings), once=once, drain=drain)
    if as_json:
        print_json(describe_summary(summary))
    else:
        _print_summary(summary)


def _read_retention(kept: Sequence[str]) -> float | dict[str, float] | None:
    """What ``--retention`` says.

    Raises:
        BadParameter: it is no duration, or said twice of a workflow.
    """
    duration = Duration(min=0)
    if len(kept) == 1 and "=" not in kept[0]:
        return duration.convert(kept[0], None, None)
    pairs = split_pairs(kept, "NAME")
    each = {name: duration.convert(text, None, None) for name, text in pairs.items()}
    return each or None


def describe_summary(summary: PassSummary) -> dict[str, Any]:
    """The JSON of what a worker did."""
    import attrs

    counts = attrs.asdict(summary)
    return {**counts, "unregistered_names": sorted(summary.unregistered_names)}


def _print_summary(summary: PassSummary) -> None:
    counts = describe_summary(summary)
    names = counts.pop("unregistered_names")
    done = [f"{n} {what.replace('_', ' ')}" for what, n in counts.items() if n]
    click.echo(", ".join(done) or "nothing to do")
    if names:
        click.echo(f"left for other workers: {', '.join(names)}", err=True)


def _work(worker: Worker, *, once: bool, drain: bool) -> PassSummary:
    if not once and not drain:
        return worker.run()
    with _stopping(worker.stop):
        return worker.drain() if drain else worker.run_once()


@contextmanager
def _stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Stop at the first SIGTERM or SIGINT, end the process at the second."""
    asked = False

    def ask(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise SystemExit(128 + number)
        asked = True
        stop()
        logger.info("stopping: steps that are running may end")

    before = {n: signal.signal(n, ask) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _log_ending(event: Event) -> None:
    if isinstance(event, RunEnded):
        logger.info("%s %s: %s", event.workflow, event.id, event.ending)


@contextmanager
def _logging_to_stderr(level: str) -> Iterator[None]:
    """Log everything from ``level`` on to standard error, with times in UTC."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root, alembic = logging.getLogger(), logging.getLogger("alembic")
    before = root.level, alembic.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    alembic.setLevel(logging.WARNING)  # it tells of every migration it looks at
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before[0])
        alembic.setLevel(before[1])
