"""What is loaded by whom, and what has to be installed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ..examples import environment

EVERYTHING = (
    "alembic",
    "click",
    "cattrs",
    "mako",
    "opentelemetry",
    "psycopg",
    "pydantic",
    "rich",
    "sqlalchemy",
    "sqlalchemy.dialects.postgresql",
)


def loaded_by(code: str) -> set[str]:
    """The modules of `EVERYTHING` that a fresh process has loaded after ``code``."""
    asked = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout)) & set(EVERYTHING)


@pytest.mark.parametrize(
    "names",
    [
        "Step, workflow",
        "Await, ContinueAsNew, Patch, WorkflowBody, current_step, restore_seed",
        "Completed, Failed, StepFailed, Suspended, WorkflowError",
    ],
)
def test_writing_a_body_loads_no_database_library(names: str) -> None:
    assert loaded_by(f"from workflow_engine import {names}") == set()


def test_the_database_library_is_loaded_when_an_engine_is_made() -> None:
    engine = "from workflow_engine import Engine"
    assert loaded_by(engine) == set()
    # The tables are declared for both databases.
    both = {"sqlalchemy", "sqlalchemy.dialects.postgresql"}
    assert loaded_by(f"{engine}; Engine('sqlite://')") <= both


RUN = """
import sys
for name in {absent!r}:
    sys.modules[name] = None
import workflow_engine
from workflow_engine import Engine, Step, workflow
for name in workflow_engine.__all__:
    getattr(workflow_engine, name)
@workflow
def small(base):
    return (yield Step("add", int, base)) + 1
with Engine("sqlite:///{folder}/small.db", workflows=[small]) as engine:
    assert engine.run(small, "1", 41) == workflow_engine.Completed(42)
for name in {absent!r}:
    del sys.modules[name]
"""


def test_on_sqlite_nothing_else_has_to_be_installed(tmp_path: object) -> None:
    absent = set(EVERYTHING) - {"sqlalchemy", "cattrs"}
    absent.discard("sqlalchemy.dialects.postgresql")
    assert loaded_by(RUN.format(absent=sorted(absent), folder=tmp_path)) <= {
        "sqlalchemy",
        "sqlalchemy.dialects.postgresql",
        "cattrs",
    }
