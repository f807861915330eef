"""What two databases hold, and what must be so in each of them."""

from __future__ import annotations

from typing import Any

import attrs

from workflow_engine.core.identity import SEED
from workflow_engine.core.journal import Entry, Prefix
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Instance, Key, Lease
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from .actors import sql


@attrs.frozen
class Contents:
    """What a database holds of one workflow."""

    rows: list[tuple[Any, ...]]
    entries: dict[tuple[str, int], list[Entry]]

    @classmethod
    def of(cls, database: Database, workflow: str) -> Contents:
        rows = sql(
            database,
            "SELECT workflow_id, status, generation, position, lease_until, "
            "next_attempt_at, wake_after, epoch, attempts, takeovers, patches, "
            "cancel_requested, last_error, result, ended_at, runnable_at "
            f"FROM wf_instances WHERE workflow_name = '{workflow}' "
            "ORDER BY workflow_id",
        )
        found: dict[tuple[str, int], list[Entry]] = {}
        for id, generation, *fields, live, format in sql(
            database,
            "SELECT workflow_id, wf_journal.generation, wf_journal.position, kind, "
            "step_name, payload, live, format FROM wf_journal "
            "JOIN wf_instances ON wf_instances.id = instance_id "
            f"WHERE workflow_name = '{workflow}' "
            "ORDER BY workflow_id, wf_journal.generation, wf_journal.position",
        ):
            entry = Entry(*(*fields, bool(live), format))
            found.setdefault((id, generation), []).append(entry)
        return cls([tuple(row) for row in rows], found)


def check_journal(
    row: tuple[Any, ...], journals: dict[tuple[str, int], list[Entry]]
) -> None:
    """The journals of an instance have no gaps, one live entry a name, and fit it."""
    id, status, generation, position, *_ = row
    entries: list[Entry] = []
    for each in range(generation + 1):
        entries = journals.get((id, each), [])
        positions = [entry.position for entry in entries]
        assert positions == list(range(1, len(entries) + 1))
        live = [entry.name for entry in entries if entry.live]
        assert len(set(live)) == len(live)
    assert position == len(entries)
    assert generation == 0 or entries[0].name == SEED
    if Status(status).is_ended:
        assert entries[-1].kind == status


def runnable_at(row: tuple[Any, ...], now: int) -> int | None:
    """When a worker may claim an instance, as the port has it."""
    _, status, _, _, lease_until, next_attempt_at, wake_after, *_ = row
    if Status(status).is_ended:
        return None
    instants = [now, lease_until or 0, next_attempt_at or 0]
    if status == Status.SUSPENDED:
        if wake_after is None:
            return None
        instants.append(wake_after)
    return max(instants)


def keep(store: SqlStore, lease: Lease) -> Prefix:
    """Load the journal of a lease, and keep a snapshot of it."""
    prefix = store.load(lease.instance, lease.generation, 2)
    store.snapshot(lease, prefix)
    return prefix


def load(store: SqlStore, key: Key, page_size: int) -> Prefix:
    row = store.find(key)
    assert row is not None
    return store.load(row.instance, row.generation, page_size)


def without_numbers(answer: Any) -> Any:
    """The answer without the numbers of instances, which differ between databases."""
    if isinstance(answer, Instance):
        return attrs.evolve(answer, instance=0)
    if isinstance(answer, Lease):
        return attrs.evolve(answer, instance=0)
    if isinstance(answer, tuple | list):
        return [without_numbers(each) for each in answer]
    if attrs.has(type(answer)):
        return (
            type(answer),
            [
                without_numbers(getattr(answer, field.name))
                for field in attrs.fields(type(answer))
            ],
        )
    return answer
