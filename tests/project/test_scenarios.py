"""The manifest of scenarios is true: its tests exist, and run where it says."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "tests" / "scenarios.toml"

PARTS = {
    "waiting",
    "messages",
    "concurrency",
    "async",
    "speed",
    "testing kit",
    "telemetry",
    "dashboard",
    "schedules",
}
"""Parts of the library that bring the rest of a row."""

COUNTS = {
    "core": 26,
    "store": 28,
    "wakes": 18,
    "flow": 23,
    "test": 3,
    "speed": 3,
    "ops": 3,
    "sched": 6,
    "corner": 9,
}
"""How many rows a group has, so that none is lost unnoticed."""

BOTH = frozenset({"sqlite", "postgresql"})

BASES = {
    "database_url": BOTH,
    "blank_url": BOTH,
    "sqlite_url": frozenset({"sqlite"}),
    "postgres_url": frozenset({"postgresql"}),
    "blank_postgres_url": frozenset({"postgresql"}),
    "postgres_server": frozenset({"postgresql"}),
    "server": frozenset({"postgresql"}),
}
"""Fixtures that give a database, and which; all others are built on these."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Rows = dict[str, dict[str, Any]]


@cache
def manifest() -> dict[str, Rows]:
    return tomllib.loads(MANIFEST.read_text())


def rows() -> list[Any]:
    return [
        pytest.param(row, id=f"{group}-{number}")
        for group, members in manifest().items()
        for number, row in members.items()
    ]


@cache
def functions(path: Path) -> dict[str, Function]:
    """The functions of a file by name, also those of another ``conftest``; its classes'
    methods left out."""
    if not path.exists():
        return {}
    found: dict[str, Function] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, Function):
            found[node.name] = node
        elif isinstance(node, ast.ImportFrom) and node.level:
            *folders, file = (node.module or "").split(".")
            if file == "conftest":
                other = path.parents[node.level - 1].joinpath(*folders, "conftest.py")
                names = {name.name for name in node.names}
                others = functions(other).items()
                found |= {name: each for name, each in others if name in names}
    return found


def arguments(function: Function) -> list[str]:
    return [argument.arg for argument in function.args.args]


def databases_of(path: Path, function: Function) -> frozenset[str]:
    """The databases that a test or fixture runs on, by the fixtures it asks for."""
    homes = [path, *(folder / "conftest.py" for folder in path.parents[:3])]
    reached: frozenset[str] = frozenset()
    for name in arguments(function):
        if name in BASES:
            reached |= BASES[name]
            continue
        fixture = next(
            (functions(h)[name] for h in homes if name in functions(h)), None
        )
        if fixture is not None and fixture is not function:
            reached |= databases_of(path, fixture)
    return reached


def test_no_row_is_lost() -> None:
    assert {group: len(rows) for group, rows in manifest().items()} == COUNTS
    numbers = [
        n for group, rows in manifest().items() if group != "corner" for n in rows
    ]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("row", rows())
def test_a_row_has_tests_where_it_says_or_names_what_brings_them(
    row: dict[str, Any],
) -> None:
    assert set(row) <= {"title", "databases", "tests", "later"}
    assert row["title"]
    named = row.get("tests", [])
    assert named or row.get("later")
    assert row.get("later") in PARTS | {None}
    assert len(named) == len(set(named))
    reached: frozenset[str] = frozenset()
    for test in named:
        file, name = test.split("::")
        path = ROOT / file
        assert name in functions(path), test
        reached |= databases_of(path, functions(path)[name])
    if named:
        assert reached >= frozenset(row.get("databases", BOTH))


def test_fixtures_are_followed_to_the_database_they_are_built_on() -> None:
    path = ROOT / "tests" / "runtime" / "test_costs.py"
    tests = functions(path)
    assert databases_of(path, tests["test_a_listing_reads_no_payloads"]) == BOTH
    here = functions(Path(__file__))["test_no_row_is_lost"]
    assert databases_of(Path(__file__), here) == frozenset()
