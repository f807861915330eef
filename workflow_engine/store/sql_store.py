"""The store on SQLite and on PostgreSQL."""

from __future__ import annotations

from workflow_engine.store.claims import Claims
from workflow_engine.store.collection import Collection
from workflow_engine.store.examination import Examination
from workflow_engine.store.loads import Loads
from workflow_engine.store.outside import Outside
from workflow_engine.store.transactions import Transactions


class SqlStore(Claims, Loads, Transactions, Outside, Examination, Collection):
    """Implements `workflow_engine.core.ports.Store` on one `Database`.

    See `Room` for what it is made with. It holds no state of instances: any number of
    stores, in any number of processes, may share a database.
    """
