"""The schema revisions that this code knows, without importing Alembic to ask.

Tests hold these constants equal to the scripts in ``alembic/versions``.
"""

from __future__ import annotations

from pathlib import Path

REVISIONS = ("0001", "0002", "0003", "0004")
"""Every revision, oldest first. Zero-padded, so that they also sort as text."""

HEAD = REVISIONS[-1]
"""The revision that this code was written for."""

OLDEST_CODE = "0001"
"""The revision known to the oldest code that can still use a database at `HEAD`."""


def migrations_dir() -> Path:
    """Find the Alembic environment: inside the wheel, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "migrations", package.parent / "alembic"):
        if (candidate / "env.py").is_file():
            return candidate
    raise FileNotFoundError(f"no Alembic environment in or beside {package}")
