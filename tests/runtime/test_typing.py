"""What mypy makes of a workflow: exact results, and wrong arguments found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import workflow_engine

TOUR = """
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy.orm import Session

from workflow_engine import (
    AllOf,
    AnyOf,
    Await,
    Completed,
    ContinueAsNew,
    CurrentWorkflow,
    Engine,
    FreshOrdinal,
    Patch,
    RetryPolicy,
    Step,
    Transaction,
    WorkflowBody,
    awakeable,
    map_each,
    receive,
    restore_seed,
    spawn_child,
    workflow,
)


def charge(amount: int, currency: str = "EUR") -> bytes:
    return b""


async def fetch(url: str) -> float:
    return 1.0


def nothing() -> None: ...


def book(session: Session, account: str, amount: int = 1) -> UUID:
    return UUID(int=amount)


@workflow
def order(amount: int, note: str = "") -> WorkflowBody[UUID]:
    reveal_type((yield from Step("sync", charge, amount)))  # bytes
    reveal_type((yield from Step("async", fetch, "url")))  # float
    reveal_type((yield from Step("none", nothing)))  # None
    reveal_type((yield from Step("r", charge, 1).returns(UUID)))  # UUID
    reveal_type((yield from Step("x", charge, 1).raises(ValueError)))  # bytes
    reveal_type((yield from Transaction("t", book, "a")))  # UUID
    reveal_type((yield from Transaction("t", book, "a").returns(int)))  # int
    booking = Transaction("t", book, "a", amount=2).raises(ValueError)
    reveal_type((yield from booking.isolation("SERIALIZABLE")))  # UUID
    reveal_type((yield from Await("typed", returns=UUID)))  # UUID
    reveal_type((yield from Await("untyped")))  # Any
    reveal_type((yield from Patch("p")))  # bool
    reveal_type((yield from CurrentWorkflow()))  # tuple[str, str]
    reveal_type((yield from FreshOrdinal("n")))  # int
    reveal_type((yield from restore_seed(UUID(int=0))))  # UUID
    yield Step("plain", charge, 1, currency="USD")
    yield Step("wrong type", charge, "no")  # error
    yield Step("too many", charge, 1, "EUR", 3)  # error
    yield Step("missing", charge)  # error
    yield Step("unknown", charge, 1, colour="red")  # error
    yield Step("async wrong", fetch, 1)  # error
    yield Transaction("wrong type", book, 5)  # error
    yield Transaction("missing", book)  # error
    yield Transaction("unknown", book, "a", colour="red")  # error
    yield Transaction("too many", book, "a", 1, 2)  # error
    yield 5  # error
    if amount:
        yield from ContinueAsNew(1)
    return UUID(int=0)


def part(text: str) -> WorkflowBody[UUID]:
    yield Step("part", charge, len(text))
    return UUID(int=0)


@workflow
def branches() -> WorkflowBody[None]:
    a, b, c = Step("a", charge, 1), Step("b", fetch, "url"), part("c")
    d, e = Await("d", returns=int), receive("e", returns=str)
    reveal_type((yield from AllOf(a)))  # tuple[bytes]
    reveal_type((yield from AllOf(a, b)))  # tuple[bytes, float]
    reveal_type((yield from AllOf(a, b, c)))  # tuple[bytes, float, UUID]
    reveal_type((yield from AllOf(a, b, c, d)))  # tuple[bytes, float, UUID, int]
    five = yield from AllOf(a, b, c, d, e)
    reveal_type(five)  # tuple[bytes, float, UUID, int, str]
    reveal_type((yield from AllOf(a, b, c, d, e, a)))  # tuple[Any, ...]
    reveal_type((yield from AllOf([a, a], all_errors=True)))  # list[bytes]
    reveal_type((yield from AllOf(part(text) for text in "xy")))  # list[UUID]
    reveal_type((yield from AllOf(AllOf(a, b), d)))  # tuple[tuple[bytes, float], int]
    reveal_type((yield from AnyOf(a)))  # tuple[int, bytes]
    reveal_type((yield from AnyOf(a, b)))  # tuple[int, bytes | float]
    reveal_type((yield from AnyOf(a, b, c)))  # tuple[int, bytes | float | UUID]
    reveal_type((yield from AnyOf([e, e])))  # tuple[int, str]
    reveal_type((yield from AnyOf(AllOf([a]), d)))  # tuple[int, list[bytes] | int]
    reveal_type((yield from map_each("m", [1], charge)).values)  # list[bytes]
    reveal_type((yield from map_each("m", ["u"], fetch)).values)  # list[float]
    reveal_type((yield from map_each("m", ["u"], part)).succeeded)  # dict[str, UUID]
    reveal_type((yield from receive("t", returns=int)))  # int
    reveal_type((yield from receive("t", returns=int).timeout(1)))  # int
    reveal_type((yield from d.deadline(datetime.now(UTC))))  # int
    asked = yield from awakeable("w", returns=UUID)
    reveal_type((yield from asked.timeout(1)))  # UUID
    child = yield from spawn_child(order, "1", 5)
    reveal_type((yield from child.timeout(1)))  # UUID
    reveal_type((yield from a.retry(RetryPolicy(attempts=2))))  # bytes
    reveal_type((yield from b.timeout(1).retry(RetryPolicy())))  # float
    yield AllOf(5)  # error
    yield AnyOf([a, 5])  # error
    yield from map_each("m", [1], fetch)  # error
    yield from map_each("m", [1], charge, key=len)  # error
    yield a.retry(5)  # error
    yield a.timeout("1")  # error


@workflow(name="renamed")
def renamed() -> WorkflowBody[int]:
    yield nothing  # error
    return "no"  # error


with Engine("sqlite:///x.db", workflows=[order, renamed]) as engine:
    reveal_type(engine.start(order, "1", 5).result())  # UUID
    reveal_type(engine.start(order, "1").result())  # UUID
    reveal_type(engine.start("order", "1", 5).result())  # Any
    reveal_type(engine.starting(delay=1).start(renamed, "1").result())  # int
    match engine.run(order, "1", 5, note="x"):
        case Completed(result):
            reveal_type(result)  # UUID
    engine.start(order, "1", "no")  # error
    engine.run(order, "1", 5, colour="red")  # error
    engine.starting().start(order, "1", "no")  # error
"""

CONFIG = """
[mypy]
strict = True
follow_imports = silent
# What it is built on is not what is looked at; leaving it out takes seconds off.
[mypy-alembic.*,cattrs.*,click.*,psycopg.*,pydantic.*,rich.*,sqlalchemy.*]
follow_imports = skip
ignore_missing_imports = True
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[str]]:
    """What mypy says of each line of the tour, notes and errors."""
    folder = tmp_path_factory.mktemp("typing")
    tour, config = folder / "tour.py", folder / "mypy.ini"
    tour.write_text(TOUR)
    root = Path(workflow_engine.__file__).parents[1]
    here = f"mypy_path = {root}\n" if (root / "setup.cfg").exists() else ""
    config.write_text(CONFIG.replace("strict = True\n", f"strict = True\n{here}"))
    # Not in this process, whose limits mypy changes.
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(config)]
    mypy += ["--cache-dir", str(folder / "cache"), "--hide-error-codes", str(tour)]
    ran = subprocess.run(mypy, capture_output=True, text=True, check=False)
    assert not ran.stderr
    found: dict[int, list[str]] = {}
    for line in ran.stdout.splitlines():
        match = re.match(r".*tour\.py:(\d+): (note|error): (.*)", line)
        if match is not None:
            words = "error" if match[2] == "error" else match[3]
            found.setdefault(int(match[1]), []).append(words)
    return found


def _marked() -> dict[int, str]:
    """The lines with a comment, and what it says."""
    lines = enumerate(TOUR.splitlines(), start=1)
    return {n: line.split("  # ")[1] for n, line in lines if "  # " in line}


def test_the_result_of_every_command_has_its_exact_type(
    said: dict[int, list[str]],
) -> None:
    revealed = {
        number: [re.sub(r"\b(builtins|uuid)\.", "", words) for words in all_words]
        for number, all_words in said.items()
    }
    expected = {
        number: [f'Revealed type is "{type_}"']
        for number, type_ in _marked().items()
        if type_ != "error"
    }
    assert {number: revealed.get(number) for number in expected} == expected


def test_what_does_not_fit_is_an_error_and_nothing_else_is(
    said: dict[int, list[str]],
) -> None:
    wrong = {number for number, words in said.items() if "error" in words}
    assert wrong == {number for number, words in _marked().items() if words == "error"}


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(workflow_engine.__file__).parent / "py.typed").exists()
