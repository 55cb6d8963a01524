"""Jobs that a worker of an earlier version could not read, to be found again."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0019"
down_revision: str | None = "r0018"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

INDEX = "ix_measurements_unreadable"


def upgrade() -> None:
    """Apply."""
    op.create_index(
        INDEX,
        "measurements",
        ["finished_at"],
        postgresql_where=sa.text("state = 'failed' AND (error ->> 'type') = 'unreadable-request'"),
    )


def downgrade() -> None:
    """Take back."""
    op.drop_index(INDEX, "measurements")
