"""What people see of an error: one line, and an exit code.

Our own errors, and those of the database, are reported in a sentence. Anything else is
a bug, and keeps its traceback. ``--debug`` keeps every traceback.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from workflow_engine import errors

ERROR = 1
SUSPENDED = 3
CANCELLED = 4
FAILED = 5
INTERRUPTED = 130
"""Exit codes, besides 0 and click's 2 for usage. They are part of the interface."""

DEBUG = "workflow_engine.debug"
"""Key in ``ctx.meta``: whether tracebacks are wanted."""

_IN_URL = re.compile(r"(?<=://)([^:/\s@]*):\S*@")
_IN_QUERY = re.compile(r"(?i)\b(\w*password)=[^&\s'\"]+")


class Trouble(click.ClickException):
    """An error that is told in one line, without a traceback."""

    exit_code: int  # type: ignore[misc]  # it is a class variable of click's

    def __init__(self, message: str, exit_code: int = ERROR) -> None:
        super().__init__(without_secrets(one_line(message)))
        self.exit_code = exit_code


class ReportingGroup(click.Group):
    """Reports errors of ours and of the database in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Trouble("interrupted", INTERRUPTED) from None
        except Exception as error:
            sentence = find_sentence(error)
            if sentence is None or ctx.meta.get(DEBUG):
                raise
            raise Trouble(sentence) from error


def is_debugging() -> bool:
    """Whether the command line asks for tracebacks."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(DEBUG))


def find_sentence(error: Exception) -> str | None:
    """What to tell of an expected error; None for one that is a bug, or click's."""
    if isinstance(error, errors.ResurrectAmbiguous):
        return (
            f"workflow {error.workflow!r}, instance {error.id!r}: these steps were "
            f"recorded after the failure: {', '.join(error.names)}; say --rerun-none "
            "to keep them, or --rerun STEP for each one that runs again"
        )
    if isinstance(error, errors.WorkflowError):
        return str(error)
    if isinstance(error, UnicodeEncodeError):
        return f"text that is not Unicode cannot be stored or looked for: {error}"
    # SQLAlchemy has been imported if it raised this.
    database = sys.modules.get("sqlalchemy.exc")
    if database is not None and isinstance(error, database.SQLAlchemyError):
        return f"the database refused: {str(error).partition('[SQL:')[0]}"
    return None


def one_line(text: str) -> str:
    """Text on one line, without control characters that a terminal would obey."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in words)


def without_secrets(text: str) -> str:
    """Text in which the passwords of URLs are blotted out."""
    return _IN_QUERY.sub(r"\1=***", _IN_URL.sub(r"\1:***@", text))
