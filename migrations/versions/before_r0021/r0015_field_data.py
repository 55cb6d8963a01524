"""Who brought imported measurements, and which of them count."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0015"
down_revision: str | None = "r0014"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TABLE = "measurement_claims"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        TABLE,
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_key", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_measurement_claims")),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["measurements.id"],
            name=op.f("fk_measurement_claims_job_id_measurements"),
            ondelete="CASCADE",
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'held', 'approved', 'withdrawn')",
            name=op.f("ck_measurement_claims_state"),
        ),
    )
    op.create_index(op.f("ix_measurement_claims_source_state"), TABLE, ["source", "state"])


def downgrade() -> None:
    """Take back; what waited for approval goes, since nothing would hold it back."""
    op.execute(
        "DELETE FROM measurements WHERE id IN "
        "(SELECT job_id FROM measurement_claims WHERE state IN ('pending', 'held'))"
    )
    op.drop_table(TABLE)
