"""Rows of clusters as values."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from service.db.records.stored import StoredCluster
from service.db.tables.clusters import ClusterPoolRow, ClusterRow
from service.planner.cluster.inventory import (
    Allocation,
    ClusterInventory,
    MigSlices,
    Node,
    NodeState,
    Pool,
)
from service.planner.cluster.reservation import Reservation

NodeColumns = Row[
    UUID,
    str,
    int,
    str,
    list[dict[str, Any]],
    int,
    list[dict[str, Any]],
    str | None,
    datetime | None,
    str | None,
    list[str],
]


def build_cluster(
    row: ClusterRow,
    nodes: Sequence[NodeColumns],
    live: dict[UUID, tuple[Reservation, ...]],
) -> StoredCluster:
    """Return one cluster of its rows."""
    return make_cluster(row, group_nodes(nodes), live)


def make_cluster(
    row: ClusterRow,
    nodes: dict[UUID, list[Node]],
    live: dict[UUID, tuple[Reservation, ...]],
) -> StoredCluster:
    """Return a cluster, whose nodes are those of its pools' ids."""
    return StoredCluster(
        id=row.id,
        name=row.name,
        version=row.version,
        inventory=ClusterInventory(
            pools=tuple(_to_pool(pool, nodes.get(pool.id, ())) for pool in row.pools)
        ),
        reservations=live.get(row.id, ()),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def group_nodes(rows: Sequence[NodeColumns]) -> dict[UUID, list[Node]]:
    """Return nodes by the id of their pool."""
    by_pool: dict[UUID, list[Node]] = {}
    for row in rows:
        by_pool.setdefault(row.pool_id, []).append(_to_node(row))
    return by_pool


def _to_pool(row: ClusterPoolRow, nodes: Sequence[Node]) -> Pool:
    return Pool(
        name=row.name,
        gpu=row.gpu,
        gpus_per_node=row.gpus_per_node,
        nodes=tuple(nodes) if row.num_nodes is None else None,
        num_nodes=row.num_nodes,
        nvlink_island_size=row.nvlink_island_size,
        host_memory_bytes=row.host_memory_bytes,
        nvme_bytes=row.nvme_bytes,
        network_bytes_per_second=row.network_bytes_per_second,
        price_per_gpu_hour=row.price_per_gpu_hour,
        gpu_memory_bytes=row.gpu_memory_bytes,
        gpu_replicas=row.gpu_replicas,
        level_names=tuple(row.level_names),
    )


def _to_node(row: NodeColumns) -> Node:
    return Node(
        name=row.name,
        allocated_gpus=row.allocated_gpus,
        state=NodeState(row.state),
        allocations=tuple(_to_allocation(raw) for raw in row.allocations),
        mig_gpus=row.mig_gpus,
        mig_slices=tuple(MigSlices(**raw) for raw in row.mig_slices),
        source=row.source,
        observed_at=row.observed_at,
        unavailable=row.unavailable,
        levels=tuple(row.levels),
    )


def _to_allocation(raw: dict[str, Any]) -> Allocation:
    indices = raw["gpu_indices"]
    return Allocation(**raw | {"gpu_indices": None if indices is None else tuple(indices)})
