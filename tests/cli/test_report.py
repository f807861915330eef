"""Errors: a line on standard error, an exit code, no secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy

from workflow_engine import errors
from workflow_engine.cli.options import Where
from workflow_engine.cli.report import find_sentence, one_line, without_secrets

from .conftest import CommandLine


def test_without_a_url_the_file_in_the_current_directory_is_meant(
    on_sqlite: CommandLine, place: Path
) -> None:
    here = CommandLine("")
    result = here("list")
    assert result.exit_code == 2
    assert "which database? Give --url or set WORKFLOW_ENGINE_URL" in result.stderr
    assert not (place / "workflow_engine.db").exists()
    here.ok("run", "flows:echo", "1", "5")
    assert (place / "workflow_engine.db").exists()
    assert len(here.json("list")["instances"]) == 1


@pytest.mark.parametrize(
    "words", [("list",), ("show", "a", "1"), ("cancel", "a", "1"), ("db", "current")]
)
def test_a_file_that_does_not_exist_is_not_made_by_looking(
    on_sqlite: CommandLine, place: Path, words: tuple[str, ...]
) -> None:
    line = on_sqlite.refused(*words)
    assert "there is no file " in line
    assert not Path(on_sqlite.url.removeprefix("sqlite:///")).exists()


def test_the_url_of_the_command_line_wins(on_sqlite: CommandLine, place: Path) -> None:
    on_sqlite.ok("db", "upgrade", "--url", f"sqlite:///{place}/other.db")
    assert (place / "other.db").exists()
    result = on_sqlite("list", "--url", f"sqlite:///{place}/other.db", "--json")
    assert result.exit_code == 0


def test_advice_repeats_the_database_of_the_command_line(
    on_sqlite: CommandLine, place: Path
) -> None:
    url = f"sqlite:///{place}/my other.db"
    told = on_sqlite("run", "flows:approve", "--url", url, "--", "-1").stderr
    assert f"--url 'sqlite+pysqlite:///{place}/my other.db' -- approve -1 " in told
    where = Where(
        "postgresql://me:s3cret@host/db", "mine", frozenset({"url", "schema"})
    )
    assert where.command("show", "a", "1") == (
        "workflow-engine show --url postgresql+psycopg://me@host/db --schema mine a 1"
    )


@pytest.mark.postgres
def test_a_schema_is_named_by_option_or_environment(
    place: Path, blank_postgres_url: str
) -> None:
    on = CommandLine(blank_postgres_url)
    assert "workflow-engine db upgrade --url " in on.refused("list")
    on.ok("db", "upgrade", "--schema", "mine")
    assert on.json("list", "--schema", "mine")["instances"] == []
    assert on("list", WORKFLOW_ENGINE_SCHEMA="mine").exit_code == 0


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mysql://me:s3cret@host/db", "mysql is neither SQLite nor PostgreSQL"),
        ("s3cret", "not a database URL"),
        ("postgresql://me:s3cret@localhost:port/db", "not a database URL"),
        ("postgresql://me:s3cret@localhost:1/db", "the database cannot be reached"),
        ("sqlite:///flows.py", "file is not a database"),
        ("sqlite:////proc/none/a.db", "there is no file"),
    ],
)
def test_a_database_that_cannot_be_used_is_told_in_a_line_without_the_password(
    on_sqlite: CommandLine, url: str, problem: str
) -> None:
    for more in ((), ("--debug",)):
        result = on_sqlite("list", "--url", url, *more)
        assert result.exit_code == 1
        assert "s3cret" not in result.output
    assert problem in on_sqlite.refused("list", "--url", url)


def test_secrets_are_blotted_out_of_every_line() -> None:
    text = "at postgresql://me:p%40s:@s@host/db?password=abc&sslPassword=d or u://a@b"
    assert without_secrets(text) == (
        "at postgresql://me:***@host/db?password=***&sslPassword=*** or u://a@b"
    )


def test_a_line_holds_nothing_that_a_terminal_obeys() -> None:
    assert one_line("a\n\tb \x1b[31m\u202e c") == "a b \\x1b[31m\\x202e c"


def test_every_error_of_ours_has_a_sentence_and_no_other_has() -> None:
    missing = errors.InstanceNotFound(workflow="a", id="1")
    assert find_sentence(missing) == "workflow 'a' has no instance '1'"
    broken = sqlalchemy.exc.IntegrityError("INSERT", {}, Exception("UNIQUE failed"))
    assert find_sentence(broken) == (
        "the database refused: (builtins.Exception) UNIQUE failed\n"
    )
    assert find_sentence(ValueError("a bug")) is None


def test_a_name_that_cannot_be_one_is_told(on_sqlite: CommandLine) -> None:
    on_sqlite.ok("db", "upgrade")
    assert "is not a valid workflow id: it is empty" in on_sqlite.refused(
        "show", "a", ""
    )


@pytest.mark.parametrize(
    "words",
    [
        ("worker", "flows.py", "--lease", "nan"),
        ("worker", "flows.py", "--poll", "inf"),
        ("worker", "flows.py", "--grace", "-1"),
        ("start", "flows.py:approve", "1", "--delay", "1e300"),
        ("list", "--after", str(2**63)),
        ("list", "--limit", "0"),
        ("journal", "a", "1", "--generation", str(2**31)),
        ("discard", "a", "1", "one"),
    ],
    ids=" ".join,
)
def test_a_number_that_makes_no_sense_is_a_mistake_on_the_command_line(
    on_sqlite: CommandLine, words: tuple[str, ...]
) -> None:
    on_sqlite.ok("db", "upgrade")
    result = on_sqlite(*words)
    assert (result.exit_code, "Invalid value for" in result.stderr) == (2, True)


def test_text_that_is_not_unicode_is_told(on: CommandLine) -> None:
    on.ok("db", "upgrade")
    for words in (("list", "--prefix", "\udcff"), ("show", "a", "\udcff")):
        assert "\\udcff" in on.refused(*words)


def test_ctrl_c_is_told_and_is_no_error(on_sqlite: CommandLine, place: Path) -> None:
    (place / "stop.py").write_text("raise KeyboardInterrupt")
    result = on_sqlite("run", "stop.py", "1")
    assert (result.exit_code, result.stderr) == (130, "Error: interrupted\n")
