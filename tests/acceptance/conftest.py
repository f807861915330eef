"""Processes on each database in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from workflow_engine import Engine

from ..wholeness import check_whole
from . import program
from .processes import Processes, processes


@pytest.fixture(autouse=True)
def left_whole(request: pytest.FixtureRequest) -> Iterator[None]:
    """See after each test, when its processes are gone, that its database is whole.

    The doctor is asked, too.
    """
    databases = ("database_url", "sqlite_url", "postgres_url")
    urls = [
        request.getfixturevalue(name)
        for name in databases
        if name in request.fixturenames
    ]
    yield
    for url in urls:
        check_whole(url)


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
