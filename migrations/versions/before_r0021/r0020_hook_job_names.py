"""Index of hooks' decisions by the names of jobs, which nodes ask for."""

from collections.abc import Sequence

from alembic import op

revision: str = "r0020"
down_revision: str | None = "r0019"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

DECISIONS = "hook_decisions"
INDEX = f"ix_{DECISIONS}_queue_job_name"


def upgrade() -> None:
    """Apply."""
    op.create_index(INDEX, DECISIONS, ["queue", "job_name"])


def downgrade() -> None:
    """Take back."""
    op.drop_index(INDEX, DECISIONS)
