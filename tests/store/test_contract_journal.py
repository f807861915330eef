"""A run's journal: appending, and what the answers say."""

from __future__ import annotations

import attrs
import pytest

from workflow_engine.core import ids
from workflow_engine.core.journal import Draft, Kind, Prefix
from workflow_engine.core.lifecycle import Status
from workflow_engine.core.requests import Appended, Moved
from workflow_engine.core.rows import Fenced, Key, Refused
from workflow_engine.errors import StoreRefused
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from .actors import (
    KEY,
    MINUTE,
    BoundClock,
    entry,
    failed,
    history,
    lease_on,
    ok,
    sql,
    statements,
)


def test_an_append_answers_with_what_it_recorded(store: SqlStore) -> None:
    lease = lease_on(store)
    answer = store.append(lease, [ok("a"), failed("b")], 0, None)
    assert answer == Appended((entry(1, ok("a")), entry(2, failed("b"))), 2)
    assert history(store, lease) == [entry(1, ok("a")), entry(2, failed("b"))]


def test_an_append_answers_with_entries_that_others_recorded(store: SqlStore) -> None:
    lease = lease_on(store)
    store.resolve(KEY, "w", "7", None)
    answer = store.append(lease, [ok("a")], 0, None)
    wake = entry(1, Draft(Kind.WAKE, "w", "7"))
    assert answer == Appended((wake, entry(2, ok("a"))), 2)


def test_the_first_writer_of_a_name_wins(store: SqlStore) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a", "1")], 0, None)
    answer = store.append(lease, [ok("a", "2"), ok("b")], 0, None)
    assert answer == Appended((entry(1, ok("a", "1")), entry(2, ok("b"))), 2)


def test_a_name_taken_before_the_known_position_is_not_taken_again(
    store: SqlStore,
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a", "1")], 0, None)
    answer = store.append(lease, [ok("a", "2"), ok("b")], 1, None)
    assert answer == Appended((entry(2, ok("b")),), 2)
    assert history(store, lease) == [entry(1, ok("a", "1")), entry(2, ok("b"))]


def test_of_two_drafts_with_one_name_the_first_is_recorded(store: SqlStore) -> None:
    lease = lease_on(store)
    answer = store.append(lease, [ok("a", "1"), ok("a", "2"), ok("b")], 0, None)
    assert answer == Appended((entry(1, ok("a", "1")), entry(2, ok("b"))), 2)


def test_an_append_whose_acknowledgement_was_lost_can_be_repeated(
    store: SqlStore,
) -> None:
    lease = lease_on(store)
    first = store.append(lease, [ok("a"), ok("b")], 0, None)
    assert store.append(lease, [ok("a"), ok("b")], 0, None) == first


def test_an_append_of_nothing_is_a_look_that_writes_nothing(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    with statements(database) as seen:
        assert store.append(lease, [], 1, None) == Appended((), 1)
        answer = store.append(lease, [], 0, None)
        assert store.append(lease, [], 0, 0) == Moved()
    assert answer == Appended((entry(1, ok("a")),), 1)
    assert all(each.startswith("SELECT") for each in seen)
    store.force_release(KEY)
    assert store.append(lease, [], 1, None) == Fenced()


def test_an_append_that_expects_another_position_records_nothing(
    store: SqlStore,
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    for known, expect in [(0, 0), (1, 0), (1, 2)]:
        assert store.append(lease, [ok("b")], known, expect) == Moved()
    assert len(history(store, lease)) == 1
    assert store.append(lease, [ok("b")], 0, 1) == Appended(
        (entry(1, ok("a")), entry(2, ok("b"))), 2
    )


def test_an_answer_carries_the_request_to_cancel(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    sql(database, "UPDATE wf_instances SET cancel_requested = true")
    assert store.append(lease, [ok("a")], 0, None) == Appended(
        (entry(1, ok("a")),), 1, cancel_requested=True
    )
    assert store.append(lease, [ok("b")], 0, None) == Appended(
        (entry(1, ok("a")), entry(2, ok("b"))), 2, cancel_requested=True
    )
    assert store.append(lease, [], 2, None) == Appended((), 2, cancel_requested=True)


def test_a_fenced_owner_records_nothing(store: SqlStore, clock: BoundClock) -> None:
    old = lease_on(store, owner="a")
    clock.advance(MINUTE)
    lease = lease_on(store, owner="b")
    assert store.append(old, [ok("a")], 0, None) == Fenced()
    # Not even one with the right epoch and another name.
    stranger = attrs.evolve(lease, owner="c")
    assert store.append(stranger, [ok("a")], 0, None) == Fenced()
    assert history(store, lease) == []


def test_an_ended_instance_refuses_and_shows_its_end(store: SqlStore) -> None:
    lease = lease_on(store)
    store.finish(lease, Status.COMPLETED, "42", ())
    answer = store.append(lease, [ok("a")], 0, None)
    assert isinstance(answer, Refused)
    assert (answer.instance.status, answer.instance.result) == (Status.COMPLETED, "42")
    assert store.append(lease, [], 0, None) == answer


def test_an_ended_generation_refuses(store: SqlStore) -> None:
    lease = lease_on(store)
    store.rotate(lease, "1", (), (), ())
    answer = store.append(lease, [ok("a")], 0, None)
    assert isinstance(answer, Refused)
    assert (answer.instance.generation, answer.instance.status) == (1, Status.RUNNING)


def test_a_lease_on_a_deleted_instance_is_fenced(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    sql(database, "DELETE FROM wf_instances")
    assert store.append(lease, [ok("a")], 0, None) == Fenced()
    assert store.append(lease, [], 0, None) == Fenced()
    assert store.load(lease.instance, 0, 10) == Prefix((), 0, {})


def test_only_a_step_is_progress(store: SqlStore) -> None:
    for number, (draft, attempts) in enumerate(
        [
            (Draft(Kind.PATCH, "patch:p", "true"), 1),
            (Draft(Kind.CANCEL, "c", None), 1),
            (ok("a"), 0),
            (failed("a"), 0),
        ]
    ):
        key = Key("order", str(number))
        store.crash(lease_on(store, key), '{"type":"E"}', 0, 5)
        store.append(lease_on(store, key), [draft], 1, None)
        found = store.find(key)
        assert found is not None
        assert found.attempts == attempts
        assert found.last_error == ('{"type":"E"}' if attempts else None)


def test_entry_ids_follow_from_identity_and_name(store: SqlStore) -> None:
    lease = lease_on(store)
    drafts = [ok("a"), Draft(Kind.STEP_OK, "b", "1", superseded=2)]
    store.append(lease, drafts, 0, None)
    store.fail(lease, '{"entry":null}', 2)
    rows = store.journal(lease.instance, 0, 0, 10)
    assert [row[2] for row in rows] == [
        ids.entry_id("order", "1", 0, "a"),
        ids.entry_id("order", "1", 0, "b", 2),
        ids.entry_id("order", "1", 0, "#3"),
    ]
    assert len({row[2] for row in rows}) == 3


def test_a_journal_that_its_row_does_not_count_is_refused(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a")], 0, None)
    sql(database, "UPDATE wf_instances SET position = 0")
    with pytest.raises(StoreRefused, match="does not count"):
        store.append(lease, [ok("b")], 0, None)


def test_a_row_that_contradicts_itself_is_refused(
    store: SqlStore, database: Database
) -> None:
    lease = lease_on(store)
    sql(database, "UPDATE wf_instances SET status = 'suspended'")
    with pytest.raises(StoreRefused, match="contradicts itself"):
        store.append(lease, [ok("a")], 0, None)
    assert history(store, lease) == []
