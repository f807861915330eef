"""The engine: what users hold.

It opens a database, knows workflows by name, starts and runs instances, and answers
questions about them. It keeps no state of its own besides the leases it holds: another
engine on the same database sees the same.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, overload

import attrs

from workflow_engine.core.codec import Codec
from workflow_engine.core.outcome import ContinuedAsNew, Ending
from workflow_engine.errors import (
    EngineClosed,
    StoreRefused,
)
from workflow_engine.runtime.clock import Clock, SystemClock
from workflow_engine.runtime.collector import Collector
from workflow_engine.runtime.direct import DirectRun
from workflow_engine.runtime.doctor import Doctor
from workflow_engine.runtime.equipment import Equipment
from workflow_engine.runtime.handle import Handle
from workflow_engine.runtime.lease import Heartbeat
from workflow_engine.runtime.messaging import Messaging
from workflow_engine.runtime.options import RunOptions
from workflow_engine.runtime.outside import Named, key_of
from workflow_engine.runtime.owner import Owner
from workflow_engine.runtime.points import NOWHERE, Points
from workflow_engine.runtime.registry import Registry, Workflow
from workflow_engine.runtime.resume import Worker
from workflow_engine.runtime.retention import Keeping, rules_of
from workflow_engine.runtime.signalling import Signalling
from workflow_engine.runtime.starting import (
    OnConflict,
    Starting,
    check_declarations,
    place_order,
)
from workflow_engine.runtime.worker_options import WorkerOptions
from workflow_engine.telemetry.events import Observer

if TYPE_CHECKING:
    from cattrs import Converter

    from workflow_engine.store.callers import CallersSession
    from workflow_engine.store.database import Source

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

URL_VARIABLE = "WORKFLOW_ENGINE_URL"
SCHEMA_VARIABLE = "WORKFLOW_ENGINE_SCHEMA"


class Engine(Collector, Doctor, Messaging, Signalling):
    """Runs workflows on a database. A context manager; safe to share between threads.

    A fresh SQLite file is created and an older one upgraded. PostgreSQL is only
    checked. The database is touched at the first use, or on entering the context.

    Args:
        url_or_sqlalchemy_engine: a database URL, or an SQLAlchemy engine, which stays
            the caller's: no other is made, and its pool is never disposed of.
        workflows: what this engine can run. There is no global registry.
        options: how runs behave.
        schema: PostgreSQL schema of the tables; ``workflow_engine`` by default.
        clock: for tests; the database's clock by default.
        observer: called with the events of runs (see `workflow_engine.telemetry`), from
            the threads of their steps too.
        converter: a cattrs Converter with hooks for classes of your own. They count
            for what the engine does not carry anyway, and are looked up at first use.
        points: for tests, named points at which the process can be made to die.

    Raises:
        DuplicateWorkflow, NotAWorkflow: from ``workflows``.
        SchemaOutOfDate, SchemaTooNew, StoreRefused, StoreUnavailable: at the first use.
    """

    def __init__(
        self,
        url_or_sqlalchemy_engine: Source,
        *,
        workflows: Iterable[Workflow[..., Any]] = (),
        options: RunOptions | None = None,
        schema: str | None = None,
        clock: Clock | None = None,
        observer: Observer | None = None,
        converter: Converter | None = None,
        points: Points = NOWHERE,
    ) -> None:
        from workflow_engine.store.database import Database

        self._registry = Registry(workflows)
        self._options = options or RunOptions()
        self._clock = clock or SystemClock()
        self._observer = observer
        self._converter = converter
        self._points = points
        self._database = Database.open(url_or_sqlalchemy_engine, schema=schema)
        self._equipment: Equipment | None = None
        self._pid = 0
        self._lock = threading.Lock()
        self._closed = False
        self._origin: Engine | None = None

    @classmethod
    def from_env(
        cls,
        *,
        workflows: Iterable[Workflow[..., Any]] = (),
        options: RunOptions | None = None,
        converter: Converter | None = None,
    ) -> Self:
        """An engine on ``WORKFLOW_ENGINE_URL`` (and ``WORKFLOW_ENGINE_SCHEMA``).

        Raises:
            StoreRefused: the variable is not set.
        """
        url = os.environ.get(URL_VARIABLE)
        if not url:
            raise StoreRefused(
                problem=f"{URL_VARIABLE} is not set; set it to a database URL such as "
                "sqlite:///workflows.db"
            )
        schema = os.environ.get(SCHEMA_VARIABLE) or None
        return cls(
            url,
            workflows=workflows,
            options=options,
            schema=schema,
            converter=converter,
        )

    def with_options(self, **changes: Any) -> Engine:
        """An engine on the same database and workflows, with some options changed.

        It shares everything else and need not be closed.
        """
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view._options = attrs.evolve(self._options, **changes)
        view._equipment = None
        view._lock = threading.Lock()
        view._origin = self
        return view

    # --- life ---

    def __enter__(self) -> Self:
        try:
            self._equip()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        type_: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the heartbeat and close our connections. May be called twice."""
        self._closed = True
        if self._origin is not None:
            return
        if self._equipment is not None and self._pid == os.getpid():
            self._equipment.heartbeat.close()
        self._database.close()

    def upgrade_schema(self) -> None:
        """Bring the database's schema to this code's revision.

        Raises:
            MigrationLocked: another session is migrating for too long.
        """
        from workflow_engine.store import schema

        schema.upgrade(self._database)

    def _equip(self) -> Equipment:
        if self._closed:
            raise EngineClosed(problem="it was closed; make a new one")
        if self._equipment is None or self._pid != os.getpid():
            with self._lock:
                if self._equipment is None or self._pid != os.getpid():
                    self._equipment = self._new_equipment()
                    self._pid = os.getpid()
        return self._equipment

    def _new_equipment(self) -> Equipment:
        from workflow_engine.store import schema
        from workflow_engine.store.sql_store import SqlStore

        codec = Codec(
            max_bytes=self._options.max_payload_bytes, converter=self._converter
        )
        if self._origin is not None:
            shared = self._origin._equip()
            return attrs.evolve(shared, codec=codec, options=self._options)
        schema.ensure(self._database)
        store = SqlStore(self._database, self._clock.instant)
        owner = str(Owner.here())
        return Equipment(
            store=store,
            registry=self._registry,
            codec=codec,
            options=self._options,
            clock=self._clock,
            points=self._points,
            heartbeat=Heartbeat(store, owner, self._clock, self._points),
            owner=owner,
            observer=self._observer,
        )

    # --- starting and running ---

    @overload
    def start(self, workflow: Workflow[..., R], id: str, /) -> Handle[R]: ...

    @overload
    def start(
        self, workflow: Workflow[P, R], id: str, /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]: ...

    @overload
    def start(
        self, workflow: str, id: str, /, *args: Any, **kwargs: Any
    ) -> Handle[Any]: ...

    def start(
        self,
        workflow: Workflow[..., Any] | str,
        id: str,
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Handle[Any]:
        """Record an instance; a worker will run it. Attach if it exists.

        The arguments are recorded at the first start. A later one takes the same, or
        none at all.

        Raises:
            InputConflict: it exists with other arguments.
            InvalidInput: the arguments do not fit; nothing is recorded.
            UnknownWorkflow, InvalidName: likewise.
        """
        return self.starting().start(workflow, id, *args, **kwargs)

    def starting(
        self,
        *,
        tags: Mapping[str, str] | None = None,
        delay: timedelta | float = 0,
        on_conflict: OnConflict = "attach",
        timeout: timedelta | float | None = None,
        deadline: datetime | None = None,
        session: CallersSession | None = None,
    ) -> Starting:
        """Options of a start, which cannot clash with a body's keywords.

        Args:
            tags: short texts to find the instance by.
            delay: how long workers leave it alone, a timedelta or seconds.
            on_conflict: what to do if the instance exists. "attach" to it, as `start`
                does; "reject" the start; or "restart" one that has ended: it is
                deleted with its history, as `gc` does, and a new one is recorded in
                its place, in one transaction. One that has not ended is attached to.
            timeout: how long after its start it fails, if it has not ended; a timedelta
                or seconds, by the database's clock.
            deadline: the same as an instant, an aware datetime.
            session: an SQLAlchemy session on this engine's database. The start is part
                of its transaction: nobody sees the instance before you commit, and a
                rollback takes it back.

        Raises:
            ValueError: another ``on_conflict``, or both a timeout and a deadline.
            InvalidDuration: a duration or an instant that is none.
        """
        return Starting(
            self._equip, tags, delay, on_conflict, timeout, deadline, session
        )

    def handle(self, workflow: Named, id: str) -> Handle[Any]:
        """A handle of an instance, which need not exist yet nor be known here."""
        key = key_of(workflow, id)
        known = self._registry.find(key.workflow)
        return Handle(self._equip(), key, known)

    @overload
    def run(self, workflow: Workflow[..., R], id: str, /) -> Ending[R]: ...

    @overload
    def run(
        self, workflow: Workflow[P, R], id: str, /, *args: P.args, **kwargs: P.kwargs
    ) -> Ending[R]: ...

    @overload
    def run(
        self, workflow: str, id: str, /, *args: Any, **kwargs: Any
    ) -> Ending[Any]: ...

    def run(
        self,
        workflow: Workflow[..., Any] | str,
        id: str,
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Ending[Any]:
        """Start or resume an instance, here and now, until it ends or parks.

        Takes a lease, and no notice of backoff or delay. An error that leaves the body
        is raised here; no attempt is counted, and the next run tries again. Follows
        `ContinueAsNew` unless ``RunOptions(follow=False)``.

        Raises:
            LeaseHeld: somebody else is running it.
            LeaseLost: somebody took it while it ran here.
            InputConflict, InvalidInput, UnknownWorkflow, InvalidName: as `start`.
            StepDecodeError, JournalDecodeError: this code cannot read what is recorded;
                the instance is blocked.
            UnknownPatch: the instance belongs to code with other patches.
            Exception: whatever left the body.
        """
        equipment = self._equip()
        order = place_order(equipment, workflow, id, args, kwargs)
        direct = DirectRun(equipment, order)
        while True:
            ending = direct.run_generation()
            if not isinstance(ending, ContinuedAsNew) or not equipment.options.follow:
                return ending

    def worker(
        self,
        *,
        concurrency: int = 8,
        max_attempts: int = 5,
        max_takeovers: int = 20,
        lease: timedelta | float = timedelta(seconds=60),
        poll: timedelta | float = timedelta(seconds=1),
        grace: timedelta | float = timedelta(seconds=30),
        listen: bool = True,
        retention: Keeping = None,
    ) -> Worker:
        """A worker for this engine's workflows.

        Args:
            concurrency: runs at the same time.
            max_attempts: crashes in a row before an instance fails.
            max_takeovers: expired leases in a row before an instance fails.
            lease: how long a claim is good without renewal.
            poll: how long to wait before looking again when there was nothing.
            grace: how long a stopping worker waits for running steps.
            listen: whether it listens for hints of other processes. Without, it notices
                what they do at its next poll, and what this process does at once.
            retention: how long instances are kept that have ended, by the database's
                clock: a time for all of this engine's workflows, or one for each of
                some. The worker deletes older ones, as `gc` does, when it has nothing
                better to do. None: it deletes nothing.

        Raises:
            ValueError: a count below 1, or a duration that is none.
            UnknownWorkflow: ``retention`` names a workflow that this engine has not.
            UnresolvedAnnotation, UnsupportedType: a workflow declares types that are of
                no use; better to know now than from every instance.
        """
        equipment = self._equip()
        options = WorkerOptions.of(
            concurrency=concurrency,
            max_attempts=max_attempts,
            max_takeovers=max_takeovers,
            lease=lease,
            poll=poll,
            grace=grace,
            listen=listen,
            retention=rules_of(retention, equipment.registry),
        )
        for definition in equipment.registry:
            check_declarations(equipment.codec, definition)
        return Worker(self._equip, options)
