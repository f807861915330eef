"""Collection: what `Engine.gc` does, and what a worker does between its passes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta

import attrs

from workflow_engine.core.collecting import Collectable, CollectedBatch, Place
from workflow_engine.core.durations import microseconds
from workflow_engine.runtime.outside import Named, Outside
from workflow_engine.runtime.registry import name_of

logger = logging.getLogger("workflow_engine")


@attrs.frozen
class Collected:
    """What a collection came to.

    Attributes:
        deleted: instances that are gone, with all that belonged to them.
        failed: instances that the database refused to delete; the log says why.
    """

    deleted: int
    failed: int


class Collector(Outside):
    """The part of `Engine` that deletes."""

    def gc(
        self,
        older_than: timedelta | float,
        *,
        batch: int = 100,
        workflows: Iterable[Named] | None = None,
    ) -> Collected:
        """Delete the instances that ended long ago, with all that belongs to them.

        Journal, snapshots, timers, awakeables, messages and links to children go with
        an instance. One that has not ended is never deleted, and neither is one that
        was spawned by an instance that is there and has not completed: a failed or
        cancelled parent may be resurrected. It goes in the call that deletes its
        parent.

        Every batch is a transaction, and what is done is done: a call that dies, or
        raises, is made again. Calls at the same time share the work.

        Args:
            older_than: how long ago, by the database's clock, an instance has to have
                ended; a timedelta, or seconds.
            batch: instances deleted in one transaction, at most.
            workflows: only instances of these; of all by default.

        Raises:
            InvalidDuration: ``older_than`` is none (a ValueError too).
            ValueError: ``batch`` is not a whole number above 0.
            StoreUnavailable: the database is away; finished batches stay deleted.
        """
        if type(batch) is not int or batch < 1:
            raise ValueError(f"batch must be a whole number above 0, not {batch!r}")
        age, names = microseconds(older_than, "older_than"), _names(workflows)
        deleted = failed = 0
        place: Place | None = None
        while True:
            answer = self._store.collect(age, batch, names, place)
            report(answer)
            deleted += answer.deleted
            failed += len(answer.failed)
            place = answer.place
            if place is None:
                return Collected(deleted, failed)

    def collectable(
        self,
        older_than: timedelta | float,
        *,
        workflows: Iterable[Named] | None = None,
    ) -> Sequence[Collectable]:
        """What `gc` would delete as things stand, by workflow and status.

        Changes nothing. Arguments and errors are those of `gc`.
        """
        age = microseconds(older_than, "older_than")
        return self._store.collectable(age, _names(workflows))


def report(answer: CollectedBatch) -> None:
    """Log what the database refused to delete."""
    for each in answer.failed:
        logger.error(
            "workflow %r, instance %r was not deleted: %s",
            each.key.workflow,
            each.key.id,
            each.problem,
        )


def _names(workflows: Iterable[Named] | None) -> Collection[str] | None:
    if isinstance(workflows, str):
        raise TypeError(f"names of workflows are needed, not the text {workflows!r}")
    return None if workflows is None else {name_of(each) for each in workflows}
