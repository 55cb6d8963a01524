"""Artifacts of measurements."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0009"
down_revision: str | None = "r0008"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TABLE = "measurement_artifacts"
MAX_PACKED_BYTES = 64 * 1024**2


def upgrade() -> None:
    """Apply."""
    op.create_table(
        TABLE,
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.PrimaryKeyConstraint("job_id", "name", name=op.f("pk_measurement_artifacts")),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["measurements.id"],
            ondelete="CASCADE",
            name=op.f("fk_measurement_artifacts_job_id_measurements"),
        ),
        sa.CheckConstraint(
            f"octet_length(packed) BETWEEN 1 AND {MAX_PACKED_BYTES}",
            name=op.f("ck_measurement_artifacts_packed"),
        ),
        sa.CheckConstraint("bytes >= 0", name=op.f("ck_measurement_artifacts_bytes")),
        sa.CheckConstraint(
            "sha256 ~ '^[0-9a-f]{64}$'", name=op.f("ck_measurement_artifacts_sha256")
        ),
    )
    # It is packed already; and of what Postgres packs, no part can be read without all that is
    # before it.
    op.execute(f"ALTER TABLE {TABLE} ALTER COLUMN packed SET STORAGE EXTERNAL")


def downgrade() -> None:
    """Take back."""
    op.drop_table(TABLE)
