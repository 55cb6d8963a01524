"""The nodes of a cluster while a job is being placed: what each can still take, in whole groups that share an island."""

from collections.abc import Iterable, Sequence

from service.planner.cluster.assignments import Ask, Seat
from service.planner.cluster.inventory import Pool
from service.planner.cluster.reservation import Share
from service.planner.cluster.supply import NodeSupply, PoolSupply


class Room:
    """One node of one pool; ``position`` counts the nodes of the pool."""

    __slots__ = ("_free_host_bytes", "_islands", "free", "node", "pool", "position")

    def __init__(self, pool: Pool, node: NodeSupply, position: int) -> None:
        """Take a node as it stands."""
        self.pool, self.node, self.position = pool, node, position
        self.free = node.free_gpus
        self._free_host_bytes = node.free_host_bytes
        self._islands = _free_by_island(pool, node)

    def capacity(self, ask: Ask, per_node: int) -> int:
        """Return how many GPUs can be taken in whole groups, each inside one island and with its host memory.

        Of a group that spans nodes, each node holds ``per_node``.
        """
        group = min(ask.island_group, per_node)
        groups = self._groups(group)
        if ask.host_bytes_per_gpu and self._free_host_bytes is not None:
            groups = min(groups, self._free_host_bytes // (ask.host_bytes_per_gpu * group))
        return groups * group

    def slices(self, ask: Ask) -> int:
        """Return how many slices of the profile can be taken with their host memory."""
        free = self.node.free_slices.get(ask.mig_profile or "", 0)
        if ask.host_bytes_per_gpu and self._free_host_bytes is not None:
            return min(free, self._free_host_bytes // ask.host_bytes_per_gpu)
        return free

    def take(self, num_gpus: int, ask: Ask, replica: int) -> Seat:
        """Give GPUs to a replica: by index where it is known which are free."""
        indices = None if self._islands is None else self._take_indices(num_gpus, min(ask.island_group, num_gpus))
        self.free -= num_gpus
        return self._seat(num_gpus, ask, replica, indices)

    def take_slice(self, ask: Ask, replica: int) -> Seat:
        """Give a slice to a replica."""
        return self._seat(1, ask, replica, None)

    def _seat(self, num_gpus: int, ask: Ask, replica: int, indices: tuple[int, ...] | None) -> Seat:
        host_bytes = ask.host_bytes_per_gpu * num_gpus
        if self._free_host_bytes is not None:
            self._free_host_bytes -= host_bytes
        share = Share(
            pool=self.pool.name,
            node=self.node.name,
            num_gpus=num_gpus,
            gpu_indices=indices,
            mig_profile=ask.mig_profile,
            host_memory_bytes=host_bytes,
        )
        return Seat(replica=replica, gpu=self.pool.gpu, share=share)

    def _groups(self, group: int) -> int:
        if self._islands is not None:
            return sum(len(island) // group for island in self._islands)
        return _certain_groups(self.pool, group, taken=self.pool.gpus_per_node - self.free)

    def _take_indices(self, num_gpus: int, group: int) -> tuple[int, ...]:
        """Take from the fullest island that holds all of it, else whole groups from the emptiest ones on."""
        islands = self._islands or []
        enough = [island for island in islands if len(island) >= num_gpus]
        if enough:
            return tuple(_pop(min(enough, key=len), num_gpus))
        taken: list[int] = []
        for island in sorted(islands, key=len, reverse=True):
            taken += _pop(island, min(len(island), num_gpus - len(taken)) // group * group)
        return tuple(taken)


def rooms_of(pools: Iterable[PoolSupply]) -> list[Room]:
    """Return the nodes of some pools."""
    return [Room(pool.pool, node, position) for pool in pools for position, node in enumerate(pool.nodes)]


def nodes_per_island(pool: Pool) -> int:
    """Return how many nodes one island spans: one unless a rack is an island."""
    return max(pool.island_size // pool.gpus_per_node, 1)


def _free_by_island(pool: Pool, node: NodeSupply) -> list[list[int]] | None:
    if not node.is_known:
        return None
    size = min(pool.island_size, pool.gpus_per_node)
    starts = range(0, pool.gpus_per_node, size)
    return [[index for index in range(start, start + size) if index not in node.named_indices] for start in starts]


def _certain_groups(pool: Pool, group: int, *, taken: int) -> int:
    """Return how many groups are free whichever ``taken`` GPUs are taken.

    The worst case: of every island the first group costs what the island has beyond whole groups and one GPU more, each
    further group all of its GPUs.
    """
    size = min(pool.island_size, pool.gpus_per_node)
    islands, per_island, first_cost = pool.gpus_per_node // size, size // group, size % group + 1
    total = islands * per_island
    first = min(islands, taken // first_cost)
    more = (taken - first * first_cost) // group
    return max(total - first - more, 0)


def _pop(island: list[int], num_gpus: int) -> Sequence[int]:
    taken = island[:num_gpus]
    del island[:num_gpus]
    return taken
