"""Tables of clusters: pools, nodes and reservations."""

import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, Integer, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from service.db.tables.base import Base, Json, make_membership_condition
from service.planner.cluster.inventory import NodeState


class ClusterRow(Base):
    """A cluster inventory; ``version`` counts its replacements."""

    __tablename__ = "clusters"
    __table_args__ = (
        Index(None, "created_at", "id"),
        CheckConstraint("version >= 1", name="version"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str] = mapped_column(unique=True)
    version: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())
    pools: Mapped[list["ClusterPoolRow"]] = relationship(
        lazy="raise",
        order_by="ClusterPoolRow.position",
        cascade="all, delete-orphan",
        passive_deletes=True,
    )


class ClusterPoolRow(Base):
    """Nodes of one kind; either counted (``num_nodes``) or named (``nodes``)."""

    __tablename__ = "cluster_pools"
    __table_args__ = (
        UniqueConstraint("cluster_id", "name"),
        CheckConstraint("gpus_per_node >= 1", name="gpus_per_node"),
        CheckConstraint("nvlink_island_size >= 1", name="nvlink_island_size"),
        CheckConstraint("num_nodes >= 0", name="num_nodes"),
        CheckConstraint("host_memory_bytes >= 0", name="host_memory_bytes"),
        CheckConstraint("network_bytes_per_second >= 0", name="network_bytes_per_second"),
        CheckConstraint("nvme_bytes >= 0", name="nvme_bytes"),
        CheckConstraint("price_per_gpu_hour >= 0", name="price_per_gpu_hour"),
        CheckConstraint("gpu_memory_bytes >= 0", name="gpu_memory_bytes"),
        CheckConstraint("gpu_replicas >= 2", name="gpu_replicas"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    cluster_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("clusters.id", ondelete="CASCADE"))
    position: Mapped[int] = mapped_column(Integer)
    name: Mapped[str]
    gpu: Mapped[str]
    gpus_per_node: Mapped[int] = mapped_column(Integer)
    nvlink_island_size: Mapped[int | None] = mapped_column(Integer)
    host_memory_bytes: Mapped[int | None]
    nvme_bytes: Mapped[int | None]
    network_bytes_per_second: Mapped[int | None]
    price_per_gpu_hour: Mapped[float | None]
    num_nodes: Mapped[int | None] = mapped_column(Integer)
    gpu_memory_bytes: Mapped[int | None]
    """Of a GPU that the catalogue does not have; 0 where nobody knows it."""
    gpu_replicas: Mapped[int | None] = mapped_column(Integer)
    level_names: Mapped[list[str]] = mapped_column(default=list, server_default=text("'[]'"))
    nodes: Mapped[list["ClusterNodeRow"]] = relationship(
        lazy="raise",
        order_by="ClusterNodeRow.position",
        cascade="all, delete-orphan",
        passive_deletes=True,
    )


class ClusterNodeRow(Base):
    """One named node.

    It has how many of its GPUs others hold, and what MIG has made of some.
    """

    __tablename__ = "cluster_nodes"
    __table_args__ = (
        UniqueConstraint("pool_id", "name"),
        CheckConstraint("allocated_gpus >= 0", name="allocated_gpus"),
        CheckConstraint("mig_gpus >= 0", name="mig_gpus"),
        CheckConstraint(make_membership_condition("state", NodeState), name="state"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    pool_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("cluster_pools.id", ondelete="CASCADE"))
    position: Mapped[int] = mapped_column(Integer)
    name: Mapped[str]
    allocated_gpus: Mapped[int] = mapped_column(Integer)
    state: Mapped[str]
    allocations: Mapped[list[Json]] = mapped_column(default=list, server_default=text("'[]'"))
    """Who holds GPUs, as far as it is known."""
    mig_gpus: Mapped[int] = mapped_column(Integer, default=0, server_default="0")
    mig_slices: Mapped[list[Json]] = mapped_column(default=list, server_default=text("'[]'"))
    source: Mapped[str | None]
    """The tool that showed it, and its version; null where somebody typed it."""
    observed_at: Mapped[datetime | None]
    unavailable: Mapped[str | None]
    levels: Mapped[list[str]] = mapped_column(default=list, server_default=text("'[]'"))


class ReservationRow(Base):
    """Reserved GPUs until ``expires_at`` or their release.

    Nodes are named, not referred to: an inventory is replaced as a unit, and what it still names
    stays reserved.
    """

    __tablename__ = "reservations"
    __table_args__ = (
        CheckConstraint("jsonb_array_length(shares) >= 1", name="shares"),
        CheckConstraint("expires_at > created_at", name="expires_at"),
        CheckConstraint("(scheduler IS NULL) = (scheduler_job IS NULL)", name="scheduler_job"),
        Index(None, "cluster_id", "created_at", "id"),
        Index(None, "expires_at"),
        # What counts as used whenever somebody asks the cluster.
        Index(
            "ix_reservations_unreleased",
            "cluster_id",
            "expires_at",
            postgresql_where=text("released_at IS NULL"),
        ),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    cluster_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("clusters.id", ondelete="CASCADE"))
    holder: Mapped[str]
    shares: Mapped[list[Json]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    expires_at: Mapped[datetime]
    released_at: Mapped[datetime | None]
    scheduler: Mapped[str | None]
    scheduler_job: Mapped[str | None]
    created_by: Mapped[str | None]
    """Name of the key that made it; null where it is older than owners."""
    created_by_key: Mapped[str | None]
    """Id of that key, or the subject of a token; null where nobody needed one."""
