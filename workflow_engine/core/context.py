"""What a run knows of itself."""

from __future__ import annotations

from typing import Any

import attrs

from workflow_engine.core.codec import Codec
from workflow_engine.errors import DeclarationError, JournalEncodeError, ValueProblem


@attrs.frozen
class Context:
    """What a run knows of itself.

    Attributes:
        result_type: what the body's value is recorded as.
        patches: the generation's patch set.
    """

    workflow: str
    id: str
    generation: int
    codec: Codec
    result_type: Any = Any
    patches: frozenset[str] = frozenset()

    def encode(self, value: object, type_: Any, where: str) -> str:
        """``value`` as JSON.

        Raises:
            JournalEncodeError: it cannot be carried; names the workflow, ``where`` in
                it, the path in the value and the type.
            UnsupportedType, UnresolvedAnnotation: nothing of that type can be.
        """
        try:
            return self.codec.encode(value, type_)
        except DeclarationError as error:
            raise error.placed(self.workflow, where) from None
        except ValueProblem as problem:
            raise JournalEncodeError(
                workflow=self.workflow,
                where=where,
                path=problem.path,
                expected=problem.expected,
                problem=problem.problem,
            ) from None
