"""Measurements whose detail is deleted, so that nobody looks for it again."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0021"
down_revision: str | None = "r0020"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TABLE, COLUMN, INDEX = "measurements", "is_pruned", "ix_measurements_unpruned"


def upgrade() -> None:
    """Apply."""
    op.add_column(
        TABLE, sa.Column(COLUMN, sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.create_index(
        INDEX,
        TABLE,
        ["finished_at"],
        postgresql_where=sa.text("finished_at IS NOT NULL AND NOT is_pruned"),
    )


def downgrade() -> None:
    """Take back."""
    op.drop_index(INDEX, TABLE)
    op.drop_column(TABLE, COLUMN)
