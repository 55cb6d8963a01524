"""The job of a scheduler that a reservation is for."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0016"
down_revision: str | None = "r0015"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TABLE = "reservations"
_CHECK = "scheduler_job"


def upgrade() -> None:
    """Apply."""
    op.add_column(TABLE, sa.Column("scheduler", sa.Text(), nullable=True))
    op.add_column(TABLE, sa.Column("scheduler_job", sa.Text(), nullable=True))
    op.create_check_constraint(
        op.f(f"ck_{TABLE}_{_CHECK}"), TABLE, "(scheduler IS NULL) = (scheduler_job IS NULL)"
    )


def downgrade() -> None:
    """Take back; reservations stay, and no longer say for which job."""
    op.drop_constraint(op.f(f"ck_{TABLE}_{_CHECK}"), TABLE)
    op.drop_column(TABLE, "scheduler_job")
    op.drop_column(TABLE, "scheduler")
