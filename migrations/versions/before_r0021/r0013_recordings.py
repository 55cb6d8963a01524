"""Recordings of transformers' own code, each stored once."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0013"
down_revision: str | None = "r0012"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TABLE = "recordings"
MAX_PACKED_BYTES = 16 * 1024**2


def upgrade() -> None:
    """Apply."""
    op.create_table(
        TABLE,
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_recordings")),
        sa.CheckConstraint(
            f"octet_length(packed) BETWEEN 1 AND {MAX_PACKED_BYTES}",
            name=op.f("ck_recordings_packed"),
        ),
        sa.CheckConstraint("digest ~ '^[0-9a-f]{64}$'", name=op.f("ck_recordings_digest")),
    )


def downgrade() -> None:
    """Take back."""
    op.drop_table(TABLE)
