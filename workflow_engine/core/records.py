"""The engine's own records: attrs classes as JSON objects by field name, and back.

Reading converts nothing: a field of another type is refused, with the path to it. What
a record's class does not know is left out, since later code may have written it. A
journal entry is a list, which says its kind and the version of its payload.

cattrs is imported when the first record is written or read.
"""

from __future__ import annotations

import json
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_origin

import attrs

from workflow_engine.core.carriers.carrier import Misfit
from workflow_engine.core.carriers.foreign import blame
from workflow_engine.core.carriers.plain import read_text
from workflow_engine.core.carriers.typenames import type_name
from workflow_engine.core.journal import Entry
from workflow_engine.errors import ValueProblem

if TYPE_CHECKING:
    from cattrs import Converter

R = TypeVar("R")


def write(record: attrs.AttrsInstance) -> str:
    """A record as ASCII JSON."""
    return json.dumps(_converter().unstructure(record), separators=(",", ":"))


def read(text: str, type_: type[R]) -> R:
    """The record of a text.

    Raises:
        ValueProblem: it is not JSON, or not such a record.
    """
    return build(parse(text, type_), type_)


def parse(text: str, type_: type) -> dict[str, Any]:
    """The fields of a text that is to be a record of a type.

    Raises:
        ValueProblem: it is not JSON, or no object.
    """
    name = type_name(type_)
    try:
        plain = read_text(text, name)
    except Misfit as misfit:
        raise misfit.as_problem() from None
    if type(plain) is not dict:
        raise ValueProblem("$", name, f"found {type_name(type(plain))}")
    return plain


def build(fields: dict[str, Any], type_: type[R]) -> R:
    """The record of some fields.

    Raises:
        ValueProblem: a field is missing, or of another type.
    """
    try:
        return _converter().structure(fields, type_)
    except Exception as error:  # noqa: BLE001 - cattrs raises whatever it meets
        steps, cause = blame(error)
        problem = "it is missing" if isinstance(cause, KeyError) else str(cause)
        raise ValueProblem("$" + "".join(steps), type_name(type_), problem) from None


def write_entry(entry: Entry) -> list[Any]:
    """A journal entry as a list, since documents hold thousands of them.

    Frozen: position, kind, name, payload, live, format.
    """
    kind, live, format = str(entry.kind), entry.live, entry.format
    return [entry.position, kind, entry.name, entry.payload, live, format]


def read_entry(plain: Any) -> Entry:
    """The entry of a list; one of an unknown kind or format stays what it is.

    Raises:
        TypeError: it is not what `write_entry` makes.
    """
    if type(plain) is not list or tuple(map(type, plain)) not in _ENTRIES:
        raise TypeError("it is not the list of an entry")
    return Entry(*plain)


_TEXT = (str, NoneType)
_ENTRIES = {(int, str, name, payload, bool, int) for name in _TEXT for payload in _TEXT}


@cache
def _converter() -> Converter:
    from cattrs import Converter

    converter = Converter()
    for type_ in (bool, int, str):
        converter.register_structure_hook(type_, _exactly)
    converter.register_structure_hook_func(
        lambda type_: type_ in (list[Any], dict[str, Any]), _exactly
    )
    converter.register_unstructure_hook(Entry, write_entry)
    converter.register_structure_hook(Entry, lambda plain, _: read_entry(plain))
    return converter


def _exactly(plain: Any, type_: Any) -> Any:
    if type(plain) is not (get_origin(type_) or type_):
        raise TypeError(f"found {type_name(type(plain))}, not {type_name(type_)}")
    return plain
