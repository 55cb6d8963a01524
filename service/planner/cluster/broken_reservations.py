"""Promises that a cluster cannot keep: an inventory may be replaced while GPUs of the one before are reserved."""

from collections.abc import Iterable, Iterator, Mapping

from service.planner.cluster.inventory import ClusterInventory, Node, NodeState, Pool
from service.planner.cluster.reservation import Reservation

Place = tuple[str, str]


def unkept(cluster: ClusterInventory, reservations: Iterable[Reservation]) -> Iterator[str]:
    """Yield in words what live reservations hold of a node and the inventory does not have."""
    held: dict[tuple[str, str, str | None], dict[str, int]] = {}
    for reservation in reservations:
        for share in reservation.shares:
            holders = held.setdefault((share.pool, share.node, share.mig_profile), {})
            holders[reservation.holder] = holders.get(reservation.holder, 0) + share.num_gpus
    there = _nodes(cluster, {(pool, node) for pool, node, _ in held}) if held else {}
    for (pool, node, profile), holders in held.items():
        wanted = sum(holders.values())
        what = "GPUs" if profile is None else f"slices of {profile}"
        found = there.get((pool, node))
        has = 0 if found is None else _has(*found, profile)
        if wanted > has:
            why = f"which has {has}" if found is not None else "which is not in the inventory"
            if found is not None and found[1].state is NodeState.DRAINED:
                why = "which takes no new work"
            yield f"reservations of {', '.join(holders)} hold {wanted} {what} of {pool}/{node}, {why}"


def _nodes(cluster: ClusterInventory, wanted: set[Place]) -> Mapping[Place, tuple[Pool, Node]]:
    pools = {pool for pool, _ in wanted}
    return {
        (pool.name, node.name): (pool, node)
        for pool in cluster.pools
        if pool.name in pools
        for node in pool.members()
        if (pool.name, node.name) in wanted
    }


def _has(pool: Pool, node: Node, profile: str | None) -> int:
    if node.state is NodeState.DRAINED:
        return 0
    if profile is None:
        return pool.gpus_per_node - node.mig_gpus
    return sum(slices.total for slices in node.mig_slices if slices.profile == profile)
