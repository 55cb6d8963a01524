"""Say how many GPUs a workload needs."""

from typing import Any

import httpx

from ...models.allocator import Allocator
from ...models.attention import Attention
from ...models.cache import Cache
from ...models.cache_type import CacheType
from ...models.checkpointing import Checkpointing
from ...models.client import Client
from ...models.context_method import ContextMethod
from ...models.d_type import DType
from ...models.engine import Engine
from ...models.family_answer import FamilyAnswer
from ...models.framework import Framework
from ...models.how_many_answer import HowManyAnswer
from ...models.how_many_as import HowManyAs
from ...models.how_many_format import HowManyFormat
from ...models.how_many_lora_target_modules import HowManyLoraTargetModules
from ...models.how_many_lora_variant import HowManyLoraVariant
from ...models.how_many_precision import HowManyPrecision
from ...models.kernels import Kernels
from ...models.loss import Loss
from ...models.method import Method
from ...models.optimizer_name import OptimizerName
from ...models.pipeline_schedule import PipelineSchedule
from ...models.quantization import Quantization
from ...models.reference import Reference
from ...models.sampling import Sampling
from ...models.sequence_packing import SequencePacking
from ...models.sharding import Sharding
from ...models.trainer import Trainer
from ...types import UNSET, Call, Unset


def call(
    *,
    model: str | Unset = UNSET,
    hub: str | Unset = UNSET,
    revision: str | Unset = UNSET,
    file: str | Unset = UNSET,
    task: str,
    gpu: str | Unset = UNSET,
    memory_bytes: int | str | Unset = UNSET,
    cluster: str | Unset = UNSET,
    confidence: float | None | Unset = UNSET,
    as_: HowManyAs | Unset = UNSET,
    format_: HowManyFormat | Unset = UNSET,
    container_image: str | Unset = UNSET,
    account_for_embedding_in_pipeline_split: bool | Unset = UNSET,
    account_for_loss_in_pipeline_split: bool | Unset = UNSET,
    activation_checkpointing: Checkpointing | Unset = UNSET,
    allocator: Allocator | Unset = UNSET,
    attention: Attention | Unset = UNSET,
    audio_frames: int | Unset = UNSET,
    cache: Cache | Unset = UNSET,
    cache_type: CacheType | Unset = UNSET,
    client_query: Client | Unset = UNSET,
    compile_: bool | Unset = UNSET,
    completion_length: int | Unset = UNSET,
    context_parallel: int | Unset = UNSET,
    context_parallel_method: ContextMethod | Unset = UNSET,
    cpu_moe_layers: int | Unset = UNSET,
    cpu_offload_gb: float | Unset = UNSET,
    data_parallel: int | Unset = UNSET,
    decoder_length: int | Unset = UNSET,
    deterministic: bool | Unset = UNSET,
    double_quantization: bool | Unset = UNSET,
    enforce_eager: bool | Unset = UNSET,
    engine: Engine | Unset = UNSET,
    engine_version: str | Unset = UNSET,
    entropy_bonus: bool | Unset = UNSET,
    expert_parallel: int | Unset = UNSET,
    expert_tensor_parallel: int | Unset = UNSET,
    float8: bool | Unset = UNSET,
    fp32_norms_and_head: bool | Unset = UNSET,
    fp32_outputs: bool | Unset = UNSET,
    framework: Framework | Unset = UNSET,
    framework_version: str | Unset = UNSET,
    global_batch_size: int | Unset = UNSET,
    gpu_layers: int | Unset = UNSET,
    gpu_memory_fraction: float | Unset = UNSET,
    gpus_per_node: int | Unset = UNSET,
    gradient_accumulation_steps: int | Unset = UNSET,
    gradient_clipping: bool | Unset = UNSET,
    host_memory_bytes: int | str | Unset = UNSET,
    image_tokens: int | Unset = UNSET,
    keeps_logits: bool | Unset = UNSET,
    kernels: Kernels | Unset = UNSET,
    kv_cache_dtype: DType | Unset = UNSET,
    kv_pool_blocks: int | Unset = UNSET,
    kv_pool_bytes: int | Unset = UNSET,
    kv_pool_tokens: int | Unset = UNSET,
    log_prob_batch_size: int | Unset = UNSET,
    lora_dropout: float | Unset = UNSET,
    lora_dtype: DType | Unset = UNSET,
    lora_rank: int | Unset = UNSET,
    lora_target_modules: HowManyLoraTargetModules | Unset = UNSET,
    lora_variant: HowManyLoraVariant | Unset = UNSET,
    loss: Loss | Unset = UNSET,
    max_cost_per_hour: float | Unset = UNSET,
    max_gpus: int | Unset = UNSET,
    max_hours: float | Unset = UNSET,
    max_images_per_prompt: int | Unset = UNSET,
    max_lora_rank: int | Unset = UNSET,
    max_loras: int | Unset = UNSET,
    max_model_len: int | Unset = UNSET,
    max_nodes: int | Unset = UNSET,
    max_num_batched_tokens: int | Unset = UNSET,
    max_num_sequences: int | Unset = UNSET,
    max_prefill_time_s: float | Unset = UNSET,
    max_step_time_s: float | Unset = UNSET,
    max_time_per_output_token_s: float | Unset = UNSET,
    max_videos_per_prompt: int | Unset = UNSET,
    method: Method | Unset = UNSET,
    micro_batch_size: int | Unset = UNSET,
    min_num_sequences: int | Unset = UNSET,
    min_tokens_per_second: float | Unset = UNSET,
    network_bytes_per_second: int | Unset = UNSET,
    num_beams: int | Unset = UNSET,
    num_images: int | Unset = UNSET,
    num_layers_in_first_pipeline_stage: int | Unset = UNSET,
    num_layers_in_last_pipeline_stage: int | Unset = UNSET,
    num_samples: int | Unset = UNSET,
    num_sequences: int | Unset = UNSET,
    num_tokens: int | Unset = UNSET,
    nvme_bytes: int | str | Unset = UNSET,
    optimizer: OptimizerName | Unset = UNSET,
    optimizer_in_backward: bool | Unset = UNSET,
    output_tokens: int | Unset = UNSET,
    packing: SequencePacking | Unset = UNSET,
    padding_mask: bool | Unset = UNSET,
    partition_method: str | Unset = UNSET,
    pipeline_layers: list[int] | Unset = UNSET,
    pipeline_model_parallel_layout: str | Unset = UNSET,
    pipeline_parallel: int | Unset = UNSET,
    pipeline_parallel_first_stage_less_layers: int | Unset = UNSET,
    pipeline_parallel_last_stage_less_layers: int | Unset = UNSET,
    pipeline_parallel_layers_per_stage: int | Unset = UNSET,
    pipeline_schedule: PipelineSchedule | Unset = UNSET,
    precision: HowManyPrecision | Unset = UNSET,
    prompt_tokens: int | Unset = UNSET,
    quantization: Quantization | Unset = UNSET,
    quantization_bits: int | Unset = UNSET,
    reentrant_checkpointing: bool | Unset = UNSET,
    reference: Reference | Unset = UNSET,
    reshard_after_forward: bool | Unset = UNSET,
    sampling: Sampling | Unset = UNSET,
    save_total_limit: int | Unset = UNSET,
    sequence_length: int | Unset = UNSET,
    sequence_parallel: bool | Unset = UNSET,
    shard_embeddings_separately: bool | Unset = UNSET,
    shard_size: int | Unset = UNSET,
    sharding: Sharding | Unset = UNSET,
    state_dtype: DType | Unset = UNSET,
    tensor_parallel: int | Unset = UNSET,
    trainer: Trainer | Unset = UNSET,
    virtual_pipeline_stages: int | Unset = UNSET,
    weight_dtype: DType | Unset = UNSET,
    zero_stage: int | Unset = UNSET,
    if_none_match: str | Unset = UNSET,
    hub_token: str | Unset = UNSET,
) -> Call[FamilyAnswer | HowManyAnswer]:
    """Say how many GPUs a workload needs."""
    headers: dict[str, Any] = {}
    if not isinstance(if_none_match, Unset):
        headers["If-None-Match"] = if_none_match

    if not isinstance(hub_token, Unset):
        headers["Hub-Token"] = hub_token

    params: dict[str, Any] = {}

    params["model"] = model

    params["hub"] = hub

    params["revision"] = revision

    params["file"] = file

    params["task"] = task

    params["gpu"] = gpu

    json_memory_bytes: int | str | Unset
    if isinstance(memory_bytes, Unset):
        json_memory_bytes = UNSET
    else:
        json_memory_bytes = memory_bytes
    params["memory_bytes"] = json_memory_bytes

    params["cluster"] = cluster

    json_confidence: float | None | Unset
    if isinstance(confidence, Unset):
        json_confidence = UNSET
    else:
        json_confidence = confidence
    params["confidence"] = json_confidence

    json_as_: str | Unset = UNSET
    if not isinstance(as_, Unset):
        json_as_ = as_

    params["as"] = json_as_

    json_format_: str | Unset = UNSET
    if not isinstance(format_, Unset):
        json_format_ = format_

    params["format"] = json_format_

    params["container_image"] = container_image

    params["account_for_embedding_in_pipeline_split"] = account_for_embedding_in_pipeline_split

    params["account_for_loss_in_pipeline_split"] = account_for_loss_in_pipeline_split

    json_activation_checkpointing: str | Unset = UNSET
    if not isinstance(activation_checkpointing, Unset):
        json_activation_checkpointing = activation_checkpointing

    params["activation_checkpointing"] = json_activation_checkpointing

    json_allocator: str | Unset = UNSET
    if not isinstance(allocator, Unset):
        json_allocator = allocator

    params["allocator"] = json_allocator

    json_attention: str | Unset = UNSET
    if not isinstance(attention, Unset):
        json_attention = attention

    params["attention"] = json_attention

    params["audio_frames"] = audio_frames

    json_cache: str | Unset = UNSET
    if not isinstance(cache, Unset):
        json_cache = cache

    params["cache"] = json_cache

    json_cache_type: str | Unset = UNSET
    if not isinstance(cache_type, Unset):
        json_cache_type = cache_type

    params["cache_type"] = json_cache_type

    json_client_query: str | Unset = UNSET
    if not isinstance(client_query, Unset):
        json_client_query = client_query

    params["client"] = json_client_query

    params["compile"] = compile_

    params["completion_length"] = completion_length

    params["context_parallel"] = context_parallel

    json_context_parallel_method: str | Unset = UNSET
    if not isinstance(context_parallel_method, Unset):
        json_context_parallel_method = context_parallel_method

    params["context_parallel_method"] = json_context_parallel_method

    params["cpu_moe_layers"] = cpu_moe_layers

    params["cpu_offload_gb"] = cpu_offload_gb

    params["data_parallel"] = data_parallel

    params["decoder_length"] = decoder_length

    params["deterministic"] = deterministic

    params["double_quantization"] = double_quantization

    params["enforce_eager"] = enforce_eager

    json_engine: str | Unset = UNSET
    if not isinstance(engine, Unset):
        json_engine = engine

    params["engine"] = json_engine

    params["engine_version"] = engine_version

    params["entropy_bonus"] = entropy_bonus

    params["expert_parallel"] = expert_parallel

    params["expert_tensor_parallel"] = expert_tensor_parallel

    params["float8"] = float8

    params["fp32_norms_and_head"] = fp32_norms_and_head

    params["fp32_outputs"] = fp32_outputs

    json_framework: str | Unset = UNSET
    if not isinstance(framework, Unset):
        json_framework = framework

    params["framework"] = json_framework

    params["framework_version"] = framework_version

    params["global_batch_size"] = global_batch_size

    params["gpu_layers"] = gpu_layers

    params["gpu_memory_fraction"] = gpu_memory_fraction

    params["gpus_per_node"] = gpus_per_node

    params["gradient_accumulation_steps"] = gradient_accumulation_steps

    params["gradient_clipping"] = gradient_clipping

    json_host_memory_bytes: int | str | Unset
    if isinstance(host_memory_bytes, Unset):
        json_host_memory_bytes = UNSET
    else:
        json_host_memory_bytes = host_memory_bytes
    params["host_memory_bytes"] = json_host_memory_bytes

    params["image_tokens"] = image_tokens

    params["keeps_logits"] = keeps_logits

    json_kernels: str | Unset = UNSET
    if not isinstance(kernels, Unset):
        json_kernels = kernels

    params["kernels"] = json_kernels

    json_kv_cache_dtype: str | Unset = UNSET
    if not isinstance(kv_cache_dtype, Unset):
        json_kv_cache_dtype = kv_cache_dtype

    params["kv_cache_dtype"] = json_kv_cache_dtype

    params["kv_pool_blocks"] = kv_pool_blocks

    params["kv_pool_bytes"] = kv_pool_bytes

    params["kv_pool_tokens"] = kv_pool_tokens

    params["log_prob_batch_size"] = log_prob_batch_size

    params["lora_dropout"] = lora_dropout

    json_lora_dtype: str | Unset = UNSET
    if not isinstance(lora_dtype, Unset):
        json_lora_dtype = lora_dtype

    params["lora_dtype"] = json_lora_dtype

    params["lora_rank"] = lora_rank

    json_lora_target_modules: str | Unset = UNSET
    if not isinstance(lora_target_modules, Unset):
        json_lora_target_modules = lora_target_modules

    params["lora_target_modules"] = json_lora_target_modules

    json_lora_variant: str | Unset = UNSET
    if not isinstance(lora_variant, Unset):
        json_lora_variant = lora_variant

    params["lora_variant"] = json_lora_variant

    json_loss: str | Unset = UNSET
    if not isinstance(loss, Unset):
        json_loss = loss

    params["loss"] = json_loss

    params["max_cost_per_hour"] = max_cost_per_hour

    params["max_gpus"] = max_gpus

    params["max_hours"] = max_hours

    params["max_images_per_prompt"] = max_images_per_prompt

    params["max_lora_rank"] = max_lora_rank

    params["max_loras"] = max_loras

    params["max_model_len"] = max_model_len

    params["max_nodes"] = max_nodes

    params["max_num_batched_tokens"] = max_num_batched_tokens

    params["max_num_sequences"] = max_num_sequences

    params["max_prefill_time_s"] = max_prefill_time_s

    params["max_step_time_s"] = max_step_time_s

    params["max_time_per_output_token_s"] = max_time_per_output_token_s

    params["max_videos_per_prompt"] = max_videos_per_prompt

    json_method: str | Unset = UNSET
    if not isinstance(method, Unset):
        json_method = method

    params["method"] = json_method

    params["micro_batch_size"] = micro_batch_size

    params["min_num_sequences"] = min_num_sequences

    params["min_tokens_per_second"] = min_tokens_per_second

    params["network_bytes_per_second"] = network_bytes_per_second

    params["num_beams"] = num_beams

    params["num_images"] = num_images

    params["num_layers_in_first_pipeline_stage"] = num_layers_in_first_pipeline_stage

    params["num_layers_in_last_pipeline_stage"] = num_layers_in_last_pipeline_stage

    params["num_samples"] = num_samples

    params["num_sequences"] = num_sequences

    params["num_tokens"] = num_tokens

    json_nvme_bytes: int | str | Unset
    if isinstance(nvme_bytes, Unset):
        json_nvme_bytes = UNSET
    else:
        json_nvme_bytes = nvme_bytes
    params["nvme_bytes"] = json_nvme_bytes

    json_optimizer: str | Unset = UNSET
    if not isinstance(optimizer, Unset):
        json_optimizer = optimizer

    params["optimizer"] = json_optimizer

    params["optimizer_in_backward"] = optimizer_in_backward

    params["output_tokens"] = output_tokens

    json_packing: str | Unset = UNSET
    if not isinstance(packing, Unset):
        json_packing = packing

    params["packing"] = json_packing

    params["padding_mask"] = padding_mask

    params["partition_method"] = partition_method

    json_pipeline_layers: list[int] | Unset = UNSET
    if not isinstance(pipeline_layers, Unset):
        json_pipeline_layers = pipeline_layers

    params["pipeline_layers"] = json_pipeline_layers

    params["pipeline_model_parallel_layout"] = pipeline_model_parallel_layout

    params["pipeline_parallel"] = pipeline_parallel

    params["pipeline_parallel_first_stage_less_layers"] = pipeline_parallel_first_stage_less_layers

    params["pipeline_parallel_last_stage_less_layers"] = pipeline_parallel_last_stage_less_layers

    params["pipeline_parallel_layers_per_stage"] = pipeline_parallel_layers_per_stage

    json_pipeline_schedule: str | Unset = UNSET
    if not isinstance(pipeline_schedule, Unset):
        json_pipeline_schedule = pipeline_schedule

    params["pipeline_schedule"] = json_pipeline_schedule

    json_precision: str | Unset = UNSET
    if not isinstance(precision, Unset):
        json_precision = precision

    params["precision"] = json_precision

    params["prompt_tokens"] = prompt_tokens

    json_quantization: str | Unset = UNSET
    if not isinstance(quantization, Unset):
        json_quantization = quantization

    params["quantization"] = json_quantization

    params["quantization_bits"] = quantization_bits

    params["reentrant_checkpointing"] = reentrant_checkpointing

    json_reference: str | Unset = UNSET
    if not isinstance(reference, Unset):
        json_reference = reference

    params["reference"] = json_reference

    params["reshard_after_forward"] = reshard_after_forward

    json_sampling: str | Unset = UNSET
    if not isinstance(sampling, Unset):
        json_sampling = sampling

    params["sampling"] = json_sampling

    params["save_total_limit"] = save_total_limit

    params["sequence_length"] = sequence_length

    params["sequence_parallel"] = sequence_parallel

    params["shard_embeddings_separately"] = shard_embeddings_separately

    params["shard_size"] = shard_size

    json_sharding: str | Unset = UNSET
    if not isinstance(sharding, Unset):
        json_sharding = sharding

    params["sharding"] = json_sharding

    json_state_dtype: str | Unset = UNSET
    if not isinstance(state_dtype, Unset):
        json_state_dtype = state_dtype

    params["state_dtype"] = json_state_dtype

    params["tensor_parallel"] = tensor_parallel

    json_trainer: str | Unset = UNSET
    if not isinstance(trainer, Unset):
        json_trainer = trainer

    params["trainer"] = json_trainer

    params["virtual_pipeline_stages"] = virtual_pipeline_stages

    json_weight_dtype: str | Unset = UNSET
    if not isinstance(weight_dtype, Unset):
        json_weight_dtype = weight_dtype

    params["weight_dtype"] = json_weight_dtype

    params["zero_stage"] = zero_stage

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/how-many",
        params=params,
        headers=headers,
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> FamilyAnswer | HowManyAnswer:
    if response.status_code == 200:

        def _parse_response_200(data: object) -> FamilyAnswer | HowManyAnswer:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                response_200_type_0 = HowManyAnswer.from_dict(data)

                return response_200_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            response_200_type_1 = FamilyAnswer.from_dict(data)

            return response_200_type_1

        response_200 = _parse_response_200(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)
