"""Recordings are jobs, and models wait for them."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0014"
down_revision: str | None = "r0013"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TABLE = "config_recordings"
REVISIONS = "model_revisions"
MAX_PACKED_BYTES = 16 * 1024**2
BEFORE = "source IN ('probe', 'import')"
AFTER = "source IN ('probe', 'import', 'recording')"


def upgrade() -> None:
    """Apply."""
    _allow(AFTER)
    op.create_table(
        TABLE,
        sa.Column("config_digest", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("weights", sa.LargeBinary(), nullable=True),
        sa.Column("transformers", sa.Text(), nullable=True),
        sa.Column("torch", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.PrimaryKeyConstraint("config_digest", name=op.f("pk_config_recordings")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["measurements.id"], name=op.f("fk_config_recordings_job_id_measurements")
        ),
        sa.ForeignKeyConstraint(
            ["digest"], ["recordings.digest"], name=op.f("fk_config_recordings_digest_recordings")
        ),
        sa.CheckConstraint(
            "config_digest ~ '^[0-9a-f]{64}$'", name=op.f("ck_config_recordings_config_digest")
        ),
        sa.CheckConstraint(
            f"octet_length(weights) BETWEEN 1 AND {MAX_PACKED_BYTES}",
            name=op.f("ck_config_recordings_weights"),
        ),
    )
    op.create_index(op.f("ix_config_recordings_job_id"), TABLE, ["job_id"])
    op.add_column(REVISIONS, sa.Column("config_digest", sa.Text(), nullable=True))
    op.create_foreign_key(
        op.f("fk_model_revisions_config_digest_config_recordings"),
        REVISIONS,
        TABLE,
        ["config_digest"],
        ["config_digest"],
    )
    op.create_index(op.f("ix_model_revisions_config_digest"), REVISIONS, ["config_digest"])


def downgrade() -> None:
    """Take back; revisions that wait for a recording go."""
    op.execute("DELETE FROM model_revisions WHERE config_digest IS NOT NULL")
    op.execute(
        "DELETE FROM models WHERE NOT EXISTS "
        "(SELECT FROM model_revisions WHERE model_id = models.id)"
    )
    # Nothing ran a revision that waited, so that its number may be given out again.
    op.execute(
        "UPDATE models SET current_revision = "
        "(SELECT max(number) FROM model_revisions WHERE model_id = models.id)"
    )
    op.drop_index(op.f("ix_model_revisions_config_digest"), REVISIONS)
    op.drop_constraint(
        op.f("fk_model_revisions_config_digest_config_recordings"), REVISIONS, type_="foreignkey"
    )
    op.drop_column(REVISIONS, "config_digest")
    op.drop_table(TABLE)
    op.execute(
        "UPDATE workers SET state = 'idle', current_job_id = NULL "
        "WHERE current_job_id IN (SELECT id FROM measurements WHERE source = 'recording')"
    )
    op.execute("DELETE FROM measurements WHERE source = 'recording'")
    _allow(BEFORE)


def _allow(condition: str) -> None:
    """Replace the condition on what a measurement comes from."""
    name = op.f("ck_measurements_source")
    op.drop_constraint(name, "measurements", type_="check")
    op.create_check_constraint(name, "measurements", condition)
