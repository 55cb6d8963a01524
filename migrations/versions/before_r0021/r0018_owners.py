"""Who made a reservation, and who asked for a measurement."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0018"
down_revision: str | None = "r0017"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TABLES = ("reservations", "measurements")
COLUMNS = ("created_by", "created_by_key")


def upgrade() -> None:
    """Apply; what was made before has no owner."""
    for table in TABLES:
        for column in COLUMNS:
            op.add_column(table, sa.Column(column, sa.Text(), nullable=True))


def downgrade() -> None:
    """Take back; what is there belongs to nobody again."""
    for table in TABLES:
        for column in reversed(COLUMNS):
            op.drop_column(table, column)
