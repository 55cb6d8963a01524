"""Reservations of GPUs, allocations on nodes, and MIG slices."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "r0003"
down_revision: str | None = "r0002"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Apply."""
    _extend_inventories()
    _create_reservations()
    _let_keys_stand_for_reservations()


def downgrade() -> None:
    """Take back; keys that stand for reservations go with these."""
    op.drop_constraint(
        op.f("ck_idempotency_records_stands_for_one"), "idempotency_records", type_="check"
    )
    op.execute("DELETE FROM idempotency_records WHERE job_id IS NULL")
    op.drop_column("idempotency_records", "reservation_id")
    op.alter_column("idempotency_records", "job_id", nullable=False)
    op.drop_table("reservations")
    for column in ("mig_slices", "mig_gpus", "allocations"):
        op.drop_column("cluster_nodes", column)
    op.drop_column("cluster_pools", "nvme_bytes")


def _extend_inventories() -> None:
    """Add the nodes' NVMe, allocations and MIG slices.

    Allocations are by holder.
    """
    op.add_column("cluster_pools", sa.Column("nvme_bytes", sa.BigInteger(), nullable=True))
    op.create_check_constraint(
        op.f("ck_cluster_pools_nvme_bytes"), "cluster_pools", "nvme_bytes >= 0"
    )
    op.add_column(
        "cluster_nodes",
        sa.Column("allocations", JSONB(), server_default=sa.text("'[]'"), nullable=False),
    )
    op.add_column(
        "cluster_nodes", sa.Column("mig_gpus", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column(
        "cluster_nodes",
        sa.Column("mig_slices", JSONB(), server_default=sa.text("'[]'"), nullable=False),
    )
    op.create_check_constraint(op.f("ck_cluster_nodes_mig_gpus"), "cluster_nodes", "mig_gpus >= 0")


def _create_reservations() -> None:
    """Create the reservations."""
    op.create_table(
        "reservations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("cluster_id", sa.Uuid(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("shares", JSONB(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("released_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("expires_at > created_at", name=op.f("ck_reservations_expires_at")),
        sa.CheckConstraint("jsonb_array_length(shares) >= 1", name=op.f("ck_reservations_shares")),
        sa.ForeignKeyConstraint(
            ["cluster_id"],
            ["clusters.id"],
            name=op.f("fk_reservations_cluster_id_clusters"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reservations")),
    )
    op.create_index(
        op.f("ix_reservations_cluster_id_created_at_id"),
        "reservations",
        ["cluster_id", "created_at", "id"],
    )
    op.create_index(op.f("ix_reservations_expires_at"), "reservations", ["expires_at"])
    op.create_index(
        "ix_reservations_unreleased",
        "reservations",
        ["cluster_id", "expires_at"],
        postgresql_where=sa.text("released_at IS NULL"),
    )


def _let_keys_stand_for_reservations() -> None:
    """Let an Idempotency-Key stand for a job or for a reservation."""
    op.alter_column("idempotency_records", "job_id", nullable=True)
    op.add_column("idempotency_records", sa.Column("reservation_id", sa.Uuid(), nullable=True))
    op.create_foreign_key(
        op.f("fk_idempotency_records_reservation_id_reservations"),
        "idempotency_records",
        "reservations",
        ["reservation_id"],
        ["id"],
        ondelete="CASCADE",
        initially="DEFERRED",
        deferrable=True,
    )
    op.create_check_constraint(
        op.f("ck_idempotency_records_stands_for_one"),
        "idempotency_records",
        "num_nonnulls(job_id, reservation_id) = 1",
    )
