"""Single values: numbers, text, bytes, times, enums.

How each is written (frozen; stored payloads hold it):

==============  ======================================================================
None, bool      themselves
int             itself, up to the 4300 digits that Python reads back
float           itself, always with a point or an exponent; an int that a float holds
                exactly is taken too, and comes back as a float
str             itself
bytes           base64 text; bytearray too
UUID            canonical text
datetime        ISO 8601; an aware one keeps its offset, not the name of its zone
date, time      ISO 8601
timedelta       ISO 8601 in days and seconds, exact: ``P1DT0.000001S``
Decimal         text, exact; NaN and the infinities are refused
Enum            the member's name, so that its value may be anything
Flag            its int
==============  ======================================================================

An instance of a subclass is refused: it would come back as the declared class.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from types import NoneType
from typing import Any, Literal, TypeAlias, get_args, get_origin
from uuid import UUID

from workflow_engine.core.carriers.carrier import (
    Carrier,
    CarrierOf,
    Misfit,
    Plain,
    brief,
    wrong,
)
from workflow_engine.core.carriers.plain import check_float, check_int
from workflow_engine.core.carriers.typenames import type_name

_FOLD = " fold=1"
_DURATION = re.compile(r"P(-?\d{1,9})DT(\d{1,5})(?:\.(\d{6}))?S", re.ASCII)


def find_scalar(name: str, type_: Any) -> Carrier | None:
    """The carrier of a single value, None when the type is something else."""
    if get_origin(type_) is Literal:
        return Choice(name, get_args(type_))
    if not isinstance(type_, type):
        return None
    if type_ in _NATIVE:
        return _NATIVE[type_](name)
    if type_ in _AS_TEXT:
        return Text(name, type_, *_AS_TEXT[type_])
    if issubclass(type_, Flag):
        return FlagBits(name, type_)
    return Member(name, type_) if issubclass(type_, Enum) else None


# --- what JSON has itself -------------------------------------------------------------


class Null(Carrier):
    """Carries None."""

    writes, classes, hashable = frozenset({NoneType}), (NoneType,), True

    def encode(self, value: Any, /) -> None:
        """None itself."""
        if value is not None:
            raise wrong(self.name, value)

    decode = encode


class Bool(Carrier):
    """Carries bools."""

    writes, classes, hashable = frozenset({bool}), (bool,), True

    def encode(self, value: Any, /) -> bool:
        """The bool itself."""
        if type(value) is not bool:
            raise wrong(self.name, value)
        return value

    decode = encode


class Int(Carrier):
    """Carries ints; True is none."""

    writes, classes, hashable = frozenset({int}), (int,), True

    def encode(self, value: Any, /) -> int:
        """The int itself."""
        if type(value) is not int:
            raise wrong(self.name, value)
        check_int(value, self.name)
        return value

    decode = encode


class Float(Carrier):
    """Carries finite floats, and ints that are one."""

    writes, classes, hashable = frozenset({float}), (float,), True
    reads = frozenset({int})
    tries = True

    def encode(self, value: Any, /) -> float:
        """The float itself, also of an int."""
        if type(value) is int:
            return self._of_int(value)
        if type(value) is not float:
            raise wrong(self.name, value)
        check_float(value, self.name)
        return value

    decode = encode

    def _of_int(self, value: int) -> float:
        try:
            number = float(value)
        except OverflowError:
            number = 0.0
        if number != value:
            problem = "found an int that a float cannot hold exactly; declare int"
            raise Misfit(self.name, problem)
        return number


class Str(Carrier):
    """Carries text."""

    writes, classes, hashable = frozenset({str}), (str,), True

    def encode(self, value: Any, /) -> str:
        """The str itself."""
        if type(value) is not str:
            raise wrong(self.name, value)
        return value

    decode = encode


_NATIVE: dict[type, type[Carrier]] = {
    NoneType: Null,
    bool: Bool,
    int: Int,
    float: Float,
    str: Str,
}


# --- what is written as text ----------------------------------------------------------

_Write: TypeAlias = Callable[[Any], str]
_Read: TypeAlias = Callable[[str], Any]


class Text(Carrier):
    """Carries the instances of one class as text."""

    writes = frozenset({str})

    def __init__(self, name: str, class_: type, write: _Write, read: _Read) -> None:
        super().__init__(name)
        self.classes = (class_,)
        self.hashable = class_ is not bytearray
        self._class, self._write, self._read = class_, write, read

    def encode(self, value: Any, /) -> str:
        """The value's text."""
        if type(value) is not self._class:
            raise wrong(self.name, value)
        try:
            return self._write(value)
        except ValueError as error:
            raise Misfit(self.name, str(error)) from None
        except NotImplementedError:  # from a tzinfo that is only begun
            problem = "found a time zone without an offset; use a fixed offset"
            raise Misfit(self.name, problem) from None

    def decode(self, plain: Plain, /) -> Any:
        """The value of a text."""
        if type(plain) is not str:
            raise wrong(self.name, plain)
        try:
            return self._read(plain)
        except (ArithmeticError, ValueError):
            found = "found a str, but none that is written for this type"
            raise Misfit(self.name, found) from None


def _write_bytes(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode("ascii")


def _read_bytes(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii"), validate=True)


def _read_uuid(text: str) -> UUID:
    value = UUID(text)
    if str(value) != text.lower():
        raise ValueError(text)
    return value


def _write_time(value: datetime | time) -> str:
    offset = value.utcoffset()
    if offset is None and value.tzinfo is not None:
        raise ValueError("found a time zone without an offset; use a fixed offset")
    if offset is not None and offset.microseconds:  # fromisoformat may read it as UTC
        raise ValueError("found an offset with a fraction of a second; round it")
    return value.isoformat() + (_FOLD if value.fold else "")


def _read_datetime(text: str) -> datetime:
    if "T" not in text:
        raise ValueError(text)
    value = datetime.fromisoformat(text.removesuffix(_FOLD))
    return value.replace(fold=1) if text.endswith(_FOLD) else value


def _read_time(text: str) -> time:
    value = time.fromisoformat(text.removesuffix(_FOLD))
    return value.replace(fold=1) if text.endswith(_FOLD) else value


def _write_timedelta(value: timedelta) -> str:
    fraction = f".{value.microseconds:06}" if value.microseconds else ""
    return f"P{value.days}DT{value.seconds}{fraction}S"


def _read_timedelta(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(text)
    days, seconds, microseconds = found.groups(default="0")
    return timedelta(int(days), int(seconds), int(microseconds))


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"found the Decimal {value}, which is no number; use None")
    return str(value)


def _read_decimal(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError(text)
    return value


_AS_TEXT: dict[type, tuple[_Write, _Read]] = {
    bytes: (_write_bytes, _read_bytes),
    bytearray: (_write_bytes, lambda text: bytearray(_read_bytes(text))),
    UUID: (str, _read_uuid),
    datetime: (_write_time, _read_datetime),
    date: (date.isoformat, date.fromisoformat),
    time: (_write_time, _read_time),
    timedelta: (_write_timedelta, _read_timedelta),
    Decimal: (_write_decimal, _read_decimal),
}


# --- enums and literals ---------------------------------------------------------------


class Member(Carrier):
    """Carries the members of an Enum by name."""

    writes, hashable = frozenset({str}), True

    def __init__(self, name: str, class_: type[Enum]) -> None:
        super().__init__(name)
        self.classes = (class_,)
        self._class = class_

    def encode(self, value: Any, /) -> str:
        """The member's name."""
        if type(value) is not self._class:
            raise wrong(self.name, value)
        name: str = value._name_
        return name

    def decode(self, plain: Plain, /) -> Enum:
        """The member of a name."""
        if type(plain) is not str:
            raise wrong(self.name, plain)
        member = self._class.__members__.get(plain)
        if member is None:
            raise Misfit(self.name, f"found {brief(plain)}, which names no member")
        return member


class FlagBits(Carrier):
    """Carries flags, single or combined, by their bits."""

    writes, hashable = frozenset({int}), True

    def __init__(self, name: str, class_: type[Flag]) -> None:
        super().__init__(name)
        self.classes = (class_,)
        self._class = class_

    def encode(self, value: Any, /) -> int:
        """The flags' bits."""
        if type(value) is not self._class:
            raise wrong(self.name, value)
        return int(value._value_)

    def decode(self, plain: Plain, /) -> Flag:
        """The flags of some bits."""
        if type(plain) is not int:
            raise wrong(self.name, plain)
        try:
            value: Flag | None = self._class(plain)
        except ValueError:
            value = None
        if type(value) is not self._class or value.value != plain:
            raise Misfit(self.name, f"found {plain}, which has bits of no member")
        return value


class Choice(Carrier):
    """Carries some values of one class, as a Literal lists them."""

    hashable = True

    def __init__(self, name: str, values: tuple[Any, ...]) -> None:
        super().__init__(name)
        self.classes = (type(values[0]),)
        self._class, self._values = type(values[0]), values

    def link(self, carrier_of: CarrierOf) -> None:
        """Finds the carrier of the values' class."""
        self._inner = carrier_of(self._class)
        self.writes = self._inner.writes

    def encode(self, value: Any, /) -> Plain:
        """The value as its class is written."""
        return self._inner.encode(self._admit(value))

    def decode(self, plain: Plain, /) -> Any:
        """The value, if it is one of those listed."""
        return self._admit(self._inner.decode(plain))

    def _admit(self, value: Any) -> Any:
        if type(value) is not self._class:
            raise wrong(self.name, value)
        if value not in self._values:
            found = f"found another {type_name(self._class)}"
            raise Misfit(self.name, f"{found}; give one of those declared")
        return value
