"""Requests and answers of /v1/clusters."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from service.contract.schemas.fields import (
    Answer,
    Cursor,
    GpuName,
    Holder,
    Memory,
    MigProfileName,
    Name,
    NodeName,
    PageLimit,
    Strict,
)

NodeStateName = Literal["ready", "drained"]
GpuCount = Annotated[int, Meta(ge=0, le=256)]
MAX_LEVELS = 8
PRINTABLE = r"^[!-~]([ -~]{0,254}[!-~])?$(?!\n)"
LevelName = Annotated[
    str,
    Meta(pattern=PRINTABLE, description="A level of the network, or a place in it."),
]


GpuIndices = Annotated[
    list[Annotated[int, Meta(ge=0, le=255)]],
    Meta(max_length=256, description="Indices of these GPUs."),
]


class AllocationRequest(Strict, frozen=True, kw_only=True):
    """What somebody holds on a node."""

    holder: Holder
    num_gpus: Annotated[GpuCount, Meta(description="GPUs that he holds.")]
    gpu_indices: GpuIndices | UnsetType = UNSET
    host_memory_bytes: Annotated[
        Memory, Meta(description="Bytes of the host's memory that he holds.")
    ] = 0


class MigSlicesRequest(Strict, frozen=True, kw_only=True):
    """The slices of one profile on a node."""

    profile: MigProfileName
    total: Annotated[int, Meta(ge=0, le=2048, description="Slices that there are.")]
    allocated: Annotated[int, Meta(ge=0, le=2048, description="Slices that others hold.")] = 0


class NodeRequest(Strict, frozen=True, kw_only=True):
    """One node by name."""

    name: NodeName
    allocated_gpus: Annotated[
        GpuCount | UnsetType,
        Meta(description="GPUs that others hold; the sum of `allocations` where it is absent."),
    ] = UNSET
    state: Annotated[NodeStateName, Meta(description="Whether new work may be placed here.")] = (
        "ready"
    )
    allocations: Annotated[
        Annotated[list[AllocationRequest], Meta(max_length=256)] | UnsetType,
        Meta(
            description=(
                "Who holds GPUs, as far as it is known. With all indices, free NVLink islands are "
                "known too."
            )
        ),
    ] = UNSET
    mig_gpus: Annotated[
        GpuCount, Meta(description="GPUs that MIG has cut into slices; they serve as those alone.")
    ] = 0
    mig_slices: Annotated[list[MigSlicesRequest], Meta(max_length=64)] | UnsetType = UNSET
    levels: Annotated[
        Annotated[list[LevelName], Meta(max_length=MAX_LEVELS)] | UnsetType,
        Meta(description="Its places in the network, one for each of the pool's `level_names`."),
    ] = UNSET
    source: Annotated[
        Annotated[str, Meta(pattern=PRINTABLE)] | UnsetType,
        Meta(description="The tool that showed it, as an import wrote it."),
    ] = UNSET
    observed_at: Annotated[
        Annotated[datetime, Meta(tz=True)] | UnsetType,
        Meta(description="RFC 3339: when it was seen as it is here."),
    ] = UNSET
    unavailable: Annotated[
        Annotated[str, Meta(pattern=PRINTABLE)] | UnsetType,
        Meta(description="Why it takes no work."),
    ] = UNSET


class PoolRequest(Strict, frozen=True, kw_only=True):
    """Nodes of one kind: either `nodes` by name or `num_nodes`."""

    name: Name
    gpu: Annotated[
        GpuName,
        Meta(
            description=(
                "Name or alias of a GPU of the catalogue, or of a MIG slice of one: then all GPUs "
                "of the nodes are cut into it, and `gpus_per_node` and `allocated_gpus` count "
                "slices."
            )
        ),
    ]
    gpus_per_node: Annotated[int, Meta(ge=1, le=256, description="GPUs of one node.")]
    nvlink_island_size: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)] | UnsetType,
        Meta(description="GPUs that reach each other over NVLink."),
    ] = UNSET
    host_memory_bytes: Annotated[
        Memory | UnsetType, Meta(description="Bytes of one node's memory.")
    ] = UNSET
    nvme_bytes: Annotated[Memory | UnsetType, Meta(description="Bytes of one node's NVMe.")] = UNSET
    network_bytes_per_second: Annotated[
        Annotated[int, Meta(ge=0, le=2**53)] | UnsetType,
        Meta(description="Bytes per second of one node's network."),
    ] = UNSET
    price_per_gpu_hour: Annotated[
        Annotated[float, Meta(ge=0, le=1e6)] | UnsetType,
        Meta(description="USD of one GPU for one hour."),
    ] = UNSET
    gpu_memory_bytes: Annotated[
        Memory | UnsetType,
        Meta(
            description=(
                "Of a GPU that the catalogue does not have: bytes that a process can allocate on "
                "it, 0 where nobody knows. Then `gpu` is any name."
            )
        ),
    ] = UNSET
    gpu_replicas: Annotated[
        Annotated[int, Meta(ge=2, le=10_000)] | UnsetType,
        Meta(description="Pods that share each GPU in time, without parts of its memory."),
    ] = UNSET
    level_names: Annotated[
        Annotated[list[LevelName], Meta(max_length=MAX_LEVELS)] | UnsetType,
        Meta(description="Levels of the network that its nodes are in, outermost first."),
    ] = UNSET
    nodes: Annotated[list[NodeRequest], Meta(max_length=10_000)] | UnsetType = UNSET
    num_nodes: Annotated[
        Annotated[int, Meta(ge=0, le=10_000)] | UnsetType, Meta(description="Nodes without names.")
    ] = UNSET


Pools = Annotated[
    list[PoolRequest],
    Meta(
        min_length=1,
        max_length=100,
        description="Pools of equal nodes, 10,000 nodes in all at most.",
    ),
]


class ClusterCreate(Strict, frozen=True, kw_only=True):
    """A cluster to be stored."""

    name: Name
    pools: Pools


class ClusterReplace(Strict, frozen=True, kw_only=True):
    """Everything that the cluster is from now on."""

    pools: Pools
    name: Annotated[Name | UnsetType, Meta(description="If given, the name in the path.")] = UNSET


class ClusterQuery(Strict, frozen=True, kw_only=True):
    """Which page of the clusters."""

    limit: Annotated[PageLimit, Meta(description="Items on one page.")] = 50
    cursor: Cursor | UnsetType = UNSET
    nodes: Annotated[
        bool,
        Meta(description="False leaves the single nodes out: their sums are enough for a list."),
    ] = True


class ClusterDeleteQuery(Strict, frozen=True, kw_only=True):
    """How a cluster is removed."""

    end_reservations: Annotated[
        bool,
        Meta(
            description=(
                "End what is reserved on it as well; without this, a cluster with reservations "
                "stays."
            )
        ),
    ] = False


class AllocationAnswer(Answer, frozen=True, kw_only=True):
    """What somebody holds on a node."""

    holder: str
    num_gpus: int
    gpu_indices: list[int] | None
    host_memory_bytes: int


class MigSlicesAnswer(Answer, frozen=True, kw_only=True):
    """The slices of one profile on a node."""

    profile: str
    total: int
    allocated: int
    free: Annotated[
        int, Meta(description="Neither allocated nor reserved, on a node that takes work.")
    ]


class NodeAnswer(Answer, frozen=True, kw_only=True):
    """One node."""

    name: str
    allocated_gpus: int
    state: str
    reserved_gpus: Annotated[int, Meta(description="GPUs that live reservations hold.")]
    free_gpus: Annotated[int, Meta(description="Whole GPUs that can be given out now.")]
    allocations: list[AllocationAnswer]
    mig_gpus: int
    mig_slices: list[MigSlicesAnswer]
    levels: list[str]
    source: str | None
    observed_at: Annotated[
        str | None, Meta(description="RFC 3339, UTC: when it was last seen; null where typed.")
    ]
    unavailable: str | None


class PoolAnswer(Answer, frozen=True, kw_only=True):
    """Nodes of one kind."""

    name: str
    gpu: Annotated[str, Meta(description="Name of the GPU in the catalogue.")]
    gpus_per_node: int
    nvlink_island_size: int | None
    host_memory_bytes: int | None
    nvme_bytes: int | None
    network_bytes_per_second: int | None
    price_per_gpu_hour: float | None
    gpu_memory_bytes: int | None
    gpu_replicas: int | None
    level_names: list[str]
    nodes: Annotated[
        list[NodeAnswer] | None,
        Meta(description="Null where they are only counted, or were not asked for."),
    ]
    num_nodes: Annotated[
        int | None, Meta(description="Nodes without names; null where they have some.")
    ]
    total_nodes: Annotated[int, Meta(description="Nodes with and without names.")]
    total_gpus: int
    drained_gpus: Annotated[int, Meta(description="GPUs of nodes that take no new work.")]
    mig_gpus: Annotated[int, Meta(description="GPUs in slices, on nodes that take work.")]
    reserved_gpus: Annotated[
        int, Meta(description="GPUs that live reservations hold on nodes that take work.")
    ]
    free_gpus: Annotated[int, Meta(description="Whole GPUs that can be given out now.")]


class ClusterAnswer(Answer, frozen=True, kw_only=True):
    """A stored cluster."""

    name: str
    created_at: Annotated[str, Meta(description="RFC 3339, UTC.")]
    updated_at: Annotated[str, Meta(description="RFC 3339, UTC.")]
    pools: list[PoolAnswer]
    warnings: Annotated[
        list[str],
        Meta(
            description=(
                "Live reservations that this inventory cannot keep, nodes that nobody has seen for "
                "an hour, and GPUs of unknown memory."
            )
        ),
    ] = field(default_factory=list)


class ClusterPage(Answer, frozen=True, kw_only=True):
    """Clusters, newest first."""

    items: list[ClusterAnswer]
    next_cursor: str | None
