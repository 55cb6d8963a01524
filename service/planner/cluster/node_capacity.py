"""Capacity of a cluster's nodes while a job is being placed.

GPUs are counted in whole groups that share an island.
"""

from collections.abc import Iterable, Sequence

from service.planner.cluster.assignments import Assignment, PlacementRequest
from service.planner.cluster.inventory import Pool
from service.planner.cluster.node_supply import NodeSupply
from service.planner.cluster.reservation import Share
from service.planner.cluster.supply import PoolSupply


class NodeCapacity:
    """Capacity of one node of one pool.

    ``position`` counts the nodes of the pool.
    """

    __slots__ = ("_free_host_bytes", "_islands", "free", "node", "pool", "position")

    def __init__(self, pool: Pool, node: NodeSupply, position: int) -> None:
        """Start with the node's current supply."""
        self.pool, self.node, self.position = pool, node, position
        self.free = node.free_gpus
        self._free_host_bytes = node.free_host_bytes
        self._islands = _list_free_by_island(pool, node)

    def count_available_gpus(self, request: PlacementRequest, per_node: int) -> int:
        """Return how many GPUs can be taken in whole groups.

        Each group is inside one island and has its host memory.

        Of a group that spans nodes, each node holds ``per_node``.
        """
        group = min(request.island_group, per_node)
        groups = self._count_groups(group)
        if request.host_bytes_per_gpu and self._free_host_bytes is not None:
            groups = min(groups, self._free_host_bytes // (request.host_bytes_per_gpu * group))
        return groups * group

    def count_slices(self, request: PlacementRequest) -> int:
        """Return the available slices of the profile.

        Each needs its host memory.
        """
        free = self.node.free_slices.get(request.mig_profile or "", 0)
        if request.host_bytes_per_gpu and self._free_host_bytes is not None:
            return min(free, self._free_host_bytes // request.host_bytes_per_gpu)
        return free

    def take(self, num_gpus: int, request: PlacementRequest, replica: int) -> Assignment:
        """Assign GPUs to a replica.

        They are assigned by index where it is known which are free.
        """
        indices = (
            None
            if self._islands is None
            else self._take_indices(num_gpus, min(request.island_group, num_gpus))
        )
        self.free -= num_gpus
        return self._make_assignment(num_gpus, request, replica, indices)

    def take_slice(self, request: PlacementRequest, replica: int) -> Assignment:
        """Assign a slice to a replica."""
        return self._make_assignment(1, request, replica, None)

    def _make_assignment(
        self,
        num_gpus: int,
        request: PlacementRequest,
        replica: int,
        indices: tuple[int, ...] | None,
    ) -> Assignment:
        host_bytes = request.host_bytes_per_gpu * num_gpus
        if self._free_host_bytes is not None:
            self._free_host_bytes -= host_bytes
        share = Share(
            pool=self.pool.name,
            node=self.node.name,
            num_gpus=num_gpus,
            gpu_indices=indices,
            mig_profile=request.mig_profile,
            host_memory_bytes=host_bytes,
        )
        return Assignment(replica=replica, gpu=self.pool.gpu, share=share)

    def _count_groups(self, group: int) -> int:
        if self._islands is not None:
            return sum(len(island) // group for island in self._islands)
        return _count_certain_groups(
            self.pool, group, num_taken=self.pool.gpus_per_node - self.free
        )

    def _take_indices(self, num_gpus: int, group: int) -> tuple[int, ...]:
        """Take GPU indices from the fullest sufficient island.

        Else whole groups from the emptiest islands on.
        """
        islands = self._islands or []
        enough = [island for island in islands if len(island) >= num_gpus]
        if enough:
            return tuple(_pop_gpus(min(enough, key=len), num_gpus))
        indices: list[int] = []
        for island in sorted(islands, key=len, reverse=True):
            indices += _pop_gpus(island, min(len(island), num_gpus - len(indices)) // group * group)
        return tuple(indices)


def list_node_capacities(pools: Iterable[PoolSupply]) -> list[NodeCapacity]:
    """Return the capacities of some pools' nodes."""
    return [
        NodeCapacity(pool.pool, node, position)
        for pool in pools
        for position, node in enumerate(pool.nodes)
    ]


def count_nodes_per_island(pool: Pool) -> int:
    """Return the number of nodes in one island.

    It is one unless a rack is an island.
    """
    return max(pool.island_size // pool.gpus_per_node, 1)


def _list_free_by_island(pool: Pool, node: NodeSupply) -> list[list[int]] | None:
    if not node.is_known:
        return None
    size = min(pool.island_size, pool.gpus_per_node)
    starts = range(0, pool.gpus_per_node, size)
    return [
        [index for index in range(start, start + size) if index not in node.named_indices]
        for start in starts
    ]


def _count_certain_groups(pool: Pool, group: int, *, num_taken: int) -> int:
    """Return the number of free groups in the worst case.

    ``num_taken`` GPUs are taken, whichever they are.

    Of every island the first group costs what the island has beyond whole groups and one GPU more,
    each further group all of its GPUs.
    """
    size = min(pool.island_size, pool.gpus_per_node)
    islands, per_island, first_cost = pool.gpus_per_node // size, size // group, size % group + 1
    total = islands * per_island
    first = min(islands, num_taken // first_cost)
    more = (num_taken - first * first_cost) // group
    return max(total - first - more, 0)


def _pop_gpus(island: list[int], num_gpus: int) -> Sequence[int]:
    popped = island[:num_gpus]
    del island[:num_gpus]
    return popped
