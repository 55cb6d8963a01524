"""Forward passes that score sequences, without a graph.

They are those of a policy before its update, and of its reference.
"""

from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.recording import Recording
from service.estimator.passes.config import TrainingPass, build_training_context, get_walk_class
from service.estimator.passes.log_prob_losses import build_head, count_scored_rows
from service.estimator.passes.policy_losses import (
    NUM_INPUTS,
    NUM_LOCALS,
    count_completion_rows,
    record_completion_logits,
)
from service.estimator.passes.recorder import make_units
from service.estimator.passes.step import ModelWalk
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Point, Section
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import cast, chain
from service.estimator.tape.ops.loss.log_probs import (
    Labels,
    Metrics,
    compute_log_probs,
    drop_last_position,
)
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.values.dtypes import DType
from service.estimator.values.losses import LOG_PROB_LOSSES, Loss

_BYTES_PER_ROW = 2 * DType.FP32.bytes_per_element
"""Log-probability and entropy of a row (flash-attn's cross entropy, and a compiled entropy)."""


def record_scoring(model: Architecture, config: TrainingPass) -> tuple[Point, ...]:
    """Return the highest points of a pass that scores sequences.

    ``config`` is that of the update, whose checkpoints, gradients and graph it lacks.
    """
    tape = Tape(Section.FORWARD, Mode.INFERENCE, autocast=config.autocast)
    tape.on_gpu = config.on_gpu
    units = make_units(tape, config.gathering) if config.gathering is not None else None
    context = replace(
        build_training_context(model, config), checkpointed=False, recompute_every=None
    )
    walk = get_walk_class(model)(model, Recording(tape, context, units=units))
    ids = walk.inputs()
    for _ in range(NUM_INPUTS + NUM_LOCALS - config.padded):
        allocate_integers(tape, walk.ctx.shape.tokens(1))
    hidden = walk.hidden_states(ids)
    walk.drop_tables()
    _score(walk, hidden, config)
    return tape.ledger.find_peak_candidates()[Section.FORWARD]


def _score(walk: ModelWalk, hidden: Value, config: TrainingPass) -> None:
    """Record the head and the log-probabilities; ``hidden`` is dropped."""
    tape, loss, rows = walk.tape, config.loss, count_scored_rows(walk)
    assert loss is not None  # noqa: S101 - a policy's loss is its own
    if loss.kind is Loss.SELECTIVE:
        _score_selectively(walk, hidden, loss.completion_length)
        return
    if loss.kind not in LOG_PROB_LOSSES:
        logits = walk.record_logits(hidden, walk.ctx.shape.tokens(walk.model.vocab_size))
        if loss.kind is Loss.FULL_LOGITS:
            logits = chain(
                tape, logits, lambda t, value: cast(t, value, DType.FP32, category=Category.LOGITS)
            )
        scores = tape.allocate(Category.TEMPORARIES, walk.ctx.shape.tokens(_BYTES_PER_ROW))
        tape.free(hidden, logits)
        tape.release(scores)
        return
    length = loss.completion_length
    view = drop_last_position(tape, hidden, rows, walk.model.spec.hidden_size)
    scored = compute_log_probs(
        tape,
        view,
        build_head(walk),
        rows,
        labels=Labels(
            num_tokens=loss.chunk_tokens,
            rows=None if length is None else sizes.per_sequence(length),
        ),
        metrics=Metrics(entropy=True),
    )
    tape.free(view, hidden, scored.value)
    tape.release(*scored.names)


def _score_selectively(walk: ModelWalk, hidden: Value, length: int | None) -> None:
    """Record logits of completions, and one sequence's log-softmax."""
    tape, vocab_size = walk.tape, walk.model.vocab_size
    rows = count_completion_rows(walk, length)
    logits = record_completion_logits(walk, hidden, rows)
    one_row = sizes.per_position(1) if length is None else sizes.constant(length)
    softmax = tape.scratch(sizes.scale(one_row, vocab_size), logits.dtype)
    scores = tape.scratch(rows, logits.dtype)
    tape.free(logits)
    tape.release(softmax, scores)
