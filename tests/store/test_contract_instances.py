"""Starting an instance, finding it, listing it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from workflow_engine.core.lifecycle import Status
from workflow_engine.core.ports import Store
from workflow_engine.core.rows import Claim, Ended, Held, Instance, Key, Missing
from workflow_engine.store import schema
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from ..postgres import Server
from .actors import (
    KEY,
    MINUTE,
    SECOND,
    BoundClock,
    claim,
    lease_on,
    new,
    ok,
    statements,
)


def test_the_sql_store_is_a_store(store: SqlStore) -> None:
    port: Store = store
    assert port.find(KEY) is None


@pytest.mark.postgres
def test_schemas_of_any_name_do_not_mix_whatever_the_search_path(
    postgres_url: str, postgres_server: Server, clock: BoundClock
) -> None:
    with (
        Database.open(postgres_url, schema="Flow-1") as one,
        Database.open(postgres_url, schema='Fl"ow%2') as two,
    ):
        name = one.engine.url.database
        postgres_server.execute(f"ALTER DATABASE {name} SET search_path = ''")
        for number, database in enumerate((one, two), 1):
            schema.upgrade(database)
            store = SqlStore(database, clock)
            for id in range(number):
                lease = lease_on(store, Key("order", str(id)))
                store.append(lease, [ok("a")], 0, None)
                store.snapshot(lease, store.load(lease.instance, 0, 9))
                store.append(lease, [ok("b")], 0, None)
                store.park(lease, (), 2, False)
                assert store.claim_due("b", MINUTE, (), ["order"], 9, 9).claims == ()
            assert len(_list(store, prefix="", limit=9)) == number


# --- start ---


def test_a_start_records_an_instance_that_can_run_at_once(
    store: SqlStore, clock: BoundClock
) -> None:
    instance, created = store.start(KEY, new('{"n":1}', tags={"team": "a"}))
    assert created
    assert instance == Instance(
        instance=instance.instance,
        key=KEY,
        incarnation="0" * 32,
        status=Status.RUNNING,
        generation=0,
        position=0,
        attempts=0,
        takeovers=0,
        lease_owner=None,
        lease_until=None,
        next_attempt_at=None,
        wake_after=None,
        cancel_requested=False,
        patches=None,
        tags={"team": "a"},
        last_error=None,
        waits_on=(),
        created_at=clock.now,
        updated_at=clock.now,
        ended_at=None,
        input='{"n":1}',
    )
    assert len(store.claim_due("w", MINUTE, (), ["order"], 9, 9).claims) == 1


def test_a_second_start_changes_nothing_and_answers_the_first(
    store: SqlStore, clock: BoundClock
) -> None:
    first, _ = store.start(KEY, new('{"n":1}', tags={"team": "a"}))
    clock.advance(SECOND)
    again = store.start(KEY, new('{"n":2}', incarnation="1" * 32))
    assert again == (first, False)


def test_a_start_of_an_ended_instance_answers_its_result(store: SqlStore) -> None:
    store.finish(lease_on(store), Status.COMPLETED, "42", ())
    instance, created = store.start(KEY, new())
    assert (created, instance.status, instance.result) == (
        False,
        Status.COMPLETED,
        "42",
    )


def test_instances_differ_by_name_and_by_id(store: SqlStore) -> None:
    keys = [Key("a", "b-c"), Key("a-b", "c"), Key("a", "b"), Key("A", "b")]
    numbers = {store.start(key, new())[0].instance for key in keys}
    assert len(numbers) == len(keys)


def test_a_delayed_start_is_left_alone_until_its_time(
    store: SqlStore, clock: BoundClock
) -> None:
    instance, _ = store.start(KEY, new(delay=10 * SECOND))
    assert instance.next_attempt_at == clock.now + 10 * SECOND
    clock.advance(10 * SECOND - 1)
    assert not store.claim_due("w", MINUTE, (), ["order"], 9, 9).claims
    clock.advance(1)
    assert len(store.claim_due("w", MINUTE, (), ["order"], 9, 9).claims) == 1


def test_any_text_that_may_be_a_name_is_kept_as_it_is(store: SqlStore) -> None:
    for text in ["%_'\"\\", "é", "e\u0301", "日本", "🦀", " a ", "x" * 255]:
        key = Key(text, text)
        store.start(key, new(tags={text: text}))
        found = store.find(key)
        assert found is not None
        assert (found.key, found.tags) == (key, {text: text})


@pytest.mark.parametrize("how", ["start", "claim"])
def test_fifty_threads_that_start_one_id_make_one_instance(
    store: SqlStore, how: str
) -> None:
    def start(number: int) -> tuple[bool, str | None]:
        given = new(f'{{"n":{number}}}', incarnation=f"{number:032x}")
        if how == "start":
            instance, created = store.start(KEY, given)
            return created, instance.input
        answer = store.claim(KEY, f"owner-{number}", MINUTE, (), given)
        if isinstance(answer, Held):
            return False, None
        assert isinstance(answer, Claim)
        return answer.created, answer.instance.input

    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(start, range(50)))
    found = store.find(KEY, payloads=True)
    assert found is not None
    assert sorted(created for created, _ in answers) == [False] * 49 + [True]
    assert {input for _, input in answers} - {None} == {found.input}
    assert len(_list(store)) == 1


# --- claim ---


def test_a_claim_starts_what_is_missing_and_says_so(
    store: SqlStore, clock: BoundClock
) -> None:
    answer = store.claim(KEY, "a", MINUTE, ("p2", "p1"), new('{"n":1}'))
    assert isinstance(answer, Claim)
    assert answer.created
    assert answer.lease.key == KEY
    assert answer.lease.owner == answer.instance.lease_owner == "a"
    assert answer.lease.instance == answer.instance.instance
    assert answer.instance.lease_until == clock.now + MINUTE
    assert answer.instance.patches == frozenset({"p1", "p2"})
    assert answer.instance.input == '{"n":1}'


def test_a_claim_without_input_starts_nothing(store: SqlStore) -> None:
    assert store.claim(KEY, "a", MINUTE, ()) == Missing()
    assert store.find(KEY) is None


def test_a_claim_of_an_instance_that_is_there_keeps_its_input(store: SqlStore) -> None:
    store.start(KEY, new('{"n":1}'))
    answer = store.claim(KEY, "a", MINUTE, (), new('{"n":2}'))
    assert isinstance(answer, Claim)
    assert (answer.created, answer.instance.input) == (False, '{"n":1}')


def test_a_lease_that_is_not_over_is_held(store: SqlStore, clock: BoundClock) -> None:
    claim(store, owner="a")
    held = Held("a", clock.now + MINUTE)
    clock.advance(MINUTE - 1)
    assert store.claim(KEY, "b", MINUTE, ()) == held
    # Two runs in one process are two runs.
    assert store.claim(KEY, "a", MINUTE, (), new()) == held


def test_a_lease_that_ran_out_is_taken_and_counts_no_takeover(
    store: SqlStore, clock: BoundClock
) -> None:
    first = claim(store, owner="a")
    clock.advance(MINUTE)
    second = claim(store, owner="b")
    assert second.lease.epoch > first.lease.epoch
    assert second.instance.takeovers == 0


def test_an_ended_instance_is_not_claimed(store: SqlStore) -> None:
    store.finish(lease_on(store), Status.COMPLETED, "42", ())
    answer = store.claim(KEY, "a", MINUTE, (), new())
    assert isinstance(answer, Ended)
    assert answer.instance.result == "42"


def test_a_claim_ignores_the_pace(store: SqlStore, clock: BoundClock) -> None:
    store.start(KEY, new(delay=MINUTE))
    lease = lease_on(store)
    store.park(lease, (), 0, False)
    assert claim(store).instance.status is Status.RUNNING


def test_the_patches_of_a_generation_are_set_once(store: SqlStore) -> None:
    store.release(claim(store, patches=("p1",)).lease)
    assert claim(store, patches=("p2",)).instance.patches == frozenset({"p1"})


def test_no_patches_are_a_decision_too(store: SqlStore) -> None:
    store.release(claim(store).lease)
    assert claim(store, patches=("p",)).instance.patches == frozenset()


# --- find and list ---


def test_find_brings_payloads_when_asked(store: SqlStore) -> None:
    assert store.find(KEY) is None
    store.finish(claim(store).lease, Status.COMPLETED, "42", ())
    bare, whole = store.find(KEY), store.find(KEY, payloads=True)
    assert bare is not None
    assert whole is not None
    assert (bare.input, bare.result) == (None, None)
    assert (whole.input, whole.result) == ("{}", "42")


def test_a_listing_goes_by_number_page_by_page(store: SqlStore) -> None:
    numbers = [store.start(Key("order", str(n)), new())[0].instance for n in range(5)]
    first = _list(store, limit=2)
    second = _list(store, after=first[-1].instance, limit=2)
    third = _list(store, after=second[-1].instance, limit=2)
    assert [row.instance for row in [*first, *second, *third]] == numbers
    assert not _list(store, after=numbers[-1])


def test_a_listing_chooses_by_status_and_workflow(store: SqlStore) -> None:
    for workflow, id in [("a", "1"), ("a", "2"), ("b", "1")]:
        store.start(Key(workflow, id), new())
    store.cancel(Key("a", "2"))
    assert _ids(_list(store, workflow="a")) == ["1", "2"]
    assert _ids(_list(store, workflow="a", statuses=[Status.CANCELLED])) == ["2"]
    assert len(_list(store, statuses=[Status.RUNNING, Status.CANCELLED])) == 3
    assert not _list(store, statuses=[])


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("a_b%", ["a_b%", "a_b%1"]),
        ("a", ["a_b%", "a_b%1", "axb1"]),
        ("A", ["A_b%"]),
        ("é", ["é", "éa"]),
        ("\ud7ff", ["\ud7ff1"]),
        ("\U0010ffff", ["\U0010ffff", "\U0010ffffz"]),
        ("a_b%1x", []),
        ("", None),
    ],
)
def test_a_prefix_is_the_literal_beginning_of_an_id(
    store: SqlStore, prefix: str, found: list[str] | None
) -> None:
    ids = ["a_b%", "a_b%1", "axb1", "A_b%", "b", "é", "éa", "è", "ê"]
    ids += ["\ud7ff1", "\ue0001", "\U0010ffff", "\U0010ffffz", "\U0010fffe"]
    for id in ids:
        store.start(Key("order", id), new())
    expected = ids if found is None else found
    assert _ids(_list(store, prefix=prefix)) == expected
    assert _ids(_list(store, prefix=prefix, workflow="order")) == expected


def test_a_listing_chooses_by_all_the_tags_given(store: SqlStore) -> None:
    tags: list[dict[str, str]] = [
        {"team": "a", "zone": "x"},
        {"team": "a"},
        {"team": "ab"},
        {"team": "A"},
        {"note": '"team": "a"'},
        {"note": '\n"team": "a"', "xteam": "a"},
        {'x\n"team': "a", "team ": "a"},
        {"é\0": "%_"},
    ]
    for number, each in enumerate(tags):
        store.start(Key("order", str(number)), new(tags=each))
    assert [row.tags for row in _list(store)] == tags
    assert _ids(_list(store, tags={"team": "a"})) == ["0", "1"]
    assert _ids(_list(store, tags={"team": "a", "zone": "x"})) == ["0"]
    assert _ids(_list(store, tags={"é\0": "%_"})) == ["7"]
    assert not _list(store, tags={"team": "b"})


def test_a_listing_reads_no_payloads(store: SqlStore, database: Database) -> None:
    store.finish(claim(store).lease, Status.COMPLETED, "42", ())
    with statements(database) as seen:
        (row,) = _list(store)
    assert (row.input, row.result) == (None, None)
    (statement,) = seen
    assert "wf_instances.input" not in statement
    assert "wf_instances.result" not in statement


def test_a_journal_is_read_page_by_page_with_times_and_ids(
    store: SqlStore, clock: BoundClock
) -> None:
    lease = lease_on(store)
    store.append(lease, [ok("a"), ok("b")], 0, None)
    clock.advance(SECOND)
    store.append(lease, [ok("c")], 2, None)
    first = store.journal(lease.instance, 0, 0, 2)
    second = store.journal(lease.instance, 0, 2, 2)
    assert [row[0].name for row in [*first, *second]] == ["a", "b", "c"]
    assert [row[1] - clock.now for row in [*first, *second]] == [-SECOND, -SECOND, 0]
    assert len({row[2] for row in [*first, *second]}) == 3
    assert not store.journal(lease.instance, 1, 0, 2)


def _list(store: SqlStore, **changes: Any) -> list[Instance]:
    asked: dict[str, Any] = {
        "statuses": None,
        "workflow": None,
        "prefix": None,
        "tags": {},
        "after": None,
        "limit": 100,
    }
    return list(store.list(**(asked | changes)))


def _ids(rows: list[Instance]) -> list[str]:
    return [row.key.id for row in rows]
