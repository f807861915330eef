"""Timers, awakeables and children: what wakes an instance."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

OLDEST_CODE = "0001"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.add_column("wf_instances", sa.Column("waits_on", sa.Text), schema=schema)
    create_timers(schema)
    create_awakeables(schema)
    create_children(schema)
    set_oldest_code(schema, OLDEST_CODE)


def downgrade() -> None:
    schema = op.get_context().version_table_schema
    op.drop_table("wf_children", schema=schema)
    op.drop_table("wf_awakeables", schema=schema)
    op.drop_table("wf_timers", schema=schema)
    op.drop_column("wf_instances", "waits_on", schema=schema)
    set_oldest_code(schema, "0001")


def create_timers(schema: str | None) -> None:
    op.create_table(
        "wf_timers",
        sa.Column("instance_id", sa.BigInteger, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("step_name", NAME, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("settled_at", sa.BigInteger),
        sa.PrimaryKeyConstraint(
            "instance_id", "generation", "step_name", name=op.f("pk_wf_timers")
        ),
        schema=schema,
        sqlite_with_rowid=False,
    )
    pending = sa.text("settled_at IS NULL")
    op.create_index(
        op.f("ix_wf_timers_due_at"),
        "wf_timers",
        ["due_at"],
        schema=schema,
        sqlite_where=pending,
        postgresql_where=pending,
    )


def create_awakeables(schema: str | None) -> None:
    op.create_table(
        "wf_awakeables",
        sa.Column("id", NAME, nullable=False),
        sa.Column("instance_id", sa.BigInteger, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("label", NAME, nullable=False),
        sa.Column("status", NAME, nullable=False),
        sa.Column("payload", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("settled_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_wf_awakeables")),
        schema=schema,
    )
    op.create_index(
        op.f("ix_wf_awakeables_instance_id_generation"),
        "wf_awakeables",
        ["instance_id", "generation"],
        schema=schema,
    )


def create_children(schema: str | None) -> None:
    op.create_table(
        "wf_children",
        sa.Column("parent_id", sa.BigInteger, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("step_name", NAME, nullable=False),
        sa.Column("child_id", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint(
            "parent_id", "generation", "step_name", name=op.f("pk_wf_children")
        ),
        schema=schema,
    )
    op.create_index(
        op.f("ix_wf_children_child_id"), "wf_children", ["child_id"], schema=schema
    )


def set_oldest_code(schema: str | None, revision: str) -> None:
    oldest_code = sa.column("oldest_code", sa.String)
    compat = sa.table("wf_schema_compat", oldest_code, schema=schema)
    op.execute(compat.update().values(oldest_code=revision))
