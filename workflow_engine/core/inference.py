"""The type a value is recorded as when nobody declares one."""

from __future__ import annotations

from typing import Any, Union

_PLAIN = (str, int, float, bool, type(None))


def infer_type(value: object) -> Any:
    """A type that carries ``value``, as far as the value itself shows.

    Plain JSON stays undeclared. Otherwise it is the class of the value, and for
    built-in containers the container of what is inside. What a value does not show,
    such as the other members of a union, must be declared by the caller.
    """
    if isinstance(value, list):
        return _container(list, value)
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple[_common(value), ...]  # type: ignore[misc]
    if isinstance(value, set | frozenset):
        return type(value)[_common(value)]  # type: ignore[index]
    if isinstance(value, dict):
        key, item = _common(value), _common(value.values())
        plain = item is Any and all(isinstance(name, str) for name in value)
        return Any if plain else dict[key, item]  # type: ignore[valid-type]
    return Any if type(value) in _PLAIN else type(value)


def _container(type_: Any, items: Any) -> Any:
    common = _common(items)
    return Any if common is Any else type_[common]


def _common(items: Any) -> Any:
    """The type of all items: Any when they are plain or differ in plainness alone."""
    types = {repr(type_): type_ for type_ in map(infer_type, items)}
    if not types or set(types) == {repr(Any)}:
        return Any
    if repr(Any) in types:
        types.pop(repr(Any))
        plain = {type(item) for item in items if infer_type(item) is Any}
        types.update((repr(type_), type_) for type_ in plain)
    return Union[tuple(types.values())]  # noqa: UP007 - built from a list
