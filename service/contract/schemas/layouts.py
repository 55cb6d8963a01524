"""Layout of a request."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import Degree, Memory, Strict
from service.estimator.values.layout import Sharding
from service.planner.cluster.inventory import MAX_GPUS_PER_NODE


class LayoutRequest(Strict, frozen=True, kw_only=True):
    """How one job is spread over GPUs; their number is data x tensor x pipeline x context
    parallel.
    """

    data_parallel: Degree | UnsetType = UNSET
    tensor_parallel: Degree | UnsetType = UNSET
    pipeline_parallel: Degree | UnsetType = UNSET
    context_parallel: Degree | UnsetType = UNSET
    expert_parallel: Degree | UnsetType = UNSET
    expert_tensor_parallel: Degree | UnsetType = UNSET
    virtual_pipeline_stages: Degree | UnsetType = UNSET
    zero_stage: Annotated[
        Annotated[int, Meta(ge=0, le=3)] | UnsetType,
        Meta(description="What is sharded over ranks."),
    ] = UNSET
    sharding: Annotated[Sharding | UnsetType, Meta(description="Who shards.")] = UNSET
    sequence_parallel: Annotated[
        bool | UnsetType, Meta(description="Norms and dropout are split as well.")
    ] = UNSET
    reshard_after_forward: Annotated[
        bool | UnsetType, Meta(description="Free gathered weights after forward.")
    ] = UNSET
    shard_embeddings_separately: Annotated[
        bool | UnsetType, Meta(description="Embedding and head are their own shard groups.")
    ] = UNSET
    shard_size: Annotated[
        Degree | UnsetType,
        Meta(description="Ranks that share one copy of the states (hybrid sharding); default all."),
    ] = UNSET
    network_bytes_per_second: Annotated[
        Annotated[int, Meta(ge=1, le=2**53)] | UnsetType,
        Meta(
            description=(
                "What one node's network carries in one direction; it decides time, not memory."
            )
        ),
    ] = UNSET
    host_memory_bytes: Annotated[
        Memory | UnsetType,
        Meta(description="Memory of one node, which offloaded states must fit in."),
    ] = UNSET
    nvme_bytes: Annotated[
        Memory | UnsetType,
        Meta(
            description="NVMe of one node, which states and parameters offloaded to it must fit on."
        ),
    ] = UNSET
    gpus_per_node: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_GPUS_PER_NODE)] | UnsetType,
        Meta(description="GPUs that share a host."),
    ] = UNSET
