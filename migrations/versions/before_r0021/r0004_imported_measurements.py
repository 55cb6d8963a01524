"""Imported measurements, and columns to list measurements by."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "r0004"
down_revision: str | None = "r0003"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Apply."""
    op.add_column(
        "measurements", sa.Column("source", sa.Text(), server_default="probe", nullable=False)
    )
    op.create_check_constraint(
        op.f("ck_measurements_source"), "measurements", "source IN ('probe', 'import')"
    )
    op.add_column("measurements", sa.Column("import_hash", sa.Text(), nullable=True))
    op.create_unique_constraint(
        op.f("uq_measurements_import_hash"), "measurements", ["import_hash"]
    )
    op.create_check_constraint(
        op.f("ck_measurements_only_imports_have_a_hash"),
        "measurements",
        "(source = 'import') = (import_hash IS NOT NULL)",
    )
    op.add_column(
        "measurements",
        _computed("family", sa.Text(), "request #>> '{model,architecture,family}'::text[]"),
    )
    op.add_column("measurements", _computed("task", sa.Text(), "request #>> '{task,task}'::text[]"))
    op.add_column(
        "measurement_results",
        sa.Column("readings", JSONB(), server_default=sa.text("'[]'"), nullable=False),
    )
    op.add_column(
        "measurement_results",
        _computed(
            "absolute_error",
            sa.Double(),
            "abs(COALESCE(prediction ->> 'error'::text, prediction #>> "
            "'{quantities,0,error}'::text[])::double precision)",
        ),
    )
    op.create_index(
        op.f("ix_measurements_gpu_created_at_id"), "measurements", ["gpu", "created_at", "id"]
    )
    op.create_index(
        op.f("ix_measurements_family_created_at_id"), "measurements", ["family", "created_at", "id"]
    )
    op.create_index(
        op.f("ix_measurements_source_created_at_id"), "measurements", ["source", "created_at", "id"]
    )
    op.create_index(
        op.f("ix_measurement_results_absolute_error_job_id"),
        "measurement_results",
        ["absolute_error", "job_id"],
    )


def downgrade() -> None:
    """Take back, and delete imported measurements.

    Nothing would distinguish them from those of a probe.
    """
    op.execute("DELETE FROM measurements WHERE source = 'import'")
    op.drop_index(op.f("ix_measurement_results_absolute_error_job_id"), "measurement_results")
    for columns in ("gpu", "family", "source"):
        op.drop_index(op.f(f"ix_measurements_{columns}_created_at_id"), "measurements")
    for column in ("absolute_error", "readings"):
        op.drop_column("measurement_results", column)
    op.drop_constraint(
        op.f("ck_measurements_only_imports_have_a_hash"), "measurements", type_="check"
    )
    for column in ("task", "family", "import_hash", "source"):
        op.drop_column("measurements", column)


def _computed(name: str, kind: sa.types.TypeEngine[Any], expression: str) -> sa.Column[Any]:
    """Return a column that Postgres computes from stored ones.

    So no writer can forget it.
    """
    return sa.Column(name, kind, sa.Computed(expression, persisted=True), nullable=True)
