"""What a declaration means once its wrappings are off."""

from __future__ import annotations

import inspect
import types
import typing
from typing import Any, Literal, TypeVar, Union

from workflow_engine.core.carriers.typenames import is_wrapper, type_name
from workflow_engine.errors import UnresolvedAnnotation, UnsupportedType

_MAX_WRAPPINGS = 100


def unwrap(type_: Any) -> Any:
    """The type under Annotated, Final, NewType, type aliases and type variables.

    A type variable stands for its bound or its constraints, else for anything. Any and
    object are both Any, and None is its class.
    """
    for _ in range(_MAX_WRAPPINGS):
        inner = _unwrap_once(type_)
        if inner is type_:
            return type_
        type_ = inner
    problem, advice = "it is defined as itself", "give it a meaning"
    raise UnsupportedType(
        type=type_name(type_), path="", problem=problem, advice=advice
    )


def _unwrap_once(type_: Any) -> Any:
    origin = typing.get_origin(type_)
    if is_wrapper(origin):
        return typing.get_args(type_)[0]
    if is_alias(origin):
        meanings = zip(origin.__type_params__, typing.get_args(type_), strict=False)
        return substitute(origin.__value__, dict(meanings))
    if is_alias(type_):
        return type_.__value__
    if isinstance(type_, typing.NewType):
        return type_.__supertype__
    if isinstance(type_, TypeVar):
        return type_.__bound__ or Union[type_.__constraints__ or (Any,)]  # noqa: UP007
    if type_ is None:
        return types.NoneType
    return Any if type_ is object else type_


def is_alias(type_: Any) -> bool:
    """Whether this is ``type X = ...``, or its elder from typing_extensions."""
    return type(type_).__name__ == "TypeAliasType"


def members(type_: Any) -> list[Any]:
    """The members of a union, unwrapped, nested ones flat, each once, sorted by name.

    A type that is no union is its only member. Literals are grouped by the class of
    their values, and left out where that whole class is a member too.
    """
    found: list[Any] = []
    literals: dict[type, list[Any]] = {}
    _collect(type_, found, literals)
    for class_, values in literals.items():
        if class_ not in found:
            found.append(_literal_of(values))
    return sorted(found, key=type_name)


def _collect(type_: Any, found: list[Any], literals: dict[type, list[Any]]) -> None:
    type_ = unwrap(type_)
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if origin is Union or origin is types.UnionType:
        for argument in arguments:
            _collect(argument, found, literals)
    elif origin is Literal:
        for value in arguments:
            literals.setdefault(type(value), []).append(value)
    elif type_ not in found:
        found.append(type_)


def _literal_of(values: list[Any]) -> Any:
    literal: Any = Literal
    return literal[tuple(values)]


# --- classes --------------------------------------------------------------------------


def field_types(
    type_: Any, names: list[str], *, wrapped: bool = False
) -> dict[str, Any]:
    """The declared types of a class's fields, its type arguments filled in.

    A name without a declaration is left out. Metadata (Annotated, and Required and its
    like) is taken off unless ``wrapped``.

    Raises:
        UnresolvedAnnotation: an annotation names what does not exist at run time.
    """
    class_ = typing.get_origin(type_) or type_
    hints = _class_hints(class_, wrapped)
    meanings = _meanings(type_)
    fields = {}
    for name in names:
        if name in hints:
            meaning = meanings.get(_owner(class_, name), {})
            fields[name] = substitute(hints[name], meaning)
    return fields


def _class_hints(class_: type, wrapped: bool) -> dict[str, Any]:
    try:
        return typing.get_type_hints(class_, include_extras=wrapped)
    except Exception:  # noqa: BLE001 - whatever evaluating text may raise
        # A class made inside a function is in no module, but may name itself.
        known = {**vars(class_), class_.__name__: class_}
    try:
        return typing.get_type_hints(class_, localns=known, include_extras=wrapped)
    except Exception as error:  # noqa: BLE001 - as above
        name = type_name(class_, full=True)
        raise UnresolvedAnnotation(function=name, problem=str(error)) from None


def _owner(class_: type, name: str) -> type:
    """The class, of this one and its bases, that declares the field."""
    return next(
        owner for owner in class_.__mro__ if name in inspect.get_annotations(owner)
    )


def _meanings(type_: Any) -> dict[Any, dict[Any, Any]]:
    """For the class and each of its bases, what its type variables stand for."""
    class_ = typing.get_origin(type_) or type_
    if not isinstance(class_, type):
        return {}
    variables = getattr(class_, "__parameters__", ())
    meaning = dict(zip(variables, typing.get_args(type_), strict=False))
    found: dict[Any, dict[Any, Any]] = {class_: meaning}
    for base in class_.__dict__.get("__orig_bases__", class_.__bases__):
        if typing.get_origin(base) not in (typing.Generic, typing.Protocol):
            found = {**_meanings(substitute(base, meaning)), **found}
    return found


def substitute(type_: Any, meaning: dict[Any, Any]) -> Any:
    """The type with its type variables replaced."""
    if isinstance(type_, TypeVar):
        return meaning.get(type_, type_)
    variables = getattr(type_, "__parameters__", ())
    if isinstance(type_, type) and typing.get_origin(type_) is None:
        return type_  # a generic class by its bare name
    if not variables or not meaning:
        return type_
    return type_[tuple(meaning.get(variable, variable) for variable in variables)]
