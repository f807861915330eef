"""Messages, deadlines of instances, and what a collection looks for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

OLDEST_CODE = "0001"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.add_column(
        "wf_instances", sa.Column("deadline_at", sa.BigInteger), schema=schema
    )
    create_index_of_some(
        schema, "deadline_at", "deadline_at IS NOT NULL AND ended_at IS NULL"
    )
    create_index_of_some(schema, "ended_at", "ended_at IS NOT NULL")
    create_messages(schema)
    set_oldest_code(schema, OLDEST_CODE)


def downgrade() -> None:
    schema = op.get_context().version_table_schema
    op.drop_table("wf_messages", schema=schema)
    for column in ("ended_at", "deadline_at"):
        name = op.f(f"ix_wf_instances_{column}")
        op.drop_index(name, "wf_instances", schema=schema)
    op.drop_column("wf_instances", "deadline_at", schema=schema)
    set_oldest_code(schema, "0001")


def create_index_of_some(schema: str | None, column: str, condition: str) -> None:
    op.create_index(
        op.f(f"ix_wf_instances_{column}"),
        "wf_instances",
        [column],
        schema=schema,
        sqlite_where=sa.text(condition),
        postgresql_where=sa.text(condition),
    )


def create_messages(schema: str | None) -> None:
    numbering = [] if schema is None else [sa.Identity()]
    op.create_table(
        "wf_messages",
        sa.Column("id", KEY, *numbering, nullable=False),
        sa.Column("instance_id", sa.BigInteger, nullable=False),
        sa.Column("message_key", NAME, nullable=False),
        sa.Column("topic", NAME, nullable=False),
        sa.Column("payload", sa.Text),
        sa.Column("sent_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_wf_messages")),
        sa.UniqueConstraint(
            "instance_id",
            "message_key",
            name=op.f("uq_wf_messages_instance_id_message_key"),
        ),
        schema=schema,
    )


def set_oldest_code(schema: str | None, revision: str) -> None:
    oldest_code = sa.column("oldest_code", sa.String)
    compat = sa.table("wf_schema_compat", oldest_code, schema=schema)
    op.execute(compat.update().values(oldest_code=revision))
