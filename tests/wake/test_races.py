"""Several parties at once: one winner, nothing lost, one order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from workflow_engine import WorkflowBody, awakeable, spawn_child, workflow
from workflow_engine.core.compounds import AllOf

from ..runtime.bench import Bench, entries
from .flows import id_of, patient

MANY = 50


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What came of each, all begun at the same moment; errors are raised."""
    barrier = Barrier(len(calls))

    def one(call: Callable[[], Any]) -> Any:
        barrier.wait(30)
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        begun = [threads.submit(one, call) for call in calls]
        return [each.result(60) for each in begun]


def test_of_a_signal_a_rejection_and_a_cancellation_at_once_one_wins(
    bench: Bench,
) -> None:
    engine = bench.engine(patient)
    first, second, third = (bench.engine() for _ in range(3))
    for number in range(20):
        name = str(number)
        engine.run(patient, name)
        id = id_of(engine, patient, name)
        came = at_once(
            lambda: first.signal(id, "yes"),  # noqa: B023
            lambda: second.reject(id, "no"),  # noqa: B023
            lambda: third.cancel_awakeable(id),  # noqa: B023
        )
        assert sorted(came) == [False, False, True]
        statuses = ("resolved", "rejected", "cancelled")
        winner = statuses[came.index(True)]
        assert engine.awakeables(patient, name)[0].status == winner
        kind = "wake" if winner == "resolved" else "wake_failed"
        assert entries(engine, patient, name)[1:] == [(kind, "awk:word")]


def test_many_signals_to_one_instance_are_all_kept_in_one_order(bench: Bench) -> None:
    @workflow
    def popular() -> WorkflowBody[list[int]]:
        opened = yield from AllOf([awakeable(str(n)) for n in range(MANY)])
        taken: list[int] = []

        def one(number: int) -> WorkflowBody[None]:
            taken.append((yield from opened[number]))

        yield AllOf([one(number) for number in range(MANY)])
        return taken

    engine = bench.engine(popular)
    engine.run(popular, "1")
    senders = [bench.engine() for _ in range(4)]
    ids = {view.label: view.id for view in engine.awakeables(popular, "1")}

    def send(number: int) -> bool:
        return senders[number % len(senders)].signal(ids[str(number)], number)

    came = at_once(*(lambda n=n: send(n) for n in range(MANY)))
    assert came == [True] * MANY
    wakes = [e.value for e in engine.journal(popular, "1") if e.kind == "wake"]
    assert sorted(wakes) == list(range(MANY))
    assert engine.worker().drain().completed == 1
    assert engine.handle(popular, "1").result() == wakes, "the body saw that order"


@pytest.mark.parametrize("others", [2, 4])
def test_however_many_signal_the_same_thing_the_first_value_stays(
    bench: Bench, others: int
) -> None:
    engine = bench.engine(patient)
    engine.run(patient, "1")
    id = id_of(engine, patient)
    senders = [bench.engine() for _ in range(others)]
    calls = [lambda n=n, s=s: s.signal(id, f"{n}") for n, s in enumerate(senders)]
    came = at_once(*calls)
    assert came.count(True) == 1
    assert engine.worker().run_once().completed == 1
    assert engine.handle(patient, "1").result() == str(came.index(True))


def test_workers_share_a_family_and_do_each_step_once(bench: Bench) -> None:
    @workflow
    def leaf(number: int) -> WorkflowBody[int]:
        yield awakeable("unused")
        return number

    @workflow
    def root(number: int) -> WorkflowBody[int]:
        spawns = [spawn_child(leaf, f"{number}.{n}", n) for n in range(4)]
        return sum((yield from AllOf((yield from AllOf(spawns)))))

    engines = [bench.engine(leaf, root) for _ in range(3)]
    for number in range(8):
        engines[0].start(root, str(number), number)
    workers = [engine.worker(concurrency=3) for engine in engines]
    at_once(*(worker.drain for worker in workers))
    workers[0].drain()
    for number in range(8):
        assert engines[0].handle(root, str(number)).result() == 6
        journal = entries(engines[0], root, str(number))
        assert [kind for kind, _ in journal].count("wake") == 4
