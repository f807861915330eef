"""Small on purpose: the limits that keep every file and function readable at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LONGEST_FILE = 400
LONGEST_FUNCTION = 60

FILES = sorted(
    path
    for folder in ("workflow_engine", "alembic", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if path.name != "errors.py"  # one tree, to be read as a table
)


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    """Every function with its length in lines, the docstring left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                docstring = node.body[0]
                assert docstring.end_lineno is not None
                length -= docstring.end_lineno - docstring.lineno + 1
            yield node.name, length


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_and_no_function_is_too_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_FILE
    too_long = [(name, n) for name, n in _functions(path) if n > LONGEST_FUNCTION]
    assert too_long == []
