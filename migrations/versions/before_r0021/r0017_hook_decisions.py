"""Decisions of hooks about submitted jobs, and their questions."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "r0017"
down_revision: str | None = "r0016"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

QUESTIONS, DECISIONS = "hook_questions", "hook_decisions"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        QUESTIONS,
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("document", JSONB(), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f(f"pk_{QUESTIONS}")),
        sa.CheckConstraint("digest ~ '^[0-9a-f]{32}$'", name=op.f(f"ck_{QUESTIONS}_digest")),
    )
    op.create_index(op.f(f"ix_{QUESTIONS}_last_at"), QUESTIONS, ["last_at"])
    op.create_table(
        DECISIONS,
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("num_times", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("door", "mode")),
        *(sa.Column(name, sa.Text(), nullable=True) for name in ("user_name", "queue", "job_name")),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("principal", "request_id")),
        sa.Column("key_id", sa.Uuid(), nullable=True),
        *(sa.Column(name, sa.Text(), nullable=True) for name in ("digest", "gpu")),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("verdict", "action")),
        *(
            sa.Column(name, sa.BigInteger(), nullable=True)
            for name in ("needed_bytes", "usable_bytes")
        ),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{DECISIONS}")),
        sa.ForeignKeyConstraint(
            ["digest"],
            [f"{QUESTIONS}.digest"],
            name=op.f(f"fk_{DECISIONS}_digest_{QUESTIONS}"),
            ondelete="SET NULL",
        ),
        sa.CheckConstraint(
            "verdict IN ('fits', 'tight', 'does_not_fit', 'unknown')",
            name=op.f(f"ck_{DECISIONS}_verdict"),
        ),
        sa.CheckConstraint(
            "action IN ('allow', 'warn', 'refuse', 'change')", name=op.f(f"ck_{DECISIONS}_action")
        ),
        sa.CheckConstraint(
            "num_times >= 1 AND last_at >= created_at", name=op.f(f"ck_{DECISIONS}_times")
        ),
    )
    op.create_index(op.f(f"ix_{DECISIONS}_created_at_id"), DECISIONS, ["created_at", "id"])
    op.create_index(op.f(f"ix_{DECISIONS}_digest"), DECISIONS, ["digest"])


def downgrade() -> None:
    """Take back; what hooks decided is forgotten."""
    op.drop_table(DECISIONS)
    op.drop_table(QUESTIONS)
