"""Types and values as the words of an error message.

The names of union members are also written into payloads, as the tags that tell members
apart, so `type_name` of a type must not change from release to release.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any

_WRAPPERS = ("Final", "ClassVar", "Required", "NotRequired", "ReadOnly")


def type_name(type_: Any, *, full: bool = False) -> str:
    """A type as one would write it: ``dict[str, Order | None]``.

    Types that are equal have one name, so the members of unions and Literals are
    sorted: Python holds ``int | str`` and ``str | int`` for the same.

    Args:
        type_: any annotation.
        full: say the module of each class that is not a builtin.
    """
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if is_wrapper(origin):
        return type_name(arguments[0], full=full)
    if origin is typing.Union or origin is types.UnionType:
        names = {type_name(argument, full=full) for argument in arguments}
        return " | ".join(sorted(names, key=lambda name: (name == "None", name)))
    if origin is typing.Literal:
        return f"Literal[{', '.join(sorted(map(_literal, arguments)))}]"
    if arguments:
        inner = ", ".join(_argument(argument, full) for argument in arguments)
        return f"{_plain_name(origin, full)}[{inner}]"
    return _plain_name(type_, full)


def is_wrapper(origin: Any) -> bool:
    """Whether this says something about a field rather than about its type."""
    # typing_extensions has some of its own, of the same names.
    return origin is typing.Annotated or getattr(origin, "_name", "") in _WRAPPERS


def _argument(argument: Any, full: bool) -> str:
    if argument is ...:
        return "..."
    if isinstance(argument, list):
        return f"[{', '.join(_argument(part, full) for part in argument)}]"
    return type_name(argument, full=full)


def _literal(value: object) -> str:
    if isinstance(value, Enum):
        return f"{type_name(type(value))}.{value.name}"
    return repr(value)


def _plain_name(type_: Any, full: bool) -> str:
    if type_ is None or type_ is types.NoneType:
        return "None"
    name = getattr(type_, "__qualname__", None) or getattr(type_, "__name__", None)
    if not isinstance(name, str):
        return repr(type_)
    if full and getattr(type_, "__module__", "builtins") != "builtins":
        return f"{type_.__module__}.{name}"
    return name.rpartition("<locals>.")[2]


def describe(value: object, advice: str) -> str:
    """What a value is and what to do, for a message that says why it is not carried.

    A value that looks like a particular mistake, such as a generator that nobody ran,
    has advice of its own. The value itself is not shown: it may be a secret.
    """
    found = f"found {type_name(type(value), full=True)}"
    if inspect.isgenerator(value):
        found, advice = "returned a generator", f"use `yield from {_called(value)}()`"
    elif inspect.iscoroutine(value):
        found, advice = "returned a coroutine", f"use `await {_called(value)}()`"
    elif inspect.isasyncgen(value):
        found, advice = "returned an async generator", "collect its items into a list"
    elif inspect.isawaitable(value):
        advice = "await it first"
    elif isinstance(value, Iterator):
        advice = "make a list of it, since it can be read only once"
    return f"{found}; {advice}"


def _called(value: Any) -> str:
    name: str = value.__qualname__
    return name.rpartition("<locals>.")[2]
