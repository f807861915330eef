"""Tags on instances.

Code that knows only 0001 never names the column, and its inserts leave the default.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

OLDEST_CODE = "0001"


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    tags = sa.Column("tags", sa.Text, nullable=False, server_default=sa.text("'{}'"))
    op.add_column("wf_instances", tags, schema=schema)
    set_oldest_code(schema, OLDEST_CODE)


def downgrade() -> None:
    schema = op.get_context().version_table_schema
    op.drop_column("wf_instances", "tags", schema=schema)
    set_oldest_code(schema, "0001")


def set_oldest_code(schema: str | None, revision: str) -> None:
    oldest_code = sa.column("oldest_code", sa.String)
    compat = sa.table("wf_schema_compat", oldest_code, schema=schema)
    op.execute(compat.update().values(oldest_code=revision))
