"""Models with immutable revisions, clusters with pools and nodes."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "r0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Apply."""
    _create_models()
    _create_clusters()


def downgrade() -> None:
    """Take back."""
    op.drop_table("cluster_nodes")
    op.drop_table("cluster_pools")
    op.drop_table("clusters")
    op.drop_table("model_revisions")
    op.drop_table("models")


def _create_models() -> None:
    """Create a name, and immutable revisions of what it stands for."""
    op.create_table(
        "models",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("current_revision", sa.Integer(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint("current_revision >= 1", name=op.f("ck_models_current_revision")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
        sa.UniqueConstraint("name", name=op.f("uq_models_name")),
    )
    op.create_index(op.f("ix_models_created_at_id"), "models", ["created_at", "id"])
    op.create_table(
        "model_revisions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("model_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("source", JSONB(), nullable=False),
        sa.Column("architecture", JSONB(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("num_parameters", sa.BigInteger(), nullable=False),
        sa.Column("num_active_parameters", sa.BigInteger(), nullable=False),
        sa.Column("num_embedding_parameters", sa.BigInteger(), nullable=False),
        sa.Column("parameters_by_module", JSONB(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "num_parameters >= 0 AND num_active_parameters <= num_parameters",
            name=op.f("ck_model_revisions_parameters"),
        ),
        sa.CheckConstraint("number >= 1", name=op.f("ck_model_revisions_number")),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
            name=op.f("fk_model_revisions_model_id_models"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_revisions")),
        sa.UniqueConstraint("model_id", "number", name=op.f("uq_model_revisions_model_id_number")),
    )
    op.create_index(op.f("ix_model_revisions_fingerprint"), "model_revisions", ["fingerprint"])


def _create_clusters() -> None:
    """Create the pools of a cluster, and their nodes."""
    op.create_table(
        "clusters",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint("version >= 1", name=op.f("ck_clusters_version")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusters")),
        sa.UniqueConstraint("name", name=op.f("uq_clusters_name")),
    )
    op.create_index(op.f("ix_clusters_created_at_id"), "clusters", ["created_at", "id"])
    op.create_table(
        "cluster_pools",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("cluster_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("gpus_per_node", sa.Integer(), nullable=False),
        sa.Column("nvlink_island_size", sa.Integer(), nullable=True),
        sa.Column("host_memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("network_bytes_per_second", sa.BigInteger(), nullable=True),
        sa.Column("price_per_gpu_hour", sa.Double(), nullable=True),
        sa.Column("num_nodes", sa.Integer(), nullable=True),
        sa.CheckConstraint("gpus_per_node >= 1", name=op.f("ck_cluster_pools_gpus_per_node")),
        sa.CheckConstraint(
            "host_memory_bytes >= 0", name=op.f("ck_cluster_pools_host_memory_bytes")
        ),
        sa.CheckConstraint(
            "network_bytes_per_second >= 0", name=op.f("ck_cluster_pools_network_bytes_per_second")
        ),
        sa.CheckConstraint("num_nodes >= 0", name=op.f("ck_cluster_pools_num_nodes")),
        sa.CheckConstraint(
            "nvlink_island_size >= 1", name=op.f("ck_cluster_pools_nvlink_island_size")
        ),
        sa.CheckConstraint(
            "price_per_gpu_hour >= 0", name=op.f("ck_cluster_pools_price_per_gpu_hour")
        ),
        sa.ForeignKeyConstraint(
            ["cluster_id"],
            ["clusters.id"],
            name=op.f("fk_cluster_pools_cluster_id_clusters"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_pools")),
        sa.UniqueConstraint("cluster_id", "name", name=op.f("uq_cluster_pools_cluster_id_name")),
    )
    op.create_table(
        "cluster_nodes",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("pool_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("allocated_gpus", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.CheckConstraint("state IN ('ready', 'drained')", name=op.f("ck_cluster_nodes_state")),
        sa.CheckConstraint("allocated_gpus >= 0", name=op.f("ck_cluster_nodes_allocated_gpus")),
        sa.ForeignKeyConstraint(
            ["pool_id"],
            ["cluster_pools.id"],
            name=op.f("fk_cluster_nodes_pool_id_cluster_pools"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_nodes")),
        sa.UniqueConstraint("pool_id", "name", name=op.f("uq_cluster_nodes_pool_id_name")),
    )
