"""What functions declare: the type of a result, the parameters of a workflow.

Annotations are resolved at run time, whether written as text or not. One that names
something which does not exist then is `UnresolvedAnnotation`, before anything runs.
"""

from __future__ import annotations

import collections.abc as abc
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import BoundArguments, Parameter, Signature
from types import FunctionType, MethodType, NoneType
from typing import Any, NotRequired, TypedDict, TypeVar, Unpack
from weakref import WeakKeyDictionary

import attrs

from workflow_engine.core.carriers.annotations import unwrap
from workflow_engine.core.carriers.typenames import type_name
from workflow_engine.core.codec import Codec
from workflow_engine.errors import InvalidInput, UnresolvedAnnotation, ValueProblem

# Functions made inside other functions come and go, so nothing here keeps them alive.
_returns: WeakKeyDictionary[FunctionType, Any] = WeakKeyDictionary()
_parameters: WeakKeyDictionary[FunctionType, Parameters] = WeakKeyDictionary()

_AWAITED = (abc.Awaitable, abc.Coroutine)
_Function = Callable[..., Any]


def result_type(function: _Function) -> Any:
    """The type of what calling a function gives, awaited if need be.

    That is the declared return type of a function, method, partial, callable object or
    async function; a class itself; and Any where nothing is declared, as for builtins.

    Raises:
        UnresolvedAnnotation: the return annotation names what does not exist.
    """
    declared = _declared_return(function)
    if typing.get_origin(declared) in _AWAITED:
        return typing.get_args(declared)[-1]
    return Any if declared in _AWAITED else declared


def body_result_type(function: _Function) -> Any:
    """The type of what a workflow's body returns.

    That is R of ``WorkflowBody[R]`` or ``Generator[Y, S, R]``, and Any where no such
    thing is declared: ``Iterator[Y]`` says nothing about it.

    Raises:
        UnresolvedAnnotation: the return annotation names what does not exist.
    """
    declared = unwrap(_declared_return(function))
    arguments = typing.get_args(declared)
    if typing.get_origin(declared) is not abc.Generator or not arguments:
        return Any
    result = arguments[2] if len(arguments) == 3 else NoneType
    return Any if isinstance(result, TypeVar) else result


def _declared_return(function: _Function) -> Any:
    underlying = _underlying(function)
    if not isinstance(underlying, FunctionType):
        return underlying
    try:
        return _returns[underlying]
    except KeyError:
        found = _hints(underlying, ["return"]).get("return", Any)
    _returns[underlying] = found
    return found


def _underlying(function: Any) -> Any:
    """The function that carries the annotations, a class, or Any for a builtin."""
    while not isinstance(function, (FunctionType, type)):
        if isinstance(function, partial):
            function = function.func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif isinstance(type(function).__call__, FunctionType):
            function = type(function).__call__
        else:
            return Any
    return function


def _hints(function: FunctionType, names: Iterable[str]) -> dict[str, Any]:
    """The resolved annotations of some names, where there are any."""

    def asked() -> None:
        """Has only the annotations that must exist at run time."""

    try:
        declared = function.__annotations__
        asked.__annotations__ = {
            name: declared[name] for name in names if name in declared
        }
        if not asked.__annotations__:
            return {}
        scope = inspect.unwrap(function).__globals__
        return typing.get_type_hints(asked, globalns=scope)
    except Exception as error:  # noqa: BLE001 - whatever evaluating text may raise
        name = f"{function.__module__}.{function.__qualname__}"
        raise UnresolvedAnnotation(function=name, problem=str(error)) from None


@attrs.frozen(eq=False)
class Parameters:
    """The parameters of a workflow's body, which are stored by name.

    Stored are those that were given: a default is filled in when the body is called, so
    adding a parameter with a default changes nothing for what was stored before.
    ``*args`` is stored as a list under its own name, ``**kwargs`` as an object.
    """

    _signature: Signature
    _types: dict[str, Any]
    _record: Any
    """The arguments as one declared type, a TypedDict."""

    @classmethod
    def of(cls, function: _Function) -> Parameters:
        """The parameters of a function, method, partial or callable object.

        Raises:
            UnresolvedAnnotation: an annotation names what does not exist.
        """
        if not isinstance(function, FunctionType):
            return cls._read(function)
        if function not in _parameters:
            _parameters[function] = cls._read(function)
        return _parameters[function]

    @classmethod
    def _read(cls, function: _Function) -> Parameters:
        signature = inspect.signature(function)
        underlying = _underlying(function)
        hints: dict[str, Any] = {}
        if isinstance(underlying, FunctionType):
            hints = _hints(underlying, signature.parameters)
        types = {
            name: _stored_type(parameter, hints.get(name, Any))
            for name, parameter in signature.parameters.items()
        }
        return cls(
            signature, types, _record_of(type_name(underlying), signature, types)
        )

    def encode(
        self,
        codec: Codec,
        workflow: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> str:
        """The given arguments as JSON text, an object by parameter name.

        Raises:
            InvalidInput: the arguments do not fit the parameters or their types.
            UnsupportedType: a parameter is declared with a type that is not carried.
        """
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            problem = f"{error}; it takes {self._signature}"
            raise InvalidInput(workflow=workflow, problem=problem) from None
        given = {
            name: list(value) if self._kind(name) is Parameter.VAR_POSITIONAL else value
            for name, value in bound.arguments.items()
        }
        try:
            return codec.encode(given, self._record)
        except ValueProblem as found:
            raise InvalidInput(workflow=workflow, problem=_sentence(found)) from None

    def decode(self, codec: Codec, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the body with, defaults filled in.

        Raises:
            ValueProblem: the stored arguments no longer fit the parameters.
        """
        bound = BoundArguments(self._signature, self._complete(codec, text))
        return bound.args, bound.kwargs

    def differing(self, codec: Codec, stored: str, given: str) -> tuple[str, ...]:
        """The names of the parameters whose values differ, defaults filled in.

        Stored arguments that no longer fit the parameters are compared as JSON.
        """
        if stored == given:
            return ()
        try:
            before, now = self._complete(codec, stored), self._complete(codec, given)
        except ValueProblem:
            before, now = codec.decode(stored), codec.decode(given)
        names = [*before, *(name for name in now if name not in before)]
        return tuple(
            name
            for name in names
            if name not in before
            or name not in now
            or not self._same(codec, name, before[name], now[name])
        )

    def _complete(self, codec: Codec, text: str) -> dict[str, Any]:
        values: dict[str, Any] = codec.decode(text, self._record)
        for name in values:
            if self._kind(name) is Parameter.VAR_POSITIONAL:
                values[name] = tuple(values[name])
        bound = BoundArguments(self._signature, values)
        bound.apply_defaults()
        return dict(bound.arguments)

    def _same(self, codec: Codec, name: str, one: Any, other: Any) -> bool:
        if one is other or (type(one) is type(other) and one == other):
            return True
        type_ = self._types.get(name, Any)
        if self._kind(name) is Parameter.VAR_POSITIONAL:
            one, other = list(one), list(other)
        try:  # classes may have no equality of their own
            return codec.encode(one, type_) == codec.encode(other, type_)
        except ValueProblem:  # a default that is only a mark
            return False

    def _kind(self, name: str) -> Any:
        parameter = self._signature.parameters.get(name)
        return parameter and parameter.kind


def _record_of(name: str, signature: Signature, types: dict[str, Any]) -> Any:
    """A TypedDict of the parameters; those that may be left out are not required."""
    make: Any = TypedDict
    optional = {
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.default is not Parameter.empty
        or parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    }
    try:
        fields = {
            parameter: NotRequired[type_] if parameter in optional else type_
            for parameter, type_ in types.items()
        }
        return make(f"arguments of {name}", fields)
    except TypeError as error:  # an annotation that is no type at all
        raise UnresolvedAnnotation(function=name, problem=str(error)) from None


def _stored_type(parameter: Parameter, declared: Any) -> Any:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return list[declared]
    if parameter.kind is not Parameter.VAR_KEYWORD:
        return declared
    if typing.get_origin(declared) is Unpack:
        return typing.get_args(declared)[0]
    return dict[str, declared]


def _sentence(found: ValueProblem) -> str:
    where = f"parameter {found.path[2:]}" if found.path != "$" else "the arguments"
    return f"{where}: cannot record it as {found.expected}: {found.problem}"
