"""What every statement on ``wf_instances`` is made of.

``runnable_at`` follows from other columns. `Ledger.paced` is the only place that says
how, and every statement that changes one of those columns goes through it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import attrs
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    null,
    or_,
)

from workflow_engine.core.lifecycle import ENDED, MOVES, Event, Status
from workflow_engine.core.rows import Instance, Key, Lease
from workflow_engine.errors import StoreRefused
from workflow_engine.store.journal import Stream
from workflow_engine.store.now import now_in
from workflow_engine.store.tables import Tables

T = TypeVar("T")

_ZERO: ColumnElement[int] = literal_column("0", BigInteger)


@attrs.frozen
class Locked:
    """An instance whose row this transaction has locked, or has just written."""

    instance: Instance
    epoch: int

    @property
    def stream(self) -> Stream:
        """The journal of its current generation."""
        row = self.instance
        return Stream(row.key, row.instance, row.generation)

    def lease(self, owner: str) -> Lease:
        """The lease, if it is ``owner`` who holds it."""
        row = self.instance
        return Lease(row.key, row.instance, row.generation, self.epoch, owner)


class Ledger:
    """Columns, conditions and changes of instance rows."""

    def __init__(self, tables: Tables, dialect: str) -> None:
        self.table = tables.instances
        self.timers = tables.timers
        self.c = tables.instances.c
        self.now = now_in(dialect)
        self._greatest = func.max if dialect == "sqlite" else func.greatest

    @cached_property
    def row(self) -> tuple[ColumnElement[Any], ...]:
        """The columns of an `Instance` without its payloads, and the epoch."""
        payloads = (self.c.input, self.c.result, self.c.runnable_at)
        return tuple(column for column in self.c if column not in payloads)

    @cached_property
    def has_key(self) -> tuple[ColumnElement[bool], ...]:
        """Condition: the instance of ``workflow_is`` and ``workflow_id_is``."""
        return (
            self.c.workflow_name == bindparam("workflow_is"),
            self.c.workflow_id == bindparam("workflow_id_is"),
        )

    @cached_property
    def is_held(self) -> tuple[ColumnElement[bool], ...]:
        """Condition: a lease is good. See `held` for its parameters."""
        return (
            self.c.id == bindparam("instance_is"),
            self.c.generation == bindparam("generation_is"),
            self.c.epoch == bindparam("epoch_is"),
            # Not a plain comparison, which would tempt a planner to go through the
            # index on owners when there is a primary key.
            func.coalesce(self.c.lease_owner, "") == bindparam("owner_is"),
        )

    @property
    def is_overdue(self) -> ColumnElement[bool]:
        """Condition: it has not ended, and its deadline has passed."""
        return and_(self.c.deadline_at <= self.now, self.c.ended_at.is_(None))

    @property
    def is_in_time(self) -> ColumnElement[bool]:
        """Condition: its deadline, if there is one, has not passed."""
        return or_(self.c.deadline_at.is_(None), self.c.deadline_at > self.now)

    def may(self, event: Event) -> ColumnElement[bool]:
        """Condition: the status allows ``event``."""
        return or_(
            *(
                self.c.status == source.value
                for source in Status
                if (source, event) in MOVES
            )
        )

    @property
    def released(self) -> dict[str, Any]:
        """Changes: the lease is given up, and fenced."""
        return {
            "lease_owner": None,
            "lease_until": None,
            "epoch": self.c.epoch + 1,
        }

    @property
    def progressed(self) -> dict[str, Any]:
        """Changes: what was tried before does not count any more."""
        return {"attempts": 0, "takeovers": 0, "last_error": None}

    def ended(self, status: Status, **changes: Any) -> dict[str, Any]:
        """Changes: it ends so, and nothing will wake it."""
        return self.paced(
            status=status,
            next_attempt_at=None,
            wake_after=None,
            ended_at=self.now,
            **self.released,
            **changes,
        )

    def paced(self, *, new: bool = False, **changes: Any) -> dict[str, Any]:
        """Add to ``changes`` when a worker may claim the instance after them.

        Never, when it has ended, or waits for nothing that has a time. Else when the
        last of these is over: its lease, the pause after a crash and, when suspended,
        the time it waits for. If it has none of them: at once, and without losing its
        place among those that wait. A ``new`` row has no such place.
        """
        before = self.now if new else self.c.runnable_at
        changes = {"runnable_at": before, **changes}
        status = changes.get("status", self.c.status)
        awake = self._last_of(changes, "lease_until", "next_attempt_at")
        asleep = self._sleep(changes)
        if isinstance(status, Status):
            followed = {Status.SUSPENDED: asleep}.get(status, awake)
            runnable = null() if status in ENDED else followed
            changes["status"] = status.value
        else:
            ended = or_(*(status == each.value for each in sorted(ENDED)))
            suspended = status == Status.SUSPENDED.value
            runnable = case((ended, null()), (suspended, asleep), else_=awake)
        return {**changes, "runnable_at": runnable}

    def _sleep(self, changes: Mapping[str, Any]) -> ColumnElement[Any]:
        wake_after = changes.get("wake_after", self.c.wake_after)
        if wake_after is None:
            return null()
        due = self._last_of(changes, "lease_until", "next_attempt_at", "wake_after")
        return case((wake_after.is_(None), null()), else_=due)

    def _last_of(self, changes: Mapping[str, Any], *names: str) -> ColumnElement[Any]:
        instants = [changes.get(name, self.c[name]) for name in names]
        due = [func.coalesce(each, _ZERO) for each in instants if each is not None]
        before = changes["runnable_at"]
        at_once = case((before < self.now, before), else_=self.now)
        if not due:
            return at_once
        last = due[0] if len(due) == 1 else self._greatest(*due)
        return func.coalesce(func.nullif(last, _ZERO), at_once)


def held(lease: Lease) -> dict[str, Any]:
    """The parameters by which a statement recognises a lease."""
    return {
        "instance_is": lease.instance,
        "generation_is": lease.generation,
        "epoch_is": lease.epoch,
        "owner_is": lease.owner,
    }


def keyed(key: Key) -> dict[str, Any]:
    """The parameters by which a statement recognises an instance."""
    return {"workflow_is": key.workflow, "workflow_id_is": key.id}


def read_each(rows: Iterable[Row[Any]]) -> tuple[list[Locked], dict[int, str]]:
    """Understand rows; those that cannot be read, by their numbers, with why."""
    found: list[Locked] = []
    broken: dict[int, str] = {}
    for row in rows:
        try:
            found.append(read(row))
        except StoreRefused as error:
            broken[row.id] = str(error)
    return found, broken


def read(row: Row[Any]) -> Locked:
    """Understand a row of `Ledger.row`, with payloads where they were asked for.

    Raises:
        StoreRefused: it holds what this code never wrote.
    """
    try:
        return _read(row)
    except (ValueError, TypeError) as error:
        name, id = row.workflow_name, row.workflow_id
        raise StoreRefused(
            problem=f"row {row.id} of wf_instances, workflow {name!r}, instance "
            f"{id!r}, cannot be read: {error}"
        ) from error


def _read(row: Row[Any]) -> Locked:
    patches = None if row.patches is None else _loaded(row.patches, list)
    instance = Instance(
        instance=row.id,
        key=Key(row.workflow_name, row.workflow_id),
        incarnation=row.incarnation,
        status=Status(row.status),
        generation=row.generation,
        position=row.position,
        attempts=row.attempts,
        takeovers=row.takeovers,
        lease_owner=row.lease_owner,
        lease_until=row.lease_until,
        next_attempt_at=row.next_attempt_at,
        wake_after=row.wake_after,
        cancel_requested=row.cancel_requested,
        patches=None if patches is None else frozenset(patches),
        tags=_loaded(row.tags, dict),
        last_error=row.last_error,
        waits_on=tuple(_loaded(row.waits_on or "[]", list)),
        created_at=row.created_at,
        updated_at=row.updated_at,
        ended_at=row.ended_at,
        deadline_at=row.deadline_at,
        input=getattr(row, "input", None),
        result=getattr(row, "result", None),
    )
    return Locked(instance, row.epoch)


def _loaded(text: str, type_: type[T]) -> T:
    value = json.loads(text)
    if not isinstance(value, type_):
        raise ValueError(f"{text:.40} is no {type_.__name__}")
    return value
