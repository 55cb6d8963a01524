"""Recorded training steps."""

from collections.abc import Callable, Mapping

from service.estimator.model.adapters.stacks import build_stack_adapters
from service.estimator.model.architecture import Architecture
from service.estimator.model.pass_context import PassContext
from service.estimator.model.recording import Recording
from service.estimator.model.task_head import get_saved_names
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.model.weights.tensors import Weight, count_padded_elements
from service.estimator.passes.config import (
    PeakCandidates,
    TrainingPass,
    get_walk_class,
    resolve_attention,
)
from service.estimator.passes.losses import record_loss
from service.estimator.tape.event_log import Events, LoggingTape
from service.estimator.tape.flat_units import FlatUnits
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Section
from service.estimator.tape.offloaded_checkpoint import Checkpoint, checkpoint_on_host
from service.estimator.tape.ops.products import end_autocast
from service.estimator.tape.reentrant import checkpoint_in_frozen_unit, checkpoint_reentrant
from service.estimator.tape.units import FsdpConfig, ShardedUnits
from service.estimator.tape.unrolling import unroll_repeats
from service.estimator.values.losses import (
    BALANCED_FAMILIES,
    LIGER_COPYING_FAMILIES,
    LOG_PROB_LOSSES,
    Kernels,
)
from service.estimator.values.workload import Checkpointing


def _select_checkpoint(config: TrainingPass) -> Checkpoint:
    """Return the function that checkpoints a block.

    Backward computes the block again.
    """
    if config.offloads_inputs:
        return checkpoint_on_host
    if not config.reentrant:
        return Tape.checkpoint
    has_adapter_units = config.gathering is not None and config.gathering.adapter_units
    return checkpoint_in_frozen_unit if has_adapter_units else checkpoint_reentrant


MakeUnits = Callable[[Tape, FsdpConfig], ShardedUnits]
UnitTensors = Mapping[int, tuple[int, ...]]
"""Elements of each tensor of a sharded unit, by the elements of all of them."""


def make_units(tape: Tape, gathering: FsdpConfig) -> ShardedUnits:
    """Return the sharded units of a step.

    Those of flat parameters lag where order matters.
    """
    if not gathering.flat_parameters:
        return ShardedUnits(tape, gathering)
    return FlatUnits(tape, gathering, lagging=isinstance(tape, LoggingTape))


def record_training(model: Architecture, config: TrainingPass) -> PeakCandidates:
    """Return the highest points of one micro batch.

    Its sections are forward, loss and backward.
    """
    tape = Tape(
        Section.FORWARD, Mode.RECORDING, autocast=config.autocast, accumulating=config.accumulating
    )
    run_training(tape, model, config)
    return tape.ledger.find_peak_candidates()


def log_training(
    model: Architecture,
    config: TrainingPass,
    *,
    make: MakeUnits = make_units,
    unit_tensors: UnitTensors | None = None,
) -> Events:
    """Return the allocations and releases of one micro batch, in order.

    They are those of forward, loss and backward.
    """
    if unit_tensors is None and config.gathering is not None:
        unit_tensors = _list_unit_tensors(model, config.gathering.uneven_ranks)
    short = _log_pass(model, config, make, unit_tensors, shortens=True)
    events = unroll_repeats(short.events(), short.loops)
    if events is not None:
        return events
    return _log_pass(model, config, make, unit_tensors, shortens=False).events()


def _log_pass(
    model: Architecture,
    config: TrainingPass,
    make: MakeUnits,
    unit_tensors: UnitTensors | None,
    *,
    shortens: bool,
) -> LoggingTape:
    tape = LoggingTape(
        Section.FORWARD,
        Mode.RECORDING,
        autocast=config.autocast,
        accumulating=config.accumulating,
        shorten_repeats=shortens,
    )
    if unit_tensors is not None:
        tape.unit_tensors = unit_tensors
    run_training(tape, model, config, make=make)
    return tape


def _list_unit_tensors(model: Architecture, ranks: int) -> UnitTensors:
    units = [
        tuple([count_padded_elements([weight], ranks) for weight in unit])
        for unit in list_unit_weights(model)
    ]
    return {sum(unit): unit for unit in units}


def list_unit_weights(model: Architecture) -> list[tuple[Weight, ...]]:
    """Return the tensors of every sharded unit.

    The units are each kind of block, and last the root with everything outside of them.
    """
    blocks = [tuple(block.weights()) for block, _ in model.blocks]
    tower = {weight.name for weight in model.tower_layer_weights}
    num_tables = 1 + (model.position_embedding is not None)
    weights = [weight for weight, _ in model.weights() if weight.name not in tower]
    return [*blocks, (*weights[:num_tables], *weights[num_tables + sum(map(len, blocks)) :])]


def run_training(
    tape: Tape,
    model: Architecture,
    config: TrainingPass,
    *,
    make: MakeUnits = make_units,
) -> None:
    """Record one micro batch on a tape, forward, loss and backward."""
    tape.steps_in_backward, tape.on_gpu = config.steps_in_backward, config.on_gpu
    units = make(tape, config.gathering) if config.gathering is not None else None
    walk = get_walk_class(model)(
        model, Recording(tape, build_training_context(model, config), units=units)
    )
    hidden = walk.hidden_states(walk.inputs())
    keeps_logits = config.keeps_logits or config.converts_outputs
    if config.loss is None:
        loss = walk.loss(hidden, keeps_logits=keeps_logits)
    else:
        loss = record_loss(walk, hidden, config.loss, keeps_logits=keeps_logits)
    end_autocast(tape)
    if config.converts_outputs:
        walk.convert_outputs(keeps_logits=config.keeps_logits)
    tape.ledger.enter(Section.LOSS_BACKWARD)
    if units is not None:
        units.end_forward()
    walk.backward(loss)


def build_training_context(model: Architecture, config: TrainingPass) -> PassContext:
    """Return the settings of a training step's recording."""
    return PassContext(
        dtype=config.param_dtype,
        compute_dtype=config.compute_dtype,
        attention=resolve_attention(model, config.attention),
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
        # Gradients of what all layers read are made by the last layer of a stack and added to by
        # the others, in place.
        last_differs=isinstance(model, EncoderDecoder),
        copies_logits=config.copies_logits,
        returns_fp32=config.returns_fp32,
        fuses_kernels=config.kernels is Kernels.LIGER or config.compiled,
        shares_casts=config.compiled,
        normalises_in_place=model.family not in LIGER_COPYING_FAMILIES,
    )
