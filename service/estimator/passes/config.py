"""Settings of recorded passes, and what a pass's modules see of them.

Together with the sizes of a pass they decide its tensors.
"""

from dataclasses import dataclass
from importlib import import_module

from service.estimator.model.adapters.stacks import build_stack_adapters
from service.estimator.model.adapters.unsloth import has_own_layers
from service.estimator.model.architecture import Architecture
from service.estimator.model.images import Images
from service.estimator.model.pass_context import PassContext
from service.estimator.model.recorded.narrowing import shares_gradients
from service.estimator.model.task_head import get_saved_names
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.model.weights.scheme import Scheme
from service.estimator.passes.losses import LossPass
from service.estimator.passes.step import ModelWalk
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Point, Section
from service.estimator.tape.offloaded_checkpoint import (
    BufferedCheckpoint,
    Checkpoint,
    checkpoint_on_host,
)
from service.estimator.tape.ops.kv_cache_update import CacheState
from service.estimator.tape.pass_shape import PassShape
from service.estimator.tape.reentrant import checkpoint_in_frozen_unit, checkpoint_reentrant
from service.estimator.tape.units import FsdpConfig
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import ContextMethod
from service.estimator.values.losses import (
    BALANCED_FAMILIES,
    LIGER_COPYING_FAMILIES,
    LOG_PROB_LOSSES,
    Kernels,
)
from service.estimator.values.workload import Attention, Checkpointing, Lora

PeakCandidates = dict[Section, tuple[Point, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPass:
    """An evaluation between steps: a forward pass without a graph."""

    kept_batches: int = 0
    """Batches whose outputs are on the GPU together; with none there are losses alone."""
    ranks: int = 1
    """Processes whose outputs each of them gathers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPass:
    """Settings that decide which tensors a training step makes.

    The model, the batch and the sequence decide the rest.
    """

    param_dtype: DType
    autocast: DType | None
    trains_all: bool
    lora: Lora | None
    checkpointing: Checkpointing
    attention: Attention
    keeps_logits: bool
    accumulating: bool
    converts_outputs: bool = False
    """Whether what the model returns is cast to fp32 once autocast is left."""
    gathering: FsdpConfig | None = None
    scheme: Scheme | None = None
    """Storage of the frozen linear layers, where they are quantised."""
    compute_dtype: DType = DType.BF16
    """The dtype of products with quantised weights."""
    input_dtype: DType | None = None
    """The dtype of a batch's floats, where they are cast to the weights' before the pass."""
    buffer_dtype: DType | None = None
    """The dtype of buffers, where they are left as they are loaded and weights are cast."""
    copies_logits: bool = False
    """Whether the loss shifts its logits by a copy, as older releases do."""
    returns_fp32: bool = False
    """Whether the model casts its logits to fp32 itself, as still older ones do."""
    batched: bool = False
    """Whether a transposed tensor is copied, which of one sequence is a view."""
    padded: bool = False
    """Whether a padding mask with zeros in it comes with the batch."""
    window_reached: bool = False
    """Whether the sequence is at least as long as the model's sliding window."""
    row_padding: int = 0
    """Positions that a sequence lacks to a multiple of the memory-efficient kernel's rows."""
    length: int | None = None
    """Tokens of a sequence, where the model's tensors are no polynomial of it: scans in chunks."""
    ranks: int = 1
    """Tensor-parallel ranks that the model was sharded over, which its numbers do not tell."""
    loss: LossPass | None = None
    """Computation of the loss where it is not the model's own."""
    kernels: Kernels = Kernels.TORCH
    tells_positions: bool = False
    """Whether Unsloth's rotations are told positions, as those of packed rows are."""
    compiled: bool = False
    """Whether inductor compiles forward and backward: it keeps what Liger's kernels keep, and one
    16-bit copy of a norm's output for all products that read it.
    """
    frozen: tuple[str, ...] = ()
    """Kinds of modules that are not trained."""
    steps_in_backward: int | None = None
    """With the optimizer in backward: bytes of its temporaries per element; gradients are dropped
    once they are stepped.
    """
    decoder_length: int | None = None
    """Tokens of a decoder beside an encoder; None is as many as the sequence has."""
    images: Images | None = None
    """The images of each sequence, for a model that takes them."""
    recompute_every: int | None = None
    """Interval of layers recomputed in backward: one in so many."""
    recompute_first: bool = False
    """Whether the first of each interval is recomputed, rather than the last."""
    on_gpu: bool = False
    """Whether the kernels are CUDA's, not those that a trace runs in their place."""
    cudnn: bool = False
    """Whether SDPA takes cuDNN's attention where it would take flash attention."""
    offloads_inputs: bool = False
    """Whether checkpoints keep the inputs of layers on the host."""
    reentrant: bool = False
    """Whether a checkpointed block is run without a graph, and again with a backward of its own."""
    context_ranks: int = 1
    """Ranks that share every sequence."""
    context_method: ContextMethod = ContextMethod.RING
    evaluation: EvaluationPass | None = None
    """The evaluation that it is in place of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Settings that decide which tensors ``generate`` makes around a pass."""

    samples: bool = False
    num_beams: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPass:
    """Settings that decide which tensors prefill and decode make.

    The model, the batch and the lengths decide the rest.
    """

    dtype: DType
    attention: Attention
    cache: CacheState
    """State of the key/value cache at the start of the pass."""
    prefill_window: int | None = None
    """The sliding window when the prompt fills it, or when a static cache makes queries meet all of
    it.
    """
    row_padding: int = 0
    """Positions that a prompt lacks to a multiple of the memory-efficient kernel's rows."""
    prefill_static: bool = False
    """Whether a static cache has layers of a window that the prompt does not exceed."""
    decode_window: int | None = None
    """The sliding window when at least as many tokens are attended to in decode."""
    drops_prompt: bool = False
    """Whether the first decode step, recorded as well, drops the prompt from layers with a window.
    """
    reads_full_cache: bool = False
    """Whether attention reads all that a static cache has room for in prefill too, as eager
    attention does.
    """
    prefill_scheme: Scheme | None = None
    """Storage of linear layers, where prefill dequantises them or quantises their input."""
    decode_scheme: Scheme | None = None
    """The same in decode, whose kernels for few rows mostly read the codes themselves."""
    batched: bool = False
    """Whether there is more than one sequence, where that decides what is copied."""
    length: int | None = None
    """Tokens of a prompt, where a model's tensors are no polynomial of it."""
    total_length: int | None = None
    """Tokens of a prompt and what follows it, where the same is so."""
    full_logits: bool = False
    """Whether prefill makes logits of the whole prompt, and an fp32 copy of them."""
    images: Images | None = None
    """The images of each prompt, for a model that takes them."""
    ranks: int = 1
    """Tensor-parallel ranks that the model was sharded over."""
    generation: Generation | None = None
    """Settings of ``generate``; None where a plain loop calls the model."""
    on_gpu: bool = False
    """Whether the kernels are CUDA's, not those that a trace runs in their place."""
    cudnn: bool = False
    """Whether SDPA takes cuDNN's attention where it would take flash attention."""
    decoder_start: int = 1
    """Tokens that a decoder beside an encoder begins with."""
    decoder_output: int = 0
    """Tokens that it adds to them."""


def resolve_attention(model: Architecture, attention: Attention) -> Attention:
    """Return the attention kernel that runs.

    A model that SDPA cannot run falls back to eager.
    """
    return Attention.EAGER if model.only_eager and attention is Attention.SDPA else attention


def get_walk_class(model: Architecture) -> type[ModelWalk]:
    """Return the class that walks a model, loaded on demand."""
    if model.walker is None:
        return ModelWalk
    module, name = model.walker
    walker: type[ModelWalk] = getattr(import_module(f"service.estimator.{module}"), name)
    return walker


def is_batch_dependent(model: Architecture, attention: Attention, dtype: DType) -> bool:
    """Return whether a batch of one makes other tensors than several.

    A product copies heads that do not lie one after another.
    """
    kernel = resolve_attention(model, attention)
    may_be_math = kernel is Attention.MATH or (kernel is Attention.SDPA and dtype is DType.FP32)
    return (
        model.recurrent
        or model.batch_dependent
        or model.writes_out_attention
        or model.always_masked
        or may_be_math
        or kernel is Attention.EAGER
    )


def _select_checkpoint(config: TrainingPass) -> Checkpoint:
    """Return the function that checkpoints a block.

    Backward computes the block again.
    """
    if config.offloads_inputs:
        return BufferedCheckpoint() if config.kernels is Kernels.UNSLOTH else checkpoint_on_host
    if not config.reentrant:
        return Tape.checkpoint
    has_adapter_units = config.gathering is not None and config.gathering.adapter_units
    return checkpoint_in_frozen_unit if has_adapter_units else checkpoint_reentrant


def build_training_context(model: Architecture, config: TrainingPass) -> PassContext:
    """Return the settings of a training step's recording."""
    is_unsloth = has_own_layers(model.family, config.kernels, config.lora, config.scheme)
    is_liger = config.kernels is Kernels.LIGER or config.compiled
    is_foak = config.kernels is Kernels.FOAK
    attention = resolve_attention(model, config.attention)
    if is_unsloth and attention is Attention.EAGER:
        attention = Attention.FLASH  # flex attention caps scores of no memory
    return PassContext(
        dtype=config.param_dtype,
        compute_dtype=config.compute_dtype,
        input_dtype=config.input_dtype,
        buffer_dtype=config.buffer_dtype,
        attention=attention,
        trains_all=config.trains_all,
        frozen=config.frozen,
        lora=config.lora,
        saved=frozenset() if config.lora is None else get_saved_names(model.task),
        stacks=build_stack_adapters(model.family, config.lora),
        scheme=config.scheme,
        cudnn=config.cudnn,
        context_ranks=config.context_ranks,
        context_method=config.context_method,
        padded=config.padded,
        window_reached=config.window_reached,
        shape=PassShape(row_padding=config.row_padding),
        batched=config.batched,
        length=config.length,
        decoder_length=config.decoder_length,
        images=config.images,
        balances_experts=model.family in BALANCED_FAMILIES
        and config.loss is not None
        and config.loss.kind in LOG_PROB_LOSSES,
        checkpoint=_select_checkpoint(config),
        checkpointed=config.checkpointing is not Checkpointing.NONE,
        recompute_every=config.recompute_every,
        recompute_first=config.recompute_first,
        # Gradients of what all layers read are made by the last layer of a stack and added to by
        # the others, in place. Unsloth's checkpoints leave the last layer's input where it is.
        last_differs=shares_gradients(model)
        or isinstance(model, EncoderDecoder)
        or (config.offloads_inputs and config.kernels is Kernels.UNSLOTH),
        copies_logits=config.copies_logits or is_foak,
        returns_fp32=config.returns_fp32,
        fuses_kernels=is_liger or is_foak or is_unsloth,
        fuses_gates=is_liger,
        shares_casts=config.compiled,
        normalises_in_place=not model.family.startswith("gemma")
        if is_unsloth
        else model.family not in LIGER_COPYING_FAMILIES,
        unsloth=is_unsloth,
        foak=is_foak and config.scheme is not None,
        position_ids=config.tells_positions,
    )
