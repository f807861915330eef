"""When a run keeps a snapshot of its journal, so that the next one loads less.

A snapshot never changes what a body sees: it holds entries, not conclusions.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs


@attrs.frozen
class Never:
    """Keep none; every resume loads the whole generation."""


@attrs.frozen
class Every:
    """Keep one each time the journal has grown by ``entries``."""

    entries: int = attrs.field(validator=[attrs.validators.instance_of(int)])

    @entries.validator
    def _check(self, _: object, entries: int) -> None:
        if entries < 1:
            raise ValueError(f"Every({entries}): keep one every 1 or more entries")


@attrs.frozen
class OnTerminal:
    """Keep one when the instance completes, for readers of ended journals."""


SnapshotPolicy: TypeAlias = Never | Every | OnTerminal


def is_due(policy: SnapshotPolicy, before: int, after: int, *, ended: bool) -> bool:
    """Whether growing from ``before`` to ``after`` entries calls for a snapshot."""
    match policy:
        case Every(entries):
            return before // entries < after // entries
        case OnTerminal():
            return ended
        case _:
            return False
