"""Revisions of deleted models.

They were given out before a model was deleted: no other content gets their numbers.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0010"
down_revision: str | None = "r0009"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TABLE = "retired_models"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        TABLE,
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("last_revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_retired_models")),
        sa.CheckConstraint("last_revision >= 1", name=op.f("ck_retired_models_last_revision")),
    )


def downgrade() -> None:
    """Take back."""
    op.drop_table(TABLE)
