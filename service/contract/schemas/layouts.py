"""Layout of a request."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import (
    Degree,
    LayerCount,
    LayerCounts,
    Memory,
    PartitionMethod,
    PipelineLayout,
    Strict,
)
from service.estimator.values.layout import ContextMethod, Sharding
from service.estimator.values.pipeline import PipelineSchedule
from service.planner.cluster.inventory import MAX_GPUS_PER_NODE


class LayoutRequest(Strict, frozen=True, kw_only=True):
    """How one job is spread over GPUs; their number is data x tensor x pipeline x context
    parallel.
    """

    data_parallel: Degree | UnsetType = UNSET
    tensor_parallel: Degree | UnsetType = UNSET
    pipeline_parallel: Degree | UnsetType = UNSET
    context_parallel: Degree | UnsetType = UNSET
    context_parallel_method: Annotated[
        ContextMethod | UnsetType,
        Meta(description="How its ranks share a sequence: keys pass by, or heads are exchanged."),
    ] = UNSET
    expert_parallel: Degree | UnsetType = UNSET
    expert_tensor_parallel: Degree | UnsetType = UNSET
    virtual_pipeline_stages: Annotated[
        Degree | UnsetType, Meta(description="Chunks of layers on one stage, which alternate.")
    ] = UNSET
    pipeline_layers: Annotated[
        LayerCounts | UnsetType,
        Meta(
            description="Layers of each pipeline stage (of each chunk, in the order of the model, "
            "where stages interleave), in any framework; default as many on each.",
            examples=[[16, 16, 16, 13]],
        ),
    ] = UNSET
    num_layers_in_first_pipeline_stage: Annotated[
        Degree | UnsetType,
        Meta(description="Megatron-LM: layers of the first stage; the others share the rest."),
    ] = UNSET
    num_layers_in_last_pipeline_stage: Annotated[
        Degree | UnsetType,
        Meta(description="Megatron-LM: layers of the last stage; the others share the rest."),
    ] = UNSET
    account_for_embedding_in_pipeline_split: Annotated[
        bool | UnsetType,
        Meta(description="Megatron-LM: the embedding takes the place of one layer."),
    ] = UNSET
    account_for_loss_in_pipeline_split: Annotated[
        bool | UnsetType, Meta(description="Megatron-LM: the loss takes the place of one layer.")
    ] = UNSET
    pipeline_model_parallel_layout: Annotated[
        PipelineLayout | UnsetType,
        Meta(
            description="Megatron-LM: chunks between bars, E the embedding, t a layer, m a "
            "multi-token prediction layer, L the loss, ()*n repeats.",
            examples=["Et*3|(tt|)*28,mL"],
        ),
    ] = UNSET
    partition_method: Annotated[
        PartitionMethod | UnsetType,
        Meta(
            description="DeepSpeed: `uniform`, `parameters`, or `type:` and part of the name of a "
            "layer of Megatron-DeepSpeed's GPTModelPipe; the memory of a stage is framework "
            "megatron's.",
            examples=["type:transformer"],
        ),
    ] = UNSET
    pipeline_parallel_layers_per_stage: Annotated[
        Degree | UnsetType,
        Meta(description="torchtitan: layers of one chunk, embedding and head counted as layers."),
    ] = UNSET
    pipeline_parallel_first_stage_less_layers: Annotated[
        LayerCount | UnsetType,
        Meta(description="torchtitan: layers that the embedding counts for; default 1."),
    ] = UNSET
    pipeline_parallel_last_stage_less_layers: Annotated[
        LayerCount | UnsetType,
        Meta(description="torchtitan: layers that norm and head count for; default 1."),
    ] = UNSET
    pipeline_schedule: Annotated[
        PipelineSchedule | UnsetType,
        Meta(
            description="Order of a pipeline's passes; default 1F1B, interleaved where stages have "
            "several chunks."
        ),
    ] = UNSET
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
        Meta(description="Bytes of one node's memory, which offloaded states must fit in."),
    ] = UNSET
    nvme_bytes: Annotated[
        Memory | UnsetType,
        Meta(
            description=(
                "Bytes of one node's NVMe, which states and parameters offloaded to it must fit on."
            )
        ),
    ] = UNSET
    gpus_per_node: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_GPUS_PER_NODE)] | UnsetType,
        Meta(description="GPUs that share a host."),
    ] = UNSET
