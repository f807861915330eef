"""SQLite and PostgreSQL agree, whatever is done to them.

A machine does the same to both, in any order, with leases that may be long gone. Every
answer must be equal, and after every step each journal must be gapless and fit its row.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from workflow_engine.core.journal import Draft, Kind, Prefix
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Batch, Claim, Key, Lease
from workflow_engine.errors import EntryNotFound
from workflow_engine.store import schema
from workflow_engine.store.database import Database
from workflow_engine.store.loads import extend
from workflow_engine.store.sql_store import SqlStore

from .actors import MINUTE, SECOND, BoundClock, new, sql
from .agreement import Contents, check_journal, keep, load, runnable_at, without_numbers

T = TypeVar("T")

_names = (f"w{number}" for number in itertools.count())

OWNERS = st.sampled_from(["a", "b"])
IDS = st.sampled_from(["1", "2", "3"])
NAMES = st.sampled_from(["x", "y", "z", "awk:v"])
DRAFTS = st.lists(
    st.builds(
        Draft,
        kind=st.sampled_from(
            [Kind.STEP_OK, Kind.STEP_FAILED, Kind.WAKE_FAILED, Kind.CANCEL, Kind.PATCH]
        ),
        name=NAMES,
        payload=st.sampled_from(["1", '"\\u0000"', None]),
        superseded=st.just(0),
    ),
    max_size=3,
)
ODDS = st.sampled_from([0, 0, 0, 0, 1, 2])
BLAMES = st.sampled_from([None, "x", "y", "z"])


@attrs.frozen
class Pair:
    """The same thing on both sides: a lease, mostly."""

    sqlite: Lease
    postgres: Lease

    def of(self, side: int) -> Lease:
        return (self.sqlite, self.postgres)[side]


class Agreement(RuleBasedStateMachine):
    """Two stores, and every lease that was ever given on them."""

    def __init__(self, databases: tuple[Database, Database]) -> None:
        super().__init__()
        self.clock = BoundClock()
        self.databases = databases
        self.stores = [SqlStore(each, self.clock) for each in databases]
        # Instances of earlier examples have other names.
        self.workflow = next(_names)
        self.leases: list[Pair] = []

    # --- asking both ---

    def both(self, call: Callable[[SqlStore, int], T]) -> T:
        """The answer of both stores; instances are known by their keys alone."""
        answers = [call(store, side) for side, store in enumerate(self.stores)]
        bare = [without_numbers(answer) for answer in answers]
        assert bare[0] == bare[1]
        return answers[0]

    def remember(self, call: Callable[[SqlStore], Claim | object]) -> None:
        claims: list[list[Claim]] = []

        def ask(store: SqlStore, _: int) -> object:
            answer = call(store)
            if not isinstance(answer, Batch):
                claims.append([answer] if isinstance(answer, Claim) else [])
                return answer
            # Of what is due since the same moment, any may come first.
            claims.append(sorted(answer.claims, key=lambda each: each.lease.key.id))
            return attrs.evolve(answer, claims=tuple(claims[-1]))

        self.both(ask)
        for sqlite, postgres in zip(*claims, strict=True):
            self.leases.append(Pair(sqlite.lease, postgres.lease))

    def key(self, id: str) -> Key:
        return Key(self.workflow, id)

    @initialize(id=IDS, owner=OWNERS)
    def begin(self, id: str, owner: str) -> None:
        self.claim(id, owner, True)

    # --- starting and owning ---

    @rule(
        id=IDS,
        delay=st.sampled_from([0, SECOND]),
        timeout=st.sampled_from([None, None, 2 * SECOND, MINUTE]),
    )
    def start(self, id: str, delay: int, timeout: int | None) -> None:
        given = new(delay=delay, timeout=timeout)
        self.both(lambda store, _: store.start(self.key(id), given))

    @rule()
    def fail_overdue(self) -> None:
        def fail(store: SqlStore, _: int) -> object:
            failed = store.fail_overdue(9).failed
            return sorted((row.key.workflow, row.key.id) for row in failed)

        self.both(fail)

    @rule(id=IDS, owner=OWNERS, start=st.booleans())
    def claim(self, id: str, owner: str, start: bool) -> None:
        given = new() if start else None
        self.remember(
            lambda store: store.claim(self.key(id), owner, MINUTE, (owner,), given)
        )

    @rule(owner=OWNERS, ceiling=st.sampled_from([2, 9]))
    def claim_due(self, owner: str, ceiling: int) -> None:
        def claim(store: SqlStore) -> object:
            batch = store.claim_due(
                owner, MINUTE, (owner,), [self.workflow], 9, ceiling
            )
            failed = sorted(batch.failed, key=lambda each: each.key.id)
            return attrs.evolve(batch, failed=tuple(failed), unregistered={})

        self.remember(claim)

    @rule(seconds=st.sampled_from([1, 2, 60, 61]))
    def pass_time(self, seconds: int) -> None:
        self.clock.advance(seconds * SECOND)

    @rule(owner=OWNERS)
    def renew(self, owner: str) -> None:
        def renew(store: SqlStore, side: int) -> list[int]:
            leases = [pair.of(side) for pair in self.leases]
            held = store.renew(owner, MINUTE, leases)
            return sorted(
                number for number, each in enumerate(leases) if each.instance in held
            )

        self.both(renew)

    @rule(owner=OWNERS)
    def expire(self, owner: str) -> None:
        # Leases of earlier examples last, since their clocks have stopped.
        for database in self.databases:
            sql(
                database,
                "UPDATE wf_instances SET lease_owner = 'past' "
                f"WHERE workflow_name <> '{self.workflow}' AND lease_owner <> 'past'",
            )
        self.both(lambda store, _: store.expire([owner]))
        self.both(lambda store, _: store.owners() - {"past"})

    @rule(id=IDS)
    def force_release(self, id: str) -> None:
        self.both(lambda store, _: store.force_release(self.key(id)))

    # --- a run ---

    def with_lease(
        self, data: st.DataObject, call: Callable[[SqlStore, Lease, int], Any]
    ) -> None:
        """Call with a lease, good as a rule, and with a position, right as a rule."""
        id, odds = data.draw(IDS), data.draw(ODDS)
        key = self.key(id)
        row = self.stores[0].find(key)
        if odds == 0 and (row is None or row.lease_owner is None):
            self.claim(id, "a", True)
            row = self.stores[0].find(key)
        leases = [pair for pair in reversed(self.leases) if pair.sqlite.key == key]
        if row is not None and leases:
            pair = leases[min(odds, len(leases) - 1)]
            position = max(0, row.position - data.draw(ODDS))
            self.both(lambda store, side: call(store, pair.of(side), position))

    @rule(data=st.data(), drafts=DRAFTS, behind=ODDS, conditional=st.booleans())
    def append(
        self,
        data: st.DataObject,
        drafts: list[Draft],
        behind: int,
        conditional: bool,
    ) -> None:
        def append(store: SqlStore, lease: Lease, position: int) -> object:
            expect = position if conditional else None
            return store.append(lease, drafts, max(0, position - behind), expect)

        self.with_lease(data, append)

    @rule(data=st.data(), drafts=DRAFTS)
    def append_more(self, data: st.DataObject, drafts: list[Draft]) -> None:
        self.with_lease(
            data,
            lambda store, lease, position: store.append(lease, drafts, position, None),
        )

    @rule(data=st.data(), drafts=DRAFTS, seen=st.booleans())
    def park(self, data: st.DataObject, drafts: list[Draft], seen: bool) -> None:
        self.with_lease(
            data,
            lambda store, lease, position: store.park(lease, drafts, position, seen),
        )

    @rule(data=st.data(), drafts=DRAFTS)
    def rotate(self, data: st.DataObject, drafts: list[Draft]) -> None:
        self.with_lease(
            data,
            lambda store, lease, _: store.rotate(lease, "1", ("p",), ("y",), drafts),
        )

    @rule(data=st.data(), drafts=DRAFTS, completed=st.booleans())
    def finish(self, data: st.DataObject, drafts: list[Draft], completed: bool) -> None:
        status = Status.COMPLETED if completed else Status.CANCELLED
        payload = "1" if completed else None
        self.with_lease(
            data, lambda store, lease, _: store.finish(lease, status, payload, drafts)
        )

    @rule(data=st.data(), drafts=DRAFTS, blamed=BLAMES)
    def fail(
        self, data: st.DataObject, drafts: list[Draft], blamed: str | None
    ) -> None:
        record = json.dumps({"entry": blamed})
        self.with_lease(
            data,
            lambda store, lease, position: store.fail(lease, record, position, drafts),
        )

    @rule(data=st.data(), drafts=DRAFTS, blamed=BLAMES, kept=st.booleans())
    def fail_and_resurrect(
        self, data: st.DataObject, drafts: list[Draft], blamed: str | None, kept: bool
    ) -> None:
        record = json.dumps({"entry": blamed})

        def both(store: SqlStore, lease: Lease, position: int) -> object:
            if kept:
                keep(store, lease)
            failed = store.fail(lease, record, position, drafts)
            return failed, store.resurrect(lease.key, ())

        self.with_lease(data, both)

    @rule(data=st.data(), ceiling=st.sampled_from([1, 2, 5]))
    def crash(self, data: st.DataObject, ceiling: int) -> None:
        self.with_lease(
            data,
            lambda store, lease, position: store.crash(lease, "{}", position, ceiling),
        )

    @rule(data=st.data())
    def block(self, data: st.DataObject) -> None:
        self.with_lease(
            data,
            lambda store, lease, position: store.block(lease, "{}", position, SECOND),
        )

    @rule(data=st.data(), kept=st.booleans())
    def block_and_discard(self, data: st.DataObject, kept: bool) -> None:
        at = data.draw(ODDS)

        def both(store: SqlStore, lease: Lease, position: int) -> object:
            if kept:
                keep(store, lease)
            blocked = store.block(lease, "{}", position, SECOND)
            return blocked, store.discard(lease.key, position - at)

        self.with_lease(data, both)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.with_lease(data, lambda store, lease, _: store.release(lease))

    @rule(data=st.data())
    def snapshot(self, data: st.DataObject) -> None:
        self.with_lease(data, lambda store, lease, _: keep(store, lease))

    # --- from outside ---

    @rule(id=IDS, name=NAMES, generation=st.sampled_from([None, 0, 1]))
    def resolve(self, id: str, name: str, generation: int | None) -> None:
        self.both(lambda store, _: store.resolve(self.key(id), name, "7", generation))

    @rule(id=IDS)
    def cancel(self, id: str) -> None:
        self.both(lambda store, _: store.cancel(self.key(id)))

    @rule(id=IDS)
    def request_cancel(self, id: str) -> None:
        self.both(lambda store, _: store.cancel(self.key(id), cleanup=True))

    @rule(id=IDS, rerun=st.none() | st.lists(NAMES, max_size=2), forget=st.booleans())
    def resurrect(self, id: str, rerun: list[str] | None, forget: bool) -> None:
        def resurrect(store: SqlStore, _: int) -> object:
            try:
                return store.resurrect(self.key(id), rerun, forget)
            except EntryNotFound as error:
                return error.what

        self.both(resurrect)

    @rule(id=IDS, position=st.integers(0, 6))
    def discard(self, id: str, position: int) -> None:
        self.both(lambda store, _: store.discard(self.key(id), position))

    # --- what is always so ---

    @invariant()
    def both_hold_the_same_and_it_fits_together(self) -> None:
        held, other = (Contents.of(each, self.workflow) for each in self.databases)
        assert held.rows == other.rows
        assert held.entries == other.entries
        for row in held.rows:
            check_journal(row, held.entries)
            earliest, due = runnable_at(row, self.clock.now), row[-1]
            if earliest is None or due is None or earliest > self.clock.now:
                assert due == earliest
            else:
                assert due <= self.clock.now

    @rule(id=IDS, page_size=st.sampled_from([1, 100]))
    def load(self, id: str, page_size: int) -> None:
        row = self.both(lambda store, _: store.find(self.key(id)))
        if row is None:
            return
        entries = Contents.of(self.databases[0], self.workflow).entries
        whole = entries.get((id, row.generation), [])
        found = self.both(lambda store, _: load(store, self.key(id), page_size))
        assert found == extend(Prefix((), 0, {}), whole, row.position)

    def teardown(self) -> None:
        for id in "123":
            self.load(id, 100)


@pytest.fixture
def databases(
    sqlite_url: str, postgres_url: str
) -> Iterator[tuple[Database, Database]]:
    with Database.open(sqlite_url) as sqlite, Database.open(postgres_url) as postgres:
        schema.ensure(sqlite)
        # The power stays on during this test.
        with sqlite.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA synchronous=OFF")
        yield sqlite, postgres


@pytest.mark.postgres
def test_both_databases_agree(databases: tuple[Database, Database]) -> None:
    class Machine(Agreement):
        def __init__(self) -> None:
            super().__init__(databases)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=30,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
