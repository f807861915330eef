"""Which durations and instants a sleep takes, and that no time zone moves them."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

from workflow_engine import (
    Failed,
    InvalidDuration,
    InvalidName,
    WorkflowBody,
    sleep,
    sleep_until,
    workflow,
)

from ..examples import environment
from ..runtime.bench import Bench

NAIVE = datetime(2030, 6, 1, 10)  # noqa: DTZ001 - that is what is refused

BAD_DURATIONS: list[Any] = [
    float("nan"),
    float("inf"),
    float("-inf"),
    -1,
    -0.001,
    timedelta(microseconds=-1),
    1e18,
    10**30,
    timedelta(days=365_001),
    True,
    "60",
    None,
]


@pytest.mark.parametrize("duration", BAD_DURATIONS, ids=repr)
def test_a_duration_that_is_none_is_refused(duration: Any) -> None:
    with pytest.raises(InvalidDuration) as caught:
        sleep(duration)
    assert isinstance(caught.value, ValueError)


OUTSIDE_IN_UTC = [
    datetime.min.replace(tzinfo=timezone(timedelta(hours=12))),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
]


@pytest.mark.parametrize(
    "instant",
    [NAIVE, NAIVE.date(), 1e9, None, "2030-06-01T10:00Z", *OUTSIDE_IN_UTC],
    ids=repr,
)
def test_an_instant_that_is_none_is_refused(instant: Any) -> None:
    with pytest.raises(InvalidDuration) as caught:
        sleep_until(instant)
    assert isinstance(caught.value, ValueError)


class Undecided(tzinfo):
    """A zone that does not know its offset, which makes a datetime naive."""

    def utcoffset(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> str:
        return "undecided"

    def dst(self, _: datetime | None) -> None:
        return None


def test_a_zone_without_an_offset_counts_as_none() -> None:
    with pytest.raises(InvalidDuration, match="no time zone"):
        sleep_until(NAIVE.replace(tzinfo=Undecided()))


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 256, "x" * 255, 5], ids=repr)
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(InvalidName, match="sleep name"):
        sleep(1, name=name)


@pytest.mark.parametrize("name", ["0", "17", "0.1/0", "2.0/0.13/4"])
def test_a_name_that_a_sleep_without_one_may_get_is_refused(name: str) -> None:
    with pytest.raises(InvalidName, match="put a word before it"):
        sleep(1, name=name)
    with pytest.raises(InvalidName, match="put a word before it"):
        sleep_until(datetime(2030, 1, 1, tzinfo=UTC), name=name)


@pytest.mark.parametrize("name", ["day 0", "0.1", "0/1", "1.", "0.1/", "-1", "\u0661"])
def test_a_name_with_digits_that_is_no_number_of_a_sleep_is_one(name: str) -> None:
    assert sleep(1, name=name).name == name


def test_a_bad_duration_is_refused_at_the_yield_and_can_be_caught(
    sqlite_bench: Bench,
) -> None:
    @workflow
    def careful(seconds: float) -> WorkflowBody[str]:
        try:
            yield sleep(seconds)
        except ValueError as error:
            return str(error)
        return "rested"

    @workflow
    def careless(day: date) -> WorkflowBody[None]:
        yield sleep_until(datetime(day.year, day.month, day.day))  # noqa: DTZ001

    engine = sqlite_bench.engine(careful, careless)
    assert "it is negative" in repr(engine.run(careful, "1", -1))
    ending = engine.run(careless, "1", date(2030, 6, 1))
    assert isinstance(ending, Failed)
    assert "has no time zone" in ending.reason


def test_the_longest_sleep_is_a_thousand_years(bench: Bench) -> None:
    @workflow
    def sleeping_beauty() -> WorkflowBody[None]:
        yield sleep(timedelta(days=365_000))

    engine = bench.engine(sleeping_beauty)
    engine.run(sleeping_beauty, "1")
    assert engine.worker().drain().advanced == 0
    (timer,) = engine.timers(sleeping_beauty, "1")
    assert timer.due_at - timer.created_at == timedelta(days=365_000)


KATHMANDU = timezone(timedelta(hours=5, minutes=45))
INSTANTS = [
    datetime(2030, 6, 1, 10, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    datetime(2030, 6, 1, 4, 30, tzinfo=UTC),
    datetime(2030, 6, 1, 10, 15, tzinfo=KATHMANDU),
    datetime(2030, 5, 31, 16, 30, tzinfo=timezone(timedelta(hours=-12))),
]

SLEEPER = """
import json, sys
from datetime import datetime
from workflow_engine import Engine, sleep_until, workflow

@workflow
def waking(moments: list[datetime]):
    for moment in moments:
        yield sleep_until(moment, name=moment.isoformat())

url, *moments = sys.argv[1:]
with Engine(url, workflows=[waking]) as engine:
    for moment in moments:
        engine.run(waking, moment, [datetime.fromisoformat(moment)])
        (timer,) = engine.timers(waking, moment)
        print(json.dumps([timer.due_at.isoformat(), timer.created_at.isoformat()]))
"""


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/St_Johns", "UTC"])
def test_an_instant_is_the_same_in_every_zone(database_url: str, zone: str) -> None:
    moments = [instant.isoformat() for instant in INSTANTS]
    done = subprocess.run(
        [sys.executable, "-c", SLEEPER, database_url, *moments],
        # The process's zone, and that of its PostgreSQL sessions.
        env={**environment(), "TZ": zone, "PGTZ": zone},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert [due for due, _ in seen] == ["2030-06-01T04:30:00+00:00"] * len(INSTANTS)
    for _, created in seen:
        now = datetime.now(UTC)  # noqa: TID251 - a clock that is not the engine's
        age = now - datetime.fromisoformat(created)
        assert timedelta(0) < age < timedelta(minutes=10), "not hours off"
