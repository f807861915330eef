"""What the store's tests act with: keys, drafts, and a clock that they move."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
from sqlalchemy import event, text

from workflow_engine.core.identity import CHILD_ID_PREFIX, CHILD_PREFIX
from workflow_engine.core.journal import Draft, EndChild, Entry, Kind, NewChild
from workflow_engine.core.rows import Claim, Key, Lease, NewInstance
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

SECOND = 1_000_000
MINUTE = 60 * SECOND
EPOCH = 1_700_000_000 * SECOND

KEY = Key("order", "1")
CHILD = Key("child", "c")


@attrs.define
class BoundClock:
    """The time that a store takes for the database's; moved by hand."""

    instant: int | None = EPOCH

    def __call__(self) -> int | None:
        return self.instant

    def advance(self, duration: int) -> None:
        """Let ``duration`` microseconds pass."""
        assert self.instant is not None
        self.instant += duration

    @property
    def now(self) -> int:
        """The time it says."""
        assert self.instant is not None
        return self.instant


def new(input: str = "{}", **changes: Any) -> NewInstance:
    """What a first start records."""
    return attrs.evolve(NewInstance(input=input, incarnation="0" * 32), **changes)


def claim(
    store: SqlStore,
    key: Key = KEY,
    owner: str = "a",
    *,
    lease: int = MINUTE,
    patches: tuple[str, ...] = (),
) -> Claim:
    """Start an instance if need be, and take its lease."""
    claimed = store.claim(key, owner, lease, patches, new())
    assert isinstance(claimed, Claim), claimed
    return claimed


def lease_on(store: SqlStore, key: Key = KEY, owner: str = "a") -> Lease:
    """The lease of a `claim`."""
    return claim(store, key, owner).lease


def ok(name: str, payload: str = "1") -> Draft:
    """A step that returned."""
    return Draft(Kind.STEP_OK, name, payload)


def failed(name: str, payload: str = '{"type":"E"}') -> Draft:
    """A step that raised."""
    return Draft(Kind.STEP_FAILED, name, payload)


def spawn(key: Key = CHILD, input: str = "{}") -> Draft:
    """A parent starts a child, or attaches to it."""
    joined = f"{key.workflow}:{key.id}"

    def differing(started_with: str) -> Sequence[str]:
        return () if started_with == input else ("x",)

    deed = NewChild(
        key.workflow, key.id, input, CHILD_PREFIX + joined, differing, "1" * 32
    )
    return Draft(Kind.STEP_OK, CHILD_ID_PREFIX + joined, "null", deed=deed)


def end(key: Key = CHILD) -> Draft:
    """A parent ends a child."""
    name = f"childcancel:{key.workflow}:{key.id}"
    return Draft(Kind.STEP_OK, name, "null", deed=EndChild(key.workflow, key.id))


def entry(position: int, draft: Draft) -> Entry:
    """The entry that a draft becomes."""
    return Entry(position, draft.kind.value, draft.name, draft.payload, draft.is_live)


def history(
    store: SqlStore, lease: Lease, generation: int | None = None
) -> list[Entry]:
    """The whole journal of a generation, and proof that it has no gaps."""
    wanted = lease.generation if generation is None else generation
    entries = [row[0] for row in store.journal(lease.instance, wanted, 0, 1000)]
    assert [each.position for each in entries] == list(range(1, len(entries) + 1))
    return entries


def sql(database: Database, statement: str) -> list[Any]:
    """Run a statement that names our tables bare, as somebody at a console would."""
    schema = f"{database.schema}." if database.schema else ""
    named = re.sub(r"\bwf_", f"{schema}wf_", statement)
    with database.write() as connection:
        result = connection.execute(text(named.replace(":", "\\:")))
        return list(result) if result.returns_rows else []


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    """The statements that are executed inside; BEGIN and COMMIT are not among them."""
    seen: list[str] = []

    def note(*given: Any) -> None:
        seen.append(given[2])

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(database.engine, "before_cursor_execute", note)


def kinds(entries: list[Entry]) -> list[str]:
    """The kinds of entries, in order."""
    return [each.kind for each in entries]


def consistent(store: SqlStore, lease: Lease) -> list[Entry]:
    """The current journal, and proof that row and journal agree."""
    row = store.find(lease.key)
    assert row is not None
    entries = history(store, lease, row.generation)
    assert row.position == len(entries)
    names = [each.name for each in entries if each.live]
    assert len(set(names)) == len(names)
    return entries
