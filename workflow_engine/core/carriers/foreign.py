"""Classes that no other carrier takes, by the hooks of a cattrs converter.

The hooks say how such a value is written and what they take back; all else is written
as ever, whatever the converter says of it. What they write must be plain JSON and not
null, which stands for None. It is read back at once, and must come back equal and of
the same class.

cattrs is imported when the first such class is met.
"""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, get_origin

from workflow_engine.core.carriers.carrier import (
    KINDS,
    Carrier,
    Misfit,
    Plain,
    brief,
    step_into,
    wrong,
)
from workflow_engine.core.carriers.plain import check_plain, read_text, write_text
from workflow_engine.core.carriers.typenames import type_name
from workflow_engine.errors import UnsupportedType

if TYPE_CHECKING:
    from cattrs import Converter


def find_foreign(name: str, type_: Any, converter: Converter | None) -> Carrier | None:
    """The carrier of a class that a converter has hooks for, None when it lacks one.

    Without a converter, one of cattrs' own for JSON is asked.

    Raises:
        UnsupportedType: the hooks exist but cannot be made.
    """
    class_ = get_origin(type_) or type_
    if not isinstance(class_, type):
        return None
    from cattrs import StructureHandlerNotFoundError
    from cattrs.fns import identity

    if converter is None:
        converter = _default_converter()
    try:
        read = converter.get_structure_hook(type_, cache_result=False)
        write = converter.get_unstructure_hook(type_, cache_result=False)
    except StructureHandlerNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001 - somebody's hook factory
        problem = f"its hooks cannot be made ({type(error).__name__}: {error})"
        raise UnsupportedType(
            type=name, path="", problem=problem, advice="correct their factory"
        ) from None
    return None if write is identity else Foreign(name, type_, read, write)


@cache
def _default_converter() -> Converter:
    from cattrs.preconf.json import make_converter

    return make_converter()


class Foreign(Carrier):
    """Carries the instances of a class, and of its subclasses if the hooks do."""

    writes = KINDS - {NoneType}
    tries = True
    fragile = True

    def __init__(self, name: str, type_: Any, read: Any, write: Any) -> None:
        super().__init__(name)
        self._type, self._class = type_, get_origin(type_) or type_
        self.classes = (self._class,)
        self._read, self._write = read, write

    def encode(self, value: Any, /) -> Plain:
        """What the hooks write, once they have read it back."""
        if not isinstance(value, self._class):
            raise wrong(self.name, value)
        plain = self._plain(value)
        again = self.decode(plain)
        try:
            same = _same(value, again)
        except Exception as error:  # noqa: BLE001 - the class's own __eq__
            raise self._refused("its __eq__", error) from None
        if not same:
            problem = f"it would be read back as another {type_name(type(again))}"
            advice = "make its hooks agree, and its class compare by value"
            raise Misfit(self.name, f"{problem}; {advice}")
        return plain

    def _plain(self, value: Any) -> Plain:
        try:
            plain = self._write(value)
        except Exception as error:  # noqa: BLE001 - somebody's hook
            raise self._refused("its unstructure hook", error) from None
        try:
            check_plain(plain)
            text = write_text(plain, self.name)
        except Misfit as misfit:
            found = misfit.problem.partition(";")[0]
            problem = f"its unstructure hook gave no plain JSON ({found}); correct it"
            misfit.expected, misfit.problem = self.name, problem
            raise
        if plain is None:
            problem = "its unstructure hook gave None; give something else"
            raise Misfit(self.name, problem)
        return read_text(text, self.name)  # lists for tuples, nothing shared

    def decode(self, plain: Plain, /) -> Any:
        """The value that the hooks make of it."""
        try:
            value = self._read(plain, self._type)
        except Exception as error:  # noqa: BLE001 - somebody's hook
            steps, cause = blame(error)
            misfit = self._refused("its structure hook", cause)
            misfit.steps = steps[::-1]
            raise misfit from None
        if not isinstance(value, self._class):
            found = f"its structure hook gave {type_name(type(value), full=True)}"
            raise Misfit(self.name, f"{found}; make it give the declared class")
        return value

    def _refused(self, whose: str, error: Exception) -> Misfit:
        found = f"{whose} raised {type(error).__name__}: {error}"
        return Misfit(self.name, f"{found}; correct it or the value")


def blame(error: Exception) -> tuple[list[str], Exception]:
    """The steps of the path to the first thing that cattrs met, and what that was."""
    from cattrs import (
        AttributeValidationNote,
        ClassValidationError,
        IterableValidationError,
    )

    steps: list[str] = []
    while isinstance(error, (ClassValidationError, IterableValidationError)):
        noted, bare = error.group_exceptions()
        if not noted:
            error = bare[0]
            continue
        error, note = noted[0]
        key = note.name if isinstance(note, AttributeValidationNote) else note.index
        steps.append(step_into(key) if isinstance(key, str) else f"[{brief(key)}]")
    return steps, error


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or one != other:
        return False
    if not isinstance(one, (str, bytes, int, float, dict)):
        return True
    # What a subclass adds to a builtin is not seen by the builtin's ==.
    unseen = ("default_factory", "__dict__")
    return all(
        getattr(one, name, None) == getattr(other, name, None) for name in unseen
    )
