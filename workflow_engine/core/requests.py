"""The conversation between the interpreter and a driver: requests out, answers in.

At most one commit (`Append`, `ArmWaits`, `Park`, `Finish`, `Rotate`, `Crash`, `Block`)
is outstanding at a time, and any number of `Perform`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from workflow_engine.core.commands import Step
from workflow_engine.core.identity import TIMEOUT_PREFIX
from workflow_engine.core.journal import Draft, Entry
from workflow_engine.core.outcome import Outcome
from workflow_engine.core.waits import StartTimer
from workflow_engine.errors import EngineError

# --- requests -------------------------------------------------------------------------


Arm: TypeAlias = Callable[[], object] | StartTimer | None


@attrs.frozen
class Wait:
    """A name that is waited for, and how the outside is told.

    A function is called by the driver; a timer is started by the commit itself.
    """

    name: str
    arm: Arm = None

    @property
    def is_limit(self) -> bool:
        """Whether it only ends another wait."""
        return self.name.startswith(TIMEOUT_PREFIX)


@attrs.frozen
class Perform:
    """Run a step's function; answer `Performed`. ``superseded`` feeds its key.

    A `Transaction` that was recorded is answered by an `Appended` that names it.

    ``attempt`` counts from 1 what its retry policy counts.
    """

    name: str
    step: Step[object]
    superseded: int
    attempt: int = 1


@attrs.frozen
class Abandon:
    """Nobody waits for this step any more. If it ends, still answer `Performed`."""

    name: str


@attrs.frozen
class Append:
    """Record these; answer `Appended`, or `Moved` if ``expect`` is not the position."""

    drafts: tuple[Draft, ...]
    expect: int | None = None


@attrs.frozen
class ArmWaits:
    """Arm these waits while steps are in flight; answer `Appended` or `ArmFailed`."""

    waits: tuple[Wait, ...]


@attrs.frozen
class Park:
    """Nothing can go on until one of ``waits`` is answered.

    Parks if the position is still ``expect`` and no cancellation came, recording
    ``drafts``; otherwise answer `Appended` with what is new.
    """

    waits: tuple[Wait, ...]
    drafts: tuple[Draft, ...]
    expect: int


@attrs.frozen
class Finish:
    """The body ended. ``result`` is its encoded value, or None if it was cancelled."""

    result: str | None
    drafts: tuple[Draft, ...]


@attrs.frozen
class Rotate:
    """Open the next generation with this seed. Wakes not in ``consumed`` move along."""

    seed: str
    consumed: frozenset[str]
    drafts: tuple[Draft, ...]


@attrs.frozen
class Crash:
    """An error left the body. Answer `Moved` if ``expect`` is not the position.

    ``final`` means that no retry could change it; ``entry`` then names the journal
    entry whose error it is, if it is one's.
    """

    error: BaseException
    final: bool
    entry: str | None
    expect: int


@attrs.frozen
class Block:
    """A recorded entry cannot be read by this code. Answer `Moved` as for `Crash`."""

    error: EngineError
    position: int
    expect: int


Commit: TypeAlias = Append | ArmWaits | Park | Finish | Rotate | Crash | Block
Request: TypeAlias = Perform | Abandon | Commit


# --- answers --------------------------------------------------------------------------


@attrs.frozen
class Performed:
    """A step ended with this outcome, already encoded and checked."""

    name: str
    outcome: Outcome


@attrs.frozen
class NotBegun:
    """A step was left alone, as `Interpreter.is_called_off` when its turn came."""

    request: Perform


@attrs.frozen
class Appended:
    """All entries after the interpreter's last known position, up to ``position``.

    ``performed`` is the step among them, if one was recorded with its effects.
    """

    entries: tuple[Entry, ...]
    position: int
    cancel_requested: bool = False
    performed: frozenset[str] = frozenset()


@attrs.frozen
class Moved:
    """The journal holds more than the request expected; nothing was recorded."""


@attrs.frozen
class ArmFailed:
    """An ``arm`` raised."""

    error: BaseException


Answer: TypeAlias = Performed | NotBegun | Appended | Moved | ArmFailed
