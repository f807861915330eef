"""Reads the fenced blocks of our pages and plays them, as a reader would.

Blocks of one page are played in order, in a directory with the examples alone. A
comment on the line before a fence says what is special about it:

===============================  =====================================================
none, ``python``                 executed; the blocks of a page share their names
none, ``sh``                     executed by bash; a failing command fails the test
``<!-- file: NAME -->``          saved under that name
``<!-- output -->``              the output of the block before it; ``...`` stands for
                                 any text, and columns may have other widths
``<!-- postgres -->``            as without, on a real server; ``sql`` too. A URL on
                                 db.example is replaced; ``app`` may do everything
``<!-- setup -->``               a whole set-up from a checkout: played by ``.ci/run``
``<!-- test -->``                likewise
===============================  =====================================================

Fences of other languages are read and not played.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import attrs
import psycopg
from sqlalchemy.engine import make_url

DIRECTIVES = {"", "file", "output", "postgres", "setup", "test"}

_SERVER_URL = re.compile(r"postgresql://(\w+)@db\.example/orders")
_FENCE = re.compile(r"^```(\w*)$")
_DIRECTIVE = re.compile(r"^<!-- (\w+)(?:: (.+))? -->$")


@attrs.frozen
class Block:
    """A fenced block. ``line`` is that of its first line of text."""

    page: Path
    line: int
    language: str
    directive: str
    argument: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = page.read_text().splitlines()
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        number += 1
        if fence is None:
            continue
        before = lines[number - 2] if number > 1 else ""
        directive = _DIRECTIVE.match(before)
        word, argument = directive.groups() if directive else ("", "")
        first = number
        while lines[number] != "```":
            number += 1
        text = "".join(f"{line}\n" for line in lines[first:number])
        number += 1
        yield Block(page, first + 1, fence[1], word, argument or "", text)


class Player:
    """Plays the blocks of one page in the current directory."""

    def __init__(self, environment: Mapping[str, str], server_url: str | None) -> None:
        self._environment = dict(environment)
        self._server_url = server_url
        self._module = ModuleType("page")
        self._said = ""

    @property
    def module(self) -> ModuleType:
        """What the Python blocks define."""
        return self._module

    def play(self, block: Block) -> None:
        """Do what a reader would do with the block.

        Raises:
            AssertionError: it does not do what the page says.
        """
        if block.directive in ("setup", "test"):
            return
        if block.directive == "file":
            Path(block.argument).write_text(block.text)
        elif block.directive == "output":
            self._compare(block)
        elif block.language == "python":
            self._said = self._execute(block)
        elif block.language == "sh":
            self._said = self._shell(block)
        elif block.language == "sql":
            self._said = self._query(block)

    def _text(self, block: Block) -> str:
        if block.directive != "postgres":
            return block.text
        return _SERVER_URL.sub(self._url_on_the_server, block.text)

    def _url_on_the_server(self, written: re.Match[str]) -> str:
        assert self._server_url is not None
        if written[1] == "app":
            return self._server_url
        url = make_url(self._server_url).set(username=written[1])
        return url.render_as_string(hide_password=False)

    def _query(self, block: Block) -> str:
        assert self._server_url is not None
        with psycopg.connect(self._server_url) as connection:
            connection.execute(block.text.encode())
        return ""

    def _execute(self, block: Block) -> str:
        # Empty lines first, so that a traceback shows the page's own line.
        source = "\n" * (block.line - 1) + self._text(block)
        code = compile(source, str(block.page), "exec")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(code, vars(self._module))
        return said.getvalue()

    def _shell(self, block: Block) -> str:
        done = subprocess.run(
            ["bash", "-e", "-u", "-c", self._text(block)],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"
        return done.stdout

    def _compare(self, block: Block) -> None:
        expected = [_pattern(line) for line in block.text.splitlines()]
        actual = [_narrow(line) for line in self._said.splitlines()]
        same = len(expected) == len(actual) and all(
            re.fullmatch(*pair) for pair in zip(expected, actual, strict=True)
        )
        assert same, f"{block} says\n{block.text}but it was\n{self._said}"


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in _narrow(line).split("..."))


def _narrow(line: str) -> str:
    return re.sub(r" +", " ", line).rstrip()
