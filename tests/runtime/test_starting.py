"""Starting and attaching, tags, listings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from workflow_engine import (
    Await,
    Completed,
    Handle,
    InputConflict,
    InstanceNotFound,
    InvalidInput,
    InvalidName,
    Status,
    Step,
    StepFailed,
    Suspended,
    WorkflowBody,
    workflow,
)

from .bench import Bench


@workflow(name="pay")
def pay(amount: int, currency: str = "EUR") -> WorkflowBody[str]:
    yield Await("go")
    return f"{amount} {currency}"


@workflow(name="pay")
def pay_later(amount: int, currency: str = "EUR", tip: int = 0) -> WorkflowBody[str]:
    yield Await("go")
    return f"{amount} {currency} {tip}"


def test_a_start_records_the_input_and_runs_nothing(bench: Bench) -> None:
    engine = bench.engine(pay)
    handle = engine.start(pay, "1", 5)
    assert handle.status() == Status.RUNNING
    assert (handle.workflow, handle.id) == ("pay", "1")
    assert engine.journal(pay, "1") == ()


def test_the_same_arguments_or_none_attach(bench: Bench) -> None:
    engine = bench.engine(pay)
    engine.start(pay, "1", 5)
    for attach in (
        lambda: engine.start(pay, "1", 5),
        lambda: engine.start(pay, "1", amount=5),
        lambda: engine.start(pay, "1", 5, currency="EUR"),
        lambda: engine.start(pay, "1", 5, "EUR"),
        lambda: engine.start(pay, "1"),
        lambda: engine.start("pay", "1"),
    ):
        assert attach().status() == Status.RUNNING
    assert engine.run(pay, "1") == engine.run(pay, "1", 5) == Suspended(("go",))
    assert len(engine.list()) == 1


@pytest.mark.parametrize("when", ["started", "suspended", "completed", "crashed"])
def test_other_arguments_conflict_and_change_nothing(bench: Bench, when: str) -> None:
    @workflow(name="pay")
    def fragile(amount: int, currency: str = "EUR") -> WorkflowBody[str]:
        yield Await("go")
        if when == "crashed":
            raise RuntimeError("a bug")
        return f"{amount} {currency}"

    engine = bench.engine(fragile)
    engine.start(fragile, "1", 5)
    if when in ("completed", "crashed"):
        engine.resolve(fragile, "1", "go", None)
    if when != "started":
        engine.worker().run_once()
    before = engine.describe(fragile, "1")
    for ask in (engine.start, engine.run):
        with pytest.raises(InputConflict, match=r"other arguments \(amount\)"):
            ask(fragile, "1", 6)
        with pytest.raises(InputConflict, match=r"\(amount, currency\)"):
            ask(fragile, "1", 6, currency="USD")
    # Neither its status nor its pace: an instance in its pause stays there.
    assert engine.describe(fragile, "1") == before


def test_a_parameter_added_with_a_default_is_no_conflict(bench: Bench) -> None:
    bench.engine(pay).start(pay, "1", 5)
    engine = bench.engine(pay_later)
    engine.start(pay_later, "1", 5)
    engine.start(pay_later, "1", 5, tip=0)
    with pytest.raises(InputConflict, match=r"\(tip\)"):
        engine.start(pay_later, "1", 5, tip=1)
    engine.resolve(pay_later, "1", "go", None)
    assert engine.run(pay_later, "1", 5) == Completed("5 EUR 0")


def test_no_arguments_where_some_are_needed_start_nothing(bench: Bench) -> None:
    engine = bench.engine(pay)
    for ask in (engine.start, engine.run):
        with pytest.raises(InvalidInput, match="missing a required argument"):
            ask(pay, "1")
    with pytest.raises(InstanceNotFound):
        engine.describe(pay, "1")


def test_the_callers_arguments_may_be_changed_after_the_start(bench: Bench) -> None:
    @workflow
    def listing(given: list[int]) -> WorkflowBody[list[int]]:
        yield Await("go")
        return given

    given = [1]
    engine = bench.engine(listing)
    engine.start(listing, "1", given)
    given.append(2)
    engine.resolve(listing, "1", "go", None)
    assert engine.run(listing, "1") == Completed([1])


def test_one_id_in_two_workflows_is_two_instances(bench: Bench) -> None:
    other = workflow(name="other")(pay.function)
    engine = bench.engine(pay, other)
    engine.start(pay, "1", 5)
    engine.start(other, "1", 6)
    assert [row.workflow for row in engine.list()] == ["pay", "other"]


@pytest.mark.parametrize(
    "pairs",
    [
        [("a-b", "c"), ("a", "b-c")],
        [("a", "1:2"), ("a:1", "2")],
        [("a", "b#1"), ("a", "b"), ("a#1", "b")],
        [("a/b", "c"), ("a", "b/c"), ("a", "\N{GRINNING FACE}"), ("A", "b/c")],
        [("a%3A", "b"), ("a:", "b"), ("a", "x" * 255), ("a", " x ")],
    ],
)
def test_identities_never_collide(bench: Bench, pairs: list[tuple[str, str]]) -> None:
    def made(name: str) -> Any:
        def body() -> WorkflowBody[str]:
            own: str = yield from Step("s", bench.do, "s", name)
            return own

        return workflow(name=name)(body)

    engine = bench.engine(*(made(name) for name in sorted({name for name, _ in pairs})))
    for name, id in pairs:
        assert engine.run(name, id) == Completed(name)
    assert len(bench.done) == len(engine.list()) == len(pairs)
    ids = [engine.journal(name, id)[0].entry_id for name, id in pairs]
    assert len(set(ids)) == len(pairs)


def test_many_threads_starting_one_id_make_one_instance(bench: Bench) -> None:
    engine = bench.engine(pay)

    def start(amount: int) -> Handle[str] | None:
        try:
            return engine.start(pay, "1", amount)
        except InputConflict:
            return None

    with ThreadPoolExecutor(10) as threads:
        handles = list(threads.map(start, range(30)))
    assert len([handle for handle in handles if handle is not None]) == 1
    engine.resolve(pay, "1", "go", None)
    engine.worker().run_once()
    winner = handles.index(next(filter(None, handles)))
    assert engine.handle(pay, "1").result() == f"{winner} EUR"


# --- tags and delay ---


def test_tags_are_kept_and_found_by(bench: Bench) -> None:
    engine = bench.engine(pay)
    engine.starting(tags={"team": "a", "zone": "eu"}).start(pay, "1", 5)
    engine.starting(tags={"team": "a"}).start(pay, "2", 5)
    engine.start(pay, "3", 5)
    assert [row.id for row in engine.list(tags={"team": "a"})] == ["1", "2"]
    assert [row.id for row in engine.list(tags={"team": "a", "zone": "eu"})] == ["1"]
    assert [row.id for row in engine.list(tags={"team": "b"})] == []
    assert engine.describe(pay, "1").tags == {"team": "a", "zone": "eu"}


def test_options_of_a_start_may_be_named_like_parameters(bench: Bench) -> None:
    @workflow
    def clashing(tags: list[str], delay: int, id: str) -> WorkflowBody[str]:
        yield Await("go")
        return f"{tags} {delay} {id}"

    engine = bench.engine(clashing)
    options = engine.starting(tags={"kind": "clash"})
    options.start(clashing, "1", tags=["x"], delay=3, id="y")
    engine.resolve(clashing, "1", "go", None)
    assert engine.run(clashing, "1") == Completed("['x'] 3 y")


@pytest.mark.parametrize("tags", [{"": "a"}, {"a": ""}, {"a": 3}, {"a": "\n"}])
def test_tags_are_short_printable_texts(sqlite_bench: Bench, tags: Any) -> None:
    with pytest.raises(InvalidName, match="tag"):
        sqlite_bench.engine().starting(tags=tags)


def test_a_delay_is_a_timedelta_or_seconds(bench: Bench) -> None:
    engine = bench.engine(pay)
    delays: dict[str, timedelta | float] = {"1": timedelta(minutes=2), "2": 120}
    for id, delay in delays.items():
        engine.starting(delay=delay).start(pay, id, 5)
        due = engine.describe(pay, id).next_attempt_at
        assert due == bench.clock.now + timedelta(minutes=2)


# --- listings ---


def test_pages_follow_each_other_without_gaps(bench: Bench) -> None:
    engine = bench.engine(pay)
    for number in range(7):
        engine.start(pay, str(number), number)
    seen, after = [], None
    while True:
        page = engine.list(after=after, limit=3)
        seen += [row.id for row in page]
        after = page.after
        if after is None:
            break
        engine.start(pay, f"later {len(seen)}", 1)
    later = ["later 3", "later 6", "later 9"]
    assert seen == [*(str(n) for n in range(7)), *later]
    page = engine.list(limit=2)
    assert page[0].id == "0"
    assert [row.id for row in engine.list(after=page[-1], limit=2)] == ["2", "3"]


def test_a_prefix_is_literal(bench: Bench) -> None:
    engine = bench.engine(pay)
    for id in ["a_b%c", "a_b%", "axbyc", "A_B%", "a_c", "a\\_b"]:
        engine.start(pay, id, 1)
    assert [row.id for row in engine.list(prefix="a_b%")] == ["a_b%c", "a_b%"]
    assert [row.id for row in engine.list(prefix="a\\")] == ["a\\_b"]
    assert [row.id for row in engine.list(prefix="a_")] == ["a_b%c", "a_b%", "a_c"]
    assert len(engine.list(prefix=" ")) == 0
    for prefix in "\0", "a\ud800":
        with pytest.raises(InvalidName, match="beginning of an id"):
            engine.list(prefix=prefix)


def test_a_listing_chooses_by_status_and_name(bench: Bench) -> None:
    other = workflow(name="other")(pay.function)
    engine = bench.engine(pay, other)
    engine.run(pay, "1", 5)
    engine.start(pay, "2", 5)
    engine.start(other, "3", 5)
    engine.cancel(other, "3")

    def ids(**choice: Any) -> list[str]:
        return [row.id for row in engine.list(**choice)]

    assert ids(status="suspended") == ["1"]
    assert ids(status=Status.RUNNING) == ["2"]
    assert ids(status=["suspended", Status.CANCELLED]) == ["1", "3"]
    assert ids(name=pay) == ids(name="pay") == ["1", "2"]
    assert ids(name=other, status="running") == []
    with pytest.raises(ValueError, match="asleep"):
        ids(status="asleep")
    with pytest.raises(ValueError, match="limit"):
        ids(limit=0)


# --- looking at one ---


def test_a_description_tells_how_an_instance_stands(bench: Bench) -> None:
    engine = bench.engine(pay)
    engine.run(pay, "1", 5)
    seen = engine.describe("pay", "1")
    assert (seen.workflow, seen.id, seen.status) == ("pay", "1", Status.SUSPENDED)
    assert seen.created_at == seen.updated_at == bench.clock.now
    assert seen.created_at.tzinfo is not None
    assert (seen.stream, seen.position, seen.generation) == ("wf:pay-1", 0, 0)
    assert (seen.owner, seen.ended_at, seen.reason) == (None, None, None)
    assert not seen.cancel_requested


def test_what_does_not_exist_is_said_by_name(bench: Bench) -> None:
    engine = bench.engine(pay)
    for look in (
        lambda: engine.describe(pay, "1"),
        lambda: engine.journal(pay, "1"),
        lambda: engine.resolve(pay, "1", "go", None),
        lambda: engine.cancel(pay, "1"),
        lambda: engine.release_lease(pay, "1"),
        lambda: engine.handle(pay, "1").status(),
    ):
        with pytest.raises(InstanceNotFound, match="'pay' has no instance '1'"):
            look()


def test_a_journal_tells_every_entry_of_a_generation(bench: Bench) -> None:
    @workflow
    def order() -> WorkflowBody[None]:
        yield Step("ok", bench.do, "ok", {"deep": [1]})
        try:
            yield Step("no", bench.fail, "no", ValueError("x"))
        except StepFailed:
            yield Await("go")

    engine = bench.engine(order)
    engine.run(order, "1")
    engine.resolve(order, "1", "go", "a value")
    engine.run(order, "1")
    ok, no, wake, end = engine.journal(order, "1")
    assert (ok.position, ok.kind, ok.step, ok.live) == (1, "step_ok", "ok", True)
    assert ok.value == {"deep": [1]}
    assert (no.kind, no.value["type"]) == ("step_failed", "ValueError")
    assert (wake.kind, wake.value) == ("wake", "a value")
    assert (end.kind, end.step, end.live) == ("completed", None, False)
    assert ok.recorded_at == bench.clock.now
    assert engine.journal(order, "1", 0) == (ok, no, wake, end)
    assert engine.journal(order, "1", 1) == ()


def test_a_long_journal_is_read_in_pages(bench: Bench) -> None:
    @workflow
    def long() -> WorkflowBody[int]:
        for number in range(1_100):
            yield Await(f"n{number}")
        return 1_100

    engine = bench.engine(long, page_size=7)
    engine.start(long, "1")
    bench.execute(
        "INSERT INTO wf_journal (instance_id, generation, position, kind, step_name,"
        " live, format, payload, recorded_at, entry_id) "
        "WITH RECURSIVE numbers(n) AS "
        "(SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1099) "
        "SELECT i.id, 0, n + 1, 'wake', 'n' || n, i.epoch = i.epoch, 1, 'null', 0, ''"
        " FROM numbers, wf_instances i"
    )
    bench.execute("UPDATE wf_instances SET position = 1100")
    assert len(engine.journal(long, "1")) == 1_100
    assert engine.run(long, "1") == Completed(1_100)
