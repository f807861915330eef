"""Databases that many engines are made on, one after the other.

An engine compiles its statements anew, which takes longer than most tests. Engines on
one SQLAlchemy engine share what was compiled, and the connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy

from workflow_engine.store.connect import ConnectOptions, make_engine, parse

_pools: dict[str, sqlalchemy.Engine] = {}


@contextmanager
def pooled(url: str) -> Iterator[None]:
    """Have engines on a database share everything, if they do not already."""
    if url in _pools:
        yield
        return
    _pools[url] = make_engine(parse(url), ConnectOptions())
    try:
        yield
    finally:
        _pools.pop(url).dispose()


def source_of(url: str) -> str | sqlalchemy.Engine:
    """What to make an engine on: what the others of this database share, or its URL."""
    return _pools.get(url) or url
