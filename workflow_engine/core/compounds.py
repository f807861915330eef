"""Commands that run others side by side: `AllOf` and `AnyOf`.

A member is a command, or a generator of commands, which runs as a branch of the same
body: branches share variables, and take turns in the order of the journal.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from types import GeneratorType
from typing import Any, TypeAlias, TypeVar, overload

import attrs

from workflow_engine.core.commands import Command

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
T_co = TypeVar("T_co", covariant=True)

Member: TypeAlias = Command[T] | Generator[Command[Any], Any, T]
"""What can run as a branch: one command, or a generator of commands."""


def _members(given: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
    """The members, and whether they came one by one and not as a list."""
    if len(given) != 1 or _is_member(given[0]):
        return given, True
    return tuple(given[0]), False


def _is_member(given: Any) -> bool:
    if isinstance(given, GeneratorType):
        # What lists members is a generator too, and is written in place.
        return given.gi_code.co_name != "<genexpr>"
    return isinstance(given, Command) or not isinstance(given, Iterable)


@attrs.frozen(init=False)
class AllOf(Command[T_co]):
    """Run the members side by side, and wait for all of them.

    The answer is a tuple of their values in the order given; for members given as one
    list, it is a list. The first error cancels the members that still run: their
    cleanup runs, and then the error is thrown at the yield.

    Args:
        members: commands or generators, one by one or as one iterable. None at all is
            over at once.
        all_errors: cancel nobody, and throw every error as one ``ExceptionGroup``, in
            the order of the members.
    """

    members: tuple[Any, ...]
    is_tuple: bool
    all_errors: bool

    @overload
    def __init__(
        self: AllOf[tuple[T1]], a: Member[T1], /, *, all_errors: bool = ...
    ) -> None: ...

    @overload
    def __init__(
        self: AllOf[tuple[T1, T2]],
        a: Member[T1],
        b: Member[T2],
        /,
        *,
        all_errors: bool = ...,
    ) -> None: ...

    @overload
    def __init__(
        self: AllOf[tuple[T1, T2, T3]],
        a: Member[T1],
        b: Member[T2],
        c: Member[T3],
        /,
        *,
        all_errors: bool = ...,
    ) -> None: ...

    @overload
    def __init__(
        self: AllOf[tuple[T1, T2, T3, T4]],
        a: Member[T1],
        b: Member[T2],
        c: Member[T3],
        d: Member[T4],
        /,
        *,
        all_errors: bool = ...,
    ) -> None: ...

    @overload
    def __init__(
        self: AllOf[tuple[T1, T2, T3, T4, T5]],
        a: Member[T1],
        b: Member[T2],
        c: Member[T3],
        d: Member[T4],
        e: Member[T5],
        /,
        *,
        all_errors: bool = ...,
    ) -> None: ...

    @overload
    def __init__(
        self: AllOf[list[T]],
        members: Iterable[Member[T]],
        /,
        *,
        all_errors: bool = ...,
    ) -> None: ...

    @overload
    def __init__(
        self: AllOf[tuple[Any, ...]], *members: Member[Any], all_errors: bool = ...
    ) -> None: ...

    def __init__(self, *members: Any, all_errors: bool = False) -> None:
        self.__attrs_init__(*_members(members), all_errors)


@attrs.frozen(init=False)
class AnyOf(Command[tuple[int, T_co]]):
    """Run the members side by side, and go on with the first that ends.

    The answer is its index and its value; if it ended with an error, that is thrown.
    Which one is first is what the journal says, on every replay. The others are
    cancelled and their cleanup runs first. A timer of theirs is removed; what they
    waited for can be waited for again; a step that is running is recorded if it
    succeeds, and delivered to nobody.

    Args:
        members: commands or generators, one by one or as one iterable; at least one.

    Raises:
        EmptyCompound: at the yield: there is no member.
    """

    members: tuple[Any, ...]

    @overload
    def __init__(self: AnyOf[T1], a: Member[T1], /) -> None: ...

    @overload
    def __init__(self: AnyOf[T1 | T2], a: Member[T1], b: Member[T2], /) -> None: ...

    @overload
    def __init__(
        self: AnyOf[T1 | T2 | T3], a: Member[T1], b: Member[T2], c: Member[T3], /
    ) -> None: ...

    @overload
    def __init__(
        self: AnyOf[T1 | T2 | T3 | T4],
        a: Member[T1],
        b: Member[T2],
        c: Member[T3],
        d: Member[T4],
        /,
    ) -> None: ...

    @overload
    def __init__(
        self: AnyOf[T1 | T2 | T3 | T4 | T5],
        a: Member[T1],
        b: Member[T2],
        c: Member[T3],
        d: Member[T4],
        e: Member[T5],
        /,
    ) -> None: ...

    @overload
    def __init__(self: AnyOf[T], members: Iterable[Member[T]], /) -> None: ...

    @overload
    def __init__(self: AnyOf[Any], *members: Member[Any]) -> None: ...

    def __init__(self, *members: Any) -> None:
        self.__attrs_init__(_members(members)[0])
