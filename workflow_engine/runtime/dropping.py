"""Says what came to light while a body was dropped: it is easily overlooked."""

from __future__ import annotations

import logging

from workflow_engine.core.tree import Dropped


def report(
    dropped: Dropped, log: logging.Logger, workflow: str, id: str, rotated: bool
) -> None:
    """Log once what a body did while it was dropped.

    Args:
        rotated: it ended with `ContinueAsNew`, which wins over an error under way.
    """
    if dropped.ignored:
        log.warning(
            "workflow %r, instance %r: %d command(s) yielded while the run "
            "was over were not performed; cleanup that must happen belongs in "
            "`except`, not in `finally`",
            workflow,
            id,
            dropped.ignored,
        )
    if dropped.undead:
        log.error("workflow %r, instance %r: its body does not end", workflow, id)
    for error in dropped.raised + (dropped.pending if rotated else ()):
        log.warning(
            "workflow %r, instance %r: an error was set aside as the run was over",
            workflow,
            id,
            exc_info=error,
        )
