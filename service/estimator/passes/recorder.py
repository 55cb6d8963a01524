"""Walks a model: records one training step or one serving pass on a tape."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module

from service.estimator.model.adapters.stacks import stacks_of
from service.estimator.model.architecture import Architecture
from service.estimator.model.images import Images
from service.estimator.model.recording import Recording
from service.estimator.model.weights.scheme import Scheme
from service.estimator.model.weights.tensors import elements_over
from service.estimator.passes.losses import LossPass, record_loss
from service.estimator.passes.step import Step
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events, LoggingTape
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Point, Section
from service.estimator.tape.offloaded_checkpoint import Checkpoint, checkpoint_on_host
from service.estimator.tape.ops.elementwise import cast
from service.estimator.tape.ops.kv_cache_update import Store
from service.estimator.tape.ops.products import end_autocast, integers
from service.estimator.tape.pass_shape import Extent
from service.estimator.tape.units import Gathering, Units
from service.estimator.tape.unrolling import unrolled
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention, Checkpointing, Lora

Highs = dict[Section, tuple[Point, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPass:
    """Everything that decides which tensors a training step makes, beside the model, the batch and the sequence."""

    param_dtype: DType
    autocast: DType | None
    trains_all: bool
    lora: Lora | None
    checkpointing: Checkpointing
    attention: Attention
    keeps_logits: bool
    accumulating: bool
    gathering: Gathering | None = None
    scheme: Scheme | None = None
    """How the frozen linear layers are stored, where they are quantised."""
    compute: DType = DType.BF16
    """The dtype of products with quantised weights."""
    copies_logits: bool = False
    """Whether the loss shifts its logits by a copy, as older releases do."""
    returns_fp32: bool = False
    """Whether the model casts its logits to fp32 itself, as still older ones do."""
    batched: bool = False
    """Whether there is more than one sequence: then a transposed tensor is copied where one sequence's is a view."""
    padded: bool = False
    """Whether a padding mask with zeros in it comes with the batch."""
    window_reached: bool = False
    """Whether the sequence is at least as long as the model's sliding window."""
    length: int | None = None
    """Tokens of a sequence, where the model's tensors are no polynomial of it: scans in chunks."""
    ranks: int = 1
    """Tensor-parallel ranks that the model was shared out to: its numbers alone do not tell it from a smaller model."""
    loss: LossPass | None = None
    """How the loss is computed where it is not the model's own."""
    frozen: tuple[str, ...] = ()
    """Kinds of modules that are not trained."""
    steps_in_backward: int | None = None
    """With the optimizer in backward: bytes of its temporaries per element; gradients are dropped once they are stepped."""
    decoder_length: int | None = None
    """Tokens of a decoder beside an encoder; None is as many as the sequence has."""
    images: Images | None = None
    """The images of each sequence, for a model that takes them."""
    selective: int | None = None
    """Every so many layers one is recomputed in backward."""
    offloads_inputs: bool = False
    """Whether checkpoints keep the inputs of layers on the host."""
    reentrant: bool = False
    """Whether a checkpointed block is run without a graph, and again with a backward of its own."""


def _kernel(model: Architecture, asked: Attention) -> Attention:
    """Return the attention that runs: a model that SDPA cannot run falls back to eager."""
    return Attention.EAGER if model.only_eager and asked is Attention.SDPA else asked


def walker_of(model: Architecture) -> type[Step]:
    """Return what walks a model, loaded when it is needed."""
    if model.walker is None:
        return Step
    module, name = model.walker
    walker: type[Step] = getattr(import_module(f"service.estimator.{module}"), name)
    return walker


def _checkpoint(how: TrainingPass) -> Checkpoint:
    """Return how a block is run that backward computes again."""
    if how.offloads_inputs:
        return checkpoint_on_host
    if not how.reentrant:
        return Tape.checkpoint
    apart = how.gathering is not None and how.gathering.adapters_apart
    module = import_module("service.estimator.tape.reentrant")
    chosen: Checkpoint = module.checkpoint_in_frozen_unit if apart else module.checkpoint_reentrant
    return chosen


def _units(tape: Tape, how: Gathering) -> Units:
    """Return the units of a step; those of flat parameters are loaded when there are some, and lag where order matters."""
    if not how.flat:
        return Units(tape, how)
    flat = import_module("service.estimator.tape.flat_units")
    units: Units = flat.FlatUnits(tape, how, lagging=isinstance(tape, LoggingTape))
    return units


def record_training(model: Architecture, how: TrainingPass) -> Highs:
    """Return the highest points of forward, loss and backward of one micro batch."""
    tape = Tape(Section.FORWARD, Mode.RECORDING, autocast=how.autocast, accumulating=how.accumulating)
    _run_training(tape, model, how)
    return tape.ledger.highest()


def log_training(model: Architecture, how: TrainingPass) -> Events:
    """Return the allocations and releases of forward, loss and backward of one micro batch, in order."""
    short = _logged(model, how, shortens=True)
    events = unrolled(short.events(), short.loops)
    return events if events is not None else _logged(model, how, shortens=False).events()


def _logged(model: Architecture, how: TrainingPass, *, shortens: bool) -> LoggingTape:
    tape = LoggingTape(Section.FORWARD, Mode.RECORDING, autocast=how.autocast, accumulating=how.accumulating, shortens=shortens)
    if how.gathering is not None:
        tape.units = _unit_tensors(model, how.gathering.uneven)
    _run_training(tape, model, how)
    return tape


def _unit_tensors(model: Architecture, ranks: int) -> dict[int, tuple[int, ...]]:
    """Return the tensors of every sharded unit: each kind of block, and the root with all that is outside of them."""
    inside = [tuple(elements_over([weight], ranks) for weight in block.weights()) for block, _ in model.blocks]
    tower = {weight.name for weight in model.tower_layer_weights}
    first = 1 + (model.position_embedding is not None)
    numels = [elements_over([weight], ranks) for weight, _ in model.weights() if weight.name not in tower]
    root = (*numels[:first], *numels[first + sum(map(len, inside)) :])
    return {sum(unit): unit for unit in (*inside, root)}


def _run_training(tape: Tape, model: Architecture, how: TrainingPass) -> None:
    run = Recording(
        tape, dtype=how.param_dtype, trains_all=how.trains_all, attention=_kernel(model, how.attention), lora=how.lora
    )
    run.padded, run.window_reached, run.batched = how.padded, how.window_reached, how.batched
    run.scheme, run.compute = how.scheme, how.compute
    run.copies_logits, run.returns_fp32 = how.copies_logits, how.returns_fp32
    run.length, run.images, run.decoder_length = how.length, how.images, how.decoder_length
    run.checkpoint = _checkpoint(how)
    run.frozen, run.every, tape.steps_in_backward = how.frozen, how.selective, how.steps_in_backward
    run.stacks = stacks_of(model.family, how.lora)
    units = _units(tape, how.gathering) if how.gathering is not None else None
    step = walker_of(model)(model, run, checkpointed=how.checkpointing is not Checkpointing.NONE, units=units)
    hidden = step.hidden_states(step.inputs())
    if how.loss is None:
        loss = step.loss(hidden, keeps_logits=how.keeps_logits)
    else:
        loss = record_loss(step, hidden, how.loss, keeps_logits=how.keeps_logits)
    end_autocast(tape)
    tape.ledger.enter(Section.LOSS_BACKWARD)
    if units is not None:
        units.end_forward()
    step.backward(loss)


def batch_decides(model: Architecture, attention: Attention, dtype: DType) -> bool:
    """Tell whether one sequence makes other tensors than several: a product copies heads that do not lie one after another."""
    may_be_math = attention is Attention.MATH or (attention is Attention.SDPA and dtype is DType.FP32)
    return model.recurrent or model.writes_out_attention or may_be_math or attention is Attention.EAGER


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPass:
    """Everything that decides which tensors prefill and decode make, beside the model, the batch and the lengths."""

    dtype: DType
    attention: Attention
    store: Store
    """The cache."""
    prefill_window: int | None = None
    """The sliding window when the prompt fills it, or when a static cache makes queries meet all of it."""
    prefill_static: bool = False
    """Whether a static cache has layers of a window that the prompt does not exceed."""
    decode_window: int | None = None
    """The sliding window when at least as many tokens are attended to in decode."""
    drops_prompt: bool = False
    """Whether the first decode step drops the prompt from layers with a window: it is recorded as well."""
    reads_whole: bool = False
    """Whether attention reads all that a static cache has room for in prefill too, as eager attention does."""
    prefill_scheme: Scheme | None = None
    """How linear layers are stored, where prefill makes them whole or quantises their input."""
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
    """Tensor-parallel ranks that the model was shared out to."""
    decoder_start: int = 1
    """Tokens that a decoder beside an encoder begins with."""
    decoder_output: int = 0
    """Tokens that it adds to them."""


Recorder = Callable[[Architecture, ServingPass], Highs]


def record_serving(model: Architecture, how: ServingPass) -> Highs:
    """Return the highest points of prefill (``s`` = prompt) and of one decode step (``s`` = tokens in the cache).

    What a pass adds to the cache is part of it; the caller counts what is there before.
    """
    if not model.shifts_labels:
        record: Recorder = import_module("service.estimator.passes.encoder_recorder").record_encoding
        return record(model, how)
    highs: Highs = {}
    for section in (Section.PREFILL, Section.DECODE) + (Section.FIRST_DECODE,) * how.drops_prompt:
        tape = Tape(section, Mode.INFERENCE)
        run = Recording(tape, dtype=how.dtype, trains_all=False, attention=_kernel(model, how.attention), lora=None)
        decoding = section is not Section.PREFILL
        run.extent = Extent(decoding=decoding, static=how.prefill_static and not decoding)
        run.store = replace(how.store, drops_prompt=section is Section.FIRST_DECODE)
        run.reads_whole = how.store.length if how.reads_whole or decoding else None
        run.window_reached = (how.decode_window if decoding else how.prefill_window) is not None
        run.scheme, run.compute = how.decode_scheme if decoding else how.prefill_scheme, how.dtype
        run.batched, run.length = how.batched, how.length
        run.images = None if decoding else how.images
        step = Step(model, run)
        ids = integers(tape, run.extent.tokens(1))
        hidden = step.hidden_states(ids)
        whole = how.full_logits and not decoding
        logits = step.logits_of(hidden, run.extent.tokens(model.vocab_size) if whole else sizes.per_sequence(model.vocab_size))
        if model.recurrent and model.finish_logits is not None:
            logits = model.finish_logits(run, logits)
        if whole and how.dtype is not DType.FP32:
            tape.free(cast(tape, logits, DType.FP32, category=Category.LOGITS))
        tape.free(logits)
        highs |= tape.ledger.highest()
    return highs
