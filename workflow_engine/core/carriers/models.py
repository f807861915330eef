"""Pydantic models, written and read the way pydantic itself does.

Pydantic is never imported here: a class that is a model brings it along. Fields are
stored by name, whatever their aliases. Reading is strict in pydantic's sense; what a
model does with unknown fields is its own configuration. What is written is read back at
once and must equal the value, so a model that would lose something (an excluded field,
an instance of a subclass in a field) is refused. Needs pydantic 2.11 or later.
"""

from __future__ import annotations

from typing import Any

from workflow_engine.core.carriers.carrier import (
    KINDS,
    Carrier,
    Misfit,
    Plain,
    step_into,
    wrong,
)
from workflow_engine.core.carriers.plain import check_plain, write_text


def find_model(name: str, type_: Any) -> Carrier | None:
    """The carrier of a pydantic model, None when the type is none."""
    if isinstance(type_, type) and hasattr(type_, "model_validate_json"):
        return Model(name, type_)
    return None


class Model(Carrier):
    """Carries the instances of a pydantic model."""

    def __init__(self, name: str, class_: Any) -> None:
        super().__init__(name)
        is_root = "root" in class_.model_fields  # only a RootModel may have that field
        self.writes = KINDS if is_root else frozenset({dict})
        self.classes = (class_,)
        self._class = class_

    def encode(self, value: Any, /) -> Plain:
        """What the model dumps, once it has been read back."""
        if type(value) is not self._class:
            raise wrong(self.name, value)
        try:
            plain = self._dump(value, "error")
        except Exception as error:  # noqa: BLE001 - the model's own serializers
            raise self._unwritable(value, error) from None
        check_plain(plain)
        if self.decode(plain) != value:
            problem = "pydantic would read it back as another value"
            raise Misfit(self.name, f"{problem}; look for excluded fields")
        return plain

    def decode(self, plain: Plain, /) -> Any:
        """The model that pydantic validates."""
        text = write_text(plain, self.name)
        try:
            return self._class.model_validate_json(
                text, strict=True, by_alias=False, by_name=True
            )
        except Exception as error:  # noqa: BLE001 - the model's own validators
            raise self._misfit(error) from None

    def _dump(self, value: Any, warnings: str) -> Plain:
        return value.model_dump(
            mode="json", by_alias=False, round_trip=True, warnings=warnings
        )

    def _unwritable(self, value: Any, error: Exception) -> Misfit:
        # What pydantic says of a value that it cannot write shows the value, and no
        # path. Reading what it would have written says where.
        try:
            self.decode(self._dump(value, "none"))
        except Misfit as misfit:
            return misfit
        except Exception as again:  # noqa: BLE001 - as above
            error = again
        found = f"pydantic cannot write it ({type(error).__name__})"
        return Misfit(self.name, f"{found}; give each field its declared type")

    def _misfit(self, error: Exception) -> Misfit:
        errors = getattr(error, "errors", None)
        if errors is None:
            found = f"pydantic cannot read it ({type(error).__name__})"
            return Misfit(self.name, f"{found}; change it or the model")
        first = errors(include_url=False, include_input=False)[0]
        misfit = Misfit(self.name, f"pydantic: {first['msg']}; change it or the model")
        misfit.steps = [
            step_into(part) if isinstance(part, str) else f"[{part}]"
            for part in reversed(first["loc"])
        ]
        return misfit
