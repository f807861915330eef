"""A step that commits together with what it writes to the database."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    Never,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    get_args,
    overload,
)

import attrs

from workflow_engine.core.commands import Step

if TYPE_CHECKING:  # for the type of the first argument alone; nothing here uses it
    from sqlalchemy.orm import Session

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
P = ParamSpec("P")

Isolation: TypeAlias = Literal["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
"""Of PostgreSQL's transactions. SQLite's are serializable whatever is asked for."""


@attrs.frozen(init=False, repr=False)
class Transaction(Step[T_co]):
    """A step whose writes to the engine's own database count exactly once.

    The function is called with a `sqlalchemy.orm.Session` before its own arguments.
    What it writes through the session, and the entry that records its result, are
    committed in one transaction, and only while the run holds its lease: both stand, or
    neither. The function itself may run more often, so it should have no effect but by
    its session.

    ``session.commit()`` in the function keeps what was written so far from a later
    ``session.rollback()``, and commits nothing. When the function raises, all is rolled
    back and the step has failed, as any step does. A serialization failure, a deadlock
    and a locked database are no failures: the whole is done again.

    Args:
        name: unique within a generation; it chooses the journal entry.
        function: not async; its arguments after the session follow.

    Raises:
        InvalidName: the name is empty, too long, or reserved for the engine.
        TypeError: the function is async.
    """

    level: Isolation | None = None

    def __init__(
        self: Transaction[T],
        name: str,
        function: Callable[Concatenate[Session, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        init: Any = Step.__init__
        init(self, name, function, *args, **kwargs)
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                f"transaction {name!r}: the function has to be a sync one, since its "
                "session is"
            )

    @overload
    def returns(self, type_: type[U]) -> Transaction[U]: ...

    @overload
    def returns(self, type_: Any) -> Transaction[Any]: ...

    def returns(self, type_: Any) -> Transaction[Any]:
        """A copy whose result is checked and decoded as ``type_``."""
        return self._changed(declared=type_)

    def isolation(self, level: Isolation) -> Self:
        """A copy that runs at another isolation level than READ COMMITTED.

        Raises:
            ValueError: there is no such level.
        """
        if level not in get_args(Isolation):
            known = ", ".join(get_args(Isolation))
            raise ValueError(f"the isolation level is one of {known}, not {level!r}")
        return self._changed(level=level)

    def timeout(self, duration: timedelta | float) -> Never:
        """Not for transactions: the database has limits of its own for statements.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"transaction {self.name!r}: a transaction takes no timeout; on PostgreSQL "
            "SET LOCAL statement_timeout within it"
        )

    def __repr__(self) -> str:
        shown = Step.__repr__(self)
        return shown if self.level is None else f"{shown}.isolation({self.level!r})"
