"""Single steps of training towards less memory on the same GPUs."""

from collections.abc import Iterator
from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Sharding
from service.estimator.values.losses import Loss, Reference, Trainer
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Allocator,
    Attention,
    Checkpointing,
    Framework,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    TrainWorkload,
)
from service.planner.fit.evaluator import Config
from service.planner.fit.qlora import make_qlora

_ADAMW = frozenset({"adamw", "adamw_loop", "adamw_fused", "adamw_bnb"})
_EIGHT_BITS = ("adamw_8bit", "paged_adamw_8bit")
_MEMORY_SAVING_LOSSES = (Loss.FUSED_CROSS_ENTROPY, Loss.CHUNKED, Loss.FUSED_LINEAR)
_WITHOUT_MASTERS = {
    "bf16_mixed": "bf16",
    "amp_bf16": "bf16",
    "deepspeed_bf16": "bf16",
    "fp16_mixed": "fp16",
    "amp_fp16": "fp16",
}
"""Policies without fp32 master weights, in place of those with them."""
MIN_SEQUENCE_LENGTH = 256


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
    """Use a kernel that never writes the attention scores.

    Flash has none for fp32, where SDPA takes another.
    """
    workload, layout = config
    if isinstance(workload, TrainWorkload):
        dtype = workload.precision.compute_dtype
    else:
        dtype = workload.weight_dtype
    if workload.attention in {Attention.EAGER, Attention.MATH}:
        kernel = Attention.SDPA if dtype is DType.FP32 else Attention.FLASH
        yield replace(workload, attention=kernel), layout


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


def keep_norms_and_head(config: Config) -> Iterator[Config]:
    """Leave norms and head of a model in 4 bits in 16.

    So does TRL; PEFT's ``prepare_model_for_kbit_training`` casts them to fp32.
    """
    match config:
        case (
            TrainWorkload(method=Method.QLORA, fp32_norms_and_head=True | None) as workload,
            layout,
        ):
            yield replace(workload, fp32_norms_and_head=False), layout


def use_expandable_segments(config: Config) -> Iterator[Config]:
    """Let the allocator's one segment grow, which leaves fewer holes."""
    match config:
        case (TrainWorkload(allocator=Allocator.DEFAULT) as workload, layout):
            yield replace(workload, allocator=Allocator.EXPANDABLE_SEGMENTS), layout


def offload_activations(config: Config) -> Iterator[Config]:
    """Keep what backward needs on the host."""
    match config:
        case (
            TrainWorkload(offload=Offload(activations=OffloadTarget.NONE) as offload) as workload,
            layout,
        ):
            kept_off = replace(offload, activations=OffloadTarget.CPU)
            yield replace(workload, offload=kept_off), layout


def drop_master_weights(config: Config) -> Iterator[Config]:
    """Train without fp32 copies of the weights, in 16 bits alone."""
    match config:
        case (TrainWorkload(method=Method.FULL) as workload, layout):
            policy = _WITHOUT_MASTERS.get(workload.precision.name)
            if policy is not None:
                yield replace(workload, precision=POLICIES[policy]), layout


def step_in_backward(config: Config) -> Iterator[Config]:
    """Step each parameter in backward, and drop its gradient."""
    match config:
        case (TrainWorkload(optimizer_in_backward=False, method=Method.FULL) as workload, layout):
            yield replace(workload, optimizer_in_backward=True), layout


def drop_reference(config: Config) -> Iterator[Config]:
    """Take the reference from the adapters' base, or precompute it."""
    match config:
        case (
            TrainWorkload(trainer=Trainer.DPO | Trainer.KTO, reference=Reference.MODEL) as workload,
            layout,
        ):
            if workload.lora is not None:
                yield replace(workload, reference=Reference.ADAPTERS_OFF), layout
            yield replace(workload, reference=Reference.PRECOMPUTED), layout


def adapt_attention_only(model: Architecture, config: Config) -> Iterator[Config]:
    """Adapt the linear layers of attention alone.

    ``all-linear`` adapts every expert of every layer as well.
    """
    match config:
        case (TrainWorkload(lora=Lora(targets=None) as lora) as workload, layout):
            targets = list_attention_targets(model)
            if targets:
                yield replace(workload, lora=replace(lora, targets=targets)), layout


def list_attention_targets(model: Architecture) -> tuple[str, ...]:
    """Return the names of linear layers that attention alone has."""
    layers = [layer for block, _ in model.blocks for layer in block.linears()]
    others = {layer.target for layer in layers if layer.kind != "attention"}
    names = dict.fromkeys(layer.target for layer in layers if layer.kind == "attention")
    return tuple(name for name in names if name not in others)


def cut_sequences(config: Config) -> Iterator[Config]:
    """Halve the sequences repeatedly: longer ones are cut."""
    match config:
        case (TrainWorkload() as workload, layout):
            length = workload.sequence_length // 2
            while length >= MIN_SEQUENCE_LENGTH:
                yield replace(workload, sequence_length=length), layout
                length //= 2
