"""Values as JSON text, and back, by their declared types.

One codec carries everything that is recorded: arguments, results, seeds, messages. What
`Codec.encode` accepts, `Codec.decode` gives back equal in value and in type; anything
else is refused when it is encoded, with the path to it and what to do. Nothing is
pickled; decoding imports nothing, and calls nothing but the classes that the declared
type names and, for those that are not known here, the hooks of a cattrs converter.

Three declarations promise less, in the way their own words do:

- plain JSON (no declaration, ``Any`` or ``object``): tuples, and subclasses of list,
  tuple and dict, come back as list and dict;
- abstract collections: the contents come back in a list, set or dict;
- ``float`` takes an int that it holds exactly, and gives back a float.

So does a time zone: an aware datetime keeps its offset, not the zone's name.

How each type is written is said in the package ``carriers``, and is frozen: stored
payloads depend on it.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any, Never, NoReturn

from workflow_engine.core.carriers.annotations import members
from workflow_engine.core.carriers.carrier import (
    Carrier,
    Misfit,
    Nothing,
    Plain,
    step_into,
)
from workflow_engine.core.carriers.containers import find_container
from workflow_engine.core.carriers.foreign import find_foreign
from workflow_engine.core.carriers.models import find_model
from workflow_engine.core.carriers.plain import (
    PlainJson,
    read_text,
    too_deep,
    write_text,
)
from workflow_engine.core.carriers.records import find_record
from workflow_engine.core.carriers.scalars import find_scalar
from workflow_engine.core.carriers.typenames import type_name
from workflow_engine.core.carriers.unions import OneOf
from workflow_engine.errors import UnsupportedType, ValueProblem

if TYPE_CHECKING:
    from cattrs import Converter

_MAX_CACHED = 4096
_HOOKS = "register hooks on a cattrs Converter and pass Engine(converter=...)"


class Codec:
    """Carries values as JSON text.

    What it learns about a type it keeps, so build one and share it; any number of
    threads may use it at once.

    Args:
        max_bytes: the longest payload that `encode` makes. `decode` has no limit, so
            lowering it leaves what is stored readable.
        converter: carries the classes that nothing here carries, as its hooks say; by
            default one of cattrs' own for JSON.
    """

    def __init__(
        self, *, max_bytes: int = 4 * 2**20, converter: Converter | None = None
    ) -> None:
        self.max_bytes = max_bytes
        self._converter = converter
        self._carriers: dict[Any, Carrier] = {}

    def encode(self, value: object, type_: Any = Any) -> str:
        """The value as compact ASCII JSON, the same text each time.

        Raises:
            ValueProblem: the value is not of that type, or cannot be recorded.
            UnsupportedType: no value of that type can be recorded.
        """
        carrier = self._carrier(type_)
        try:
            text = write_text(carrier.encode(value), carrier.name)
            if carrier.needs_proof:
                _prove(carrier, text)
        except Misfit as misfit:
            raise misfit.as_problem() from None
        except RecursionError:
            raise too_deep(carrier.name).as_problem() from None
        if len(text) > self.max_bytes:
            sizes = f"it takes {len(text)} bytes and the limit is {self.max_bytes}"
            advice = "keep it elsewhere and record where"
            raise ValueProblem("$", carrier.name, f"{sizes}; {advice}")
        return text

    def decode(self, text: str, type_: Any = Any) -> Any:
        """The value that `encode` made the text of.

        Raises:
            ValueProblem: the text is not JSON, or does not fit the type.
            UnsupportedType: no value of that type can be recorded.
        """
        carrier = self._carrier(type_)
        try:
            return carrier.decode(read_text(text, carrier.name))
        except Misfit as misfit:
            raise misfit.as_problem() from None
        except RecursionError:
            raise too_deep(carrier.name).as_problem() from None

    def check(self, type_: Any) -> None:
        """Finds out early whether values of a declared type can be recorded.

        Raises:
            UnsupportedType: they cannot.
            UnresolvedAnnotation: a class's fields name what does not exist at run time.
        """
        self._carrier(type_)

    def _carrier(self, type_: Any) -> Carrier:
        try:
            return self._carriers[type_]
        except (KeyError, TypeError):  # unknown as yet, or without a hash
            pass
        build = _Build(self._carriers, self._converter)
        carrier = build.carrier_of(type_)
        if len(self._carriers) > _MAX_CACHED:  # types made anew again and again
            self._carriers.clear()
        self._carriers.update(build.fresh)
        return carrier


class _Build:
    """Builds the carrier of one type and of all its parts.

    They become known to the codec only when all of them are linked, so that a failure
    leaves nothing behind and no thread meets an unfinished one.
    """

    def __init__(self, known: dict[Any, Carrier], converter: Converter | None) -> None:
        self._known = known
        self._converter = converter
        self.fresh: dict[Any, Carrier] = {}

    def carrier_of(self, type_: Any) -> Carrier:
        try:
            found = self.fresh.get(type_) or self._known.get(type_)
        except TypeError:  # metadata without a hash somewhere inside: not remembered
            found = _carrier_for(type_, self._converter)
            found.link(self.carrier_of)
        if found is None:
            found = self.fresh[type_] = _carrier_for(type_, self._converter)
            found.link(self.carrier_of)
        return found


_FINDERS = (find_scalar, find_container, find_model, find_record)


def _carrier_for(type_: Any, converter: Converter | None) -> Carrier:
    """A carrier for the type, not linked yet."""
    name = type_name(type_)
    choices = members(type_)
    if Any in choices:
        return PlainJson("plain JSON")
    if len(choices) > 1:
        return OneOf(name, choices)
    if choices[0] in (Never, NoReturn):
        return Nothing(name)
    for find in _FINDERS:
        found = find(name, choices[0])
        if found is not None:
            return found
    found = find_foreign(name, choices[0], converter)
    if found is None:
        raise _unsupported(choices[0])
    return found


def _unsupported(type_: Any) -> UnsupportedType:
    origin = typing.get_origin(type_) or type_
    problem = "it has no declared fields"
    advice = f"use an attrs class or a dataclass, or {_HOOKS}"
    if isinstance(type_, (str, typing.ForwardRef)):
        problem, advice = "it is a name, not a type", "give the class itself"
    elif not isinstance(origin, type):
        problem, advice = "it is not a class", "declare the class of the value"
    elif issubclass(origin, typing.Iterator | typing.AsyncIterator):
        problem, advice = "it can be read only once", "make a list of it"
    elif issubclass(origin, typing.Awaitable):
        problem, advice = "it has no value yet", "declare what it is awaited to"
    elif issubclass(origin, (list, tuple, dict, set, frozenset)):
        problem = "it is a container of its own kind"
        advice = f"declare list or dict, or {_HOOKS}"
    return UnsupportedType(
        type=type_name(type_), path="", problem=problem, advice=advice
    )


def _prove(carrier: Carrier, text: str) -> None:
    """Reads back what was written of a class that runs code of its own.

    Raises:
        Misfit: the class, or its hooks, do not take back what they gave, or change it.
    """
    plain = read_text(text, carrier.name)
    try:
        again = carrier.encode(carrier.decode(plain))
    except Misfit as refused:
        refused.problem = f"it could not be read back: {refused.problem}"
        raise
    if write_text(again, carrier.name) != text:
        problem = "its class changes what it is given; make it take its own fields"
        changed = Misfit(carrier.name, problem)
        changed.steps = [_difference(plain, read_text(write_text(again, ""), ""))]
        raise changed


def _difference(one: Plain, other: Plain) -> str:
    """The path to the first thing that is not the same in two pieces of plain JSON."""
    inside: list[tuple[str, Plain, Plain]] = []
    if isinstance(one, dict) and isinstance(other, dict):
        inside = [(step_into(key), one[key], other.get(key)) for key in one]
    elif isinstance(one, list) and isinstance(other, list):
        both = enumerate(zip(one, other, strict=False))
        inside = [(f"[{index}]", *pair) for index, pair in both]
    for step, left, right in inside:
        if repr(left) != repr(right):
            return step + _difference(left, right)
    return ""
