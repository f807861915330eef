"""The pages are true: their code runs, their links lead somewhere."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import workflow_engine

from ..examples import EXAMPLES, ROOT, environment, load_file
from .pages import DIRECTIVES, Block, Player, blocks_of

README = ROOT / "README.md"
DOCS = ROOT / "docs"

PAGES = [
    README,
    *(page for page in sorted(DOCS.glob("*.md")) if page.name != "cli.md"),
]
"""Pages that are played. The command line's own page is tested with its commands."""

TEXTS = [
    README,
    ROOT / "CHANGELOG.md",
    ROOT / "tests" / "README.md",
    *sorted(DOCS.rglob("*.md")),
]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pages() -> list[object]:
    """The pages as parameters; those that need a server are marked."""
    return [
        pytest.param(
            page,
            id=name_of(page),
            marks=[pytest.mark.postgres] if needs_server(page) else [],
        )
        for page in PAGES
    ]


def needs_server(page: Path) -> bool:
    return any(block.directive == "postgres" for block in blocks_of(page))


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A page may turn our logger down; what runs after it must hear it again."""
    logger = logging.getLogger("workflow_engine")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.mark.parametrize("page", pages())
def test_the_blocks_of_a_page_do_what_it_says(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    url = request.getfixturevalue("blank_postgres_url") if needs_server(page) else None
    player = Player(environment(), url)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, player.module.__name__, player.module)
    known = set(sys.modules)
    try:
        for block in blocks_of(page):
            player.play(block)
    finally:
        for name in set(sys.modules) - known:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(str(tmp_path)):
                del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_how_it_is_played(page: Path) -> None:
    for block in blocks_of(page):
        assert block.language in {"python", "sh", "sql", "text", "mermaid"}, block
        assert block.directive in DIRECTIVES, block
        assert (block.directive == "output") == (block.language == "text"), block


@pytest.mark.parametrize("directive", ["setup", "test"])
def test_the_readme_has_one_command_for_each_set_up(directive: str) -> None:
    (block,) = (b for b in blocks_of(README) if b.directive == directive)
    assert len(block.text.splitlines()) == 1
    checked = subprocess.run(["bash", "-n", "-c", block.text], check=False)
    assert checked.returncode == 0
    assert_files_exist(block)


def assert_files_exist(block: Block) -> None:
    for path in re.findall(r"\b(?:examples|tests|docs)/[\w/.]*\w", block.text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_pages_name_only_what_the_package_exports(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for attribute in re.findall(r"`Engine\.(\w+)", prose):
        assert hasattr(workflow_engine.Engine, attribute), attribute
    for module in re.findall(r"`(workflow_engine/[\w/]+\.py)`", prose):
        assert (ROOT / module).exists(), module


def test_the_lifecycle_page_shows_the_table_of_moves() -> None:
    printer = load_file(DOCS / "lifecycle.py")
    page = DOCS / "lifecycle.md"
    text = page.read_text()
    assert text == printer.refreshed(text), "run: python docs/lifecycle.py"


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(page.name[:4]) for page in sorted((DOCS / "adr").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))
