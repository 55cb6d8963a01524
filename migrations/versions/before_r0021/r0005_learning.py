"""Calibration classes and residuals.

Keys learn from each other by class; residuals are the distances of answers from measurements before
and after.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "r0005"
down_revision: str | None = "r0004"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_COLUMNS = ("curve", "kind", "family", "environment")


def upgrade() -> None:
    """Apply."""
    for column in _COLUMNS:
        op.add_column(
            "calibrations", sa.Column(column, sa.Text(), server_default="", nullable=False)
        )
    op.create_index(op.f("ix_calibrations_curve_quantity"), "calibrations", ["curve", "quantity"])
    op.create_index(
        op.f("ix_calibrations_kind_environment_quantity"),
        "calibrations",
        ["kind", "environment", "quantity"],
    )
    _create_residuals()


def downgrade() -> None:
    """Take back."""
    op.drop_table("residuals")
    for column in _COLUMNS:
        op.drop_column("calibrations", column)


def _create_residuals() -> None:
    op.create_table(
        "residuals",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("quantity", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in (*_COLUMNS, "device", "level")),
        sa.Column("gpu", sa.Text(), nullable=True),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("measured", "predicted", "after")
        ),
        *(
            sa.Column(name, sa.BigInteger(), nullable=True)
            for name in ("low", "high", "after_low", "after_high")
        ),
        sa.Column("surprised", sa.Boolean(), nullable=True),
        sa.Column(
            "measured_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        *_checks(),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["measurements.id"],
            name=op.f("fk_residuals_job_id_measurements"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "quantity", name=op.f("pk_residuals")),
    )
    op.create_index(
        op.f("ix_residuals_kind_quantity_measured_at"),
        "residuals",
        ["kind", "quantity", "measured_at"],
    )
    op.create_index(
        op.f("ix_residuals_curve_quantity_measured_at"),
        "residuals",
        ["curve", "quantity", "measured_at"],
    )
    op.create_index(op.f("ix_residuals_measured_at"), "residuals", ["measured_at"])


def _checks() -> tuple[sa.CheckConstraint, ...]:
    conditions = {
        "quantity": "quantity IN ('allocated', 'reserved', 'device', 'step_time')",
        "device": "device IN ('cpu', 'trace', 'cuda')",
        "level": "level IN ('point', 'key', 'family', 'global', 'none')",
        "positive": "measured > 0 AND predicted > 0 AND after > 0",
        "intervals": "low <= high AND after_low <= after_high",
        "whole_intervals": "num_nulls(low, high) <> 1 AND num_nulls(after_low, after_high) <> 1",
    }
    return tuple(
        sa.CheckConstraint(text, name=op.f(f"ck_residuals_{name}"))
        for name, text in conditions.items()
    )
