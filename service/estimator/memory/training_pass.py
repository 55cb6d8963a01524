"""Training passes of questions, which are the keys of recordings.

A pass is the part of a question that decides which tensors a micro batch makes.
"""

from dataclasses import fields, replace
from math import prod
from operator import attrgetter
from typing import NamedTuple

from service.estimator.memory.image_inputs import list_image_warnings, resolve_images
from service.estimator.memory.lengths import (
    Stack,
    has_packed_mask,
    list_length_assumptions,
    list_stacks,
    resolve_decoder_length,
)
from service.estimator.memory.model_limits import list_attention_warnings, resolve_row_padding
from service.estimator.memory.setup import TrainSetup, resolve_setup
from service.estimator.model.architecture import Architecture
from service.estimator.model.images import Images
from service.estimator.model.library_versions import (
    has_fp32_logits,
    has_logit_copy,
)
from service.estimator.passes.config import TrainingPass, is_batch_dependent
from service.estimator.passes.losses import LossPass
from service.estimator.tape.ops.loss.linear_loss import liger_chunk_tokens
from service.estimator.tape.ops.loss.log_probs import MAX_TOKENS
from service.estimator.tape.ops.loss.tiled_linear_loss import LossRows, count_loss_rows
from service.estimator.tape.pass_shape import ROWS
from service.estimator.values.batches import SequencePacking
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import RolloutEngine
from service.estimator.values.layout import FULLY_SHARDED, MAX_ZERO_STAGE, Layout, Sharding
from service.estimator.values.losses import LOG_PROB_LOSSES, Kernels, Loss, Trainer
from service.estimator.values.precision import Precision
from service.estimator.values.units import MIB
from service.estimator.values.workload import (
    Attention,
    Framework,
    Lora,
    Method,
    OffloadTarget,
    TrainWorkload,
)

_SHAPE = frozenset({"micro_batch_size", "sequence_length"})
get_fixed_fields = attrgetter(
    *(item.name for item in fields(TrainWorkload) if item.name not in _SHAPE)
)
"""Everything that a training workload says beside its batch and its sequence."""


_LEAST_MOVED_BYTES = 2 * MIB
"""Bytes of a layer's input up to which Unsloth leaves it on the GPU (unsloth_zoo 2026.10
``gradient_checkpointing.py``, ``MINIMUM_SIZE``).
"""


class BatchShape(NamedTuple):
    """Part of a training pass that batch and sequence decide.

    Its fields have the names of ``TrainingPass``, the sizes are left out; it is a key of every
    answer.
    """

    batched: bool
    padded: bool
    window_reached: bool
    row_padding: int
    length: int | None
    loss: LossPass | None
    decoder_length: int | None
    images: Images | None
    moves_inputs: bool
    """Whether inputs of checkpoints are large enough to be moved."""


def resolve_batch_shape(model: Architecture, workload: TrainWorkload) -> BatchShape:
    """Return the part of a pass that depends on batch and sequence."""
    window, (num_rows, length) = model.spec.sliding_window, workload.rows
    has_padding = workload.padding_mask or has_packed_mask(model, workload)
    window_reached = window is not None and length >= window
    images, dtype = resolve_images(model, workload), workload.precision.compute_dtype
    has_mask = has_padding or window_reached or images is not None
    return BatchShape(
        num_rows > 1 and is_batch_dependent(model, workload.attention, dtype),
        has_padding,
        window_reached,
        resolve_row_padding(model, workload.attention, dtype, length, masked=has_mask),
        length if model.chunked or _is_unaligned(model, workload) else None,
        build_loss_pass(model, workload),
        resolve_decoder_length(model, workload),
        images,
        workload.kernels is not Kernels.UNSLOTH
        or num_rows * length * model.spec.hidden_size * _get_width(workload) > _LEAST_MOVED_BYTES,
    )


def _get_width(workload: TrainWorkload) -> int:
    precision = workload.precision
    dtype = precision.param_dtype if precision.autocast else precision.compute_dtype
    return dtype.bytes_per_element


def _is_unaligned(model: Architecture, workload: TrainWorkload) -> bool:
    """Return whether the kernel pads rows under a learned bias.

    They are the bias's own, or of its sums. Its sizes are no polynomial of the length then
    (``CrossShape.aligned``).
    """
    is_biased = model.family in {"t5", "mt5"} and workload.attention is not Attention.EAGER
    return is_biased and workload.rows[1] % ROWS != 0


class BatchNotes(NamedTuple):
    """Notes of an explained answer on its batch."""

    batch_size: int
    stacks: tuple[Stack, ...]
    warnings: tuple[str, ...]
    evaluates: bool = False
    """Whether the batch is that of an evaluation, which has no graph."""


def describe_batch(model: Architecture, workload: TrainWorkload) -> BatchNotes:
    """Return a batch's stacks and the warnings about them."""
    return BatchNotes(
        workload.rows[0],
        list_stacks(model, workload),
        (
            *list_attention_warnings(model, workload.attention),
            *list_image_warnings(model, workload),
            *list_length_assumptions(model, workload),
        ),
    )


def build_training_pass(
    model: Architecture, workload: TrainWorkload, layout: Layout
) -> TrainingPass:
    """Return the training pass of one rank's shard of a model."""
    setup = resolve_setup(model, workload, layout)
    return build_setup_pass(setup, resolve_batch_shape(model, workload))


def build_setup_pass(setup: TrainSetup, shape: BatchShape) -> TrainingPass:
    """Return the settings that decide a micro batch's tensors."""
    workload, precision, base = setup.workload, setup.workload.precision, setup.base_weights
    is_unsloth = workload.kernels is Kernels.UNSLOTH
    moves_inputs = workload.offload.activations is not OffloadTarget.NONE
    in_main_buffer = (
        precision.main_grad_persistent and precision.main_grad_dtype is precision.grad_dtype
    )
    return TrainingPass(
        param_dtype=base.dtype if precision.autocast or base.upcast else precision.compute_dtype,
        autocast=precision.compute_dtype if precision.autocast else None,
        trains_all=workload.method is Method.FULL,
        lora=_resolve_adapters(workload.lora, precision, setup.layout),
        checkpointing=workload.activation_checkpointing,
        attention=workload.attention,
        keeps_logits=workload.keeps_logits,
        converts_outputs=workload.fp32_outputs and precision.autocast,
        accumulating=workload.gradient_accumulation_steps > 1
        or in_main_buffer
        or workload.optimizer_in_backward,
        gathering=setup.gathering,
        scheme=base.scheme,
        compute_dtype=precision.compute_dtype,
        input_dtype=precision.param_dtype if _casts_inputs(setup) else None,
        buffer_dtype=_find_uncast_buffers(setup),
        copies_logits=has_logit_copy(setup.release),
        returns_fp32=has_fp32_logits(setup.release),
        batched=shape.batched,
        padded=shape.padded,
        window_reached=shape.window_reached,
        row_padding=shape.row_padding,
        length=shape.length,
        ranks=setup.layout.tensor_parallel,
        loss=shape.loss,
        kernels=workload.kernels,
        tells_positions=is_unsloth and workload.packing is not SequencePacking.NONE,
        compiled=_is_compiled(workload),
        frozen=workload.frozen,
        steps_in_backward=_count_backward_temporaries(setup),
        decoder_length=shape.decoder_length,
        images=shape.images,
        recompute_every=workload.selective_every,
        recompute_first=workload.selective_every is not None
        and workload.framework is Framework.TRANSFORMERS,
        offloads_inputs=moves_inputs and shape.moves_inputs,
        # Unsloth's checkpoints are reentrant whatever is said.
        reentrant=workload.reentrant_checkpointing or (is_unsloth and moves_inputs),
        context_ranks=setup.layout.context_parallel,
        context_method=setup.layout.context_parallel_method,
    )


def _casts_inputs(setup: TrainSetup) -> bool:
    """Return whether units of PyTorch's FSDP cast what they are called with.

    (torch 2.13 ``_fsdp_api.py``, ``cast_forward_inputs``, True by default.)
    """
    precision = setup.workload.precision
    is_cast = not precision.autocast and precision.compute_dtype is not precision.param_dtype
    return is_cast and setup.gathering is not None and setup.layout.sharding in FULLY_SHARDED


def _find_uncast_buffers(setup: TrainSetup) -> DType | None:
    """Return the format of buffers beside weights that FSDP2 casts.

    (torch 2.13 ``_fsdp_param_group.py``: a unit has parameters alone.) FSDP1 casts them too
    (accelerate 1.15 ``FullyShardedDataParallelPlugin``), DeepSpeed the whole module.
    """
    casts = _casts_inputs(setup) and setup.layout.sharding is Sharding.FSDP2
    return setup.workload.precision.param_dtype if casts else None


def _resolve_adapters(lora: Lora | None, precision: Precision, layout: Layout) -> Lora | None:
    """Return adapters in the dtype that they compute in.

    A library that casts parameters as it gathers them casts adapters too. Over sharded weights
    PEFT's modules are counted in place of axolotl's kernels, and take more.
    """
    if lora is not None and lora.kernels and layout.zero_stage == MAX_ZERO_STAGE:
        lora = replace(lora, kernels=())
    if lora is None or precision.autocast or precision.compute_dtype is precision.param_dtype:
        return lora
    return replace(lora, dtype=precision.compute_dtype)


def build_loss_pass(model: Architecture, workload: TrainWorkload) -> LossPass | None:
    """Return the computation of the loss.

    None is the model's own way, with all logits.
    """
    if workload.loss is Loss.FULL_LOGITS and workload.trainer is Trainer.SUPERVISED:
        is_compiled = _is_compiled(workload)
        return LossPass(kind=Loss.FLASH_CROSS_ENTROPY, compiled=True) if is_compiled else None
    return LossPass(
        kind=workload.loss,
        chunk_tokens=_count_chunk_tokens(model, workload),
        trainer=workload.trainer,
        reference=None if workload.trainer is Trainer.GRPO else workload.reference,
        completion_length=workload.completion_length,
        num_kept=_count_kept_log_probs(workload),
        rows=_count_loss_rows(model, workload),
        entropy_bonus=workload.entropy_bonus,
    )


def _count_loss_rows(model: Architecture, workload: TrainWorkload) -> LossRows | None:
    if workload.loss is not Loss.FUSED_LINEAR or workload.kernels is not Kernels.UNSLOTH:
        return None
    return count_loss_rows(
        prod(workload.rows), hidden_size=model.spec.hidden_size, vocab_size=model.vocab_size
    )


def _is_compiled(workload: TrainWorkload) -> bool:
    """Return whether inductor compiles transformers' own code.

    What its partitioner keeps for backward is what Liger's kernels keep, norm by norm, rotation and
    gate, and of the loss the logits with two numbers per row; it computes the rest again (a test
    holds that against the partitioner itself).
    """
    return workload.compile and workload.framework is Framework.TRANSFORMERS


def _count_kept_log_probs(workload: TrainWorkload) -> int:
    """Return the log-probabilities per token that precede a policy's update.

    They are the reference's, and the policy's own where another engine's are corrected by them.
    """
    if workload.trainer is not Trainer.GRPO:
        return 0
    rollout = workload.rollout
    is_corrected = rollout is None or rollout.engine is not RolloutEngine.TRANSFORMERS
    return is_corrected + (workload.reference is not None)


def _count_chunk_tokens(model: Architecture, workload: TrainWorkload) -> int:
    batch, length = workload.rows
    if workload.loss is Loss.FUSED_LINEAR and workload.kernels is not Kernels.UNSLOTH:
        return liger_chunk_tokens(
            batch * length, hidden_size=model.spec.hidden_size, vocab_size=model.vocab_size
        )
    if workload.loss in LOG_PROB_LOSSES:
        return min(batch * (workload.completion_length or length - 1), MAX_TOKENS)
    return 0


def _count_backward_temporaries(setup: TrainSetup) -> int | None:
    if not setup.workload.optimizer_in_backward:
        return None
    elements = setup.optimizer.temporaries_of_one or 0
    return elements * setup.workload.precision.optimizer_dtype.bytes_per_element
