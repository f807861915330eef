"""A run's journal: appending, loading, and what the answers say."""

from __future__ import annotations

import pytest

from workflow_engine.core.journal import Draft, Kind, Prefix
from workflow_engine.core.ports import Fenced, Refused
from workflow_engine.core.requests import Appended, Moved
from workflow_engine.store.sql_store import SqlStore

from .actors import KEY, claim, entry, history, lease_on, ok


def test_an_append_answers_with_what_it_recorded(store: SqlStore) -> None:
    lease = lease_on(store)
    answer = store.append(lease, [ok("a"), ok("b")], 0, None)
    assert answer == Appended((entry(1, ok("a")), entry(2, ok("b"))), 2)
    assert history(store, lease) == [entry(1, ok("a")), entry(2, ok("b"))]


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
