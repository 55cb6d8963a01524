"""Nodes keep who saw them and when, and where in the network they are.

Pools keep the memory of GPUs that no catalogue has.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "r0012"
down_revision: str | None = "r0011"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_NODES = "cluster_nodes"
_POOLS = "cluster_pools"


def upgrade() -> None:
    """Apply."""
    op.add_column(_NODES, sa.Column("source", sa.Text))
    op.add_column(_NODES, sa.Column("observed_at", sa.DateTime(timezone=True)))
    op.add_column(_NODES, sa.Column("unavailable", sa.Text))
    op.add_column(
        _NODES, sa.Column("levels", JSONB, nullable=False, server_default=sa.text("'[]'"))
    )
    op.add_column(_POOLS, sa.Column("gpu_memory_bytes", sa.BigInteger))
    op.add_column(_POOLS, sa.Column("gpu_replicas", sa.Integer))
    op.add_column(
        _POOLS, sa.Column("level_names", JSONB, nullable=False, server_default=sa.text("'[]'"))
    )
    op.create_check_constraint(
        op.f("ck_cluster_pools_gpu_memory_bytes"), _POOLS, "gpu_memory_bytes >= 0"
    )
    op.create_check_constraint(op.f("ck_cluster_pools_gpu_replicas"), _POOLS, "gpu_replicas >= 2")


def downgrade() -> None:
    """Take back."""
    op.drop_constraint(op.f("ck_cluster_pools_gpu_replicas"), _POOLS, type_="check")
    op.drop_constraint(op.f("ck_cluster_pools_gpu_memory_bytes"), _POOLS, type_="check")
    for column in ("level_names", "gpu_replicas", "gpu_memory_bytes"):
        op.drop_column(_POOLS, column)
    for column in ("levels", "unavailable", "observed_at", "source"):
        op.drop_column(_NODES, column)
