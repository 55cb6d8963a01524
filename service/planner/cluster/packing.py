"""Packing of jobs onto nodes.

Fewest nodes first, of those the fullest that suffice, the cheapest pool before others.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import inf

from service.planner.cluster.assignments import Assignment, Placement, PlacementRequest
from service.planner.cluster.inventory import Pool
from service.planner.cluster.node_capacity import (
    NodeCapacity,
    count_nodes_per_island,
    list_node_capacities,
)
from service.planner.cluster.proximity import list_distance_notes, pop_near_nodes
from service.planner.cluster.supply import PoolSupply, Supply


def find_placement(supply: Supply, request: PlacementRequest) -> Placement | None:
    """Return where the job runs now, or None without room.

    All of it must have room.

    One replica has equally many GPUs on each of its nodes, as launchers want it, and never more
    than one SKU. Nodes of several pools are taken together only where no single pool suffices, and
    only of pools of the same kind.
    """
    assignments: list[Assignment] = []
    for sku in request.gpus:
        pools = sorted((pool for pool in supply.pools if pool.pool.gpu == sku), key=_get_price)
        missing = range(_count_replicas(assignments), request.num_replicas)
        assignments += (
            _assign_slices(pools, request, missing)
            if request.mig_profile
            else _assign_gpus(pools, request, missing)
        )
        if _count_replicas(assignments) == request.num_replicas:
            return _build_placement(tuple(assignments), supply, request)
    return None


def list_gpus_per_node(pool: Pool, request: PlacementRequest) -> tuple[int, ...]:
    """Return the possible GPUs per node of a replica, most first.

    No group may leave its NVLink island.
    """
    per_replica, group = request.gpus_per_replica, request.island_group
    max_gpus = min(pool.gpus_per_node, per_replica)
    if group > pool.island_size:
        return ()
    return tuple(
        per_node
        for per_node in range(max_gpus, 0, -1)
        if per_replica % per_node == 0 and _keeps_groups(pool, group, per_node)
    )


def _keeps_groups(pool: Pool, group: int, per_node: int) -> bool:
    """Return whether groups stay on nodes or within an island.

    Whole groups fit on a node, or whole nodes make up a group inside an island of several nodes.
    """
    return per_node % group == 0 or (
        group % per_node == 0 and group // per_node <= count_nodes_per_island(pool)
    )


def _assign_gpus(
    pools: Sequence[PoolSupply], request: PlacementRequest, replicas: range
) -> list[Assignment]:
    if sum(pool.free_gpus for pool in pools) < request.gpus_per_replica:
        return []
    nodes_by_pool = {pool.pool.name: list_node_capacities([pool]) for pool in pools}
    assignments: list[Assignment] = []
    for per_node in sorted(
        {
            gpus_per_node
            for pool in pools
            for gpus_per_node in list_gpus_per_node(pool.pool, request)
        },
        reverse=True,
    ):
        for scope in _iter_scopes(
            [pool.pool for pool in pools if per_node in list_gpus_per_node(pool.pool, request)]
        ):
            missing = replicas[_count_replicas(assignments) :]
            if not missing:
                return assignments
            assignments += _fill_nodes(
                [node for pool in scope for node in nodes_by_pool[pool.name]],
                per_node,
                request,
                missing,
            )
    return assignments


def _iter_scopes(pools: Sequence[Pool]) -> Iterator[Sequence[Pool]]:
    """Yield each pool alone, then those of one kind together."""
    yield from ([pool] for pool in pools)
    kinds = groupby(sorted(pools, key=_get_kind), key=_get_kind)
    yield from (together for together in (list(group) for _, group in kinds) if len(together) > 1)


def _get_kind(pool: Pool) -> tuple[int, int]:
    return pool.gpus_per_node, pool.island_size


def _fill_nodes(
    nodes: Sequence[NodeCapacity], per_node: int, request: PlacementRequest, replicas: range
) -> list[Assignment]:
    """Assign as many replicas as have room.

    Each has so many GPUs per node.
    """
    if per_node == request.gpus_per_replica:
        capacities = [
            (node.count_available_gpus(request, per_node) // per_node, node.free, node)
            for node in nodes
        ]
        chosen = _choose_fewest(capacities, len(replicas))
        return [
            node.take(per_node, request, replica)
            for replica, node in zip(replicas, chosen, strict=False)
        ]
    assignments: list[Assignment] = []
    islands = _group_by_island(
        [node for node in nodes if node.count_available_gpus(request, per_node) >= per_node]
    )
    for replica in replicas:
        chosen = _take_across(
            islands, request.gpus_per_replica // per_node, max(request.island_group // per_node, 1)
        )
        if not chosen:
            return assignments
        assignments += [node.take(per_node, request, replica) for node in chosen]
    return assignments


def _choose_fewest(
    capacities: Sequence[tuple[int, int, NodeCapacity]], count: int
) -> list[NodeCapacity]:
    """Choose a node for each of so many equal jobs.

    For as many as fit: full nodes first, the last on the fullest.
    """
    candidates = sorted((entry for entry in capacities if entry[0]), key=lambda entry: entry[:2])
    chosen: list[NodeCapacity] = []
    while candidates and len(chosen) < count:
        enough = bisect_left(candidates, count - len(chosen), key=lambda entry: entry[0])
        capacity, _, node = candidates.pop(enough if enough < len(candidates) else -1)
        chosen += [node] * min(capacity, count - len(chosen))
    return chosen


def _group_by_island(nodes: Sequence[NodeCapacity]) -> list[list[NodeCapacity]]:
    """Group nodes that reach each other over NVLink.

    Else all of them are one group; each list has the fullest node first.
    """
    islands: dict[object, list[NodeCapacity]] = {}
    for node in nodes:
        span = count_nodes_per_island(node.pool)
        islands.setdefault(
            (node.pool.name, node.position // span) if span > 1 else None, []
        ).append(node)
    # Nodes are popped from the end.
    return [
        sorted(island, key=lambda node: (node.free, node.position), reverse=True)
        for island in islands.values()
    ]


def _take_across(
    islands: list[list[NodeCapacity]], num_nodes: int, group_nodes: int
) -> list[NodeCapacity]:
    """Take nodes from the fullest sufficient island.

    Else they come from as few islands as possible; nothing when there are too few.
    """
    enough = [island for island in islands if len(island) >= num_nodes]
    if enough:
        return pop_near_nodes(min(enough, key=len), num_nodes)
    if sum(len(island) // group_nodes * group_nodes for island in islands) < num_nodes:
        return []
    chosen: list[NodeCapacity] = []
    for island in sorted(islands, key=len, reverse=True):
        chosen += _pop_nodes(
            island, min(len(island), num_nodes - len(chosen)) // group_nodes * group_nodes
        )
    return chosen


def _pop_nodes(island: list[NodeCapacity], num_nodes: int) -> list[NodeCapacity]:
    return [island.pop() for _ in range(num_nodes)]


def _assign_slices(
    pools: Sequence[PoolSupply], request: PlacementRequest, replicas: range
) -> list[Assignment]:
    chosen = _choose_fewest(
        [(node.count_slices(request), node.free, node) for node in list_node_capacities(pools)],
        len(replicas),
    )
    return [
        node.take_slice(request, replica) for replica, node in zip(replicas, chosen, strict=False)
    ]


def _build_placement(
    assignments: tuple[Assignment, ...], supply: Supply, request: PlacementRequest
) -> Placement:
    pools = {pool.pool.name: pool.pool for pool in supply.pools}
    used = [
        pools[name] for name in dict.fromkeys(assignment.share.pool for assignment in assignments)
    ]
    counts = {assignment.share.num_gpus for assignment in assignments}
    return Placement(
        assignments=assignments,
        gpus_per_node=counts.pop() if len(counts) == 1 else None,
        cost_per_hour=None if request.mig_profile else _compute_cost_per_hour(assignments, pools),
        notes=tuple(_iter_notes(used, assignments, request)),
    )


def _compute_cost_per_hour(
    assignments: Sequence[Assignment], pools: dict[str, Pool]
) -> float | None:
    cost = 0.0
    for assignment in assignments:
        price = pools[assignment.share.pool].price_per_gpu_hour
        if price is None:
            return None
        cost += price * assignment.share.num_gpus
    return cost


def _iter_notes(
    used: Sequence[Pool], assignments: Sequence[Assignment], request: PlacementRequest
) -> Iterator[str]:
    silent = [pool.name for pool in used if pool.host_memory_bytes is None]
    if request.host_bytes_per_gpu and silent:
        yield (
            f"the host memory of {' and '.join(silent)} is not known, so that offload was not held "
            "against it"
        )
    if _spans_pools(assignments):
        yield (
            f"it spans the pools {' and '.join(pool.name for pool in used)}, which must reach each "
            "other over the network"
        )
    yield from list_distance_notes(used, assignments)
    per_node = max(assignment.share.num_gpus for assignment in assignments)
    max_gpus = min(request.gpus_per_replica, *(pool.gpus_per_node for pool in used))
    if per_node < max_gpus:
        yield (
            f"it has {per_node} GPUs per node where {max_gpus} would do on fewer nodes: more of "
            "its traffic crosses the network"
        )


def _spans_pools(assignments: Sequence[Assignment]) -> bool:
    pools_by_replica: dict[int, set[str]] = {}
    for assignment in assignments:
        pools_by_replica.setdefault(assignment.replica, set()).add(assignment.share.pool)
    return any(len(pools) > 1 for pools in pools_by_replica.values())


def _count_replicas(assignments: Sequence[Assignment]) -> int:
    return len({assignment.replica for assignment in assignments})


def _get_price(pool: PoolSupply) -> float:
    return inf if pool.pool.price_per_gpu_hour is None else pool.pool.price_per_gpu_hour
