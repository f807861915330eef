"""TARGET: how a workflow is found."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest

from workflow_engine.cli.report import Trouble
from workflow_engine.cli.targets import Target, all_workflows, load_target

from .conftest import CommandLine

ONE = """
from workflow_engine import Step, workflow

@workflow
def only(text: str = ""):
    yield Step("echo", str, text)
"""


def names(target: Target) -> list[str]:
    return sorted(each.name for each in target.all)


@pytest.fixture
def one(place: Path) -> Path:
    """A file with one workflow."""
    path = place / "one.py"
    path.write_text(ONE)
    return path


@pytest.mark.parametrize("text", ["one:only", "one.py:only", "./one.py:only", "one.py"])
def test_a_module_or_a_file_leads_to_a_workflow(one: Path, text: str) -> None:
    assert load_target(text).get_workflow().name == "only"


def test_a_file_elsewhere_is_found_with_its_neighbours(place: Path) -> None:
    (place / "deep").mkdir()
    (place / "deep" / "neighbour.py").write_text("NAME = 'fetched'")
    (place / "deep" / "job.py").write_text(
        "from neighbour import NAME\nfrom workflow_engine import workflow\n"
        "@workflow(name=NAME)\ndef job():\n    yield\n"
    )
    assert load_target("deep/job.py").get_workflow().name == "fetched"
    assert load_target(f"{place}/deep/job.py").get_workflow().name == "fetched"


def test_a_file_in_a_package_has_the_name_that_an_import_gives_it(place: Path) -> None:
    package = place / "source" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "words.py").write_text("NAME = 'ship'")
    (package / "jobs.py").write_text(
        "from .words import NAME\nfrom workflow_engine import workflow\n"
        "@workflow(name=NAME)\ndef ship():\n    yield\n"
    )
    found = load_target("source/shop/jobs.py:ship").get_workflow()
    assert found.function.__module__ == "shop.jobs"
    assert load_target("shop.jobs").get_workflow() is found
    (package / "__init__.py").write_text(ONE)
    del sys.modules["shop"]
    assert load_target("source/shop/__init__.py:only").all[0].name == "only"


def test_the_current_directory_comes_first(place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "one.py").write_text("raise AssertionError")
    sys.path.insert(0, str(elsewhere))
    (place / "one.py").write_text(ONE)
    assert load_target("one").get_workflow().name == "only"


def test_classes_in_a_file_are_found_in_their_module(place: Path) -> None:
    """Annotations are text there, so a dataclass resolves them in ``sys.modules``."""
    order = load_target("flows.py:fulfil").get_workflow().result_type
    assert getattr(sys.modules[order.__module__], order.__name__) is order


def test_all_workflows_of_a_module_are_known(one: Path, place: Path) -> None:
    (place / "more.py").write_text(
        f"from one import only\n{ONE.replace('only', 'more')}"
    )
    target = load_target("more.py:more")
    assert names(target) == ["more", "only"]
    both = all_workflows([target, load_target("one.py")])
    assert sorted(each.name for each in both) == ["more", "only"]


def test_an_imported_workflow_is_not_meant_when_there_is_one_of_the_module(
    one: Path, place: Path
) -> None:
    (place / "more.py").write_text(
        f"from one import only\n{ONE.replace('only', 'more')}"
    )
    assert load_target("more.py").get_workflow().name == "more"
    (place / "door.py").write_text("from one import only")
    assert load_target("door.py").get_workflow().name == "only"


def test_a_workflow_inside_something_is_reached(place: Path) -> None:
    (place / "inside.py").write_text(
        ONE.replace("@workflow", "class Jobs:\n  @workflow")
        .replace("def only", "  def only")
        .replace("    yield", "      yield")
    )
    target = load_target("inside.py:Jobs.only")
    assert target.get_workflow().name == "only"
    assert names(target) == ["only"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("absent.py:job", "there is no Python file "),
        ("flows.txt/:job", "there is no Python file "),
        ("absent:job", "there is no module 'absent'"),
        ("flows.absent:job", "there is no module 'flows.absent'"),
        (
            "flows.py:absent",
            "flows.py:absent is not a workflow: there is none; it has ",
        ),
        ("flows.py:note", "it was not decorated with @workflow; it has approve, "),
        ("json:loads", "it was not decorated with @workflow; it has none"),
        ("empty.py", "there is no workflow in empty.py"),
        ("a.b.py", "it has a dot in its name"),
        ("json.py", "the module name 'json' of "),
    ],
)
def test_a_target_that_leads_nowhere_is_a_mistake_on_the_command_line(
    place: Path, text: str, problem: str
) -> None:
    for name in ("empty.py", "a.b.py", "json.py"):
        (place / name).touch()
    with pytest.raises(click.UsageError) as caught:
        load_target(text)
    assert problem in caught.value.message


def test_several_workflows_need_a_name(place: Path) -> None:
    with pytest.raises(click.UsageError, match=r"Add :NAME, one of approve, count, "):
        load_target("flows.py").get_workflow()


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (
            "import absent",
            "cannot load bad.py: ModuleNotFoundError: No module named 'abs",
        ),
        ("x = 1\n1 / 0", "ZeroDivisionError: division by zero (PLACE/bad.py, line 2)"),
        ("def (", "cannot load bad.py: SyntaxError: "),
    ],
)
def test_a_module_that_does_not_load_is_told_in_a_line(
    on_sqlite: CommandLine, place: Path, source: str, problem: str
) -> None:
    (place / "bad.py").write_text(source)
    line = on_sqlite.refused("run", "bad.py", "1")
    assert problem.replace("PLACE", str(place)) in line.replace(
        f"{place}/bad.py:", "bad.py:"
    )
    shown = on_sqlite("run", "bad.py", "1", "--debug").exception
    assert not isinstance(shown, SystemExit | Trouble)
