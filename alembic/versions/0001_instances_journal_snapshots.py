"""Instances, their journals and snapshots, and who may read them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

OLDEST_CODE = "0001"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ZERO = sa.text("0")


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    create_instances(schema)
    create_journal(schema)
    create_snapshots(schema)
    create_schema_compat(schema)


def downgrade() -> None:
    schema = op.get_context().version_table_schema
    for table in ("wf_schema_compat", "wf_snapshots", "wf_journal", "wf_instances"):
        op.drop_table(table, schema=schema)


def create_instances(schema: str | None) -> None:
    table = "wf_instances"
    op.create_table(
        table,
        sa.Column("id", KEY, sa.Identity(), nullable=False),
        sa.Column("workflow_name", NAME, nullable=False),
        sa.Column("workflow_id", NAME, nullable=False),
        sa.Column("incarnation", sa.String(32), nullable=False),
        sa.Column("status", NAME, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False, server_default=ZERO),
        sa.Column("position", sa.Integer, nullable=False, server_default=ZERO),
        sa.Column("epoch", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("lease_owner", NAME),
        sa.Column("lease_until", sa.BigInteger),
        sa.Column("runnable_at", sa.BigInteger),
        sa.Column("attempts", sa.Integer, nullable=False, server_default=ZERO),
        sa.Column("takeovers", sa.Integer, nullable=False, server_default=ZERO),
        sa.Column("next_attempt_at", sa.BigInteger),
        sa.Column("wake_after", sa.BigInteger),
        sa.Column(
            "cancel_requested", sa.Boolean, nullable=False, server_default=sa.false()
        ),
        sa.Column("patches", sa.Text),
        sa.Column("input", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("last_error", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_wf_instances")),
        sa.UniqueConstraint(
            "workflow_name",
            "workflow_id",
            name=op.f("uq_wf_instances_workflow_name_workflow_id"),
        ),
        schema=schema,
        sqlite_autoincrement=True,
    )
    for columns in (["workflow_name", "runnable_at"], ["lease_owner"]):
        present = sa.text(f"{columns[-1]} IS NOT NULL")
        op.create_index(
            op.f(f"ix_wf_instances_{'_'.join(columns)}"),
            table,
            columns,
            schema=schema,
            sqlite_where=present,
            postgresql_where=present,
        )
    for column in ("status", "workflow_name"):
        name = op.f(f"ix_wf_instances_{column}_id")
        op.create_index(name, table, [column, "id"], schema=schema)


def create_journal(schema: str | None) -> None:
    op.create_table(
        "wf_journal",
        sa.Column("instance_id", sa.BigInteger, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("step_name", NAME),
        sa.Column("live", sa.Boolean, nullable=False),
        sa.Column(
            "format", sa.SmallInteger, nullable=False, server_default=sa.text("1")
        ),
        sa.Column("payload", sa.Text),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.Column("entry_id", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint(
            "instance_id", "generation", "position", name=op.f("pk_wf_journal")
        ),
        schema=schema,
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_wf_journal_instance_id_generation_step_name"),
        "wf_journal",
        ["instance_id", "generation", "step_name"],
        unique=True,
        schema=schema,
        sqlite_where=sa.text("live"),
        postgresql_where=sa.text("live"),
    )
    op.create_index(
        op.f("ix_wf_journal_history"),
        "wf_journal",
        ["instance_id", "generation", "step_name"],
        schema=schema,
        sqlite_where=sa.text("NOT live"),
        postgresql_where=sa.text("NOT live"),
    )


def create_snapshots(schema: str | None) -> None:
    op.create_table(
        "wf_snapshots",
        sa.Column("instance_id", sa.BigInteger, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("discriminator", NAME, nullable=False),
        sa.Column("entries", sa.Text, nullable=False),
        sa.Column("written_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint(
            "instance_id", "generation", name=op.f("pk_wf_snapshots")
        ),
        schema=schema,
    )


def create_schema_compat(schema: str | None) -> None:
    table = op.create_table(
        "wf_schema_compat",
        sa.Column("id", sa.SmallInteger, nullable=False, server_default=sa.text("1")),
        sa.Column("oldest_code", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_wf_schema_compat")),
        sa.CheckConstraint("id = 1", name=op.f("ck_wf_schema_compat_one_row")),
        schema=schema,
    )
    op.execute(table.insert().values(id=1, oldest_code=OLDEST_CODE))
