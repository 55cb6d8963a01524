"""Plan events of a measurement, and a job's lost leases."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0007"
down_revision: str | None = "r0006"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_KIND = "ck_measurement_events_kind"


def upgrade() -> None:
    """Apply."""
    op.add_column(
        "measurements", sa.Column("lost_leases", sa.Integer(), server_default="0", nullable=False)
    )
    op.drop_constraint(op.f(_KIND), "measurement_events")
    op.create_check_constraint(
        op.f(_KIND), "measurement_events", "kind IN ('status', 'plan', 'progress', 'sample')"
    )


def downgrade() -> None:
    """Take back; events of plans go."""
    op.execute("DELETE FROM measurement_events WHERE kind = 'plan'")
    op.drop_constraint(op.f(_KIND), "measurement_events")
    op.create_check_constraint(
        op.f(_KIND), "measurement_events", "kind IN ('status', 'progress', 'sample')"
    )
    op.drop_column("measurements", "lost_leases")
