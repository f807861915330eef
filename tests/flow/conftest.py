"""The bench of `tests/wake`."""

from ..wake.conftest import (
    bench,
    clock,
    postgres_url,
    shared_postgres_url,
    sqlite_bench,
    sqlite_url,
    upgraded_file,
)

__all__ = [
    "bench",
    "clock",
    "postgres_url",
    "shared_postgres_url",
    "sqlite_bench",
    "sqlite_url",
    "upgraded_file",
]
