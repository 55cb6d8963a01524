"""Recorded training steps, and evaluations between them."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.narrowing import get_outer_layers
from service.estimator.model.recording import Recording
from service.estimator.model.unit_elements import iter_unit_tensors
from service.estimator.model.weights.tensors import Weight, count_padded_elements
from service.estimator.passes.config import (
    EvaluationPass,
    PeakCandidates,
    TrainingPass,
    build_training_context,
    get_walk_class,
)
from service.estimator.passes.heads import list_task_labels
from service.estimator.passes.losses import record_loss
from service.estimator.passes.step import ModelWalk
from service.estimator.passes.whole_logits import convert_outputs, record_second_pass
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events, LoggingTape
from service.estimator.tape.flat_units import FlatUnits
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.offloaded_checkpoint import BufferedCheckpoint
from service.estimator.tape.ops.loss.losses import INDEX_BYTES
from service.estimator.tape.ops.products import end_autocast
from service.estimator.tape.sizes import Size
from service.estimator.tape.units import FsdpConfig, ShardedUnits
from service.estimator.tape.unrolling import unroll_repeats
from service.estimator.values.losses import LOG_PROB_LOSSES

_SHARED = 2
"""Batches that are kept where the first one's name and the kept ones are the same tensor."""
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


def get_mode(config: TrainingPass) -> Mode:
    """Return whether a pass builds a graph."""
    return Mode.RECORDING if config.evaluation is None else Mode.INFERENCE


def record_training(model: Architecture, config: TrainingPass) -> PeakCandidates:
    """Return the highest points of one micro batch.

    Its sections are forward, loss and backward.
    """
    tape = Tape(
        Section.FORWARD,
        get_mode(config),
        autocast=config.autocast,
        accumulating=config.accumulating,
    )
    if config.gathering is not None and config.gathering.single_rank:
        tape.unit_tensors = _list_unit_tensors(model, config)
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
        unit_tensors = _list_unit_tensors(model, config)
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
        get_mode(config),
        autocast=config.autocast,
        accumulating=config.accumulating,
        shorten_repeats=shortens,
    )
    if unit_tensors is not None:
        tape.unit_tensors = unit_tensors
    run_training(tape, model, config, make=make)
    return tape


def _list_unit_tensors(model: Architecture, config: TrainingPass) -> UnitTensors:
    """Return the tensors of units, for one rank with adapters."""
    assert config.gathering is not None  # noqa: S101 - only sharded passes have units
    ranks, units, outer = (
        config.gathering.uneven_ranks,
        list_unit_weights(model),
        get_outer_layers(model),
    )
    units = [*(tuple(layer.weights()) for layer in outer), *units]
    if config.gathering.single_rank:
        tape = Tape(Section.FORWARD, Mode.INFERENCE, autocast=config.autocast)
        ctx = Recording(tape, build_training_context(model, config))
        linears = [layer.linears() for layer in outer]
        linears += [block.linears() for block, _ in model.blocks]
        for index, layers in enumerate(linears):
            units[index] = tuple(iter_unit_tensors(ctx, units[index], layers))
    counts = [tuple([count_padded_elements([weight], ranks) for weight in unit]) for unit in units]
    return {sum(unit): unit for unit in counts}


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
    """Record one micro batch on a tape, forward, loss and backward.

    Of an evaluation there is no backward.
    """
    if config.evaluation is not None:
        _run_evaluation(tape, model, config, config.evaluation, make)
        return
    walk = _make_walk(tape, model, config, make)
    loss, _ = _run_forward(walk, config, keeps_logits=config.keeps_logits)
    tape.ledger.enter(Section.LOSS_BACKWARD)
    if walk.units is not None:
        walk.units.end_forward()
    walk.backward(loss)


def _make_walk(tape: Tape, model: Architecture, config: TrainingPass, make: MakeUnits) -> ModelWalk:
    tape.steps_in_backward, tape.on_gpu = config.steps_in_backward, config.on_gpu
    units = make(tape, config.gathering) if config.gathering is not None else None
    context = build_training_context(model, config)
    return get_walk_class(model)(model, Recording(tape, context, units=units))


def _run_forward(
    walk: ModelWalk, config: TrainingPass, *, keeps_logits: bool
) -> tuple[Value, tuple[Value, ...]]:
    """Record a batch up to its loss.

    Return that and what is kept beside it.
    """
    hidden = walk.hidden_states(walk.inputs())
    checkpoint = walk.ctx.settings.checkpoint
    if isinstance(checkpoint, BufferedCheckpoint):
        checkpoint.keep_last_input(walk.tape, hidden)
    if config.evaluation is not None:
        walk.drop_tables()
    holds_logits = keeps_logits or config.converts_outputs
    if config.loss is None:
        loss = walk.loss(hidden, keeps_logits=holds_logits)
    else:
        loss = record_loss(walk, hidden, config.loss, keeps_logits=holds_logits)
    walk.tape.release(*walk.ctx.cast_inputs)
    end_autocast(walk.tape)
    if keeps_logits and config.loss is not None and config.loss.kind in LOG_PROB_LOSSES:
        walk = record_second_pass(walk)
    if config.converts_outputs:
        return loss, convert_outputs(walk, keeps_logits=keeps_logits)
    return loss, walk.returned() if keeps_logits else ()


def _run_evaluation(
    tape: Tape,
    model: Architecture,
    config: TrainingPass,
    evaluation: EvaluationPass,
    make: MakeUnits,
) -> None:
    """Record the last batch of an evaluation whose outputs are kept.

    Those before it are one tensor, and the latest of them has a name of its own. Both are gathered
    over all ranks; then a copy of all takes their place (transformers 5.23 ``trainer.py``,
    ``evaluation_loop``; ``trainer_pt_utils.py``, ``EvalLoopContainer``).
    """
    num_kept, ranks = evaluation.kept_batches, evaluation.ranks
    groups = _list_kept(model, config) if num_kept else ()

    def allocate(group: Sequence[Size], times: int) -> list[Storage]:
        return [tape.allocate(Category.LOGITS, sizes.scale(size, times)) for size in group]

    earlier = [allocate(group, ranks * (num_kept - 1)) for group in groups if num_kept > 1]
    named = [allocate(group, ranks) for group in groups if num_kept > _SHARED]
    walk = _make_walk(tape, model, config, make)
    walk.has_labels = True
    _, returned = _run_forward(walk, config, keeps_logits=num_kept > 0)
    tape.release(*chain.from_iterable(named))
    for index, group in enumerate(groups):
        if ranks > 1:
            allocate(group, ranks)
            tape.free(*([] if index else returned))
        if num_kept > 1:
            allocate(group, ranks * num_kept)
            tape.release(*earlier[index])


def _list_kept(model: Architecture, config: TrainingPass) -> tuple[Sequence[Size], Sequence[Size]]:
    """Return the bytes of a batch's outputs and of its labels."""
    tape = Tape(Section.FORWARD, Mode.INFERENCE, autocast=config.autocast)
    walk = _make_walk(tape, model, config, make_units)
    walk.has_labels = True
    _, returned = _run_forward(walk, config, keeps_logits=True)
    task, tokens = model.task, walk.ctx.shape.tokens
    labels = [tokens(INDEX_BYTES)] if task is None else list_task_labels(walk.ctx, model, task)
    return [count_bytes(value.numel, value.dtype) for value in returned], labels
