"""Who asked for measurements, and when: what quotas are counted from."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0022"
down_revision: str | None = "r0021"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TABLE, INDEX = "measurements", "ix_measurements_asked"


def upgrade() -> None:
    """Apply; what was asked for since r0018 counts."""
    op.create_index(
        INDEX,
        TABLE,
        ["created_by_key", "created_at"],
        postgresql_where=sa.text("created_by_key IS NOT NULL AND source = 'probe'"),
    )


def downgrade() -> None:
    """Take back."""
    op.drop_index(INDEX, TABLE)
