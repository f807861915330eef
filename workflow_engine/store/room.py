"""What the rooms of a store share: the repositories, and how a transaction is opened.

The store is one class in three rooms, `Claims`, `Commits` and `Outside`, because it is
one port with many methods. `SqlStore` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Self

from workflow_engine.store.awakeables import Awakeables
from workflow_engine.store.children import Children
from workflow_engine.store.database import Database
from workflow_engine.store.discovery import Discovery
from workflow_engine.store.hints import Hints
from workflow_engine.store.instances import Instances
from workflow_engine.store.journal import Journal
from workflow_engine.store.leases import Leases
from workflow_engine.store.ledger import Ledger
from workflow_engine.store.messages import Messages
from workflow_engine.store.now import Now
from workflow_engine.store.progress import Progress
from workflow_engine.store.snapshots import Snapshots
from workflow_engine.store.timers import Timers
from workflow_engine.store.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from workflow_engine.store.callers import CallersSession, CallersTransaction


def of_the_database() -> None:
    """The instant that is not bound: the database says what time it is."""


class Room:
    """A part of a store on one database.

    Args:
        database: whose schema is ready.
        instant: what a test clock says, in microseconds since 1970-01-01 UTC; None for
            the database's own time. Asked once a transaction.
    """

    def __init__(
        self, database: Database, instant: Callable[[], int | None] = of_the_database
    ) -> None:
        self.hints = Hints(database)
        self._database = database
        self._place: Database | CallersTransaction = database
        self._instant = instant
        tables, dialect = database.tables, database.dialect
        ledger = Ledger(tables, dialect)
        self._instances = Instances(ledger, dialect)
        self._leases = Leases(ledger)
        self._discovery = Discovery(ledger, dialect)
        self._progress = Progress(ledger)
        self._journal = Journal(tables, dialect)
        self._snapshots = Snapshots(tables, dialect)
        self._timers = Timers(tables, dialect)
        self._awakeables = Awakeables(tables, dialect)
        self._children = Children(tables, dialect)
        self._messages = Messages(tables, dialect)

    def joined(self, session: CallersSession) -> Self:
        """See `Store.joined`."""
        # Not imported by those who have no session: it loads the ORM.
        from workflow_engine.store.callers import CallersTransaction

        joined = copy(self)
        joined._place = CallersTransaction(self._database, session)
        return joined

    @contextmanager
    def _write(self, first: frozenset[int] = frozenset()) -> Iterator[UnitOfWork]:
        """A transaction that writes, with the rows of ``first`` locked in order."""
        with self._place.write() as connection:
            work = UnitOfWork(connection, Now(self._instant()), first)
            for instance in sorted(first):
                self._instances.lock_by_id(work, instance)
            yield work
            if work.woke:
                self.hints.within(connection)
        if work.woke:
            self._place.when_committed(self.hints.after)

    @contextmanager
    def _read(self) -> Iterator[UnitOfWork]:
        with self._place.read() as connection:
            yield UnitOfWork(connection, Now(self._instant()))
