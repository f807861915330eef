"""Collection: deleting, for good and with all that belongs to them, ended instances.

An instance that has ended is *held* while the row of a parent that has not completed is
there: a failed or cancelled parent may be resurrected, and ask again how it ended.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import attrs

from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Instance, Key, NewInstance


@attrs.frozen
class Place:
    """Where a collection goes on: after the instance that ended then.

    ``freed`` are instances before that place that are no longer held; they come first.
    """

    ended_at: int
    instance: int
    freed: tuple[int, ...] = ()


@attrs.frozen
class Uncollected:
    """An instance whose deletion the database refused, and what it said."""

    key: Key
    problem: str


@attrs.frozen
class CollectedBatch:
    """What came of a batch. ``place`` is where the next one goes on; None when nothing
    is left."""

    deleted: int
    failed: tuple[Uncollected, ...]
    place: Place | None


@attrs.frozen
class Collectable:
    """How many instances of a workflow and a status a collection would delete."""

    workflow: str
    status: Status
    count: int


class Collecting(Protocol):
    """The part of a store that deletes. Durations are in microseconds."""

    def collect(
        self,
        older_than: int,
        limit: int,
        workflows: Collection[str] | None = None,
        place: Place | None = None,
    ) -> CollectedBatch:
        """Delete up to ``limit`` instances that ended at least ``older_than`` ago, with
        all that belongs to them, in one transaction; never one that is held.

        Goes from the one that ended first, in looks that are bounded, so that a batch
        may be empty with a ``place`` to go on from. Passes over rows that somebody has
        locked. If the database refuses, each instance gets a transaction of its own,
        and those it refuses alone are answered. ``workflows`` are the only names it
        touches; all by default.
        """

    def collectable(
        self, older_than: int, workflows: Collection[str] | None = None
    ) -> Sequence[Collectable]:
        """What calls of `collect`, until nothing is left, would delete as things
        stand, by workflow and status. Changes nothing; one transaction that reads."""

    def restart(self, key: Key, new: NewInstance) -> tuple[Instance, bool]:
        """Start an instance afresh: delete one that has ended, with all that belongs to
        it, and record a new one in its place, in one transaction.

        The row with ``input``, and whether this call created it. If not, it is one that
        has not ended, or an ended one that is held: nothing was changed.
        """
