"""Times of prefills are learnt beside those of steps."""

from collections.abc import Sequence

from alembic import op

revision: str = "r0011"
down_revision: str | None = "r0010"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TABLES = ("calibrations", "residuals")
BEFORE = "quantity IN ('allocated', 'reserved', 'device', 'step_time')"
AFTER = "quantity IN ('allocated', 'reserved', 'device', 'step_time', 'prefill_time')"
_FORGET = """
UPDATE measurement_results SET calibration_id = NULL
WHERE calibration_id IN (SELECT id FROM calibrations WHERE quantity = 'prefill_time')
"""
_PREDICTIONS = """
CREATE OR REPLACE VIEW headroom_reporting.predictions AS
SELECT job_id, quantity, kind, family, environment, device, gpu, measured_at, level, surprised,
       CASE WHEN {is_time} THEN 'nanoseconds' ELSE 'bytes' END AS unit,
       measured, predicted, low, high, after, after_low, after_high,
       predicted::double precision / measured - 1 AS error_before, after::double precision / measured - 1 AS error_after,
       measured BETWEEN low AND high AS inside_before, measured BETWEEN after_low AND after_high AS inside_after,
       (high - low)::double precision / measured AS width_before,
       (after_high - after_low)::double precision / measured AS width_after
FROM residuals
"""  # noqa: E501


def upgrade() -> None:
    """Apply."""
    _allow(AFTER)
    op.execute(_PREDICTIONS.format(is_time="quantity IN ('step_time', 'prefill_time')"))


def downgrade() -> None:
    """Take back."""
    op.execute(_PREDICTIONS.format(is_time="quantity = 'step_time'"))
    op.execute(_FORGET)
    for table in TABLES:
        op.execute(f"DELETE FROM {table} WHERE quantity = 'prefill_time'")  # noqa: S608 - our own names
    _allow(BEFORE)


def _allow(condition: str) -> None:
    """Replace the condition on the quantity."""
    for table in TABLES:
        name = op.f(f"ck_{table}_quantity")
        op.drop_constraint(name, table, type_="check")
        op.create_check_constraint(name, table, condition)
