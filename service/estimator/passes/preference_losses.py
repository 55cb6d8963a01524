"""Losses of preferences, as TRL's trainers compute them.

TRL 1.16: ``trl/trainer/dpo_trainer.py`` and ``kto_trainer.py``, ``_compute_loss``, and
``reward_trainer.py``.
"""

from dataclasses import replace

from service.estimator.model.recording import Recording
from service.estimator.passes.heads import record_task
from service.estimator.passes.log_prob_losses import build_head, count_scored_rows
from service.estimator.passes.step import ModelWalk
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Section, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.loss.log_probs import (
    Labels,
    Metrics,
    compute_log_probs,
    drop_last_position,
)
from service.estimator.tape.ops.products import allocate_integers, end_autocast
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.losses import Reference, Trainer

_POLICY = {
    Trainer.DPO: Metrics(entropy=True, mean_logits=True, is_top1=True),
    Trainer.KTO: Metrics(entropy=True, mean_logits=True),
}
"""What a trainer logs of the policy."""
_NUM_MASKS = {Trainer.DPO: 3, Trainer.KTO: 6}
"""Integers per token beside the ids: the masks of padding and completions, and the labels; KTO's
ids and masks of mismatched completions too.
"""


def record_referred_loss(
    walk: ModelWalk,
    hidden: Value,
    *,
    trainer: Trainer,
    num_tokens: int,
    reference: Reference | None,
) -> Value:
    """Record two models' log-probabilities and the loss of DPO or KTO.

    ``hidden`` is dropped. Every token is taken for one of a completion.
    """
    tape, rows = walk.tape, count_scored_rows(walk)
    masks = [allocate_integers(tape, walk.ctx.shape.tokens(1)) for _ in range(_NUM_MASKS[trainer])]
    view = drop_last_position(tape, hidden, rows, walk.model.spec.hidden_size)
    policy = compute_log_probs(
        tape,
        view,
        build_head(walk),
        rows,
        labels=Labels(num_tokens=num_tokens),
        metrics=_POLICY[trainer],
    )
    tape.free(view, hidden)
    end_autocast(tape)
    sums = _sum_positions(tape, policy.value, rows)
    if reference is not Reference.PRECOMPUTED:
        # KTO's first pass of two is over mismatched completions, which have labels of their own.
        has_labels = trainer is Trainer.KTO
        labels = [allocate_integers(tape, walk.ctx.shape.tokens(1)) for _ in range(has_labels)]
        _record_reference(walk, rows, num_tokens, is_model=reference is Reference.MODEL)
        tape.free(*labels)
    loss = _average(tape, sums)
    tape.free(sums, policy.value, *masks)
    tape.release(*policy.names)
    return loss


def _record_reference(walk: ModelWalk, rows: Size, num_tokens: int, *, is_model: bool) -> None:
    """Record the forward pass of the reference.

    There is no graph and no checkpoint. The weights of a second model ask for gradients, so that
    autocast keeps its copies of them.
    """
    tape, settings = walk.tape, walk.ctx.settings
    mode, tape.mode = tape.mode, Mode.INFERENCE
    tape.ledger.enter(Section.FORWARD)
    context = replace(
        settings, lora=None, stacks=None, trains_all=is_model, frozen=(), checkpointed=False
    )
    context = replace(context, recompute_every=None)
    other = type(walk)(walk.model, Recording(tape, context))
    ids = Value(None, context.shape.tokens(1), DType.FP32)
    hidden = other.hidden_states(ids)
    other.drop_tables()
    tape.ledger.enter(Section.LOSS_FORWARD)
    view = drop_last_position(tape, hidden, rows, walk.model.spec.hidden_size)
    scored = compute_log_probs(
        tape, view, build_head(other), rows, labels=Labels(num_tokens=num_tokens), metrics=Metrics()
    )
    tape.free(view, hidden, scored.value)
    end_autocast(tape)
    tape.release(*scored.names)
    tape.mode = mode


def record_reward_loss(walk: ModelWalk, hidden: Value) -> Value:
    """Record the score of every sequence.

    Those of a pair are compared. ``hidden`` is dropped.
    """
    tape, task = walk.tape, walk.model.task
    assert task is not None  # noqa: S101 - its rules ask for a head of one score
    outputs = record_task(walk.ctx, walk.model, task, hidden)
    tape.free(*outputs.names, hidden)
    loss = _average(tape, outputs.scores, ends_loss=True)
    tape.free(outputs.scores)
    return loss


def _sum_positions(tape: Tape, x: Value, rows: Size) -> Value:
    """Return the sum over positions, whose gradient is put into zeros."""
    return tape.emit(
        sizes.per_sequence(1),
        x.dtype,
        inputs=(x,),
        backward=lambda _: tape.send(x, tape.scratch(rows, x.dtype)),
    )


def _average(tape: Tape, x: Value, *, ends_loss: bool = False) -> Value:
    """Return a loss of some numbers per sequence.

    ``ends_loss``: the rest of backward begins with their gradient.
    """

    def backward(_: Storage) -> None:
        tape.send(x, tape.scratch(x.numel, x.dtype))
        if ends_loss:
            tape.ledger.enter(Section.BACKWARD)

    return tape.emit(sizes.constant(1), DType.FP32, inputs=(x,), backward=backward)
