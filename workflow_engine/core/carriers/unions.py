"""One of several types.

A member whose JSON no other member can be confused with is written as if it stood
alone, so ``int`` may be widened to ``int | None`` or ``int | str`` and what was stored
is still read. Members that share a kind of JSON (two classes; str and UUID; list and
tuple) are written as ``{"$type": "UUID", "value": ...}``. What was stored of theirs
before there were tags to write is read if exactly one member accepts it.

The tag is the member's name as written in the declaration, without its module; members
of the same name are told apart by their modules. A tag picks among the declared members
and does nothing else: no class is ever looked up by name.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from workflow_engine.core.carriers.carrier import (
    Carrier,
    CarrierOf,
    Misfit,
    Plain,
    brief,
    wrong,
)
from workflow_engine.core.carriers.typenames import type_name
from workflow_engine.errors import UnsupportedType

_TAG, _VALUE = "$type", "value"
_TAGGED = {_TAG, _VALUE}


class Option(NamedTuple):
    """A member of a union, with the tag to write before it, if any."""

    carrier: Carrier
    tag: str | None


class OneOf(Carrier):
    """Carries values of several types, flat and each once."""

    def __init__(self, name: str, members: list[Any]) -> None:
        super().__init__(name)
        self._members = members

    def link(self, carrier_of: CarrierOf) -> None:
        """Finds the carriers of the members, and which of them need tags."""
        self.parts = [carrier_of(member) for member in self._members]
        self.hashable = all(member.hashable for member in self.parts)
        tags = _tags(self._members, self.parts)
        options = [Option(*pair) for pair in zip(self.parts, tags, strict=True)]
        self._trying = [option for option in options if option.carrier.tries]
        self._by_class = {
            class_: [each for each in options if class_ in each.carrier.classes]
            + [each for each in self._trying if class_ not in each.carrier.classes]
            for member in self.parts
            for class_ in member.classes
        }
        self._by_tag = {tag: member for member, tag in options if tag is not None}
        self._by_kind = _by_kind(self.parts)

    def encode(self, value: Any, /) -> Plain:
        """The value as the first member by name that takes it writes it."""
        options = self._by_class.get(type(value), self._trying)
        if not options:
            raise wrong(self.name, value)
        if len(options) == 1:
            return self._encode_as(*options[0], value)
        misfits = []
        for option in options:
            try:
                return self._encode_as(*option, value)
            except Misfit as misfit:
                misfits.append(f"{option.carrier.name} ({misfit.as_problem().path})")
        problem = f"it fits no member: {', '.join(misfits)}"
        raise Misfit(self.name, f"{problem}; give the declared type or declare another")

    def _encode_as(self, carrier: Carrier, tag: str | None, value: Any) -> Plain:
        plain = carrier.encode(value)
        return plain if tag is None else {_TAG: tag, _VALUE: plain}

    def decode(self, plain: Plain, /) -> Any:
        """The value, by its tag or by its kind of JSON."""
        kind = type(plain)
        if self._by_tag and kind is dict and plain.keys() == _TAGGED:
            return self._member(plain[_TAG]).decode(plain[_VALUE])
        candidates = self._by_kind.get(kind)
        if candidates is None:
            raise wrong(self.name, plain)
        if len(candidates) == 1:
            return candidates[0].decode(plain)
        return self._only_reading(candidates, plain)

    def _member(self, tag: Plain) -> Carrier:
        member = self._by_tag.get(tag) if type(tag) is str else None
        if member is None:
            found = f"found the tag {brief(tag)}, which names no member"
            raise Misfit(self.name, found)
        return member

    def _only_reading(self, candidates: list[Carrier], plain: Plain) -> Any:
        readings = []
        for member in candidates:
            try:
                readings.append((member.name, member.decode(plain)))
            except Misfit:
                continue
        if not readings:
            raise Misfit(self.name, "it has no tag, and fits no member")
        if len(readings) > 1:
            names = " and ".join(name for name, _ in readings)
            raise Misfit(self.name, f"it has no tag, and fits {names}")
        return readings[0][1]


def _tags(members: list[Any], carriers: list[Carrier]) -> list[str | None]:
    """The tag of each member, None where none is needed."""
    writers = Counter(kind for carrier in carriers for kind in carrier.writes)
    shared = {kind for kind, count in writers.items() if count > 1}
    if shared:  # a tagged value is an object, so objects must be tagged then
        shared.add(dict)
    names = _distinct_names(members)
    return [
        name if shared & carrier.writes else None
        for name, carrier in zip(names, carriers, strict=True)
    ]


def _distinct_names(members: list[Any]) -> list[str]:
    short = Counter(type_name(member) for member in members)
    names = [type_name(member, full=short[type_name(member)] > 1) for member in members]
    if len(set(names)) < len(names):
        raise UnsupportedType(
            type=" | ".join(names),
            path="",
            problem="two members have the same name",
            advice="rename one of them",
        )
    return names


def _by_kind(carriers: list[Carrier]) -> dict[type, list[Carrier]]:
    """The members to ask for each kind of JSON: those that write it, else read it."""
    kinds = {kind for member in carriers for kind in member.writes | member.reads}
    return {
        kind: [member for member in carriers if kind in member.writes]
        or [member for member in carriers if kind in member.reads]
        for kind in kinds
    }
