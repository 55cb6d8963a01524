"""Cluster inventory: pools of equal nodes, and their allocations.

Allocations are what others already hold.
"""

import math
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from service.estimator.values.errors import InvalidInputError

MAX_GPUS_PER_NODE = 256
MAX_NODES_PER_POOL = 100_000


class NodeState(StrEnum):
    """Scheduling state of a node."""

    READY = "ready"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """GPUs of one holder on a node, outside of this service.

    ``gpu_indices`` is None where they are unknown.
    """

    holder: str
    num_gpus: int
    gpu_indices: tuple[int, ...] | None = None
    host_memory_bytes: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers below zero and indices that are not one per GPU."""
        for name in ("num_gpus", "host_memory_bytes"):
            if getattr(self, name) < 0:
                message = (
                    f"{self.holder!r} holds {name} {getattr(self, name)}; it must be 0 or more"
                )
                raise InvalidInputError(message, field="allocations")
        if self.gpu_indices is not None and len(set(self.gpu_indices)) != self.num_gpus:
            message = (
                f"{self.holder!r} holds {self.num_gpus} GPUs, but gpu_indices names "
                f"{list(self.gpu_indices)}"
            )
            raise InvalidInputError(message, field="allocations")


@dataclass(frozen=True, slots=True, kw_only=True)
class MigSlices:
    """MIG slices of one profile on a node.

    Others hold ``allocated`` of them.
    """

    profile: str
    total: int
    allocated: int = 0

    def __post_init__(self) -> None:
        """Refuse more allocated slices than there are."""
        if not 0 <= self.allocated <= self.total:
            message = f"{self.allocated} of {self.total} slices {self.profile!r} are allocated"
            raise InvalidInputError(message, field="mig_slices")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A named node with its allocations.

    Others hold ``allocated_gpus`` of its GPUs, and ``allocations`` says who, as far as it is known.

    ``mig_gpus`` of its GPUs are cut into ``mig_slices`` and serve as those alone.

    ``levels`` are its places in the network under the names of its pool, outermost first, or none.
    ``source`` is the tool that showed it at ``observed_at``, None where somebody typed it.
    """

    name: str
    allocated_gpus: int = 0
    state: NodeState = NodeState.READY
    allocations: tuple[Allocation, ...] = ()
    mig_gpus: int = 0
    mig_slices: tuple[MigSlices, ...] = ()
    levels: tuple[str, ...] = ()
    source: str | None = None
    observed_at: datetime | None = None
    unavailable: str | None = None
    """Why it takes no work, as its source says it."""

    def __post_init__(self) -> None:
        """Refuse inconsistent numbers.

        Numbers below zero, more GPUs held by name than are held, and an index or a profile that
        comes twice.
        """
        for name in ("allocated_gpus", "mig_gpus"):
            if getattr(self, name) < 0:
                self._refuse(name, f"has {name} {getattr(self, name)}; it must be 0 or more")
        num_allocated = sum(allocation.num_gpus for allocation in self.allocations)
        if num_allocated > self.allocated_gpus:
            self._refuse(
                "allocated_gpus",
                f"has allocated_gpus {self.allocated_gpus}, but its allocations add up to "
                f"{num_allocated}",
            )
        indices = [
            index for allocation in self.allocations for index in allocation.gpu_indices or ()
        ]
        if len(set(indices)) != len(indices):
            self._refuse("allocations", "has one GPU index in two allocations")
        if _find_duplicate(tuple(slices.profile for slices in self.mig_slices)) is not None:
            self._refuse("mig_slices", "names one MIG profile twice")
        if self.mig_slices and not self.mig_gpus:
            self._refuse("mig_gpus", "has MIG slices, but mig_gpus is 0")

    def _refuse(self, field: str, reason: str) -> None:
        message = f"node {self.name!r} {reason}"
        raise InvalidInputError(message, field=field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes of one kind, counted or named.

    Counted nodes (``num_nodes``) are all free; named ones are ``nodes``; the price is in USD.

    ``nvlink_island_size`` is how many GPUs reach each other over NVLink: those of one node when it
    is absent, more where a rack is one island; such islands are made of nodes that follow each
    other. Counted nodes are called ``<pool>-1``, ``<pool>-2`` and so on.

    ``gpu_memory_bytes`` is what a process can allocate on a GPU that the catalogue does not have, 0
    where nobody knows it, and None for a GPU of the catalogue. ``gpu_replicas`` pods share each GPU
    in time, and nothing keeps them out of each other's memory. ``level_names`` are the network's
    levels, outermost first.
    """

    name: str
    gpu: str
    gpus_per_node: int
    nodes: tuple[Node, ...] | None = None
    num_nodes: int | None = None
    nvlink_island_size: int | None = None
    host_memory_bytes: int | None = None
    nvme_bytes: int | None = None
    network_bytes_per_second: int | None = None
    price_per_gpu_hour: float | None = None
    gpu_memory_bytes: int | None = None
    gpu_replicas: int | None = None
    level_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse invalid numbers and missing or doubled nodes.

        A pool says its nodes exactly once, and has only numbers that a node can have.
        """
        self._check_range("gpus_per_node", self.gpus_per_node, 1, MAX_GPUS_PER_NODE)
        if self.num_nodes is not None:
            self._check_range("num_nodes", self.num_nodes, 0, MAX_NODES_PER_POOL)
        for name in (
            "host_memory_bytes",
            "nvme_bytes",
            "network_bytes_per_second",
            "price_per_gpu_hour",
            "gpu_memory_bytes",
        ):
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
        return self.gpus_per_node * (
            len(self.nodes) if self.nodes is not None else self.num_nodes or 0
        )

    @property
    def free_gpus(self) -> int:
        """Whole GPUs free on nodes that take work."""
        if self.nodes is None:
            return self.total_gpus
        used_gpus = sum(
            node.allocated_gpus + node.mig_gpus
            for node in self.nodes
            if node.state is NodeState.READY
        )
        return (
            self.gpus_per_node * sum(node.state is NodeState.READY for node in self.nodes)
            - used_gpus
        )

    @property
    def island_size(self) -> int:
        """GPUs that reach each other over NVLink."""
        return self.nvlink_island_size or self.gpus_per_node

    def list_nodes(self) -> tuple[Node, ...]:
        """Return every node by name, counted ones too."""
        if self.nodes is not None:
            return self.nodes
        return tuple(
            Node(name=f"{self.name}-{number}") for number in range(1, (self.num_nodes or 0) + 1)
        )

    def _check_island(self) -> None:
        if self.nvlink_island_size is None:
            return
        smaller, larger = sorted((self.nvlink_island_size, self.gpus_per_node))
        if smaller < 1 or larger % smaller:
            reason = (
                f"has nvlink_island_size {self.nvlink_island_size} and gpus_per_node "
                f"{self.gpus_per_node}"
            )
            self._refuse("nvlink_island_size", f"{reason}; one must be a multiple of the other")

    def _check_nodes(self) -> None:
        if self.nodes is None:
            return
        self._check_range("nodes", len(self.nodes), 0, MAX_NODES_PER_POOL)
        repeated = _find_duplicate(tuple(node.name for node in self.nodes))
        if repeated is not None:
            self._refuse("nodes", f"names node {repeated!r} twice")
        for node in self.nodes:
            self._check_node(node)

    def _check_node(self, node: Node) -> None:
        if node.levels and len(node.levels) != len(self.level_names):
            reason = f"has the levels {list(self.level_names)}, but {node.name!r} has"
            self._refuse("nodes", f"{reason} {list(node.levels)}")
        has = f"has {self.gpus_per_node} GPUs per node, but"
        if node.allocated_gpus > self.gpus_per_node:
            self._refuse("nodes", f"{has} {node.allocated_gpus} are allocated on {node.name!r}")
        if node.allocated_gpus + node.mig_gpus > self.gpus_per_node:
            self._refuse(
                "nodes",
                f"{has} {node.allocated_gpus} are allocated and {node.mig_gpus} cut by MIG on "
                f"{node.name!r}",
            )
        indices = [
            index for allocation in node.allocations for index in allocation.gpu_indices or ()
        ]
        strange = next((index for index in indices if not 0 <= index < self.gpus_per_node), None)
        if strange is not None:
            self._refuse("nodes", f"{has} {node.name!r} has a GPU index {strange}")

    def _check_range(self, name: str, value: int, low: int, high: int) -> None:
        if not low <= value <= high:
            self._refuse(name, f"has {name} {value}; it must lie between {low} and {high}")

    def _refuse(self, field: str, reason: str) -> None:
        message = f"pool {self.name!r} {reason}"
        raise InvalidInputError(message, field=field)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInventory:
    """The pools of one cluster, in their original order."""

    pools: tuple[Pool, ...]

    def __post_init__(self) -> None:
        """Refuse two pools of one name."""
        repeated = _find_duplicate(tuple(pool.name for pool in self.pools))
        if repeated is not None:
            message = f"two pools are named {repeated!r}"
            raise InvalidInputError(message, field="pools")


def _find_duplicate(names: tuple[str, ...]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
