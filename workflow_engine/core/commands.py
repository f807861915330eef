"""The commands a body yields: frozen values that describe work and perform none.

Every command can be yielded plainly (``yield Step(...)``) or, to give the result its
static type, through ``yield from`` (``hold = yield from Step("reserve", reserve,
order)``). Two commands are equal when they describe the same work, so a test can
compare what a body yields with what it should yield.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping
from datetime import timedelta
from typing import (
    Any,
    Generic,
    Never,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    overload,
)

import attrs

from workflow_engine.core.durations import microseconds
from workflow_engine.core.identity import (
    PATCH_PREFIX,
    SEED,
    check_name,
    check_step_name,
)
from workflow_engine.core.inference import infer_type
from workflow_engine.core.retry import RetryPolicy
from workflow_engine.core.signature import result_type

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
P = ParamSpec("P")


class Command(Generic[T_co]):
    """Something a body asks of the engine; ``T_co`` is the type of the answer."""

    __slots__ = ()

    def __iter__(self) -> Generator[Command[Any], Any, T_co]:
        return (yield self)  # type: ignore[no-any-return]


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
WorkflowBody: TypeAlias = Generator[Command[Any], Any, R]
"""What a workflow function returns: a generator of commands that ends with an ``R``."""


class _Undeclared:
    """Stands for a result type that was not given with ``.returns``."""

    def __repr__(self) -> str:
        return "UNDECLARED"


UNDECLARED = _Undeclared()


@attrs.frozen(init=False, repr=False)
class Step(Command[T_co]):
    """Named work with an effect, recorded once.

    The function runs at least once: again if the process dies before the outcome is
    committed, never after. Use `current_step().idempotency_key` to make the repeat
    harmless. The answer is the function's result as the journal gives it back, or the
    failure thrown at the yield.

    Args:
        name: unique within a generation; it chooses the journal entry.
        function: sync or async; its arguments follow. They are not recorded.

    Raises:
        InvalidName: the name is empty, too long, or reserved for the engine.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...] = attrs.field(hash=False)
    kwargs: Mapping[str, Any] = attrs.field(hash=False)
    declared: Any = attrs.field(hash=False)
    raised: tuple[type[Exception], ...]
    policy: RetryPolicy | None
    limit: int | None

    @overload
    def __init__(
        self: Step[T],
        name: str,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None: ...

    @overload
    def __init__(
        self: Step[T],
        name: str,
        function: Callable[P, T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None: ...

    def __init__(
        self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> None:
        if not callable(function):
            raise TypeError(
                f"step {name!r}: the second argument is the function to run, "
                f"not {function!r}; pass its arguments after it"
            )
        self.__attrs_init__(
            check_step_name(name), function, args, kwargs, UNDECLARED, (), None, None
        )

    @overload
    def returns(self, type_: type[U]) -> Step[U]: ...

    @overload
    def returns(self, type_: Any) -> Step[Any]: ...

    def returns(self, type_: Any) -> Step[Any]:
        """A copy whose result is checked and decoded as ``type_``."""
        return self._changed(declared=type_)

    def raises(self, *types: type[Exception]) -> Self:
        """A copy that throws these exceptions as their own class.

        It applies to an exception of exactly one of these classes whose ``args`` are
        plain JSON and rebuild it. Every other exception becomes `StepFailed`.
        """
        for type_ in list[Any](types):
            if not (isinstance(type_, type) and issubclass(type_, Exception)):
                raise TypeError(
                    f"step {self.name!r}: .raises() takes subclasses of Exception, "
                    f"not {type_!r}"
                )
            if issubclass(type_, StopIteration):
                raise TypeError(
                    f"step {self.name!r}: StopIteration cannot be thrown into a body"
                )
        return self._changed(raised=types)

    def retry(self, policy: RetryPolicy) -> Self:
        """A copy that is tried again as the policy says, before the body is told."""
        if not isinstance(policy, RetryPolicy):
            raise TypeError(
                f"step {self.name!r}: .retry() takes a RetryPolicy, not {policy!r}"
            )
        return self._changed(policy=policy)

    def timeout(self, duration: timedelta | float) -> Step[T_co]:
        """A copy that fails with `StepTimeout` when an attempt takes longer.

        An async function is cancelled. A sync one cannot be stopped: it is abandoned in
        its thread, and what it returns counts for nothing; it can look at
        `CurrentStep.cancelled`.

        Args:
            duration: a timedelta, or seconds.

        Raises:
            InvalidDuration: NaN, infinite, negative, or longer than a thousand years.
        """
        return self._changed(limit=microseconds(duration, "timeout"))

    def _changed(self, **changes: Any) -> Self:
        fields = {
            field.name: getattr(self, field.name) for field in attrs.fields(type(self))
        }
        step = object.__new__(type(self))
        step.__attrs_init__(**{**fields, **changes})
        return step

    @property
    def is_async(self) -> bool:
        """Whether the function is written with ``async def``."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def result_type(self) -> Any:
        """The type of the result: declared, else the function's annotation, else Any.

        Raises:
            UnresolvedAnnotation: the function's annotation names nothing.
        """
        if self.declared is UNDECLARED:
            return result_type(self.function)
        return self.declared

    def __repr__(self) -> str:
        shown = [
            repr(self.name),
            getattr(self.function, "__qualname__", repr(self.function)),
        ]
        shown += [repr(argument) for argument in self.args]
        shown += [f"{key}={value!r}" for key, value in self.kwargs.items()]
        text = f"{type(self).__name__}({', '.join(shown)})"
        if self.declared is not UNDECLARED:
            text += f".returns({getattr(self.declared, '__name__', self.declared)})"
        if self.raised:
            text += f".raises({', '.join(type_.__name__ for type_ in self.raised)})"
        if self.policy is not None:
            text += f".retry({self.policy!r})"
        if self.limit is not None:
            text += f".timeout({self.limit / 1e6:g})"
        return text


@attrs.frozen
class Patch(Command[bool]):
    """Whether this generation runs the new side of a change: True or False for ever.

    True when the id was among ``RunOptions.active_patches`` at the first claim of the
    generation. Asking twice is fine. A new generation may answer anew.
    """

    patch_id: str = attrs.field()

    @patch_id.validator
    def _check(self, _: object, patch_id: object) -> None:
        # The recorded name carries a prefix, and must still fit a step name.
        check_name(patch_id, "patch id")
        check_name(PATCH_PREFIX + self.patch_id, "patch id")


@attrs.frozen
class CurrentWorkflow(Command[tuple[str, str]]):
    """The workflow name and the workflow id of the running instance."""


@attrs.frozen
class CurrentGeneration(Command[int]):
    """The generation the run works on: 0, and one more after each `ContinueAsNew`."""


@attrs.frozen
class FreshOrdinal(Command[int]):
    """The next number, from 0, in a namespace of this run.

    Deterministic as the body is: numbers follow the order in which the body asks, so
    reordering code changes them. Names that may move should be written out instead.
    """

    namespace: str = attrs.field(validator=attrs.validators.instance_of(str))


@attrs.frozen
class ContinueAsNew(Command[Never]):
    """End this generation and start the next with an empty journal and this seed.

    Never returns. The next generation reads the seed with `restore_seed`. The seed is
    recorded as ``returns`` when that is given, else as what it shows of itself.
    """

    seed: Any = attrs.field(hash=False)
    returns: Any = attrs.field(default=UNDECLARED, kw_only=True, hash=False)


@attrs.frozen
class Chosen(Command[T_co]):
    """A value that is recorded before the body sees it; the first one stays."""

    name: str
    value: Any = attrs.field(hash=False)
    declared: Any = attrs.field(hash=False)


def restore_seed(default: T, *, returns: Any = UNDECLARED) -> Chosen[T]:
    """The seed the previous generation carried over, or ``default`` in the first one.

    Args:
        default: recorded as the seed of the first generation.
        returns: the type to decode as; by default what ``default`` shows of itself.
    """
    declared = infer_type(default) if returns is UNDECLARED else returns
    return Chosen(SEED, default, declared)
