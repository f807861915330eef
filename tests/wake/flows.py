"""Workflows and helpers that several of these tests share."""

from __future__ import annotations

from typing import Any

from workflow_engine import Engine, Workflow, WorkflowBody, awakeable, workflow

from ..runtime.bench import Bench

SECOND = 1_000_000


@workflow
def patient() -> WorkflowBody[str]:
    """Asks for a word before it goes on."""
    asked = yield from awakeable("word", returns=str)
    return (yield from asked)


def tell_child(bench: Bench, word: str) -> None:
    """Answer the patient instance called ``child``."""
    engine = bench.engine()
    assert engine.signal(id_of(engine, patient, "child"), word)


def id_of(engine: Engine, workflow: Workflow[..., Any], id: str = "1") -> str:
    """The id of the only awakeable of an instance's generation."""
    (view,) = engine.awakeables(workflow, id)
    return view.id


def timers(bench: Bench) -> list[tuple[str, int]]:
    """Name and due time, in microseconds from now, of all timers."""
    rows = bench.execute("SELECT step_name, due_at FROM wf_timers ORDER BY due_at")
    return [(name, due - bench.clock.instant()) for name, due in rows]
