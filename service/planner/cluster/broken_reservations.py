"""Reservations that a cluster cannot keep.

An inventory may be replaced while GPUs of the one before are reserved.
"""

from collections.abc import Iterable, Iterator, Mapping

from service.planner.cluster.inventory import ClusterInventory, Node, NodeState, Pool
from service.planner.cluster.reservation import Reservation

NodeKey = tuple[str, str]


def list_broken_reservations(
    cluster: ClusterInventory, reservations: Iterable[Reservation]
) -> Iterator[str]:
    """Yield a sentence for each reservation beyond the inventory.

    Live reservations hold of a node what the inventory does not have.
    """
    reserved: dict[tuple[str, str, str | None], dict[str, int]] = {}
    for reservation in reservations:
        for share in reservation.shares:
            holders = reserved.setdefault((share.pool, share.node, share.mig_profile), {})
            holders[reservation.holder] = holders.get(reservation.holder, 0) + share.num_gpus
    nodes = _index_nodes(cluster, {(pool, node) for pool, node, _ in reserved}) if reserved else {}
    for (pool, node, profile), holders in reserved.items():
        num_reserved = sum(holders.values())
        what = "GPUs" if profile is None else f"slices of {profile}"
        entry = nodes.get((pool, node))
        capacity = 0 if entry is None else _count_capacity(*entry, profile)
        if num_reserved > capacity:
            why = f"which has {capacity}" if entry is not None else "which is not in the inventory"
            if entry is not None and entry[1].state is NodeState.DRAINED:
                why = "which takes no new work"
            yield (
                f"reservations of {', '.join(holders)} hold {num_reserved} {what} of "
                f"{pool}/{node}, {why}"
            )


def _index_nodes(
    cluster: ClusterInventory, keys: set[NodeKey]
) -> Mapping[NodeKey, tuple[Pool, Node]]:
    pools = {pool for pool, _ in keys}
    return {
        (pool.name, node.name): (pool, node)
        for pool in cluster.pools
        if pool.name in pools
        for node in pool.list_nodes()
        if (pool.name, node.name) in keys
    }


def _count_capacity(pool: Pool, node: Node, profile: str | None) -> int:
    if node.state is NodeState.DRAINED:
        return 0
    if profile is None:
        return pool.gpus_per_node - node.mig_gpus
    return sum(slices.total for slices in node.mig_slices if slices.profile == profile)
