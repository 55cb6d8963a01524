from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.context_method import ContextMethod, check_context_method
from ..models.pipeline_schedule import PipelineSchedule, check_pipeline_schedule
from ..models.sharding import Sharding, check_sharding
from ..types import UNSET, Unset

T = TypeVar("T", bound="LayoutRequest")


@_attrs_define
class LayoutRequest:
    """How one job is spread over GPUs; their number is data x tensor x pipeline x context parallel.

    Attributes:
        data_parallel (int | Unset): Ranks along this axis.
        tensor_parallel (int | Unset): Ranks along this axis.
        pipeline_parallel (int | Unset): Ranks along this axis.
        context_parallel (int | Unset): Ranks along this axis.
        context_parallel_method (ContextMethod | Unset): Method by which ranks share a sequence in attention.
        expert_parallel (int | Unset): Ranks along this axis.
        expert_tensor_parallel (int | Unset): Ranks along this axis.
        virtual_pipeline_stages (int | Unset): Chunks of layers on one stage, which alternate.
        pipeline_layers (list[int] | Unset): Layers of each pipeline stage (of each chunk, in the order of the model,
            where stages interleave), in any framework; default as many on each.
        num_layers_in_first_pipeline_stage (int | Unset): Megatron-LM: layers of the first stage; the others share the
            rest.
        num_layers_in_last_pipeline_stage (int | Unset): Megatron-LM: layers of the last stage; the others share the
            rest.
        account_for_embedding_in_pipeline_split (bool | Unset): Megatron-LM: the embedding takes the place of one layer.
        account_for_loss_in_pipeline_split (bool | Unset): Megatron-LM: the loss takes the place of one layer.
        pipeline_model_parallel_layout (str | Unset): Megatron-LM: chunks between bars, E the embedding, t a layer, m a
            multi-token prediction layer, L the loss, ()*n repeats.
        partition_method (str | Unset): DeepSpeed: `uniform`, `parameters`, or `type:` and part of the name of a layer
            of Megatron-DeepSpeed's GPTModelPipe; the memory of a stage is framework megatron's.
        pipeline_parallel_layers_per_stage (int | Unset): torchtitan: layers of one chunk, embedding and head counted as
            layers.
        pipeline_parallel_first_stage_less_layers (int | Unset): torchtitan: layers that the embedding counts for;
            default 1.
        pipeline_parallel_last_stage_less_layers (int | Unset): torchtitan: layers that norm and head count for; default
            1.
        pipeline_schedule (PipelineSchedule | Unset): Order of a pipeline's forward and backward passes.
        zero_stage (int | Unset): What is sharded over ranks.
        sharding (Sharding | Unset): Library that shards the states over the data-parallel ranks.
        sequence_parallel (bool | Unset): Norms and dropout are split as well.
        reshard_after_forward (bool | Unset): Free gathered weights after forward.
        shard_embeddings_separately (bool | Unset): Embedding and head are their own shard groups.
        shard_size (int | Unset): Ranks that share one copy of the states (hybrid sharding); default all.
        network_bytes_per_second (int | Unset): What one node's network carries in one direction; it decides time, not
            memory.
        host_memory_bytes (int | str | Unset): Bytes of one node's memory, which offloaded states must fit in.
        nvme_bytes (int | str | Unset): Bytes of one node's NVMe, which states and parameters offloaded to it must fit
            on.
        gpus_per_node (int | Unset): GPUs that share a host.
    """

    data_parallel: int | Unset = UNSET
    tensor_parallel: int | Unset = UNSET
    pipeline_parallel: int | Unset = UNSET
    context_parallel: int | Unset = UNSET
    context_parallel_method: ContextMethod | Unset = UNSET
    expert_parallel: int | Unset = UNSET
    expert_tensor_parallel: int | Unset = UNSET
    virtual_pipeline_stages: int | Unset = UNSET
    pipeline_layers: list[int] | Unset = UNSET
    num_layers_in_first_pipeline_stage: int | Unset = UNSET
    num_layers_in_last_pipeline_stage: int | Unset = UNSET
    account_for_embedding_in_pipeline_split: bool | Unset = UNSET
    account_for_loss_in_pipeline_split: bool | Unset = UNSET
    pipeline_model_parallel_layout: str | Unset = UNSET
    partition_method: str | Unset = UNSET
    pipeline_parallel_layers_per_stage: int | Unset = UNSET
    pipeline_parallel_first_stage_less_layers: int | Unset = UNSET
    pipeline_parallel_last_stage_less_layers: int | Unset = UNSET
    pipeline_schedule: PipelineSchedule | Unset = UNSET
    zero_stage: int | Unset = UNSET
    sharding: Sharding | Unset = UNSET
    sequence_parallel: bool | Unset = UNSET
    reshard_after_forward: bool | Unset = UNSET
    shard_embeddings_separately: bool | Unset = UNSET
    shard_size: int | Unset = UNSET
    network_bytes_per_second: int | Unset = UNSET
    host_memory_bytes: int | str | Unset = UNSET
    nvme_bytes: int | str | Unset = UNSET
    gpus_per_node: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        data_parallel = self.data_parallel

        tensor_parallel = self.tensor_parallel

        pipeline_parallel = self.pipeline_parallel

        context_parallel = self.context_parallel

        context_parallel_method: str | Unset = UNSET
        if not isinstance(self.context_parallel_method, Unset):
            context_parallel_method = self.context_parallel_method

        expert_parallel = self.expert_parallel

        expert_tensor_parallel = self.expert_tensor_parallel

        virtual_pipeline_stages = self.virtual_pipeline_stages

        pipeline_layers: list[int] | Unset = UNSET
        if not isinstance(self.pipeline_layers, Unset):
            pipeline_layers = self.pipeline_layers

        num_layers_in_first_pipeline_stage = self.num_layers_in_first_pipeline_stage

        num_layers_in_last_pipeline_stage = self.num_layers_in_last_pipeline_stage

        account_for_embedding_in_pipeline_split = self.account_for_embedding_in_pipeline_split

        account_for_loss_in_pipeline_split = self.account_for_loss_in_pipeline_split

        pipeline_model_parallel_layout = self.pipeline_model_parallel_layout

        partition_method = self.partition_method

        pipeline_parallel_layers_per_stage = self.pipeline_parallel_layers_per_stage

        pipeline_parallel_first_stage_less_layers = self.pipeline_parallel_first_stage_less_layers

        pipeline_parallel_last_stage_less_layers = self.pipeline_parallel_last_stage_less_layers

        pipeline_schedule: str | Unset = UNSET
        if not isinstance(self.pipeline_schedule, Unset):
            pipeline_schedule = self.pipeline_schedule

        zero_stage = self.zero_stage

        sharding: str | Unset = UNSET
        if not isinstance(self.sharding, Unset):
            sharding = self.sharding

        sequence_parallel = self.sequence_parallel

        reshard_after_forward = self.reshard_after_forward

        shard_embeddings_separately = self.shard_embeddings_separately

        shard_size = self.shard_size

        network_bytes_per_second = self.network_bytes_per_second

        host_memory_bytes: int | str | Unset
        if isinstance(self.host_memory_bytes, Unset):
            host_memory_bytes = UNSET
        else:
            host_memory_bytes = self.host_memory_bytes

        nvme_bytes: int | str | Unset
        if isinstance(self.nvme_bytes, Unset):
            nvme_bytes = UNSET
        else:
            nvme_bytes = self.nvme_bytes

        gpus_per_node = self.gpus_per_node

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if data_parallel is not UNSET:
            field_dict["data_parallel"] = data_parallel
        if tensor_parallel is not UNSET:
            field_dict["tensor_parallel"] = tensor_parallel
        if pipeline_parallel is not UNSET:
            field_dict["pipeline_parallel"] = pipeline_parallel
        if context_parallel is not UNSET:
            field_dict["context_parallel"] = context_parallel
        if context_parallel_method is not UNSET:
            field_dict["context_parallel_method"] = context_parallel_method
        if expert_parallel is not UNSET:
            field_dict["expert_parallel"] = expert_parallel
        if expert_tensor_parallel is not UNSET:
            field_dict["expert_tensor_parallel"] = expert_tensor_parallel
        if virtual_pipeline_stages is not UNSET:
            field_dict["virtual_pipeline_stages"] = virtual_pipeline_stages
        if pipeline_layers is not UNSET:
            field_dict["pipeline_layers"] = pipeline_layers
        if num_layers_in_first_pipeline_stage is not UNSET:
            field_dict["num_layers_in_first_pipeline_stage"] = num_layers_in_first_pipeline_stage
        if num_layers_in_last_pipeline_stage is not UNSET:
            field_dict["num_layers_in_last_pipeline_stage"] = num_layers_in_last_pipeline_stage
        if account_for_embedding_in_pipeline_split is not UNSET:
            field_dict["account_for_embedding_in_pipeline_split"] = account_for_embedding_in_pipeline_split
        if account_for_loss_in_pipeline_split is not UNSET:
            field_dict["account_for_loss_in_pipeline_split"] = account_for_loss_in_pipeline_split
        if pipeline_model_parallel_layout is not UNSET:
            field_dict["pipeline_model_parallel_layout"] = pipeline_model_parallel_layout
        if partition_method is not UNSET:
            field_dict["partition_method"] = partition_method
        if pipeline_parallel_layers_per_stage is not UNSET:
            field_dict["pipeline_parallel_layers_per_stage"] = pipeline_parallel_layers_per_stage
        if pipeline_parallel_first_stage_less_layers is not UNSET:
            field_dict["pipeline_parallel_first_stage_less_layers"] = pipeline_parallel_first_stage_less_layers
        if pipeline_parallel_last_stage_less_layers is not UNSET:
            field_dict["pipeline_parallel_last_stage_less_layers"] = pipeline_parallel_last_stage_less_layers
        if pipeline_schedule is not UNSET:
            field_dict["pipeline_schedule"] = pipeline_schedule
        if zero_stage is not UNSET:
            field_dict["zero_stage"] = zero_stage
        if sharding is not UNSET:
            field_dict["sharding"] = sharding
        if sequence_parallel is not UNSET:
            field_dict["sequence_parallel"] = sequence_parallel
        if reshard_after_forward is not UNSET:
            field_dict["reshard_after_forward"] = reshard_after_forward
        if shard_embeddings_separately is not UNSET:
            field_dict["shard_embeddings_separately"] = shard_embeddings_separately
        if shard_size is not UNSET:
            field_dict["shard_size"] = shard_size
        if network_bytes_per_second is not UNSET:
            field_dict["network_bytes_per_second"] = network_bytes_per_second
        if host_memory_bytes is not UNSET:
            field_dict["host_memory_bytes"] = host_memory_bytes
        if nvme_bytes is not UNSET:
            field_dict["nvme_bytes"] = nvme_bytes
        if gpus_per_node is not UNSET:
            field_dict["gpus_per_node"] = gpus_per_node

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        data_parallel = d.pop("data_parallel", UNSET)

        tensor_parallel = d.pop("tensor_parallel", UNSET)

        pipeline_parallel = d.pop("pipeline_parallel", UNSET)

        context_parallel = d.pop("context_parallel", UNSET)

        _context_parallel_method = d.pop("context_parallel_method", UNSET)
        context_parallel_method: ContextMethod | Unset
        if isinstance(_context_parallel_method, Unset):
            context_parallel_method = UNSET
        else:
            context_parallel_method = check_context_method(_context_parallel_method)

        expert_parallel = d.pop("expert_parallel", UNSET)

        expert_tensor_parallel = d.pop("expert_tensor_parallel", UNSET)

        virtual_pipeline_stages = d.pop("virtual_pipeline_stages", UNSET)

        pipeline_layers = cast(list[int], d.pop("pipeline_layers", UNSET))

        num_layers_in_first_pipeline_stage = d.pop("num_layers_in_first_pipeline_stage", UNSET)

        num_layers_in_last_pipeline_stage = d.pop("num_layers_in_last_pipeline_stage", UNSET)

        account_for_embedding_in_pipeline_split = d.pop("account_for_embedding_in_pipeline_split", UNSET)

        account_for_loss_in_pipeline_split = d.pop("account_for_loss_in_pipeline_split", UNSET)

        pipeline_model_parallel_layout = d.pop("pipeline_model_parallel_layout", UNSET)

        partition_method = d.pop("partition_method", UNSET)

        pipeline_parallel_layers_per_stage = d.pop("pipeline_parallel_layers_per_stage", UNSET)

        pipeline_parallel_first_stage_less_layers = d.pop("pipeline_parallel_first_stage_less_layers", UNSET)

        pipeline_parallel_last_stage_less_layers = d.pop("pipeline_parallel_last_stage_less_layers", UNSET)

        _pipeline_schedule = d.pop("pipeline_schedule", UNSET)
        pipeline_schedule: PipelineSchedule | Unset
        if isinstance(_pipeline_schedule, Unset):
            pipeline_schedule = UNSET
        else:
            pipeline_schedule = check_pipeline_schedule(_pipeline_schedule)

        zero_stage = d.pop("zero_stage", UNSET)

        _sharding = d.pop("sharding", UNSET)
        sharding: Sharding | Unset
        if isinstance(_sharding, Unset):
            sharding = UNSET
        else:
            sharding = check_sharding(_sharding)

        sequence_parallel = d.pop("sequence_parallel", UNSET)

        reshard_after_forward = d.pop("reshard_after_forward", UNSET)

        shard_embeddings_separately = d.pop("shard_embeddings_separately", UNSET)

        shard_size = d.pop("shard_size", UNSET)

        network_bytes_per_second = d.pop("network_bytes_per_second", UNSET)

        def _parse_host_memory_bytes(data: object) -> int | str | Unset:
            if isinstance(data, Unset):
                return data
            return cast(int | str | Unset, data)

        host_memory_bytes = _parse_host_memory_bytes(d.pop("host_memory_bytes", UNSET))

        def _parse_nvme_bytes(data: object) -> int | str | Unset:
            if isinstance(data, Unset):
                return data
            return cast(int | str | Unset, data)

        nvme_bytes = _parse_nvme_bytes(d.pop("nvme_bytes", UNSET))

        gpus_per_node = d.pop("gpus_per_node", UNSET)

        layout_request = cls(
            data_parallel=data_parallel,
            tensor_parallel=tensor_parallel,
            pipeline_parallel=pipeline_parallel,
            context_parallel=context_parallel,
            context_parallel_method=context_parallel_method,
            expert_parallel=expert_parallel,
            expert_tensor_parallel=expert_tensor_parallel,
            virtual_pipeline_stages=virtual_pipeline_stages,
            pipeline_layers=pipeline_layers,
            num_layers_in_first_pipeline_stage=num_layers_in_first_pipeline_stage,
            num_layers_in_last_pipeline_stage=num_layers_in_last_pipeline_stage,
            account_for_embedding_in_pipeline_split=account_for_embedding_in_pipeline_split,
            account_for_loss_in_pipeline_split=account_for_loss_in_pipeline_split,
            pipeline_model_parallel_layout=pipeline_model_parallel_layout,
            partition_method=partition_method,
            pipeline_parallel_layers_per_stage=pipeline_parallel_layers_per_stage,
            pipeline_parallel_first_stage_less_layers=pipeline_parallel_first_stage_less_layers,
            pipeline_parallel_last_stage_less_layers=pipeline_parallel_last_stage_less_layers,
            pipeline_schedule=pipeline_schedule,
            zero_stage=zero_stage,
            sharding=sharding,
            sequence_parallel=sequence_parallel,
            reshard_after_forward=reshard_after_forward,
            shard_embeddings_separately=shard_embeddings_separately,
            shard_size=shard_size,
            network_bytes_per_second=network_bytes_per_second,
            host_memory_bytes=host_memory_bytes,
            nvme_bytes=nvme_bytes,
            gpus_per_node=gpus_per_node,
        )

        return layout_request
