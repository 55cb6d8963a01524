"""Measurement jobs and results, calibrations, workers, idempotency keys."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "r0002"
down_revision: str | None = "r0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Apply."""
    _create_calibrations()
    _create_measurements()
    _create_findings()
    _create_workers()
    _create_idempotency_records()


def downgrade() -> None:
    """Take back."""
    op.drop_table("idempotency_records")
    op.drop_table("workers")
    op.drop_table("measurement_samples")
    op.drop_table("measurement_events")
    op.drop_table("measurement_results")
    op.drop_table("measurements")
    op.drop_table("calibrations")


def _create_calibrations() -> None:
    """Create the calibrations that are derived from measurements."""
    op.create_table(
        "calibrations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("quantity", sa.Text(), nullable=False),
        sa.Column("scope", JSONB(), nullable=False),
        sa.Column("correction", JSONB(), nullable=False),
        sa.Column("evidence", sa.ARRAY(sa.Uuid()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "quantity IN ('allocated', 'reserved', 'device', 'step_time')",
            name=op.f("ck_calibrations_quantity"),
        ),
        sa.CheckConstraint("cardinality(evidence) >= 1", name=op.f("ck_calibrations_evidence")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calibrations")),
    )
    op.create_index(op.f("ix_calibrations_created_at_id"), "calibrations", ["created_at", "id"])
    op.create_index(
        op.f("ix_calibrations_key_quantity_created_at_id"),
        "calibrations",
        ["key", "quantity", "created_at", "id"],
    )


def _create_measurements() -> None:
    """Create the job rows."""
    op.create_table(
        "measurements",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("state", sa.Text(), server_default="queued", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("max_attempts", sa.Integer(), server_default="3", nullable=False),
        sa.Column("priority", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=True),
        sa.Column("model_name", sa.Text(), nullable=True),
        sa.Column("model_revision", sa.Integer(), nullable=True),
        sa.Column("request", JSONB(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column(
            "cancel_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("deadline_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("rung_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("progress", sa.Double(), server_default="0", nullable=False),
        sa.Column("phase", sa.Text(), server_default="queued", nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("last_event", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("error", JSONB(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(state = 'failed') = (error IS NOT NULL)",
            name=op.f("ck_measurements_only_failed_has_an_error"),
        ),
        sa.CheckConstraint(
            "(state = 'running') = (lease_until IS NOT NULL)",
            name=op.f("ck_measurements_only_running_has_a_lease"),
        ),
        sa.CheckConstraint(
            "(state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)",
            name=op.f("ck_measurements_only_terminal_is_finished"),
        ),
        sa.CheckConstraint(
            "device IN ('cpu', 'trace', 'cuda')", name=op.f("ck_measurements_device")
        ),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')",
            name=op.f("ck_measurements_state"),
        ),
        sa.CheckConstraint(
            "attempt >= 0 AND max_attempts >= 1", name=op.f("ck_measurements_attempts")
        ),
        sa.CheckConstraint(
            "progress >= 0 AND progress <= 1", name=op.f("ck_measurements_progress")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measurements")),
    )
    op.create_index(op.f("ix_measurements_created_at_id"), "measurements", ["created_at", "id"])
    op.create_index(op.f("ix_measurements_key_created_at"), "measurements", ["key", "created_at"])
    op.create_index(
        op.f("ix_measurements_model_name_created_at"), "measurements", ["model_name", "created_at"]
    )
    op.create_index(
        "ix_measurements_queued",
        "measurements",
        ["device", sa.text("priority DESC"), "created_at"],
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "ix_measurements_running",
        "measurements",
        ["lease_until"],
        postgresql_where=sa.text("state = 'running'"),
    )


def _create_findings() -> None:
    """Create the results, events and samples of a job."""
    op.create_table(
        "measurement_results",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("environment", JSONB(), nullable=False),
        sa.Column("peaks", JSONB(), nullable=False),
        sa.Column("instants", JSONB(), nullable=False),
        sa.Column("probes", JSONB(), nullable=False),
        sa.Column("step_time", JSONB(), nullable=True),
        sa.Column("prediction", JSONB(), nullable=True),
        sa.Column("extrapolated", sa.Boolean(), nullable=False),
        sa.Column("transferable", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("steady_bytes", sa.BigInteger(), nullable=True),
        sa.Column("notes", JSONB(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("calibration_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["calibration_id"],
            ["calibrations.id"],
            name=op.f("fk_measurement_results_calibration_id_calibrations"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["measurements.id"],
            name=op.f("fk_measurement_results_job_id_measurements"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_measurement_results")),
    )
    op.create_table(
        "measurement_events",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("data", JSONB(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "kind IN ('status', 'progress', 'sample')", name=op.f("ck_measurement_events_kind")
        ),
        sa.CheckConstraint("seq >= 1", name=op.f("ck_measurement_events_seq")),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["measurements.id"],
            name=op.f("fk_measurement_events_job_id_measurements"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "seq", name=op.f("pk_measurement_events")),
    )
    op.create_table(
        "measurement_samples",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("t_s", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("bytes >= 0", name=op.f("ck_measurement_samples_bytes")),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["measurements.id"],
            name=op.f("fk_measurement_samples_job_id_measurements"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "seq", name=op.f("pk_measurement_samples")),
    )


def _create_workers() -> None:
    """Create the worker processes."""
    op.create_table(
        "workers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("devices", JSONB(), nullable=False),
        sa.Column("versions", JSONB(), nullable=False),
        sa.Column("state", sa.Text(), server_default="idle", nullable=False),
        sa.Column("current_job_id", sa.Uuid(), nullable=True),
        sa.Column(
            "last_heartbeat",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "state = 'busy' OR current_job_id IS NULL", name=op.f("ck_workers_only_busy_has_a_job")
        ),
        sa.CheckConstraint("state IN ('idle', 'busy', 'stopped')", name=op.f("ck_workers_state")),
        sa.ForeignKeyConstraint(
            ["current_job_id"],
            ["measurements.id"],
            name=op.f("fk_workers_current_job_id_measurements"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_workers")),
    )
    op.create_index(op.f("ix_workers_last_heartbeat"), "workers", ["last_heartbeat"])


def _create_idempotency_records() -> None:
    """Create the records of Idempotency-Keys."""
    op.create_table(
        "idempotency_records",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["measurements.id"],
            name=op.f("fk_idempotency_records_job_id_measurements"),
            ondelete="CASCADE",
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("key", "route", name=op.f("pk_idempotency_records")),
    )
    op.create_index(
        op.f("ix_idempotency_records_expires_at"), "idempotency_records", ["expires_at"]
    )
