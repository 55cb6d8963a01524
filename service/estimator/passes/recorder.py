"""Recorded passes: one training step or one serving pass on a tape."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module

from service.estimator.model.adapters.stacks import build_stack_adapters
from service.estimator.model.architecture import Architecture
from service.estimator.model.images import Images
from service.estimator.model.recording import Recording
from service.estimator.model.weights.scheme import Scheme
from service.estimator.model.weights.tensors import count_padded_elements
from service.estimator.passes.losses import LossPass, record_loss
from service.estimator.passes.step import ModelWalk
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events, LoggingTape
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Point, Section
from service.estimator.tape.offloaded_checkpoint import Checkpoint, checkpoint_on_host
from service.estimator.tape.ops.elementwise import cast
from service.estimator.tape.ops.kv_cache_update import CacheState
from service.estimator.tape.ops.products import allocate_integers, end_autocast
from service.estimator.tape.pass_shape import PassShape
from service.estimator.tape.units import FsdpConfig, ShardedUnits
from service.estimator.tape.unrolling import unroll_repeats
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention, Checkpointing, Lora

PeakCandidates = dict[Section, tuple[Point, ...]]


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
    gathering: FsdpConfig | None = None
    scheme: Scheme | None = None
    """Storage of the frozen linear layers, where they are quantised."""
    compute_dtype: DType = DType.BF16
    """The dtype of products with quantised weights."""
    copies_logits: bool = False
    """Whether the loss shifts its logits by a copy, as older releases do."""
    returns_fp32: bool = False
    """Whether the model casts its logits to fp32 itself, as still older ones do."""
    batched: bool = False
    """Whether there is more than one sequence: then a transposed tensor is copied where one
    sequence's is a view.
    """
    padded: bool = False
    """Whether a padding mask with zeros in it comes with the batch."""
    window_reached: bool = False
    """Whether the sequence is at least as long as the model's sliding window."""
    length: int | None = None
    """Tokens of a sequence, where the model's tensors are no polynomial of it: scans in chunks."""
    ranks: int = 1
    """Tensor-parallel ranks that the model was sharded over: its numbers alone do not tell it from
    a smaller model.
    """
    loss: LossPass | None = None
    """Computation of the loss where it is not the model's own."""
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
    offloads_inputs: bool = False
    """Whether checkpoints keep the inputs of layers on the host."""
    reentrant: bool = False
    """Whether a checkpointed block is run without a graph, and again with a backward of its own."""


def _resolve_attention(model: Architecture, attention: Attention) -> Attention:
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


def _select_checkpoint(config: TrainingPass) -> Checkpoint:
    """Return the function that checkpoints a block.

    Backward computes the block again.
    """
    if config.offloads_inputs:
        return checkpoint_on_host
    if not config.reentrant:
        return Tape.checkpoint
    has_adapter_units = config.gathering is not None and config.gathering.adapter_units
    module = import_module("service.estimator.tape.reentrant")
    checkpoint: Checkpoint = (
        module.checkpoint_in_frozen_unit if has_adapter_units else module.checkpoint_reentrant
    )
    return checkpoint


def _make_units(tape: Tape, gathering: FsdpConfig) -> ShardedUnits:
    """Return the sharded units of a step.

    Those of flat parameters are loaded on demand, and lag where order matters.
    """
    if not gathering.flat_parameters:
        return ShardedUnits(tape, gathering)
    flat = import_module("service.estimator.tape.flat_units")
    units: ShardedUnits = flat.FlatUnits(tape, gathering, lagging=isinstance(tape, LoggingTape))
    return units


def record_training(model: Architecture, config: TrainingPass) -> PeakCandidates:
    """Return the highest points of one micro batch.

    Its sections are forward, loss and backward.
    """
    tape = Tape(
        Section.FORWARD, Mode.RECORDING, autocast=config.autocast, accumulating=config.accumulating
    )
    _run_training(tape, model, config)
    return tape.ledger.find_peak_candidates()


def log_training(model: Architecture, config: TrainingPass) -> Events:
    """Return the allocations and releases of one micro batch, in order.

    They are those of forward, loss and backward.
    """
    short = _log_pass(model, config, shortens=True)
    events = unroll_repeats(short.events(), short.loops)
    return events if events is not None else _log_pass(model, config, shortens=False).events()


def _log_pass(model: Architecture, config: TrainingPass, *, shortens: bool) -> LoggingTape:
    tape = LoggingTape(
        Section.FORWARD,
        Mode.RECORDING,
        autocast=config.autocast,
        accumulating=config.accumulating,
        shorten_repeats=shortens,
    )
    if config.gathering is not None:
        tape.unit_tensors = _list_unit_tensors(model, config.gathering.uneven_ranks)
    _run_training(tape, model, config)
    return tape


def _list_unit_tensors(model: Architecture, ranks: int) -> dict[int, tuple[int, ...]]:
    """Return the tensors of every sharded unit.

    The units are each kind of block, and the root with everything outside of them.
    """
    block_tensors = [
        tuple(count_padded_elements([weight], ranks) for weight in block.weights())
        for block, _ in model.blocks
    ]
    tower = {weight.name for weight in model.tower_layer_weights}
    num_tables = 1 + (model.position_embedding is not None)
    numels = [
        count_padded_elements([weight], ranks)
        for weight, _ in model.weights()
        if weight.name not in tower
    ]
    root = (*numels[:num_tables], *numels[num_tables + sum(map(len, block_tensors)) :])
    return {sum(unit): unit for unit in (*block_tensors, root)}


def _run_training(tape: Tape, model: Architecture, config: TrainingPass) -> None:
    ctx = Recording(
        tape,
        dtype=config.param_dtype,
        trains_all=config.trains_all,
        attention=_resolve_attention(model, config.attention),
        lora=config.lora,
    )
    ctx.padded, ctx.window_reached, ctx.batched = (
        config.padded,
        config.window_reached,
        config.batched,
    )
    ctx.scheme, ctx.compute_dtype = config.scheme, config.compute_dtype
    ctx.copies_logits, ctx.returns_fp32 = config.copies_logits, config.returns_fp32
    ctx.length, ctx.images, ctx.decoder_length = config.length, config.images, config.decoder_length
    ctx.checkpoint = _select_checkpoint(config)
    ctx.frozen, ctx.recompute_every, tape.steps_in_backward = (
        config.frozen,
        config.recompute_every,
        config.steps_in_backward,
    )
    ctx.stacks = build_stack_adapters(model.family, config.lora)
    units = _make_units(tape, config.gathering) if config.gathering is not None else None
    walk = get_walk_class(model)(
        model, ctx, checkpointed=config.checkpointing is not Checkpointing.NONE, units=units
    )
    hidden = walk.hidden_states(walk.inputs())
    if config.loss is None:
        loss = walk.loss(hidden, keeps_logits=config.keeps_logits)
    else:
        loss = record_loss(walk, hidden, config.loss, keeps_logits=config.keeps_logits)
    end_autocast(tape)
    tape.ledger.enter(Section.LOSS_BACKWARD)
    if units is not None:
        units.end_forward()
    walk.backward(loss)


def is_batch_dependent(model: Architecture, attention: Attention, dtype: DType) -> bool:
    """Return whether a batch of one makes other tensors than several.

    A product copies heads that do not lie one after another.
    """
    may_be_math = attention is Attention.MATH or (
        attention is Attention.SDPA and dtype is DType.FP32
    )
    return (
        model.recurrent or model.writes_out_attention or may_be_math or attention is Attention.EAGER
    )


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
    full_logits: bool = False
    """Whether prefill makes logits of the whole prompt, and an fp32 copy of them."""
    images: Images | None = None
    """The images of each prompt, for a model that takes them."""
    ranks: int = 1
    """Tensor-parallel ranks that the model was sharded over."""
    decoder_start: int = 1
    """Tokens that a decoder beside an encoder begins with."""
    decoder_output: int = 0
    """Tokens that it adds to them."""


Recorder = Callable[[Architecture, ServingPass], PeakCandidates]


def record_serving(model: Architecture, config: ServingPass) -> PeakCandidates:
    """Return the highest points of prefill and of one decode step.

    ``s`` is the prompt in prefill and the tokens in the cache in decode. Bytes that a pass adds to
    the cache are part of it; the caller counts those of before.
    """
    if not model.shifts_labels:
        record: Recorder = import_module(
            "service.estimator.passes.encoder_recorder"
        ).record_encoding
        return record(model, config)
    candidates: PeakCandidates = {}
    for section in (Section.PREFILL, Section.DECODE) + (
        Section.FIRST_DECODE,
    ) * config.drops_prompt:
        tape = Tape(section, Mode.INFERENCE)
        ctx = Recording(
            tape,
            dtype=config.dtype,
            trains_all=False,
            attention=_resolve_attention(model, config.attention),
            lora=None,
        )
        decoding = section is not Section.PREFILL
        ctx.shape = PassShape(decoding=decoding, static=config.prefill_static and not decoding)
        ctx.cache = replace(config.cache, drops_prompt=section is Section.FIRST_DECODE)
        ctx.static_cache_length = (
            config.cache.length if config.reads_full_cache or decoding else None
        )
        ctx.window_reached = (
            config.decode_window if decoding else config.prefill_window
        ) is not None
        ctx.scheme, ctx.compute_dtype = (
            config.decode_scheme if decoding else config.prefill_scheme,
            config.dtype,
        )
        ctx.batched, ctx.length = config.batched, config.length
        ctx.images = None if decoding else config.images
        walk = ModelWalk(model, ctx)
        ids = allocate_integers(tape, ctx.shape.tokens(1))
        hidden = walk.hidden_states(ids)
        all_logits = config.full_logits and not decoding
        logits = walk.record_logits(
            hidden,
            ctx.shape.tokens(model.vocab_size)
            if all_logits
            else sizes.per_sequence(model.vocab_size),
        )
        if model.recurrent and model.finish_logits is not None:
            logits = model.finish_logits(ctx, logits)
        if all_logits and config.dtype is not DType.FP32:
            tape.free(cast(tape, logits, DType.FP32, category=Category.LOGITS))
        tape.free(logits)
        candidates |= tape.ledger.find_peak_candidates()
    return candidates
