"""Commands that wait for something outside: the time, another party, another workflow.

Their faces, `sleep`, `awakeable` and `spawn_child`, are in `workflow_engine.wake`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ParamSpec, Protocol, TypeVar

import attrs

from workflow_engine.core.commands import Command, WorkflowBody
from workflow_engine.core.ids import joined
from workflow_engine.core.signature import Parameters

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)


@attrs.frozen
class StartTimer:
    """How a sleep is armed: due ``delay`` microseconds after it is first recorded, or
    at ``due``, microseconds since 1970-01-01 UTC. A timer once started never moves."""

    delay: int = 0
    due: int | None = None


@attrs.frozen
class Sleep(Command[None]):
    """A wait for the time; made by `sleep` and `sleep_until`.

    ``name`` is what the author wrote; without one it is numbered within its branch.
    """

    name: str | None
    timer: StartTimer


@attrs.frozen
class Awakeable(Command[T_co]):
    """Something another party completes by its id, once; made by `awakeable`.

    Yield it to wait for the value. The first signal, rejection or cancellation wins.

    Attributes:
        id: cannot be guessed; whoever knows it may complete the awakeable.
    """

    id: str
    label: str
    returns: Any = attrs.field(hash=False)


@attrs.frozen
class OpenAwakeable(Command[Awakeable[T_co]]):
    """Register an awakeable; the answer is its handle."""

    label: str
    returns: Any = attrs.field(hash=False)


class Definition(Protocol[P, R_co]):
    """A workflow, as far as whoever spawns it has to know."""

    @property
    def name(self) -> str:
        """The registered name."""

    @property
    def parameters(self) -> Parameters:
        """How its arguments are recorded."""

    @property
    def result_type(self) -> Any:
        """What its value is recorded as."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> WorkflowBody[R_co]:
        """Make a body."""


@attrs.frozen
class Child(Command[T_co]):
    """Another instance that was spawned; made by `spawn_child`.

    Yield it to wait for its result. Its failure raises `ChildFailed`, its cancellation
    `ChildCancelled`. Not waiting for it leaves it alone.
    """

    workflow: str
    id: str
    returns: Any = attrs.field(hash=False)

    @property
    def key(self) -> str:
        """The identity as one text, of which journal names are made."""
        return joined(self.workflow, self.id)


@attrs.frozen(hash=False)
class SpawnChild(Command[Child[T_co]]):
    """Start an instance, or attach to it; the answer is its handle."""

    definition: Definition[..., Any]
    id: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def child(self) -> Child[T_co]:
        """The handle."""
        return Child(self.definition.name, self.id, self.definition.result_type)


@attrs.frozen
class CancelChild(Command[None]):
    """End a child now, unless it has ended; its waiters are told."""

    child: Child[Any]
