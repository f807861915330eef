"""Classes with declared fields, each written as an object by field name.

attrs classes, dataclasses, NamedTuples and TypedDicts. A stored object that lacks a
field with a default is read with the default, so a field may be added; one that lacks
another field, or has a field that the class does not know, is refused: nothing is
dropped in silence.

An instance is built by calling its class with the fields as keywords, so validators and
``__post_init__`` run. Fields of ``init=False`` are stored too, and set afterwards.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection
from typing import Any, get_origin

import attrs

from workflow_engine.core.carriers.annotations import field_types
from workflow_engine.core.carriers.carrier import (
    Carrier,
    CarrierOf,
    Misfit,
    Plain,
    brief,
    step,
    step_into,
    wrong,
)
from workflow_engine.core.carriers.typenames import type_name
from workflow_engine.errors import UnsupportedType


def find_record(name: str, type_: Any) -> Carrier | None:
    """The carrier of a class with declared fields, None when it has none."""
    class_ = get_origin(type_) or type_
    if not isinstance(class_, type):
        return None
    if attrs.has(class_):
        return Instance(name, class_, *_attrs_fields(type_, class_))
    if dataclasses.is_dataclass(class_):
        return Instance(name, class_, *_dataclass_fields(type_, class_))
    if issubclass(class_, tuple) and hasattr(class_, "_field_defaults"):
        return Instance(name, class_, *_namedtuple_fields(type_, class_))
    if issubclass(class_, dict) and hasattr(class_, "__required_keys__"):
        return Keys(name, dict, _typeddict_fields(type_, class_))
    return None


@attrs.define
class Field:
    """One field of a record."""

    name: str
    type: Any
    required: bool
    argument: str | None
    """The keyword of the constructor; None where it does not take the field."""
    carrier: Carrier = attrs.field(init=False)


class Record(Carrier):
    """Carries what has named fields."""

    writes = frozenset({dict})

    def __init__(self, name: str, class_: type, fields: list[Field]) -> None:
        super().__init__(name)
        self.classes = (class_,)
        self._fields = fields
        self._known = {field.name for field in fields}

    def link(self, carrier_of: CarrierOf) -> None:
        """Finds the carriers of the fields. An unsupported one says which it is."""
        for field in self._fields:
            try:
                field.carrier = carrier_of(field.type)
            except UnsupportedType as error:
                if error.path:
                    raise
                where = f" (field {field.name!r} of {self.name})"
                raise UnsupportedType(**{**error.facts, "path": where}) from None
            self.parts.append(field.carrier)

    def decode_fields(self, plain: Plain) -> dict[str, Any]:
        """The fields by name, none unknown, none missing that has no default."""
        if type(plain) is not dict:
            raise wrong(self.name, plain)
        values = {}
        name = ""
        try:
            for field in self._fields:
                name = field.name
                if name in plain:
                    values[name] = field.carrier.decode(plain[name])
                elif field.required:
                    raise missing(field)
        except Misfit as misfit:
            misfit.steps.append(step_into(name))
            raise
        if len(values) < len(plain):
            raise self.unknown(plain.keys() - self._known)
        return values

    def unknown(self, keys: Collection[object]) -> Misfit:
        """The misfit of fields that are not declared."""
        listed = ", ".join(sorted(brief(key) for key in keys))
        return Misfit(self.name, f"it has unknown fields ({listed}); declare them")


def missing(field: Field) -> Misfit:
    """The misfit of a field that is not there."""
    return Misfit(field.carrier.name, "it is missing; give it, or give it a default")


class Instance(Record):
    """Carries instances of a class that is built from its fields."""

    def __init__(
        self, name: str, class_: type, fields: list[Field], fragile: bool
    ) -> None:
        super().__init__(name, class_, fields)
        _refuse_other_arguments(class_, fields)
        self.fragile = fragile
        self._class = class_
        self._taken = {
            field.argument: field.name for field in fields if field.argument is not None
        }
        self._late = [field.name for field in fields if field.argument is None]
        self._direct = all(field.argument == field.name for field in fields)

    def encode(self, value: Any, /) -> dict[str, Plain]:
        """An object of the encoded fields."""
        if type(value) is not self._class:
            raise wrong(self.name, value)
        plain = {}
        name = ""
        try:
            for field in self._fields:
                name = field.name
                plain[name] = field.carrier.encode(getattr(value, name))
        except Misfit as misfit:
            misfit.steps.append(step_into(name))
            raise
        except AttributeError:
            problem = f"its field {name!r} has no value yet; set it first"
            raise Misfit(self.name, problem) from None
        return plain

    def decode(self, plain: Plain, /) -> Any:
        """A new instance, whatever the class's own checks say."""
        values = self.decode_fields(plain)
        try:
            value = self._class(**(values if self._direct else self._keywords(values)))
        except Exception as error:  # noqa: BLE001 - the class's own checks
            found = f"{type(error).__name__}: {error}"
            raise Misfit(
                self.name, f"its class refuses these fields ({found})"
            ) from None
        for name in self._late:
            if name in values:
                object.__setattr__(value, name, values[name])  # it may be frozen
        return value

    def _keywords(self, values: dict[str, Any]) -> dict[str, Any]:
        taken = self._taken.items()
        return {argument: values[name] for argument, name in taken if name in values}


class Keys(Record):
    """Carries TypedDicts."""

    def encode(self, value: Any, /) -> dict[str, Plain]:
        """An object of the encoded fields, in the order of their declaration."""
        if type(value) is not dict:
            raise wrong(self.name, value)
        if not value.keys() <= self._known:
            raise self.unknown(value.keys() - self._known)
        plain = {}
        for field in self._fields:
            with step(step_into(field.name)):
                if field.name in value:
                    plain[field.name] = field.carrier.encode(value[field.name])
                elif field.required:
                    raise missing(field)
        return plain

    def decode(self, plain: Plain, /) -> dict[str, Any]:
        """A dict of the fields."""
        return self.decode_fields(plain)


# --- what the fields are --------------------------------------------------------------


def _attrs_fields(type_: Any, class_: type) -> tuple[list[Field], bool]:
    attributes = attrs.fields(class_)
    types = field_types(type_, [attribute.name for attribute in attributes])
    fields = [
        Field(
            name=attribute.name,
            type=types.get(attribute.name, attribute.type or Any),
            required=attribute.init and attribute.default is attrs.NOTHING,
            argument=attribute.alias if attribute.init else None,
        )
        for attribute in attributes
    ]
    own_code = any(
        attribute.converter or attribute.validator for attribute in attributes
    )
    generated = "__init__" in vars(class_) and "__attrs_init__" not in vars(class_)
    hooks = ("__attrs_pre_init__", "__attrs_post_init__")
    return fields, own_code or not generated or _has_any(class_, hooks)


def _dataclass_fields(type_: Any, class_: Any) -> tuple[list[Field], bool]:
    declared = dataclasses.fields(class_)
    types = field_types(type_, [field.name for field in declared])
    missing = dataclasses.MISSING
    fields = [
        Field(
            name=field.name,
            type=types.get(field.name, Any),
            required=field.init
            and field.default is missing
            and field.default_factory is missing,
            argument=field.name if field.init else None,
        )
        for field in declared
    ]
    generated = class_.__dataclass_params__.init and "__init__" in vars(class_)
    return fields, not generated or _has_any(
        class_, ("__post_init__", "__pydantic_validator__")
    )


def _has_any(class_: type, names: tuple[str, ...]) -> bool:
    return any(hasattr(class_, name) for name in names)


def _namedtuple_fields(type_: Any, class_: Any) -> tuple[list[Field], bool]:
    types = field_types(type_, list(class_._fields))
    fields = [
        Field(name, types.get(name, Any), name not in class_._field_defaults, name)
        for name in class_._fields
    ]
    return fields, "_fields" not in vars(class_)


def _refuse_other_arguments(class_: type, fields: list[Field]) -> None:
    known = {field.argument for field in fields}
    for name, parameter in inspect.signature(class_).parameters.items():
        needed = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        )
        if needed and name not in known:
            raise UnsupportedType(
                type=type_name(class_),
                path="",
                problem=f"its constructor needs {name!r}, which is not a field",
                advice=f"give {name!r} a default or make it a field",
            )


def _typeddict_fields(type_: Any, class_: Any) -> list[Field]:
    fields = []
    names = list(class_.__annotations__)
    for name, hint in field_types(type_, names, wrapped=True).items():
        # Under postponed annotations __required_keys__ cannot see the wrappers.
        wrapper = getattr(get_origin(hint), "_name", None)
        required = {"Required": True, "NotRequired": False}.get(
            wrapper or "", name in class_.__required_keys__
        )
        fields.append(Field(name, hint, required, name))
    return fields
