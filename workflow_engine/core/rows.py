"""What a store keeps and answers, as values.

Expected results of a write are values too: whoever asks must match them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import attrs

from workflow_engine.core.lifecycle import Status


@attrs.frozen
class Key:
    """The identity of an instance. Two parts, never joined."""

    workflow: str
    id: str


@attrs.frozen
class Lease:
    """The right of ``owner`` to run one generation, until it is fenced."""

    key: Key
    instance: int
    generation: int
    epoch: int
    owner: str


@attrs.frozen
class Instance:
    """An instance row. Payloads are None unless they were asked for."""

    instance: int
    key: Key
    incarnation: str
    status: Status
    generation: int
    position: int
    attempts: int
    takeovers: int
    lease_owner: str | None
    lease_until: int | None
    next_attempt_at: int | None
    wake_after: int | None
    cancel_requested: bool
    patches: frozenset[str] | None
    tags: Mapping[str, str]
    last_error: str | None
    waits_on: tuple[str, ...]
    created_at: int
    updated_at: int
    ended_at: int | None
    deadline_at: int | None = None
    input: str | None = None
    result: str | None = None


@attrs.frozen
class NewInstance:
    """What is recorded at the first start.

    ``delay`` (microseconds) keeps workers from claiming it before that time has passed.
    ``incarnation`` is 32 random hexadecimal digits. It fails ``timeout`` microseconds
    after it was recorded, or at ``deadline``, if it has not ended by then.
    """

    input: str
    incarnation: str
    tags: Mapping[str, str] = attrs.field(factory=dict)
    delay: int = 0
    timeout: int | None = None
    deadline: int | None = None


@attrs.frozen
class Claim:
    """A claimed instance: the lease, and what a run needs to begin.

    ``instance`` is the row as the claim left it, with ``input``; its ``patches`` are
    decided by now. ``created`` says that this call recorded the start.
    """

    lease: Lease
    instance: Instance
    created: bool = False


@attrs.frozen
class Held:
    """Somebody else's lease is not over. Nothing was changed."""

    owner: str
    until: int


@attrs.frozen
class Ended:
    """The instance has ended; the row comes with ``result``. Nothing was changed."""

    instance: Instance


@attrs.frozen
class Missing:
    """There is no such instance."""


@attrs.frozen
class Timer:
    """A sleep to be armed: ``delay`` microseconds from now, or at ``due``."""

    name: str
    delay: int = 0
    due: int | None = None


class AwakeableStatus(StrEnum):
    """Where an awakeable stands. Frozen: the values are stored."""

    PENDING = "pending"
    RESOLVED = "resolved"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


@attrs.frozen
class AwakeableRow:
    """A registered awakeable."""

    id: str
    instance: int
    generation: int
    label: str
    status: AwakeableStatus
    payload: str | None
    created_at: int
    settled_at: int | None


@attrs.frozen
class TimerRow:
    """A sleep that is not over."""

    instance: int
    generation: int
    name: str
    due_at: int
    created_at: int


@attrs.frozen
class ChildRow:
    """A child that a generation has attached to; ``name`` is where its end goes."""

    name: str
    key: Key
    status: Status
    created_at: int


@attrs.frozen
class Message:
    """A message to one instance; ``payload`` is its value as ASCII JSON.

    ``key`` tells it from all others to that instance. ``is_keyed`` says that the sender
    chose it, so that sending it again is nothing new.
    """

    topic: str
    payload: str
    key: str
    is_keyed: bool


@attrs.frozen
class Sent:
    """How a message went. ``delivered`` is False when the instance has completed, or
    has been sent its key before, which is ``repeated``.
    """

    delivered: bool
    repeated: bool
    instance: Instance


@attrs.frozen
class Refused:
    """The generation or the instance has ended; nothing was recorded.

    ``instance`` is the row that says how, with ``result``.
    """

    instance: Instance


@attrs.frozen
class Raised:
    """What was to be done within a transaction raised; all of it was rolled back."""

    error: BaseException


@attrs.frozen
class Fenced:
    """The lease is no longer good; nothing was recorded."""


@attrs.frozen
class Done:
    """It is committed."""


@attrs.frozen
class Crashed:
    """The crash is recorded. ``failed`` when the ceiling was reached and it failed.

    ``attempts`` counts this one; ``retry_at`` is when workers try again.
    """

    failed: bool
    attempts: int
    retry_at: int | None


@attrs.frozen
class Batch:
    """What `Store.claim_due` found.

    Attributes:
        claims: claimed, to be run.
        failed: at the ceiling of takeovers; their failed marker was written instead.
        unregistered: runnable instances by name, of names that were not asked for.
        pause: microseconds until something is due, as things stand; None for never.
            Only looked for when less was claimed than there was room for.
        broken: due instances whose rows cannot be read, with why.
    """

    claims: tuple[Claim, ...]
    failed: tuple[Instance, ...]
    unregistered: Mapping[str, int]
    pause: int | None = None
    broken: Mapping[int, str] = attrs.field(factory=dict)


@attrs.frozen
class Fired:
    """What `Store.fire_due` did.

    Attributes:
        count: timers delivered.
        broken: what is wrong with instances whose timers could not be, by number.
    """

    count: int
    broken: Mapping[int, str] = attrs.field(factory=dict)


@attrs.frozen
class Overdue:
    """What `Store.fail_overdue` did.

    Attributes:
        failed: instances that have failed by it.
        broken: what is wrong with those that could not be ended, by number.
    """

    failed: tuple[Instance, ...]
    broken: Mapping[int, str] = attrs.field(factory=dict)


@attrs.frozen
class Resolved:
    """How a delivery went. ``delivered`` is False when the name had an entry already,
    when the generation is not the current one, or when the instance has ended."""

    delivered: bool
    instance: Instance


@attrs.frozen
class Ambiguous:
    """These live step entries lie after the failure."""

    names: tuple[str, ...]


Refusal: TypeAlias = Refused | Fenced
