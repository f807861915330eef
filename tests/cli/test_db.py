from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from workflow_engine.cli.db import db
from workflow_engine.store import schema
from workflow_engine.store.database import Database
from workflow_engine.store.schema import HEAD


def _db(url: str, *words: str) -> Result:
    """The result of ``workflow-engine db`` with these words."""
    return CliRunner().invoke(db, words, env={"WORKFLOW_ENGINE_URL": url})


def _ok(url: str, *words: str) -> str:
    """What a command that succeeds prints."""
    result = _db(url, *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_upgrade_says_what_it_did_and_what_it_did_not(blank_url: str) -> None:
    assert _ok(blank_url, "upgrade", "0001") == "none -> 0001\n"
    assert _ok(blank_url, "upgrade") == f"0001 -> {HEAD}\n"
    assert _ok(blank_url, "upgrade") == f"at {HEAD} already\n"
    with Database.open(blank_url) as database:
        assert schema.check(database) == []


def test_downgrade_goes_to_the_revision_asked_for(blank_url: str) -> None:
    _ok(blank_url, "upgrade")
    answer = json.loads(_ok(blank_url, "downgrade", "0001", "--json"))
    assert answer == {"before": HEAD, "after": "0001"}
    assert _ok(blank_url, "downgrade", "base") == "0001 -> none\n"


def test_current_shows_what_is_there_and_what_is_needed(blank_url: str) -> None:
    _ok(blank_url, "upgrade", "0001")
    assert _ok(blank_url, "current") == f"0001 (this code needs {HEAD})\n"
    answer = json.loads(_ok(blank_url, "current", "--json"))
    assert answer == {"revision": "0001", "needed": HEAD}
    _ok(blank_url, "downgrade", "base")
    answer = json.loads(_ok(blank_url, "current", "--json"))
    assert answer == {"revision": None, "needed": HEAD}


def test_check_ends_with_1_when_the_tables_differ(
    sqlite_url: str, tmp_path: Path
) -> None:
    _ok(sqlite_url, "upgrade")
    assert _ok(sqlite_url, "check") == "the tables are as they should be\n"
    assert json.loads(_ok(sqlite_url, "check", "--json")) == {"differences": []}
    other = sqlite3.connect(tmp_path / "test.db")
    other.execute("DROP TABLE wf_snapshots")
    other.close()
    result = _db(sqlite_url, "check")
    assert result.exit_code == 1
    assert "wf_snapshots" in result.stdout
    result = _db(sqlite_url, "check", "--json")
    assert result.exit_code == 1
    assert len(json.loads(result.stdout)["differences"]) == 1


def test_check_of_an_old_schema_says_what_to_run(blank_url: str) -> None:
    _ok(blank_url, "upgrade", "0001")
    result = _db(blank_url, "check")
    assert result.exit_code == 1
    assert "workflow-engine db upgrade --url" in result.stderr
    assert "Traceback" not in result.output


def test_sql_prints_the_script_and_touches_no_database() -> None:
    result = CliRunner().invoke(db, ["sql", "--schema", "Flow-1", "--from", "0001"])
    assert result.exit_code == 0, result.output
    assert result.stdout == schema.sql(schema="Flow-1", start="0001")
    assert 'ALTER TABLE "Flow-1".wf_instances ADD COLUMN tags' in result.stdout
    assert 'CREATE TABLE "Flow-1".wf_instances' not in result.stdout


@pytest.mark.parametrize("words", [["upgrade"], ["downgrade"], ["sql"]])
def test_an_unknown_revision_is_one_line(sqlite_url: str, words: list[str]) -> None:
    _ok(sqlite_url, "upgrade")
    result = _db(sqlite_url, *words, "0bad")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert "no schema revision '0bad'" in line
