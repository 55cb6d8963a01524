"""The cluster that a handed-in measurement is said to have run on."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0023"
down_revision: str | None = "r0022"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TABLE, COLUMN = "measurement_claims", "cluster"


def upgrade() -> None:
    """Apply; what was handed in before is of no named cluster."""
    op.add_column(TABLE, sa.Column(COLUMN, sa.Text(), nullable=True))


def downgrade() -> None:
    """Take back."""
    op.drop_column(TABLE, COLUMN)
