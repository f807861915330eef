"""Values without a declaration: plain JSON, and the JSON text itself.

Plain JSON is None, bool, int, finite float, str, list, and dict with str keys. A tuple,
or a subclass of list, tuple or dict, is written as the list or dict that it comes back
as. Everything else is a misfit: nothing is converted by guessing.
"""

from __future__ import annotations

import json
import math
import re
from types import NoneType
from typing import Any, NoReturn

from workflow_engine.core.carriers.carrier import (
    KINDS,
    Carrier,
    Misfit,
    Plain,
    brief,
    step,
    step_into,
)
from workflow_engine.core.carriers.typenames import describe, type_name

MAX_DEPTH = 100
"""How deep lists and dicts may be nested in a payload."""

INT_BOUND = 10**4300
"""Ints from here on are refused: by default Python does not read them back."""

_PLAIN = "plain JSON"
_DECLARE = "declare the type with an annotation or .returns(...)"
_ALWAYS_PLAIN = frozenset({NoneType, bool, str})
_SCALARS = _ALWAYS_PLAIN | {int, float}
_SPLIT_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep, or contains itself; flatten it"


class PlainJson(Carrier):
    """Carries what is plain JSON already, in containers of any class."""

    writes = KINDS
    tries = True

    def encode(self, value: Any, /) -> Plain:
        """The value itself, found to be plain JSON all the way down."""
        check_plain(value)
        return value

    def decode(self, plain: Plain, /) -> Any:
        """The plain JSON itself."""
        return plain


def check_plain(value: Any, depth: int = 0) -> None:
    """Raises a misfit for what is not plain JSON."""
    kind = type(value)
    if kind in _ALWAYS_PLAIN:
        return
    if kind is int:
        check_int(value, _PLAIN)
    elif kind is float:
        check_float(value, _PLAIN)
    elif depth >= MAX_DEPTH:
        raise Misfit(_PLAIN, _TOO_DEEP)
    elif isinstance(value, dict):
        _check_dict(value, depth)
    elif isinstance(value, (list, tuple)):
        _check_items(value, depth)
    else:
        raise Misfit(_PLAIN, describe(value, _DECLARE))


def _check_dict(value: dict[Any, Any], depth: int) -> None:
    for key, item in value.items():
        if type(key) is not str:
            name = type_name(type(key), full=True)
            problem = f"key {brief(key)} is {name}, and JSON keys are str"
            raise Misfit(_PLAIN, f"{problem}; {_DECLARE}")
        if type(item) in _ALWAYS_PLAIN:
            continue
        try:
            check_plain(item, depth + 1)
        except Misfit as misfit:
            misfit.steps.append(step_into(key))
            raise


def _check_items(value: list[Any] | tuple[Any, ...], depth: int) -> None:
    for index, item in enumerate(value):
        if type(item) in _ALWAYS_PLAIN:
            continue
        try:
            check_plain(item, depth + 1)
        except Misfit as misfit:
            misfit.steps.append(f"[{index}]")
            raise


def check_int(value: int, expected: str) -> None:
    """Raises a misfit for an int that Python would not read back from its digits."""
    if not -INT_BOUND < value < INT_BOUND:
        problem = "found an int of more than 4300 digits; carry it as str or bytes"
        raise Misfit(expected, problem)


def check_float(value: float, expected: str) -> None:
    """Raises a misfit for NaN and the infinities, which JSON does not have."""
    if not math.isfinite(value):
        problem = f"found the float {value}, which JSON does not have; use None"
        raise Misfit(expected, problem)


# --- text -----------------------------------------------------------------------------

_encoder = json.JSONEncoder(
    ensure_ascii=True, check_circular=False, allow_nan=False, separators=(",", ":")
)


def _read_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is too large for a float")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_float=_read_float, parse_constant=_refuse_constant)


def write_text(plain: Plain, expected: str) -> str:
    """Plain JSON as compact ASCII text.

    The same value in the same order gives the same text. Raises a misfit for what would
    not be read back as it is.
    """
    try:
        text = _encoder.encode(plain)
    except ValueError as error:  # the interpreter's own limit on digits is lower
        raise Misfit(expected, f"found an int with too many digits ({error})") from None
    _check_depth(plain, text, expected)
    if "\\ud" in text:
        _check_surrogates(plain, expected)
    return text


def read_text(text: str, expected: str) -> Plain:
    """JSON text as plain JSON; a misfit when it is not JSON."""
    try:
        plain = _parse(text)
    except RecursionError:
        raise Misfit(expected, _TOO_DEEP) from None
    except ValueError as error:
        raise Misfit(expected, f"the payload is not JSON: {error}") from None
    _check_depth(plain, text, expected)
    return plain


def _parse(text: str) -> Plain:
    if text[:1].isspace():
        return _decoder.decode(text)
    plain, end = _decoder.raw_decode(text)  # half the time of decode
    return plain if end == len(text) else _decoder.decode(text)


def too_deep(expected: str) -> Misfit:
    """The misfit of a value on which a recursion ran out."""
    return Misfit(expected, _TOO_DEEP)


def _check_depth(plain: Plain, text: str, expected: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    level = [] if type(plain) in _SCALARS else [plain]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for holder in level
            for item in (holder.values() if isinstance(holder, dict) else holder)
            if type(item) not in _SCALARS
        ]
    if level:
        raise too_deep(expected)


def _check_surrogates(plain: Plain, expected: str) -> None:
    # JSON writes an astral character as two surrogates, so two lone ones side by side
    # would come back as one character. A lone one alone survives.
    if isinstance(plain, str):
        if _SPLIT_SURROGATES.search(plain):
            problem = "found a str with a character split in two surrogates"
            raise Misfit(expected, f"{problem}; join them or carry it as bytes")
    elif isinstance(plain, dict):
        for key, item in plain.items():
            _check_surrogates(key, expected)
            with step(step_into(key)):
                _check_surrogates(item, expected)
    elif isinstance(plain, (list, tuple)):
        for index, item in enumerate(plain):
            with step(f"[{index}]"):
                _check_surrogates(item, expected)
