"""Losses of TRL's trainers, which need log-probabilities and no logits.

They are those of TRL 1.16 (``trl/trainer/utils.py``, ``add_fused_lm_head``): the head's scale and
cap are applied inside of a tile.
"""

from service.estimator.passes.step import ModelWalk
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Section, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.loss.log_probs import (
    Head,
    Labels,
    Metrics,
    compute_log_probs,
    drop_last_position,
)
from service.estimator.tape.ops.routing import balance_experts
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

_METRICS = Metrics(entropy=True, is_top1=True)
"""What SFTTrainer logs."""


def record_log_prob_loss(
    walk: ModelWalk, hidden: Value, *, num_tokens: int, is_weighted: bool
) -> Value:
    """Record the head and TRL's loss of SFT.

    ``hidden`` stays with the caller. ``is_weighted``: each token's loss is weighed with its
    probability, as ``dft`` does.
    """
    tape, rows = walk.tape, count_scored_rows(walk)
    view = drop_last_position(tape, hidden, rows, walk.model.spec.hidden_size)
    log_probs = compute_log_probs(
        tape, view, build_head(walk), rows, labels=Labels(num_tokens=num_tokens), metrics=_METRICS
    )
    tape.free(view)
    record_balance(walk)
    losses = _negate(tape, log_probs.value, rows)
    if is_weighted:
        losses = _weigh(tape, losses, rows)
    loss = tape.emit(
        sizes.constant(1),
        DType.FP32,
        inputs=(losses,),
        backward=lambda _: tape.send(losses, tape.scratch(sizes.constant(1), DType.FP32)),
    )
    tape.free(losses, log_probs.value)
    tape.release(*log_probs.names)
    return loss


def record_balance(walk: ModelWalk) -> None:
    """Record the loss that balances experts, if there is one."""
    if not walk.ctx.settings.balances_experts:
        return
    spec, tape = walk.model.spec, walk.tape
    layers = sum(times for block, times in walk.model.blocks if block.idle_parameters())
    logits = walk.ctx.shape.tokens(spec.num_experts)
    balance_experts(tape, logits, layers, walk.ctx.settings.dtype)


def count_scored_rows(walk: ModelWalk) -> Size:
    """Return the positions that have a next token."""
    return sizes.subtract(walk.ctx.shape.tokens(1), sizes.per_sequence(1))


def build_head(walk: ModelWalk) -> Head:
    """Return a model's head, the embedding's table where they are tied."""
    model, ctx = walk.model, walk.ctx
    table, *bias = ctx.parameters(model.head.weights(), "")
    return Head(
        weight=ctx.parameter(model.embedding) if model.tied else table,
        bias=bias[0] if bias else None,
        hidden_size=model.spec.hidden_size,
        vocab_size=model.vocab_size,
    )


def _negate(tape: Tape, x: Value, rows: Size) -> Value:
    return tape.emit(
        rows,
        DType.FP32,
        inputs=(x,),
        backward=lambda _: tape.send(x, tape.scratch(rows, DType.FP32)),
    )


def _weigh(tape: Tape, losses: Value, rows: Size) -> Value:
    """Return losses weighed with constant probabilities.

    ``losses`` are dropped.
    """
    probabilities = Value(tape.scratch(rows, DType.FP32), rows, DType.FP32)
    weighed = tape.emit(
        rows,
        DType.FP32,
        inputs=(losses,),
        saves=(probabilities,),
        backward=lambda _: tape.send(losses, tape.scratch(rows, DType.FP32)),
    )
    tape.free(losses, probabilities)
    return weighed


def sum_positions(tape: Tape, x: Value, rows: Size) -> Value:
    """Return the sum over positions, whose gradient is put into zeros."""
    return tape.emit(
        sizes.per_sequence(1),
        x.dtype,
        inputs=(x,),
        backward=lambda _: tape.send(x, tape.scratch(rows, x.dtype)),
    )


def average_sequences(tape: Tape, x: Value, *, ends_loss: bool = False) -> Value:
    """Return a loss of some numbers per sequence.

    ``ends_loss``: the rest of backward begins with their gradient.
    """

    def backward(_: Storage) -> None:
        tape.send(x, tape.scratch(x.numel, x.dtype))
        if ends_loss:
            tape.ledger.enter(Section.BACKWARD)

    return tape.emit(sizes.constant(1), DType.FP32, inputs=(x,), backward=backward)
