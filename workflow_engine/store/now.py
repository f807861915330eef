"""The time of a transaction.

It is the database's own, so that a worker whose clock is off changes nothing. A test
clock binds a value instead. Both are one expression in one statement: the parameter, if
there is one, else the database's clock. Microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import attrs
from sqlalchemy import BigInteger, ColumnElement, bindparam, func, literal_column

_CLOCK = {
    # Stable within a statement, so that the planner may look it up in an index.
    "postgresql": "CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000 AS BIGINT)",
    # SQLite counts milliseconds.
    "sqlite": (
        "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000"
    ),
}


@attrs.frozen
class Now:
    """What a transaction takes for the time: ``instant``, or None for the database's.

    Within one transaction the database's clock may move on between statements.
    """

    instant: int | None = None


def now_in(dialect: str) -> ColumnElement[int]:
    """The time as SQL; a statement that uses it takes the parameter ``now_is``."""
    clock: ColumnElement[int] = literal_column(_CLOCK[dialect], BigInteger)
    return func.coalesce(bindparam("now_is", type_=BigInteger), clock)
