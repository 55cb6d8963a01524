"""Requests and answers of /v1/clusters."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from service.api.schemas.fields import Answer, Cursor, GpuName, Memory, Name, NodeName, PageLimit, Strict

NodeStateName = Literal["ready", "drained"]
GpuCount = Annotated[int, Meta(ge=0, le=256)]


class NodeRequest(Strict, frozen=True, kw_only=True):
    """One node by name."""

    name: NodeName
    allocated_gpus: Annotated[GpuCount, Meta(description="GPUs that others hold.")] = 0
    state: Annotated[NodeStateName, Meta(description="Whether new work may be placed here.")] = "ready"


class PoolRequest(Strict, frozen=True, kw_only=True):
    """Nodes of one kind: either `nodes` by name or `num_nodes`."""

    name: Name
    gpu: GpuName
    gpus_per_node: Annotated[int, Meta(ge=1, le=256, description="GPUs of one node.")]
    nvlink_island_size: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)] | UnsetType, Meta(description="GPUs that reach each other over NVLink.")
    ] = UNSET
    host_memory_bytes: Annotated[Memory | UnsetType, Meta(description="Memory of one node.")] = UNSET
    network_bytes_per_second: Annotated[
        Annotated[int, Meta(ge=0, le=2**53)] | UnsetType, Meta(description="Network of one node.")
    ] = UNSET
    price_per_gpu_hour: Annotated[
        Annotated[float, Meta(ge=0, le=1e6)] | UnsetType, Meta(description="Price of one GPU for one hour.")
    ] = UNSET
    nodes: Annotated[list[NodeRequest], Meta(max_length=10_000)] | UnsetType = UNSET
    num_nodes: Annotated[Annotated[int, Meta(ge=0, le=100_000)] | UnsetType, Meta(description="Nodes without names.")] = UNSET


Pools = Annotated[list[PoolRequest], Meta(min_length=1, max_length=100, description="Pools of equal nodes.")]


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


class NodeAnswer(Answer, frozen=True, kw_only=True):
    """One node."""

    name: str
    allocated_gpus: int
    state: str


class PoolAnswer(Answer, frozen=True, kw_only=True):
    """Nodes of one kind."""

    name: str
    gpu: Annotated[str, Meta(description="Name of the GPU in the catalogue.")]
    gpus_per_node: int
    nvlink_island_size: int | None
    host_memory_bytes: int | None
    network_bytes_per_second: int | None
    price_per_gpu_hour: float | None
    nodes: list[NodeAnswer] | None
    num_nodes: int | None
    total_gpus: int
    free_gpus: int


class ClusterAnswer(Answer, frozen=True, kw_only=True):
    """A stored cluster."""

    name: str
    created_at: Annotated[str, Meta(description="RFC 3339, UTC.")]
    updated_at: Annotated[str, Meta(description="RFC 3339, UTC.")]
    pools: list[PoolAnswer]


class ClusterPage(Answer, frozen=True, kw_only=True):
    """Clusters, newest first."""

    items: list[ClusterAnswer]
    next_cursor: str | None
