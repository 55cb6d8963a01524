"""Nodes near each other in the network, by their levels."""

from collections.abc import Iterator, Sequence

from service.planner.cluster.assignments import Assignment
from service.planner.cluster.inventory import Pool
from service.planner.cluster.node_capacity import NodeCapacity


def pop_near_nodes(nodes: list[NodeCapacity], num_nodes: int) -> list[NodeCapacity]:
    """Take nodes from a list's end, near each other if possible.

    They come from the smallest part of the innermost level that has enough of them; from anywhere
    where no part has, or nobody knows the levels.
    """
    group = _find_group(nodes, num_nodes) if num_nodes > 1 else None
    if group is None:
        return [nodes.pop() for _ in range(num_nodes)]
    chosen = group[-1 : -num_nodes - 1 : -1]
    picked = {id(node) for node in chosen}
    nodes[:] = [node for node in nodes if id(node) not in picked]
    return chosen


def list_distance_notes(pools: Sequence[Pool], assignments: Sequence[Assignment]) -> Iterator[str]:
    """Yield how far apart the nodes of a replica are."""
    names = {assignment.share.node for assignment in assignments}
    levels = {
        (pool.name, node.name): node.levels
        for pool in pools
        if pool.level_names
        for node in pool.nodes or ()
        if node.name in names
    }
    places: dict[int, set[tuple[str, ...]]] = {}
    for assignment in assignments:
        place = levels.get((assignment.share.pool, assignment.share.node))
        if place:
            places.setdefault(assignment.replica, set()).add(place)
    most = max((len(group) for group in places.values()), default=0)
    if most > 1:
        level = next(pool.level_names[-1] for pool in pools if pool.level_names)
        yield f"the nodes of one replica are in {most} different places of {level}"


def _find_group(nodes: Sequence[NodeCapacity], num_nodes: int) -> list[NodeCapacity] | None:
    depth = max((len(node.node.levels) for node in nodes), default=0)
    for length in range(depth, 0, -1):
        groups: dict[tuple[str, tuple[str, ...]], list[NodeCapacity]] = {}
        for node in nodes:
            if len(node.node.levels) >= length:
                place = node.pool.name, node.node.levels[:length]
                groups.setdefault(place, []).append(node)
        enough = [group for group in groups.values() if len(group) >= num_nodes]
        if enough:
            return min(enough, key=len)
    return None
