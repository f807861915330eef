"""A short soak of each database; `soak` is the command for long ones."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from .soak import Plan, soak, target

logger = logging.getLogger(__name__)


@pytest.mark.parametrize(
    "name", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def test_whatever_befalls_the_workers_all_ends_as_it_should(
    name: str, tmp_path: Path
) -> None:
    plan = Plan(seconds=20, instances=60, workers=4, outages=1, seed=20260101)
    with target(name, tmp_path) as (url, down):
        report = soak(plan, url, tmp_path, down)
    logger.info("%s", report)
    assert report.kills
    assert report.stops
    assert report.outages == (down is not None)
