"""What the outside sees of an instance and its journal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, overload

import attrs

from workflow_engine.core.durations import to_datetime
from workflow_engine.core.failure import Reason
from workflow_engine.core.ids import stream_name
from workflow_engine.core.journal import MARKER_NAMES, Entry
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import (
    AwakeableRow,
    AwakeableStatus,
    ChildRow,
    Instance,
    TimerRow,
)
from workflow_engine.runtime.owner import shown


@attrs.frozen
class Description:
    """An instance as it stands. Instants are aware, in UTC, by the database's clock.

    Attributes:
        number: the row's own number; listings go by it.
        status: running, suspended, blocked, completed, failed or cancelled.
        position: entries in the journal of the current generation.
        attempts: crashes in a row since the last progress.
        takeovers: expired leases in a row since the last progress.
        owner, leased_until: who runs it now, if anybody does.
        cancel_requested: whether it was asked to end, with its cleanup.
        next_attempt_at: when workers try again after a crash, a block or a delay.
        reason: why it failed, is blocked, or crashed last.
        waits_on: the names it waits for, while it is suspended.
        deadline_at: when it fails, if it has not ended by then.
        stream: the display name of the current journal.
    """

    number: int
    workflow: str
    id: str
    status: Status
    generation: int
    position: int
    attempts: int
    takeovers: int
    owner: str | None
    leased_until: datetime | None
    next_attempt_at: datetime | None
    wake_after: datetime | None
    cancel_requested: bool
    patches: frozenset[str] | None
    tags: Mapping[str, str]
    reason: str | None
    waits_on: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    stream: str
    deadline_at: datetime | None = None

    @property
    def is_called_off(self) -> bool:
        """Whether it was asked to end, with its cleanup, and has not ended yet."""
        return self.cancel_requested and not self.status.is_ended

    @classmethod
    def of(cls, row: Instance) -> Description:
        """What a row says."""
        key = row.key
        return cls(
            number=row.instance,
            workflow=key.workflow,
            id=key.id,
            status=row.status,
            generation=row.generation,
            position=row.position,
            attempts=row.attempts,
            takeovers=row.takeovers,
            owner=None if row.lease_owner is None else shown(row.lease_owner),
            leased_until=_at(row.lease_until),
            next_attempt_at=_at(row.next_attempt_at),
            wake_after=_at(row.wake_after),
            cancel_requested=row.cancel_requested,
            patches=row.patches,
            tags=dict(row.tags),
            reason=Reason.decode(row.last_error).reason if row.last_error else None,
            waits_on=row.waits_on if row.status is Status.SUSPENDED else (),
            created_at=to_datetime(row.created_at),
            updated_at=to_datetime(row.updated_at),
            ended_at=_at(row.ended_at),
            deadline_at=_at(row.deadline_at),
            stream=stream_name(key.workflow, key.id, row.generation),
        )


@attrs.frozen
class JournalEntry:
    """A recorded entry.

    Attributes:
        step: the name it answers; None for history.
        live: False for markers, attempts and superseded entries.
        value: the payload as plain JSON.
    """

    position: int
    kind: str
    step: str | None
    live: bool
    value: Any
    recorded_at: datetime
    entry_id: str

    @property
    def display_name(self) -> str:
        """The step name, a marker's own name, or ``#`` and the position."""
        marker = {str(kind): name for kind, name in MARKER_NAMES.items()}.get(self.kind)
        return self.step or marker or f"#{self.position}"

    @classmethod
    def of(cls, entry: Entry, recorded_at: int, entry_id: str) -> JournalEntry:
        """What a row says."""
        return cls(
            position=entry.position,
            kind=entry.kind,
            step=entry.name,
            live=entry.live,
            value=None if entry.payload is None else json.loads(entry.payload),
            recorded_at=to_datetime(recorded_at),
            entry_id=entry_id,
        )


@attrs.frozen
class AwakeableView:
    """An awakeable as it stands.

    Attributes:
        id: whoever knows it may complete the awakeable.
        settled_at: when it was resolved, rejected or cancelled; None while pending.
    """

    label: str
    id: str
    status: AwakeableStatus
    created_at: datetime
    settled_at: datetime | None

    @classmethod
    def of(cls, row: AwakeableRow) -> AwakeableView:
        """What a row says."""
        return cls(
            label=row.label,
            id=row.id,
            status=row.status,
            created_at=to_datetime(row.created_at),
            settled_at=_at(row.settled_at),
        )


@attrs.frozen
class TimerView:
    """A timer that runs. ``name`` is what waits for it, as in `Description.waits_on`.

    Attributes:
        due_at: when it is over; it never moves.
        created_at: when it was started.
    """

    name: str
    due_at: datetime
    created_at: datetime

    @classmethod
    def of(cls, row: TimerRow) -> TimerView:
        """What a row says."""
        return cls(row.name, to_datetime(row.due_at), to_datetime(row.created_at))


@attrs.frozen
class ChildView:
    """A child as it stands. ``name`` is what waits for it, if anything does.

    Attributes:
        status: that of the child.
        created_at: when the parent spawned it, or attached to it.
    """

    name: str
    workflow: str
    id: str
    status: Status
    created_at: datetime

    @classmethod
    def of(cls, row: ChildRow) -> ChildView:
        """What a row says."""
        return cls(
            name=row.name,
            workflow=row.key.workflow,
            id=row.key.id,
            status=row.status,
            created_at=to_datetime(row.created_at),
        )


@attrs.frozen
class Page(Sequence[Description]):
    """A page of a listing. ``after`` leads to the next; None on the last."""

    items: tuple[Description, ...]
    after: int | None

    def __iter__(self) -> Iterator[Description]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Description: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Description, ...]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return self.items[index]


def _at(instant: int | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)
