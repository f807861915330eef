"""Commands that wait for something outside: the time, another party, another workflow.

Their faces, `sleep`, `awakeable`, `receive` and `spawn_child`, are in
`workflow_engine.wake`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, ParamSpec, Protocol, Self, TypeVar, overload

import attrs

from workflow_engine.core.commands import UNDECLARED, Command, WorkflowBody
from workflow_engine.core.durations import instant, microseconds
from workflow_engine.core.identity import (
    MESSAGE_SEND_PREFIX,
    check_name,
    check_own_name,
    check_step_name,
)
from workflow_engine.core.ids import joined
from workflow_engine.core.signature import Parameters

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@attrs.frozen
class StartTimer:
    """How a sleep is armed: due ``delay`` microseconds after it is first recorded, or
    at ``due``, microseconds since 1970-01-01 UTC. A timer once started never moves."""

    delay: int = 0
    due: int | None = None


class Timed(Command[T_co]):
    """A wait that can give up.

    ``limit`` is the timer that ends it, if anything does. What comes too late answers a
    later wait for the same thing.
    """

    __slots__ = ()

    limit: StartTimer | None

    def timeout(self, duration: timedelta | float) -> Self:
        """A copy that raises `WaitTimeout` in the body after ``duration``.

        It counts, by the database's clock, from when the wait is first reached.

        Args:
            duration: a timedelta, or seconds.

        Raises:
            InvalidDuration: NaN, infinite, negative, or longer than a thousand years.
        """
        return self._limited(StartTimer(delay=microseconds(duration, "timeout")))

    def deadline(self, moment: datetime) -> Self:
        """A copy that raises `WaitTimeout` in the body at an aware datetime.

        Several waits may share one deadline.

        Raises:
            InvalidDuration: the datetime is naive, or outside the calendar in UTC.
        """
        return self._limited(StartTimer(due=instant(moment, "deadline")))

    def _limited(self, limit: StartTimer) -> Self:
        limited = copy.copy(self)
        object.__setattr__(limited, "limit", limit)
        return limited


@attrs.frozen(init=False)
class Await(Timed[T_co]):
    """A named wait for something that happens outside.

    The run parks here until a wake is recorded under the name (`Engine.resolve`).
    Awaiting one name twice gives the same value twice.

    Args:
        name: unique within a generation among steps and waits.
        arm: tells the outside that somebody waits. Runs each time the wait is reached
            and has no value yet, so it must be idempotent. An error in it is a crash of
            the run, never thrown into the body.
        returns: the type the value is decoded as.

    Raises:
        InvalidName: the name is empty, too long, or reserved for the engine.
    """

    name: str
    arm: Callable[[], object] | None
    returns: Any = attrs.field(hash=False)
    limit: StartTimer | None

    @overload
    def __init__(
        self: Await[T],
        name: str,
        arm: Callable[[], object] | None = None,
        *,
        returns: type[T],
    ) -> None: ...

    @overload
    def __init__(
        self: Await[Any],
        name: str,
        arm: Callable[[], object] | None = None,
        *,
        returns: Any = ...,
    ) -> None: ...

    def __init__(
        self,
        name: str,
        arm: Callable[[], object] | None = None,
        *,
        returns: Any = Any,
    ) -> None:
        if arm is not None and not callable(arm):
            raise TypeError(
                f"wait {name!r}: arm is a function without arguments, not {arm!r}"
            )
        self.__attrs_init__(check_step_name(name), arm, returns, None)


@attrs.frozen
class Sleep(Command[None]):
    """A wait for the time; made by `sleep` and `sleep_until`.

    ``name`` is what the author wrote; without one it is numbered within its branch.
    """

    name: str | None
    timer: StartTimer


@attrs.frozen
class Awakeable(Timed[T_co]):
    """Something another party completes by its id, once; made by `awakeable`.

    Yield it to wait for the value. The first signal, rejection or cancellation wins.

    Attributes:
        id: cannot be guessed; whoever knows it may complete the awakeable.
    """

    id: str
    label: str
    returns: Any = attrs.field(hash=False)
    limit: StartTimer | None = None


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
class Child(Timed[T_co]):
    """Another instance that was spawned; made by `spawn_child`.

    Yield it to wait for its result. Its failure raises `ChildFailed`, its cancellation
    `ChildCancelled`. Not waiting for it leaves it alone.
    """

    workflow: str
    id: str
    returns: Any = attrs.field(hash=False)
    limit: StartTimer | None = None

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


@attrs.frozen
class Receive(Timed[T_co]):
    """A wait for the next message on a topic; made by `receive`."""

    topic: str
    returns: Any = attrs.field(hash=False)
    limit: StartTimer | None = None


def _name_of(workflow: Definition[..., Any] | str) -> str:
    name = workflow if isinstance(workflow, str) else workflow.name
    return check_name(name, "workflow name")


@attrs.frozen
class Send(Command[bool]):
    """Send a message to another instance, exactly once whatever crashes.

    The answer is whether this put it there: False if the instance has completed, or has
    been sent this key before.

    Args:
        workflow: the workflow of the instance, or its name.
        id: its workflow id.
        topic: what its `receive` names.
        value: recorded as ``returns`` when that is given, else as what it shows of
            itself.
        key: a second message with this key, on any topic, changes nothing, in any
            generation of the receiver.
        name: names the send itself in the sender's journal. Without one it is numbered
            where it stands; give a name to what may be moved in the code.

    Raises:
        InvalidName: a name, id, topic or key that cannot be one.
        InstanceNotFound: at the yield: there is no such instance.
        JournalEncodeError: at the yield: the value cannot be recorded.
    """

    workflow: str = attrs.field(converter=_name_of)
    id: str
    topic: str
    value: Any = attrs.field(hash=False)
    key: str | None = None
    name: str | None = attrs.field(default=None, kw_only=True)
    returns: Any = attrs.field(default=UNDECLARED, kw_only=True, hash=False)

    def __attrs_post_init__(self) -> None:
        check_name(self.id, "workflow id")
        check_name(self.topic, "topic")
        if self.key is not None:
            check_name(self.key, "message key")
        check_own_name(self.name, MESSAGE_SEND_PREFIX, "send name")
