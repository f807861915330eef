"""The tables, as SQLAlchemy Core sees them.

On PostgreSQL they live in a schema of the user's choice and every statement names it;
SQLite has no schemas. Nothing here is global: `tables_for` builds one set a schema, so
that two schemas in one process never mix.

Instants and durations are microseconds, instants since 1970-01-01 UTC. Payloads are
TEXT holding ASCII JSON: PostgreSQL's jsonb would reorder keys and refuse NUL. Names
compare byte by byte on every database (collation "C" on PostgreSQL).

A change here needs a revision in ``alembic/versions``; tests hold the two equal.
Changes only expand: a column is added with a default, and dropped a release after its
last use.
"""

from __future__ import annotations

import functools

import attrs
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "pk": "pk_%(table_name)s",
}

VERSION_TABLE = "wf_schema_version"
"""Alembic's own table, under a name that leaves the user's `alembic_version` alone."""

NAME = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that is compared byte by byte."""

KEY = BigInteger().with_variant(Integer(), "sqlite")
"""A surrogate key: SQLite only numbers a column of type INTEGER by itself."""

ZERO = text("0")


@attrs.frozen(eq=False)
class Tables:
    """One set of tables.

    Attributes:
        metadata: all of them, and nothing else.
        instances: one row an instance, the complete ledger for discovery.
        journal: one row an entry; also the index by step name.
        snapshots: the live entries of a generation's first positions, in one value.
        timers: one row a sleep that is not over.
        awakeables: one row an awakeable, the authority on how it was settled.
        children: one row a child that a generation of a parent has attached to.
        messages: one row a key that was sent to an instance, and one a message that an
            ended instance is owed.
        schema_compat: one row that says which code may use this database.
    """

    metadata: MetaData
    instances: Table
    journal: Table
    snapshots: Table
    timers: Table
    awakeables: Table
    children: Table
    messages: Table
    schema_compat: Table


@functools.cache
def tables_for(schema: str | None) -> Tables:
    """Build the tables of ``schema``, which is None for SQLite alone."""
    metadata = MetaData(schema=schema, naming_convention=NAMING_CONVENTION)
    return Tables(
        metadata=metadata,
        instances=_instances(metadata),
        journal=_journal(metadata),
        snapshots=_snapshots(metadata),
        timers=_timers(metadata),
        awakeables=_awakeables(metadata),
        children=_children(metadata),
        messages=_messages(metadata),
        schema_compat=_schema_compat(metadata),
    )


@functools.cache
def version_table_for(schema: str | None) -> Table:
    """Build Alembic's version table as Alembic does, outside our own metadata."""
    return Table(
        VERSION_TABLE,
        MetaData(schema=schema),
        Column("version_num", String(32), nullable=False),
        PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
    )


def _instances(metadata: MetaData) -> Table:
    # An identity column and not a serial: it needs no right on a sequence.
    numbering = [] if metadata.schema is None else [Identity()]
    return Table(
        "wf_instances",
        metadata,
        # Never reused, so that a journal row left behind belongs to nobody new.
        Column("id", KEY, *numbering, primary_key=True),
        Column("workflow_name", NAME, nullable=False),
        Column("workflow_id", NAME, nullable=False),
        # 32 hex digits, drawn at random for this row: ids derived for effects outside
        # the database differ when an identity is used again after a collection.
        Column("incarnation", String(32), nullable=False),
        Column("status", NAME, nullable=False),
        Column("generation", Integer, nullable=False, server_default=ZERO),
        # Journal entries in the current generation, which is the last one's position.
        Column("position", Integer, nullable=False, server_default=ZERO),
        # Rises whenever the lease changes hands; an older one is refused.
        Column("epoch", BigInteger, nullable=False, server_default=ZERO),
        Column("lease_owner", NAME),
        Column("lease_until", BigInteger),
        # The earliest instant at which a worker may claim the instance. NULL when it
        # is parked without a due time, or has ended.
        Column("runnable_at", BigInteger),
        Column("attempts", Integer, nullable=False, server_default=ZERO),
        Column("takeovers", Integer, nullable=False, server_default=ZERO),
        Column("next_attempt_at", BigInteger),
        Column("wake_after", BigInteger),
        Column("cancel_requested", Boolean, nullable=False, server_default=false()),
        # A JSON list, decided with the first claim of a generation.
        Column("patches", Text),
        Column("input", Text, nullable=False),
        Column("result", Text),
        Column("last_error", Text),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        Column("ended_at", BigInteger),
        # A JSON object of strings.
        Column("tags", Text, nullable=False, server_default=text("'{}'")),
        # A JSON list of the step names it was last suspended on, for people to see.
        Column("waits_on", Text),
        # When it fails, if it has not ended by then.
        Column("deadline_at", BigInteger),
        UniqueConstraint("workflow_name", "workflow_id"),
        *_instance_indexes(),
        sqlite_autoincrement=True,
    )


def _instance_indexes() -> tuple[Index, ...]:
    return (
        # Discovery asks name by name, so that each has its share of a pass.
        _index_of_some(("workflow_name", "runnable_at"), "runnable_at IS NOT NULL"),
        _index_of_some(("lease_owner",), "lease_owner IS NOT NULL"),
        _index_of_some(
            ("deadline_at",), "deadline_at IS NOT NULL AND ended_at IS NULL"
        ),
        # A collection goes from the one that ended first.
        _index_of_some(("ended_at",), "ended_at IS NOT NULL"),
        Index(None, "status", "id"),
        Index(None, "workflow_name", "id"),
    )


def _index_of_some(columns: tuple[str, ...], condition: str) -> Index:
    """An index of the rows that a condition is true of."""
    return Index(
        None,
        *columns,
        sqlite_where=text(condition),
        postgresql_where=text(condition),
    )


def _journal(metadata: MetaData) -> Table:
    return Table(
        "wf_journal",
        metadata,
        # No foreign key: every insert happens under the lock of the instance's row,
        # which a foreign key would only look up and lock again.
        Column("instance_id", BigInteger, nullable=False),
        Column("generation", Integer, nullable=False),
        Column("position", Integer, nullable=False),
        Column("kind", NAME, nullable=False),
        Column("step_name", NAME),
        # Whether the entry answers its name. History entries have no name or are
        # superseded, and stand outside the unique key below.
        Column("live", Boolean, nullable=False),
        Column("format", SmallInteger, nullable=False, server_default=text("1")),
        Column("payload", Text),
        Column("recorded_at", BigInteger, nullable=False),
        Column("entry_id", String(36), nullable=False),
        PrimaryKeyConstraint("instance_id", "generation", "position"),
        Index(
            None,
            "instance_id",
            "generation",
            "step_name",
            unique=True,
            sqlite_where=text("live"),
            postgresql_where=text("live"),
        ),
        # How often a name was superseded is part of its next entry's id.
        Index(
            "ix_wf_journal_history",
            "instance_id",
            "generation",
            "step_name",
            sqlite_where=text("NOT live"),
            postgresql_where=text("NOT live"),
        ),
        # Stored in the order in which a replay reads it.
        sqlite_with_rowid=False,
    )


def _snapshots(metadata: MetaData) -> Table:
    return Table(
        "wf_snapshots",
        metadata,
        Column("instance_id", BigInteger, nullable=False),
        Column("generation", Integer, nullable=False),
        # The snapshot covers the positions up to this one.
        Column("position", Integer, nullable=False),
        # Changes with the shape of ``entries``: another one is not read.
        Column("discriminator", NAME, nullable=False),
        Column("entries", Text, nullable=False),
        Column("written_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("instance_id", "generation"),
    )


def _timers(metadata: MetaData) -> Table:
    pending = text("settled_at IS NULL")
    return Table(
        "wf_timers",
        metadata,
        Column("instance_id", BigInteger, nullable=False),
        Column("generation", Integer, nullable=False),
        Column("step_name", NAME, nullable=False),
        Column("due_at", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        # It fell due when the instance had ended; a resurrection delivers it.
        Column("settled_at", BigInteger),
        PrimaryKeyConstraint("instance_id", "generation", "step_name"),
        Index(None, "due_at", sqlite_where=pending, postgresql_where=pending),
        sqlite_with_rowid=False,
    )


def _awakeables(metadata: MetaData) -> Table:
    return Table(
        "wf_awakeables",
        metadata,
        # Random, and all that whoever completes it has to know.
        Column("id", NAME, primary_key=True),
        Column("instance_id", BigInteger, nullable=False),
        Column("generation", Integer, nullable=False),
        Column("label", NAME, nullable=False),
        Column("status", NAME, nullable=False),
        # What was delivered, kept for an instance that had failed just then.
        Column("payload", Text),
        Column("created_at", BigInteger, nullable=False),
        Column("settled_at", BigInteger),
        Index(None, "instance_id", "generation"),
    )


def _children(metadata: MetaData) -> Table:
    return Table(
        "wf_children",
        metadata,
        Column("parent_id", BigInteger, nullable=False),
        Column("generation", Integer, nullable=False),
        # The journal name under which the child's end is delivered.
        Column("step_name", NAME, nullable=False),
        Column("child_id", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("parent_id", "generation", "step_name"),
        Index(None, "child_id"),
    )


def _messages(metadata: MetaData) -> Table:
    numbering = [] if metadata.schema is None else [Identity()]
    return Table(
        "wf_messages",
        metadata,
        Column("id", KEY, *numbering, primary_key=True),
        Column("instance_id", BigInteger, nullable=False),
        # Whoever sends the same key again has sent it already, in any generation.
        Column("message_key", NAME, nullable=False),
        Column("topic", NAME, nullable=False),
        # Kept while the instance is owed the message; NULL once its journal has it.
        Column("payload", Text),
        Column("sent_at", BigInteger, nullable=False),
        UniqueConstraint("instance_id", "message_key"),
    )


def _schema_compat(metadata: MetaData) -> Table:
    return Table(
        "wf_schema_compat",
        metadata,
        Column("id", SmallInteger, nullable=False, server_default=text("1")),
        # The oldest code that can still use this database, named by the newest
        # revision it knows. Every revision sets it.
        Column("oldest_code", String(32), nullable=False),
        PrimaryKeyConstraint("id"),
        CheckConstraint("id = 1", name="one_row"),
    )
