"""The bench of whole runs, as in `tests/runtime`."""

from ..runtime.conftest import (
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
