"""Single steps from a configuration towards one that may fit."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from service.estimator.backends.registry import get_backend
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import FULLY_SHARDED, Layout, Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.pipeline import EVEN
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Framework,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.fit.qlora import make_qlora

Config = tuple[Workload, Layout]
RemedyStep = Callable[[Config], Iterator[Config]]
"""Yields every configuration that a step leads to; none where the step is taken already or makes no
sense.
"""
MAX_DATA_PARALLEL = 1024
MAX_PIPELINE_PARALLEL = 16

_ADAMW = frozenset({"adamw", "adamw_loop", "adamw_fused", "adamw_bnb"})
_EIGHT_BITS = ("adamw_8bit", "paged_adamw_8bit")
_MEMORY_SAVING_LOSSES = (Loss.FUSED_CROSS_ENTROPY, Loss.CHUNKED, Loss.FUSED_LINEAR)


def use_fused_optimizer(config: Config) -> Iterator[Config]:
    """Use AdamW's fused kernel.

    It needs no temporaries of the size of the parameters.
    """
    match config:
        case (TrainWorkload(optimizer="adamw" | "adamw_loop") as workload, layout):
            yield replace(workload, optimizer="adamw_fused"), layout


def shrink_optimizer_states(config: Config) -> Iterator[Config]:
    """Keep AdamW's moments in 8 bits, then paged.

    Paged moments are in memory that the driver moves to the host when the GPU is full.
    """
    match config:
        case (TrainWorkload(optimizer=name) as workload, layout) if name in {
            *_ADAMW,
            _EIGHT_BITS[0],
        }:
            for smaller in _EIGHT_BITS[_EIGHT_BITS.index(name) + 1 if name in _EIGHT_BITS else 0 :]:
                yield replace(workload, optimizer=smaller), layout


def use_smaller_loss(config: Config) -> Iterator[Config]:
    """Compute the loss without copies of the logits.

    It is computed in pieces, or in one kernel with the head.
    """
    match config:
        case (TrainWorkload(loss=Loss.FULL_LOGITS | Loss.FLASH_CROSS_ENTROPY) as workload, layout):
            for loss in _MEMORY_SAVING_LOSSES:
                yield replace(workload, loss=loss, keeps_logits=False), layout


def offload_states(config: Config) -> Iterator[Config]:
    """Offload the optimizer's states, then the parameters as well."""
    match config:
        case (
            TrainWorkload(offload=Offload(parameters=OffloadTarget.NONE) as offload) as workload,
            layout,
        ):
            if workload.framework is not Framework.TRANSFORMERS or layout.tensor_parallel > 1:
                return
            fully = layout.sharding in {Sharding.FSDP1, Sharding.FSDP2}
            placed = (
                layout
                if fully
                else replace(
                    layout, sharding=Sharding.DEEPSPEED, zero_stage=max(layout.zero_stage, 2)
                )
            )
            states = replace(offload, optimizer=OffloadTarget.CPU)
            if offload != states and not fully:
                yield replace(workload, offload=states), placed
            yield (
                replace(workload, offload=replace(states, parameters=OffloadTarget.CPU)),
                replace(placed, zero_stage=3),
            )


def drop_logits(config: Config) -> Iterator[Config]:
    """Drop the logits before backward."""
    match config:
        case (TrainWorkload(keeps_logits=True) as workload, layout):
            yield replace(workload, keeps_logits=False), layout


def use_flash_attention(config: Config) -> Iterator[Config]:
    """Use a kernel that never writes the attention scores."""
    workload, layout = config
    if workload.attention in {Attention.EAGER, Attention.MATH}:
        yield replace(workload, attention=Attention.FLASH), layout


def halve_micro_batch(config: Config) -> Iterator[Config]:
    """Halve the micro batch repeatedly.

    Accumulation keeps the global batch.
    """
    match config:
        case (TrainWorkload() as workload, layout):
            size, steps = workload.micro_batch_size, workload.gradient_accumulation_steps
            while size % 2 == 0:
                size, steps = size // 2, steps * 2
                yield (
                    replace(workload, micro_batch_size=size, gradient_accumulation_steps=steps),
                    layout,
                )


def raise_zero_stage(config: Config) -> Iterator[Config]:
    """Raise the ZeRO stage over the existing data-parallel ranks.

    Megatron's distributed optimizer is stage 1.
    """
    workload, layout = config
    if layout.sharding is Sharding.MEGATRON and layout.shards > 1 and layout.zero_stage == 0:
        yield workload, replace(layout, zero_stage=1)
    if isinstance(workload, ServeWorkload) or layout.sharding not in {
        Sharding.DDP,
        Sharding.DEEPSPEED,
    }:
        return
    if layout.shards > 1:
        for stage in range(layout.zero_stage + 1, 4):
            yield workload, replace(layout, zero_stage=stage, sharding=Sharding.DEEPSPEED)


def use_selective_checkpointing(config: Config) -> Iterator[Config]:
    """Recompute what is cheap to compute and large to keep.

    The framework picks it in each layer.
    """
    match config:
        case (TrainWorkload(activation_checkpointing=Checkpointing.NONE) as workload, layout):
            if workload.framework is not Framework.TRANSFORMERS:
                yield replace(workload, activation_checkpointing=Checkpointing.SELECTIVE), layout


def use_full_checkpointing(config: Config) -> Iterator[Config]:
    """Recompute everything but the inputs of the layers."""
    match config:
        case (
            TrainWorkload(
                activation_checkpointing=Checkpointing.NONE | Checkpointing.SELECTIVE
            ) as workload,
            layout,
        ):
            yield (
                replace(
                    workload, activation_checkpointing=Checkpointing.FULL, selective_every=None
                ),
                layout,
            )


def add_data_parallel_ranks(config: Config) -> Iterator[Config]:
    """Shard all states over twice the data-parallel ranks, repeatedly."""
    workload, layout = config
    if isinstance(workload, ServeWorkload):
        return
    sharded = _shard_fully(workload, layout)
    ranks = layout.data_parallel * 2
    while ranks <= MAX_DATA_PARALLEL:
        yield workload, replace(sharded, data_parallel=ranks)
        ranks *= 2


def _shard_fully(workload: TrainWorkload, layout: Layout) -> Layout:
    if workload.framework is Framework.MEGATRON:
        return replace(layout, zero_stage=max(layout.zero_stage, 1), sharding=Sharding.MEGATRON)
    if workload.framework is Framework.TORCHTITAN or layout.sharding in FULLY_SHARDED:
        return replace(
            layout,
            zero_stage=3,
            sharding=layout.sharding if layout.sharding in FULLY_SHARDED else Sharding.FSDP2,
        )
    return replace(layout, zero_stage=3, sharding=Sharding.DEEPSPEED)


def add_pipeline_stages(config: Config) -> Iterator[Config]:
    """Spread Megatron's layers over twice the pipeline stages, and twice again."""
    match config:
        case (
            TrainWorkload(framework=Framework.MEGATRON) as workload,
            Layout(pipeline_split=split) as layout,
        ) if split == EVEN:
            stages = layout.pipeline_parallel * 2
            while stages <= MAX_PIPELINE_PARALLEL:
                more = replace(layout, pipeline_parallel=stages, sharding=Sharding.MEGATRON)
                yield workload, more
                stages *= 2


def use_lora(config: Config) -> Iterator[Config]:
    """Train adapters of rank 16 on every linear layer.

    The model stays as it is.
    """
    match config:
        case (TrainWorkload(method=Method.FULL) as workload, layout):
            yield replace(workload, method=Method.LORA, lora=Lora()), layout


def use_qlora(config: Config) -> Iterator[Config]:
    """Train adapters on a model in 4 bits (arXiv:2305.14314)."""
    match config:
        case (TrainWorkload(method=Method.FULL | Method.LORA) as workload, layout):
            yield make_qlora(workload, layout), layout


def quantize_weights(config: Config) -> Iterator[Config]:
    """Serve weights of fewer bits, in formats that the engine reads."""
    match config:
        case (ServeWorkload(quantization=Quantization.NONE) as workload, layout):
            for quantization in get_backend(workload.engine).weight_formats:
                yield replace(workload, quantization=quantization), layout


def reduce_sequences(config: Config) -> Iterator[Config]:
    """Serve fewer sequences at once.

    A sixteenth less each time, and from there half as many each time.
    """
    match config:
        case (ServeWorkload() as workload, layout):
            halves = {
                workload.num_sequences >> power
                for power in range(5, workload.num_sequences.bit_length())
            }
            for num_sequences in sorted(
                {workload.num_sequences * share // 16 for share in range(1, 16)} | halves - {0},
                reverse=True,
            ):
                if num_sequences:
                    yield replace(workload, num_sequences=num_sequences), layout


def split_replica(config: Config) -> Iterator[Config]:
    """Double the tensor-parallel ranks repeatedly, within a node.

    They split a replica, or Megatron's layers.
    """
    match config:
        case (ServeWorkload(engine=engine), _) if not get_backend(engine).splits_replicas:
            return
        case (ServeWorkload() as workload, layout):
            pipeline_ranks, split = layout.pipeline_parallel, layout
        case (TrainWorkload(framework=Framework.MEGATRON) as workload, layout):
            pipeline_ranks, split = 1, replace(layout, sharding=Sharding.MEGATRON)
        case _:
            return
    ranks, together = layout.tensor_parallel * 2, isinstance(workload, TrainWorkload)
    while ranks * pipeline_ranks <= layout.gpus_per_node:
        yield (
            workload,
            replace(
                split, tensor_parallel=ranks, sequence_parallel=split.sequence_parallel or together
            ),
        )
        ranks *= 2


def shorten_sequences(config: Config) -> Iterator[Config]:
    """Limit the engine to the requested sequence length."""
    match config:
        case (ServeWorkload() as workload, layout):
            tokens = workload.prompt_tokens + workload.output_tokens
            reserves = get_backend(workload.engine).reserves_longest
            if reserves and workload.max_model_len != tokens:
                yield replace(workload, max_model_len=tokens), layout


def use_fp8_cache(config: Config) -> Iterator[Config]:
    """Use an fp8 KV cache."""
    match config:
        case (ServeWorkload() as workload, layout):
            has_fp8 = DType.FP8 in get_backend(workload.engine).cache_dtypes
            if has_fp8 and workload.kv_cache_dtype is not DType.FP8:
                yield replace(workload, kv_cache_dtype=DType.FP8), layout
