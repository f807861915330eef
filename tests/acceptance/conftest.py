"""Processes on each database in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from workflow_engine import Engine

from . import program
from .processes import Processes, processes


@pytest.fixture
def others(database_url: str, tmp_path: Path) -> Iterator[Processes]:
    """Starts processes on the database of the test."""
    with processes(database_url, tmp_path) as started:
        yield started


@pytest.fixture
def engine(
    database_url: str, others: Processes, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    """An engine in this process, which is one more on the same database."""
    monkeypatch.setattr(program, "EFFECTS", str(others.effects))
    with Engine(database_url, workflows=program.WORKFLOWS) as engine:
        yield engine
