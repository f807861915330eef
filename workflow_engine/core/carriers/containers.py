"""Lists, tuples, sets and dicts, of declared items.

How each is written (frozen; stored payloads hold it):

==============================  ======================================================
list, tuple, set, frozenset     a list; of a set, sorted by the text of the items
deque                           like a list; one with a maxlen is refused
dict with str keys              an object
dict with other keys            a list of pairs, in the dict's order
Sequence, Iterable, Collection  like a list, of any sequence but text
Set, MutableSet                 like a set, of set and frozenset
OrderedDict                     like a dict
Mapping, MutableMapping         like a dict, of any mapping
==============================  ======================================================

The abstract declarations promise the contents, not the class: they come back as list,
set and dict.
"""

from __future__ import annotations

import collections.abc as abc
import typing
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, TypeAlias, get_args, get_origin

from workflow_engine.core.carriers.annotations import unwrap
from workflow_engine.core.carriers.carrier import (
    Carrier,
    CarrierOf,
    Misfit,
    Plain,
    brief,
    step_into,
    wrong,
)
from workflow_engine.core.carriers.plain import write_text
from workflow_engine.core.carriers.typenames import type_name

_Accepts: TypeAlias = Callable[[Any], bool]
_Code: TypeAlias = Callable[[Any], Any]

_UNHASHABLE = "{} comes back as something that cannot be hashed; declare its type"


def find_container(name: str, type_: Any) -> Carrier | None:
    """The carrier of a container, None when the type is something else."""
    origin, arguments = get_origin(type_) or type_, get_args(type_)
    if not isinstance(origin, type):
        return None
    class_, accepts = _ABSTRACT.get(origin, (origin, None))
    if class_ in (dict, OrderedDict):
        key, item = arguments or (Any, Any)
        if unwrap(key) in (str, Any):
            return Object(name, class_, accepts, item)
        return Pairs(name, class_, accepts, key, item)
    bare = (tuple, typing.Tuple)  # noqa: UP006 - somebody's annotation
    if class_ is tuple and type_ not in bare and arguments[1:] != (...,):
        return FixedTuple(name, arguments)
    holder = _HOLDERS.get(class_)
    item = arguments[0] if arguments else Any
    return None if holder is None else holder(name, class_, accepts, item)


class Container(Carrier):
    """Carries instances of one class, or, for an abstract one, of what is like it."""

    def __init__(self, name: str, class_: type, accepts: _Accepts | None) -> None:
        super().__init__(name)
        self._class, self._accepts = class_, accepts
        self.classes = () if accepts else (class_,)
        self.tries = accepts is not None

    def _check(self, value: Any) -> None:
        if type(value) is self._class:
            return
        if self._accepts is None or not self._accepts(value):
            raise wrong(self.name, value)


class Items(Container):
    """Carries lists and tuples of any length."""

    writes = frozenset({list})

    def __init__(
        self, name: str, class_: type, accepts: _Accepts | None, item: Any
    ) -> None:
        super().__init__(name, class_, accepts)
        self._item_type = item

    def link(self, carrier_of: CarrierOf) -> None:
        """Finds the carrier of the items."""
        self._item = carrier_of(self._item_type)
        self.parts = [self._item]
        self.hashable = self._class is tuple and self._item.hashable

    def encode(self, value: Any, /) -> list[Plain]:
        """A list of the encoded items."""
        self._check(value)
        return _each(repeat(self._item.encode), value)

    def decode(self, plain: Plain, /) -> Any:
        """The items in their class."""
        if type(plain) is not list:
            raise wrong(self.name, plain)
        items = _each(repeat(self._item.decode), plain)
        return items if self._class is list else self._class(items)


class Queue(Items):
    """Carries deques."""

    def encode(self, value: Any, /) -> list[Plain]:
        """A list of the encoded items."""
        if type(value) is deque and value.maxlen is not None:
            raise Misfit(self.name, "found a deque with a maxlen; declare a list")
        return super().encode(value)


class SetItems(Items):
    """Carries sets and frozensets."""

    def link(self, carrier_of: CarrierOf) -> None:
        """Finds the carrier of the items."""
        super().link(carrier_of)
        self.hashable = self._class is frozenset and self._item.hashable
        self.fragile = not self._item.hashable

    def encode(self, value: Any, /) -> list[Plain]:
        """A sorted list: iteration order differs from process to process."""
        return sorted(super().encode(value), key=lambda item: write_text(item, ""))

    def decode(self, plain: Plain, /) -> Any:
        """The set of the items, each of them once."""
        try:
            value = super().decode(plain)
        except TypeError:
            raise Misfit(self.name, _UNHASHABLE.format("an item")) from None
        if len(value) != len(plain):
            raise Misfit(self.name, "found two equal items")
        return value


class FixedTuple(Carrier):
    """Carries tuples with a declared type for each item."""

    writes, classes = frozenset({list}), (tuple,)

    def __init__(self, name: str, items: tuple[Any, ...]) -> None:
        super().__init__(name)
        self._item_types = items

    def link(self, carrier_of: CarrierOf) -> None:
        """Finds the carriers of the items."""
        self.parts = [carrier_of(item) for item in self._item_types]
        self.hashable = all(part.hashable for part in self.parts)

    def encode(self, value: Any, /) -> list[Plain]:
        """A list of the encoded items."""
        if type(value) is not tuple:
            raise wrong(self.name, value)
        self._check_length(value)
        return _each([part.encode for part in self.parts], value)

    def decode(self, plain: Plain, /) -> tuple[Any, ...]:
        """The tuple of the items."""
        if type(plain) is not list:
            raise wrong(self.name, plain)
        self._check_length(plain)
        return tuple(_each([part.decode for part in self.parts], plain))

    def _check_length(self, items: list[Any] | tuple[Any, ...]) -> None:
        if len(items) != len(self.parts):
            found = f"found {len(items)} items instead of {len(self.parts)}"
            raise Misfit(self.name, f"{found}; give as many as declared")


def _each(codes: Iterable[_Code], items: Iterable[Any]) -> list[Any]:
    done: list[Any] = []
    try:
        for code, item in zip(codes, items, strict=False):
            done.append(code(item))
    except Misfit as misfit:
        misfit.steps.append(f"[{len(done)}]")
        raise
    return done


class Object(Container):
    """Carries dicts with str keys."""

    writes = frozenset({dict})

    def __init__(
        self, name: str, class_: type, accepts: _Accepts | None, item: Any
    ) -> None:
        super().__init__(name, class_, accepts)
        self._item_type = item

    def link(self, carrier_of: CarrierOf) -> None:
        """Finds the carrier of the items."""
        self._item = carrier_of(self._item_type)
        self.parts = [self._item]

    def encode(self, value: Any, /) -> dict[str, Plain]:
        """An object of the encoded items."""
        self._check(value)
        for key in value:
            if type(key) is not str:
                name = type_name(type(key), full=True)
                found = f"key {brief(key)} is {name}, not str"
                raise Misfit(self.name, f"{found}; declare the type of the keys")
        return self._each(self._item.encode, value)

    def decode(self, plain: Plain, /) -> dict[str, Any]:
        """A dict of the items."""
        if type(plain) is not dict:
            raise wrong(self.name, plain)
        items = self._each(self._item.decode, plain)
        return OrderedDict(items) if self._class is OrderedDict else items

    def _each(self, code: _Code, items: Any) -> dict[str, Any]:
        done = {}
        key = ""
        try:
            for key, item in items.items():
                done[key] = code(item)
        except Misfit as misfit:
            misfit.steps.append(step_into(key))
            raise
        return done


class Pairs(Container):
    """Carries dicts with keys that are not text."""

    writes = frozenset({list})

    def __init__(
        self, name: str, class_: type, accepts: _Accepts | None, key: Any, item: Any
    ) -> None:
        super().__init__(name, class_, accepts)
        self._key_type, self._item_type = key, item

    def link(self, carrier_of: CarrierOf) -> None:
        """Finds the carriers of the keys and the items."""
        self._key, self._item = carrier_of(self._key_type), carrier_of(self._item_type)
        self.parts = [self._key, self._item]
        self.fragile = not self._key.hashable

    def encode(self, value: Any, /) -> list[Plain]:
        """A list of key and item, in the dict's order."""
        self._check(value)
        plain = []
        key: Any = None
        try:
            for key, item in value.items():
                plain.append([self._key.encode(key), self._item.encode(item)])
        except Misfit as misfit:
            misfit.steps.append(f"[{brief(key)}]")
            raise
        return plain

    def decode(self, plain: Plain, /) -> dict[Any, Any]:
        """The dict of the pairs, each key once."""
        if type(plain) is not list:
            raise wrong(self.name, plain)
        keys = _each(repeat(self._decode_key), plain)
        value: dict[Any, Any] = OrderedDict() if self._class is OrderedDict else {}
        key: Any = None
        try:
            for key, pair in zip(keys, plain, strict=True):
                value[key] = self._item.decode(pair[1])
        except Misfit as misfit:
            misfit.steps.append(f"[{brief(key)}]")
            raise
        if len(value) != len(plain):
            raise Misfit(self.name, "found two equal keys")
        return value

    def _decode_key(self, pair: Plain) -> Any:
        if type(pair) is not list or len(pair) != 2:
            raise Misfit(self.name, "found something else than a pair")
        key = self._key.decode(pair[0])
        try:
            hash(key)
        except TypeError:
            raise Misfit(self.name, _UNHASHABLE.format("a key")) from None
        return key


# --- what the abstract declarations take ----------------------------------------------


def _is_sequence(value: Any) -> bool:
    text = (str, bytes, bytearray, memoryview)
    return isinstance(value, abc.Sequence) and not isinstance(value, text)


def _is_set(value: Any) -> bool:
    return isinstance(value, abc.Set)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, abc.Mapping)


_ABSTRACT: dict[type, tuple[type, _Accepts | None]] = {
    abc.Sequence: (list, _is_sequence),
    abc.MutableSequence: (list, _is_sequence),
    abc.Collection: (list, _is_sequence),
    abc.Reversible: (list, _is_sequence),
    abc.Iterable: (list, _is_sequence),
    abc.Set: (set, _is_set),
    abc.MutableSet: (set, _is_set),
    abc.Mapping: (dict, _is_mapping),
    abc.MutableMapping: (dict, _is_mapping),
}
_HOLDERS: dict[type, type[Items]] = {
    list: Items,
    tuple: Items,
    set: SetItems,
    frozenset: SetItems,
    deque: Queue,
}
