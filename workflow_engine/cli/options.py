"""Options that several commands have, and the database they lead to."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click
from click.core import ParameterSource

from workflow_engine.cli.report import DEBUG
from workflow_engine.errors import StoreRefused

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from workflow_engine.runtime.engine import Engine
    from workflow_engine.runtime.options import RunOptions
    from workflow_engine.runtime.registry import Workflow
    from workflow_engine.store.database import Database
    from workflow_engine.telemetry.events import Observer

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_URL = "sqlite:///workflow_engine.db"
"""The database when none is named; `alembic.ini` has the same."""

LONGEST = 100 * 365 * 86_400.0
"""Seconds of the longest duration."""

COUNTED = click.IntRange(min=0, max=2**31 - 1)
"""A generation or a position, as the tables hold it."""


INSTANT = click.DateTime(["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z"])
"""An instant: ISO 8601 with a time zone."""


@attrs.frozen
class Where:
    """The database that a command line means.

    Attributes:
        url: None when none was given.
        schema: the PostgreSQL schema; None for the default one.
        typed: which of the two stood on the command line, and not in the environment.
    """

    url: str | None
    schema: str | None
    typed: frozenset[str] = frozenset()

    def engine(
        self,
        workflows: Iterable[Workflow[..., Any]] = (),
        *,
        may_create: bool = False,
        options: RunOptions | None = None,
        observer: Observer | None = None,
    ) -> AbstractContextManager[Engine]:
        """An engine on it, closed at the end whatever happens.

        Raises:
            StoreRefused: an SQLite file that does not exist, unless ``may_create``.
            UsageError: the same, when no database was named.
        """
        from workflow_engine.runtime.engine import Engine

        engine = Engine(
            self._checked(may_create),
            schema=self.schema,
            workflows=workflows,
            options=options,
            observer=observer,
        )
        return closing(engine)

    def database(self, *, may_create: bool = False) -> Database:
        """The database alone. Raises as `engine` does."""
        from workflow_engine.store.database import Database

        return Database.open(self._checked(may_create), schema=self.schema)

    def shown(self) -> str:
        """The URL without its password."""
        from workflow_engine.store import connect

        return connect.without_password(self._parsed())

    def command(self, *words: str, flags: Iterable[str] = ()) -> str:
        """A command line for the same database, to be copied. It has no password."""
        options = [*flags]
        if "url" in self.typed:
            options += ["--url", self.shown()]
        if "schema" in self.typed and self.schema is not None:
            options += ["--schema", self.schema]
        # Names and ids may begin with a dash.
        split = ["--"] if any(word.startswith("-") for word in words[1:]) else []
        return shlex.join(["workflow-engine", words[0], *options, *split, *words[1:]])

    def _checked(self, may_create: bool) -> str:
        from workflow_engine.store import connect

        url, parsed = self.url or DEFAULT_URL, self._parsed()
        is_file = parsed.get_backend_name() == "sqlite" and "uri" not in parsed.query
        if may_create or not is_file or connect.is_memory(parsed):
            return url
        path = Path(parsed.database or "")
        if path.exists():
            return url
        if self.url is None:
            raise click.UsageError(
                f"which database? Give --url or set WORKFLOW_ENGINE_URL; there is no "
                f"{path.name} in this directory"
            )
        raise StoreRefused(problem=f"there is no file {path}; check the URL")

    def _parsed(self) -> URL:
        from workflow_engine.store import connect

        return connect.parse(self.url or DEFAULT_URL)


class Seconds(click.FloatRange):
    """A duration in seconds: a number, and not longer than a hundred years."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the number."""
        number: float = super().convert(value, param, ctx)
        if not number <= LONGEST:  # NaN is not
            self.fail(f"{value} is not at most {LONGEST:.0f} seconds.", param, ctx)
        return number


_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Duration(Seconds):
    """A duration with its unit, such as 30d or 12h; without one it is seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the number and its unit."""
        text = str(value).strip()
        unit = _UNITS.get(text[-1:])
        if unit is None:
            return super().convert(text, param, ctx)
        number = super().convert(text[:-1], param, ctx)
        return super().convert(number * unit, param, ctx)


def _set_debug(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        ctx.meta[DEBUG] = True


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_set_debug,
    help="Show the traceback of an error.",
)
url_option = click.option(
    "--url",
    envvar="WORKFLOW_ENGINE_URL",
    show_envvar=True,
    help="The database, such as sqlite:///orders.db or postgresql://me@host/orders."
    f"  [default: {DEFAULT_URL}]",
)
schema_option = click.option(
    "--schema",
    envvar="WORKFLOW_ENGINE_SCHEMA",
    show_envvar=True,
    help="The PostgreSQL schema of the tables.  [default: workflow_engine]",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document."
)


def where_options(command: Command) -> Command:
    """Add ``--url``, ``--schema`` and ``--debug``; the command takes a `Where`."""

    @functools.wraps(command)
    def with_where(
        *args: Any, url: str | None, schema: str | None, **given: Any
    ) -> Any:
        context = click.get_current_context()
        typed = frozenset(
            name
            for name in ("url", "schema")
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        )
        return command(*args, where=Where(url, schema, typed), **given)

    return url_option(schema_option(debug_option(with_where)))  # type: ignore[return-value]


def patch_options(command: Command) -> Command:
    """Add ``--patch`` and ``--retired-patch``; the command takes tuples of ids."""
    active = click.option(
        "--patch", "patches", multiple=True, metavar="ID", help="An active patch."
    )
    retired = click.option(
        "--retired-patch",
        "retired",
        multiple=True,
        metavar="ID",
        help="A patch that the code no longer asks for.",
    )
    return active(retired(command))


def instance_arguments(command: Command) -> Command:
    """Add the arguments that name an instance: NAME and ID."""
    return click.argument("name")(click.argument("id")(command))


def split_pairs(pairs: Iterable[str], what: str) -> dict[str, str]:
    """Read ``key=value`` texts.

    Raises:
        BadParameter: one has no ``=``, or a key is there twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r} is not {what}=VALUE")
        if key in found:
            raise click.BadParameter(f"{key!r} is given twice")
        found[key] = value
    return found
