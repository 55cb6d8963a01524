"""Statements about clusters."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from uuid import UUID

from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, selectinload

from service.db.pages import Page, PageRequest, make_page, paginate
from service.db.queries.reservations import list_live_by_cluster
from service.db.records.cluster_rows import NodeColumns, build_cluster, group_nodes, make_cluster
from service.db.records.stored import StoredCluster, format_cluster_etag
from service.db.tables.clusters import ClusterNodeRow, ClusterPoolRow, ClusterRow
from service.planner.cluster.inventory import (
    Allocation,
    ClusterInventory,
    Node,
    Pool,
)

LIST = "clusters"


def create_cluster(session: Session, name: str, inventory: ClusterInventory) -> bool:
    """Store a cluster; return False when the name is taken.

    It may be taken by a transaction that is under way right now.
    """
    statement = (
        insert(ClusterRow)
        .values(name=name, version=1)
        .on_conflict_do_nothing()
        .returning(ClusterRow.id)
    )
    cluster_id = session.scalars(statement).one_or_none()
    if cluster_id is None:
        return False
    _insert_pools(session, cluster_id, inventory)
    return True


def read_cluster(session: Session, name: str, *, lock: bool = False) -> StoredCluster | None:
    """Return a cluster.

    With ``lock`` nobody else changes it or reserves of it before this transaction ends.
    """
    statement = _select_clusters().where(ClusterRow.name == name)
    row = session.scalars(statement.with_for_update() if lock else statement).one_or_none()
    return None if row is None else _load_clusters(session, [row])[row.id]


def fetch_cluster(session: Session, name: str) -> Callable[[], StoredCluster] | None:
    """Return what builds a cluster of rows that have been read.

    It needs the session no more: ten thousand nodes take a tenth of a second of a processor, which
    keeps no database waiting, nor waits for one.
    """
    row = session.scalars(_select_clusters().where(ClusterRow.name == name)).one_or_none()
    if row is None:
        return None
    nodes = _fetch_nodes(session, [pool.id for pool in row.pools])
    live = list_live_by_cluster(session, [row.id])
    return partial(build_cluster, row, nodes, live)


def read_etag(session: Session, name: str) -> str | None:
    """Return the version of a cluster, without its inventory."""
    statement = select(ClusterRow.id, ClusterRow.version).where(ClusterRow.name == name)
    row = session.execute(statement).one_or_none()
    return None if row is None else format_cluster_etag(row.id, row.version)


def replace_inventory(session: Session, cluster_id: UUID, inventory: ClusterInventory) -> None:
    """Replace all pools of a cluster and increment its version."""
    session.execute(delete(ClusterPoolRow).where(ClusterPoolRow.cluster_id == cluster_id))
    _insert_pools(session, cluster_id, inventory)
    change = {ClusterRow.version: ClusterRow.version + 1, ClusterRow.updated_at: func.now()}
    session.execute(update(ClusterRow).where(ClusterRow.id == cluster_id).values(change))


def touch_nodes(
    session: Session, cluster_id: UUID, names: Sequence[str], *, source: str, moment: datetime
) -> None:
    """Record that nodes were seen again as they are.

    It is no replacement: the version stays, so that nobody's If-Match is lost to it.
    """
    pools = select(ClusterPoolRow.id).where(ClusterPoolRow.cluster_id == cluster_id)
    session.execute(
        update(ClusterNodeRow)
        .where(ClusterNodeRow.pool_id.in_(pools), ClusterNodeRow.name.in_(names))
        .values(source=source, observed_at=moment)
    )


def delete_cluster(session: Session, cluster_id: UUID) -> None:
    """Remove a cluster with its pools and nodes."""
    session.execute(delete(ClusterRow).where(ClusterRow.id == cluster_id))


def list_clusters(session: Session, request: PageRequest) -> Page[StoredCluster]:
    """Return a page of clusters, newest first."""
    statement = paginate(
        _select_clusters(),
        request,
        list_name=LIST,
        created_at=ClusterRow.created_at,
        row_id=ClusterRow.id,
    )
    rows = session.scalars(statement).all()
    values = _load_clusters(session, rows)
    return make_page(
        rows,
        request,
        list_name=LIST,
        position=lambda row: (row.created_at, row.id),
        value=lambda row: values[row.id],
    )


def _select_clusters() -> Select[ClusterRow]:
    # Rows of an earlier statement of this session would hide what was changed since.
    return (
        select(ClusterRow)
        .options(selectinload(ClusterRow.pools))
        .execution_options(populate_existing=True)
    )


def _insert_pools(session: Session, cluster_id: UUID, inventory: ClusterInventory) -> None:
    """Insert pools, then their nodes.

    Nodes go as plain rows: as objects ten thousand of them take twice as long.
    """
    rows = [
        _make_pool_row(cluster_id, position, pool) for position, pool in enumerate(inventory.pools)
    ]
    session.add_all(rows)
    session.flush()
    nodes = [
        _make_node_row(row.id, number, node)
        for row, pool in zip(rows, inventory.pools, strict=True)
        for number, node in enumerate(pool.nodes or ())
    ]
    if nodes:
        session.execute(insert(ClusterNodeRow), nodes)


def _make_pool_row(cluster_id: UUID, position: int, pool: Pool) -> ClusterPoolRow:
    return ClusterPoolRow(
        cluster_id=cluster_id,
        position=position,
        name=pool.name,
        gpu=pool.gpu,
        gpus_per_node=pool.gpus_per_node,
        nvlink_island_size=pool.nvlink_island_size,
        host_memory_bytes=pool.host_memory_bytes,
        nvme_bytes=pool.nvme_bytes,
        network_bytes_per_second=pool.network_bytes_per_second,
        price_per_gpu_hour=pool.price_per_gpu_hour,
        num_nodes=pool.num_nodes,
        gpu_memory_bytes=pool.gpu_memory_bytes,
        gpu_replicas=pool.gpu_replicas,
        level_names=list(pool.level_names),
    )


def _make_node_row(pool_id: UUID, position: int, node: Node) -> dict[str, object]:
    return {
        "pool_id": pool_id,
        "position": position,
        "name": node.name,
        "allocated_gpus": node.allocated_gpus,
        "state": node.state.value,
        "allocations": [_make_allocation(part) for part in node.allocations],
        "mig_gpus": node.mig_gpus,
        "mig_slices": [asdict(slices) for slices in node.mig_slices],
        "source": node.source,
        "observed_at": node.observed_at,
        "unavailable": node.unavailable,
        "levels": list(node.levels),
    }


def _make_allocation(allocation: Allocation) -> dict[str, object]:
    indices = allocation.gpu_indices
    return {
        "holder": allocation.holder,
        "num_gpus": allocation.num_gpus,
        "gpu_indices": None if indices is None else list(indices),
        "host_memory_bytes": allocation.host_memory_bytes,
    }


def _load_clusters(session: Session, rows: Sequence[ClusterRow]) -> dict[UUID, StoredCluster]:
    nodes = _fetch_nodes(session, [pool.id for row in rows for pool in row.pools])
    live = list_live_by_cluster(session, [row.id for row in rows])
    by_pool = group_nodes(nodes)
    return {row.id: make_cluster(row, by_pool, live) for row in rows}


def _fetch_nodes(session: Session, pool_ids: Sequence[UUID]) -> Sequence[NodeColumns]:
    """Return the nodes of some pools, in order.

    They are read as columns, because thousands of rows as objects would take most of an answer's
    time.
    """
    statement = select(
        ClusterNodeRow.pool_id,
        ClusterNodeRow.name,
        ClusterNodeRow.allocated_gpus,
        ClusterNodeRow.state,
        ClusterNodeRow.allocations,
        ClusterNodeRow.mig_gpus,
        ClusterNodeRow.mig_slices,
        ClusterNodeRow.source,
        ClusterNodeRow.observed_at,
        ClusterNodeRow.unavailable,
        ClusterNodeRow.levels,
    ).where(ClusterNodeRow.pool_id.in_(pool_ids))
    return session.execute(
        statement.order_by(ClusterNodeRow.pool_id, ClusterNodeRow.position)
    ).all()
