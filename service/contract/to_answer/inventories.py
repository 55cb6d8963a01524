"""Cluster inventories between the contract and the planner."""

from datetime import UTC, datetime

from msgspec import UnsetType

from service.catalog.gpu_entries import GpuEntry
from service.catalog.gpus import find_gpus, resolve_device, resolve_gpu
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
from service.contract.to_answer.sliced_pools import check_slices, cut_pool
from service.contract.to_answer.timestamps import format_optional_timestamp, format_timestamp
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
from service.planner.cluster.observations import list_observation_warnings
from service.planner.cluster.placement import build_supply
from service.planner.cluster.supply import PoolSupply
from service.usecases.stored import StoredCluster

MAX_NODES = 10_000
"""Of one cluster. Plans look at every node: 640,000 took 23 s of a core each, and 16 s to store."""


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


def build_cluster_answer(
    stored: StoredCluster, *, has_nodes: bool = True, now: datetime | None = None
) -> ClusterAnswer:
    """Return a cluster with what is free on it.

    Observations are as old as they are at ``now``, by default this moment.

    With its single nodes, or only their sums.
    """
    moment = datetime.now(UTC) if now is None else now
    supply = build_supply(stored.inventory, stored.reservations)
    return ClusterAnswer(
        name=stored.name,
        created_at=format_timestamp(stored.created_at),
        updated_at=format_timestamp(stored.updated_at),
        pools=[_build_pool_answer(pool, has_nodes=has_nodes) for pool in supply.pools],
        warnings=[
            *list_broken_reservations(stored.inventory, stored.reservations),
            *list_observation_warnings(stored.inventory, moment),
        ],
    )


def _read_pool(pool: PoolRequest, field: str) -> Pool:
    parts = parse_slice(pool.gpu)
    if parts is None:
        unknown_bytes = _parse_unknown_bytes(pool)
        if unknown_bytes is not None:
            with prefix_error_field(field):
                return _build_pool(pool, None, gpu_memory_bytes=unknown_bytes)
        entry = resolve_gpu(pool.gpu, field=f"{field}.gpu")
        with prefix_error_field(field):
            return _build_pool(pool, entry)
    device = resolve_device(pool.gpu, field=f"{field}.gpu")
    entry = resolve_gpu(parts[0], field=f"{field}.gpu")
    with prefix_error_field(field):
        return cut_pool(_build_pool(pool, entry), device.mig_profile or "", entry)


def _parse_unknown_bytes(pool: PoolRequest) -> int | None:
    """Return the memory of a GPU that the catalogue does not have.

    Refuses it for one that the catalogue has, which would have two.
    """
    memory = get_or_none(pool.gpu_memory_bytes)
    if memory is None:
        return None
    if len(find_gpus(pool.gpu)) == 1:
        message = (
            f"gpu_memory_bytes is for GPUs that the catalogue does not have, and it has "
            f"{pool.gpu!r}; leave it out"
        )
        raise InvalidInputError(message, field="pools.gpu_memory_bytes")
    return parse_bytes(memory, field="gpu_memory_bytes")


def _build_pool(
    pool: PoolRequest, entry: GpuEntry | None, *, gpu_memory_bytes: int | None = None
) -> Pool:
    nodes = get_or_none(pool.nodes)
    return Pool(
        name=pool.name,
        gpu=pool.gpu if entry is None else entry.name,
        gpu_memory_bytes=gpu_memory_bytes,
        gpu_replicas=get_or_none(pool.gpu_replicas),
        level_names=tuple(get_or_none(pool.level_names) or ()),
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


def _read_node(node: NodeRequest, entry: GpuEntry | None, field: str) -> Node:
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
            levels=tuple(get_or_none(node.levels) or ()),
            source=get_or_none(node.source),
            observed_at=get_or_none(node.observed_at),
            unavailable=get_or_none(node.unavailable),
        )
        if entry is not None:
            check_slices(parsed, entry)
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
        gpu_memory_bytes=pool.gpu_memory_bytes,
        gpu_replicas=pool.gpu_replicas,
        level_names=list(pool.level_names),
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
        levels=list(node.levels),
        source=node.source,
        observed_at=format_optional_timestamp(node.observed_at),
        unavailable=node.unavailable,
    )
