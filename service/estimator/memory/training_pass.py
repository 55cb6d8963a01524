"""The part of a question that decides which tensors a micro batch makes: the key of a recording."""

from dataclasses import fields, replace
from operator import attrgetter
from typing import NamedTuple

from service.estimator.memory.adapter_bases import base_of
from service.estimator.memory.fsdp_buffers import gathering
from service.estimator.memory.image_inputs import images_of
from service.estimator.memory.lengths import decoder_length
from service.estimator.memory.optimizers.table import optimizer_named
from service.estimator.model.architecture import Architecture
from service.estimator.model.images import Images
from service.estimator.model.weights.tensors import elements_over
from service.estimator.passes.losses import LossPass
from service.estimator.passes.recorder import TrainingPass, batch_decides
from service.estimator.tape.ops.fused_losses import liger_chunk_tokens
from service.estimator.tape.units import Filling, Gathering
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.library_versions import copies_logits, returns_fp32
from service.estimator.values.precision import Precision
from service.estimator.values.workload import Lora, Loss, Method, OffloadTarget, TrainWorkload

_SHAPE = frozenset({"micro_batch_size", "sequence_length"})
fixed_words = attrgetter(*(item.name for item in fields(TrainWorkload) if item.name not in _SHAPE))
"""Everything that a training workload says beside its batch and its sequence."""


class Shape(NamedTuple):
    """What batch and sequence decide about a pass beside its sizes, by the names of ``TrainingPass``; a key of every answer."""

    batched: bool
    window_reached: bool
    length: int | None
    loss: LossPass | None
    decoder_length: int | None
    images: Images | None


def shape_of(model: Architecture, workload: TrainWorkload) -> Shape:
    """Return the only part of a training pass that depends on batch and sequence."""
    window = model.spec.sliding_window
    return Shape(
        workload.micro_batch_size > 1 and batch_decides(model, workload.attention, workload.precision.compute_dtype),
        window is not None and workload.sequence_length >= window,
        workload.sequence_length if model.chunked else None,
        loss_pass(model, workload),
        decoder_length(model, workload),
        images_of(model, workload),
    )


def training_pass(model: Architecture, workload: TrainWorkload, layout: Layout) -> TrainingPass:
    """Return the part of a workload that decides which tensors a micro batch of a model makes."""
    precision = workload.precision
    in_main_buffer = precision.main_grad_persistent and precision.main_grad_dtype is precision.grad_dtype
    base, shape = base_of(model, workload), shape_of(model, workload)
    return TrainingPass(
        param_dtype=base.dtype if precision.autocast or base.upcast else precision.compute_dtype,
        autocast=precision.compute_dtype if precision.autocast else None,
        trains_all=workload.method is Method.FULL,
        lora=_computed(workload.lora, precision),
        checkpointing=workload.activation_checkpointing,
        attention=workload.attention,
        keeps_logits=workload.keeps_logits,
        accumulating=workload.gradient_accumulation_steps > 1 or in_main_buffer or workload.optimizer_in_backward,
        gathering=_filled(
            model,
            workload,
            layout,
            gathering(
                precision,
                layout,
                offloads=workload.offload.parameters is not OffloadTarget.NONE,
                adapters=workload.lora.dtype if workload.lora is not None else None,
                reentrant=workload.reentrant_checkpointing,
            ),
        ),
        scheme=base.scheme,
        compute=precision.compute_dtype,
        copies_logits=copies_logits(workload.framework_version),
        returns_fp32=returns_fp32(workload.framework_version),
        batched=shape.batched,
        padded=workload.padding_mask,
        window_reached=shape.window_reached,
        length=shape.length,
        ranks=layout.tensor_parallel,
        loss=shape.loss,
        frozen=workload.frozen,
        steps_in_backward=_temporaries_in_backward(workload, precision),
        decoder_length=shape.decoder_length,
        images=shape.images,
        selective=workload.selective_every,
        offloads_inputs=workload.offload.activations is not OffloadTarget.NONE,
        reentrant=workload.reentrant_checkpointing,
    )


def _computed(lora: Lora | None, precision: Precision) -> Lora | None:
    """Return adapters in the dtype that they compute in: what casts parameters as it gathers them casts adapters too."""
    if lora is None or precision.autocast or precision.compute_dtype is precision.param_dtype:
        return lora
    return replace(lora, dtype=precision.compute_dtype)


def _filled(model: Architecture, workload: TrainWorkload, layout: Layout, gathers: Gathering | None) -> Gathering | None:
    """Return how parameters are gathered with what fills FSDP2's uneven shares; layouts without any have one recording."""
    ranks = layout.shards
    if gathers is None or layout.sharding is not Sharding.FSDP2 or ranks == 1:
        return gathers
    rows = {weight.shape[0] for weight, _ in model.counts.tensors}
    if workload.lora is not None:
        rows.add(workload.lora.rank)
    if not any(count % ranks for count in rows):
        return gathers
    counts, blocks = model.counts, [[*block.weights()] for block, _ in model.blocks]
    inside = sum(elements_over(block, ranks) * count for block, (_, count) in zip(blocks, model.blocks, strict=True))
    everything = sum(elements_over([weight], ranks) * count for weight, count in counts.tensors)
    inside += elements_over(model.tower_layer_weights, ranks)
    filling = Filling(
        outside=everything - inside - model.root_elements,
        head=elements_over(model.head_unit_weights, ranks) - model.head_unit_elements,
    )
    return replace(gathers, uneven=ranks, filling=filling)


def loss_pass(model: Architecture, workload: TrainWorkload) -> LossPass | None:
    """Return how the loss is computed; None is the model's own way, with all logits."""
    if workload.loss is Loss.FULL_LOGITS:
        return None
    tokens = workload.micro_batch_size * workload.sequence_length
    linear = workload.loss is Loss.FUSED_LINEAR
    return LossPass(
        kind=workload.loss,
        chunk_tokens=liger_chunk_tokens(tokens, hidden_size=model.spec.hidden_size, vocab_size=model.vocab_size)
        if linear
        else 0,
    )


def _temporaries_in_backward(workload: TrainWorkload, precision: Precision) -> int | None:
    if not workload.optimizer_in_backward:
        return None
    elements = optimizer_named(workload.optimizer).temporaries_of_one or 0
    return elements * precision.optimizer_dtype.bytes_per_element
