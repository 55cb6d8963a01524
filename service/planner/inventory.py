"""A cluster as it stands: pools of equal nodes, and what others already hold on them."""

import math
from dataclasses import dataclass
from enum import StrEnum

from service.estimator.errors import InvalidInputError

MAX_GPUS_PER_NODE = 256
MAX_NODES_PER_POOL = 100_000


class NodeState(StrEnum):
    """Whether new work may be placed on a node."""

    READY = "ready"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node by name; others hold ``allocated_gpus`` of its GPUs."""

    name: str
    allocated_gpus: int = 0
    state: NodeState = NodeState.READY

    def __post_init__(self) -> None:
        """Refuse a negative number of GPUs."""
        if self.allocated_gpus < 0:
            message = f"node {self.name!r} has allocated_gpus {self.allocated_gpus}; it must be 0 or more"
            raise InvalidInputError(message, field="allocated_gpus")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes of one kind, either counted (``num_nodes``, all free) or named (``nodes``); price in USD.

    ``nvlink_island_size`` is how many GPUs reach each other over NVLink: those of one node when it is absent, more where a
    rack is one island.
    """

    name: str
    gpu: str
    gpus_per_node: int
    nodes: tuple[Node, ...] | None = None
    num_nodes: int | None = None
    nvlink_island_size: int | None = None
    host_memory_bytes: int | None = None
    network_bytes_per_second: int | None = None
    price_per_gpu_hour: float | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that no node can have and a pool that does not say its nodes exactly once."""
        self._between("gpus_per_node", self.gpus_per_node, 1, MAX_GPUS_PER_NODE)
        if self.num_nodes is not None:
            self._between("num_nodes", self.num_nodes, 0, MAX_NODES_PER_POOL)
        for name in ("host_memory_bytes", "network_bytes_per_second", "price_per_gpu_hour"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                self._refuse(name, f"has {name} {value}; it must be 0 or more")
        if (self.nodes is None) == (self.num_nodes is None):
            self._refuse("nodes", 'must say its nodes once: either "nodes" by name or "num_nodes"')
        self._check_island()
        self._check_nodes()

    @property
    def total_gpus(self) -> int:
        """GPUs of all nodes, drained ones too."""
        return self.gpus_per_node * (len(self.nodes) if self.nodes is not None else self.num_nodes or 0)

    @property
    def free_gpus(self) -> int:
        """GPUs that nobody holds, on nodes that take work."""
        if self.nodes is None:
            return self.total_gpus
        return sum(self.gpus_per_node - node.allocated_gpus for node in self.nodes if node.state is NodeState.READY)

    def _check_island(self) -> None:
        if self.nvlink_island_size is None:
            return
        smaller, larger = sorted((self.nvlink_island_size, self.gpus_per_node))
        if smaller < 1 or larger % smaller:
            reason = f"has nvlink_island_size {self.nvlink_island_size} and gpus_per_node {self.gpus_per_node}"
            self._refuse("nvlink_island_size", f"{reason}; one must be a multiple of the other")

    def _check_nodes(self) -> None:
        if self.nodes is None:
            return
        self._between("nodes", len(self.nodes), 0, MAX_NODES_PER_POOL)
        repeated = _first_repeated(tuple(node.name for node in self.nodes))
        if repeated is not None:
            self._refuse("nodes", f"names node {repeated!r} twice")
        for node in self.nodes:
            if node.allocated_gpus > self.gpus_per_node:
                reason = f"has {self.gpus_per_node} GPUs per node, but {node.allocated_gpus} are allocated on {node.name!r}"
                self._refuse("nodes", reason)

    def _between(self, name: str, value: int, low: int, high: int) -> None:
        if not low <= value <= high:
            self._refuse(name, f"has {name} {value}; it must lie between {low} and {high}")

    def _refuse(self, field: str, reason: str) -> None:
        message = f"pool {self.name!r} {reason}"
        raise InvalidInputError(message, field=field)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInventory:
    """The pools of one cluster, in the order in which they were given."""

    pools: tuple[Pool, ...]

    def __post_init__(self) -> None:
        """Refuse two pools of one name."""
        repeated = _first_repeated(tuple(pool.name for pool in self.pools))
        if repeated is not None:
            message = f"two pools are named {repeated!r}"
            raise InvalidInputError(message, field="pools")


def _first_repeated(names: tuple[str, ...]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
