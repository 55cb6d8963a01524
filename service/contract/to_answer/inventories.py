"""Cluster inventories between the contract and the planner."""

from msgspec import UnsetType

from service.catalog.gpu_entries import GpuEntry
from service.catalog.gpus import resolve_device, resolve_gpu
from service.contract.schemas.clusters import (
    AllocationAnswer,
    AllocationRequest,
    ClusterAnswer,
    MigSlicesAnswer,
    NodeAnswer,
    NodeRequest,
    PoolAnswer,
    PoolRequest,
)
from service.contract.schemas.fields import Memory, get_or_none
from service.contract.to_answer.sliced_pools import cut_pool
from service.contract.to_answer.timestamps import format_timestamp
from service.contract.to_question.models import prefix_error_field
from service.estimator.values.device import parse_slice
from service.estimator.values.errors import InvalidInputError
from service.formats.quantities import parse_bytes
from service.planner.cluster.broken_reservations import list_broken_reservations
from service.planner.cluster.inventory import (
    Allocation,
    ClusterInventory,
    MigSlices,
    Node,
    NodeState,
    Pool,
)
from service.planner.cluster.node_supply import NodeSupply
from service.planner.cluster.placement import build_supply
from service.planner.cluster.supply import PoolSupply
from service.usecases.stored import StoredCluster

MAX_NODES = 10_000
"""Of one cluster. Plans look at every node: 640,000 took 23 s of a core each, and 16 s to store."""
EIGHTHS = 8
"""MIG divides the memory of a GPU into eighths."""


def read_inventory(pools: list[PoolRequest]) -> ClusterInventory:
    """Return the pools of a request as an inventory.

    Raises InvalidInputError for more nodes than a cluster may have, or one node in two pools.
    """
    nodes = sum(get_or_none(pool.num_nodes) or len(get_or_none(pool.nodes) or ()) for pool in pools)
    if nodes > MAX_NODES:
        message = (
            f"the pools have {nodes:,} nodes, and a cluster may have {MAX_NODES:,}; store the rest "
            "as other clusters"
        )
        raise InvalidInputError(message, field="pools")
    inventory = ClusterInventory(
        pools=tuple(_read_pool(pool, f"pools[{index}]") for index, pool in enumerate(pools))
    )
    _refuse_shared_gpus(inventory)
    return inventory


def _refuse_shared_gpus(inventory: ClusterInventory) -> None:
    """Refuse a node in two pools of one GPU.

    Partitions that overlap have such nodes; their GPUs would be promised twice.
    """
    holders: dict[tuple[str, str], str] = {}
    for index, pool in enumerate(inventory.pools):
        for node in pool.list_nodes():
            first_pool = holders.setdefault((pool.gpu, node.name), pool.name)
            if first_pool != pool.name:
                message = (
                    f"node {node.name!r} stands in pools {first_pool!r} and {pool.name!r} with the "
                    f"same {pool.gpu}, which would be promised twice; put it into one of them, or "
                    "make those nodes a pool of their own"
                )
                raise InvalidInputError(message, field=f"pools[{index}].nodes")


def build_cluster_answer(stored: StoredCluster, *, has_nodes: bool = True) -> ClusterAnswer:
    """Return a cluster with what is free on it.

    With its single nodes, or only their sums.
    """
    supply = build_supply(stored.inventory, stored.reservations)
    return ClusterAnswer(
        name=stored.name,
        created_at=format_timestamp(stored.created_at),
        updated_at=format_timestamp(stored.updated_at),
        pools=[_build_pool_answer(pool, has_nodes=has_nodes) for pool in supply.pools],
        warnings=list(list_broken_reservations(stored.inventory, stored.reservations)),
    )


def _read_pool(pool: PoolRequest, field: str) -> Pool:
    parts = parse_slice(pool.gpu)
    if parts is None:
        entry = resolve_gpu(pool.gpu, field=f"{field}.gpu")
        with prefix_error_field(field):
            return _build_pool(pool, entry)
    device = resolve_device(pool.gpu, field=f"{field}.gpu")
    entry = resolve_gpu(parts[0], field=f"{field}.gpu")
    with prefix_error_field(field):
        return cut_pool(_build_pool(pool, entry), device.mig_profile or "", entry)


def _build_pool(pool: PoolRequest, entry: GpuEntry) -> Pool:
    nodes = get_or_none(pool.nodes)
    return Pool(
        name=pool.name,
        gpu=entry.name,
        gpus_per_node=pool.gpus_per_node,
        nvlink_island_size=get_or_none(pool.nvlink_island_size),
        host_memory_bytes=_parse_optional_bytes(pool.host_memory_bytes, "host_memory_bytes"),
        nvme_bytes=_parse_optional_bytes(pool.nvme_bytes, "nvme_bytes"),
        network_bytes_per_second=get_or_none(pool.network_bytes_per_second),
        price_per_gpu_hour=get_or_none(pool.price_per_gpu_hour),
        nodes=None
        if nodes is None
        else tuple(_read_node(node, entry, f"nodes[{index}]") for index, node in enumerate(nodes)),
        num_nodes=get_or_none(pool.num_nodes),
    )


def _parse_optional_bytes(value: Memory | UnsetType, field: str) -> int | None:
    return None if isinstance(value, UnsetType) else parse_bytes(value, field=field)


def _read_node(node: NodeRequest, entry: GpuEntry, field: str) -> Node:
    with prefix_error_field(field):
        allocations = tuple(
            _read_allocation(allocation) for allocation in get_or_none(node.allocations) or ()
        )
        allocated = get_or_none(node.allocated_gpus)
        parsed = Node(
            name=node.name,
            allocated_gpus=sum(part.num_gpus for part in allocations)
            if allocated is None
            else allocated,
            state=NodeState(node.state),
            allocations=allocations,
            mig_gpus=node.mig_gpus,
            mig_slices=tuple(
                MigSlices(profile=slices.profile, total=slices.total, allocated=slices.allocated)
                for slices in get_or_none(node.mig_slices) or ()
            ),
        )
        _check_slices(parsed, entry)
        return parsed


def _read_allocation(request: AllocationRequest) -> Allocation:
    indices = get_or_none(request.gpu_indices)
    return Allocation(
        holder=request.holder,
        num_gpus=request.num_gpus,
        gpu_indices=None if indices is None else tuple(indices),
        host_memory_bytes=parse_bytes(
            request.host_memory_bytes, field="allocations.host_memory_bytes"
        ),
    )


def _check_slices(node: Node, entry: GpuEntry) -> None:
    """Refuse MIG profiles and slices that the GPU cannot have.

    See the NVIDIA MIG user guide.
    """
    profiles = {profile.name: profile for profile in entry.mig_profiles}
    eighths = 0
    for slices in node.mig_slices:
        profile = profiles.get(slices.profile)
        if profile is None:
            profile_names = ", ".join(profiles) or "none"
            _refuse(f"{entry.name} has no MIG profile {slices.profile!r}; it has {profile_names}")
        elif slices.total > profile.max_instances * node.mig_gpus:
            limit = f"{profile.max_instances} slices {slices.profile!r}"
            _refuse(
                f"a {entry.name} has at most {limit}, and {node.mig_gpus} GPUs cannot have "
                f"{slices.total}"
            )
        else:
            eighths += slices.total * profile.memory_eighths
    if eighths > EIGHTHS * node.mig_gpus:
        _refuse(
            f"the slices take {eighths} eighths of the memory of {node.mig_gpus} GPUs, which have "
            f"{EIGHTHS} each"
        )


def _refuse(message: str) -> None:
    raise InvalidInputError(message, field="mig_slices")


def _build_pool_answer(supply: PoolSupply, *, has_nodes: bool) -> PoolAnswer:
    pool = supply.pool
    node_supplies = None if pool.nodes is None else zip(pool.nodes, supply.nodes, strict=True)
    ready = [node for node in pool.nodes or () if node.state is NodeState.READY]
    return PoolAnswer(
        name=pool.name,
        gpu=pool.gpu,
        gpus_per_node=pool.gpus_per_node,
        nvlink_island_size=pool.nvlink_island_size,
        host_memory_bytes=pool.host_memory_bytes,
        nvme_bytes=pool.nvme_bytes,
        network_bytes_per_second=pool.network_bytes_per_second,
        price_per_gpu_hour=pool.price_per_gpu_hour,
        nodes=[_build_node_answer(*pair) for pair in node_supplies]
        if node_supplies is not None and has_nodes
        else None,
        num_nodes=pool.num_nodes,
        total_nodes=len(supply.nodes),
        total_gpus=pool.total_gpus,
        drained_gpus=0
        if pool.nodes is None
        else pool.gpus_per_node * (len(pool.nodes) - len(ready)),
        mig_gpus=sum(node.mig_gpus for node in ready),
        reserved_gpus=supply.reserved_gpus,
        free_gpus=supply.free_gpus,
    )


def _build_node_answer(node: Node, supply: NodeSupply) -> NodeAnswer:
    return NodeAnswer(
        name=node.name,
        allocated_gpus=node.allocated_gpus,
        state=node.state.value,
        reserved_gpus=supply.reserved_gpus,
        free_gpus=supply.free_gpus,
        allocations=[
            AllocationAnswer(
                holder=part.holder,
                num_gpus=part.num_gpus,
                gpu_indices=None if part.gpu_indices is None else list(part.gpu_indices),
                host_memory_bytes=part.host_memory_bytes,
            )
            for part in node.allocations
        ],
        mig_gpus=node.mig_gpus,
        mig_slices=[
            MigSlicesAnswer(
                profile=slices.profile,
                total=slices.total,
                allocated=slices.allocated,
                free=supply.free_slices.get(slices.profile, 0),
            )
            for slices in node.mig_slices
        ],
    )
