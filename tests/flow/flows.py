"""Helpers that several of these tests share."""

from __future__ import annotations

from typing import Any

from workflow_engine import Engine, Workflow


def id_of_only(engine: Engine, workflow: Workflow[..., Any], id: str = "1") -> str:
    """The id of the only awakeable of an instance's generation."""
    (view,) = engine.awakeables(workflow, id)
    return view.id
