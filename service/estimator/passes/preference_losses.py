"""Losses of preferences, as TRL's trainers compute them, and LLaMA-Factory's.

TRL 1.16: ``trl/trainer/dpo_trainer.py`` and ``kto_trainer.py``, ``_compute_loss``, and
``reward_trainer.py``. LLaMA-Factory 0.9.5: ``train/dpo/trainer.py`` and ``train/kto/trainer.py``,
``concatenated_forward``. Those without a reference: TRL 1.16, ``trl/experimental/orpo`` and
``cpo``, ``concatenated_forward`` and ``get_batch_loss_metrics``.
"""

from dataclasses import dataclass, replace

from service.estimator.model.recording import Recording
from service.estimator.passes.heads import record_task
from service.estimator.passes.log_prob_losses import (
    average_sequences,
    build_head,
    count_scored_rows,
    record_balance,
    sum_positions,
)
from service.estimator.passes.policy_losses import add_losses
from service.estimator.passes.step import ModelWalk
from service.estimator.passes.whole_logits import (
    record_entropy,
    record_returned,
    record_selective_log_probs,
    record_upcast_log_probs,
    score_selectively,
)
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.loss.fused_losses import ceil_div_size
from service.estimator.tape.ops.loss.log_probs import (
    Labels,
    LogProbs,
    Metrics,
    compute_log_probs,
    drop_last_position,
)
from service.estimator.tape.ops.loss.losses import INDEX_BYTES, cross_entropy
from service.estimator.tape.ops.products import allocate_integers, end_autocast
from service.estimator.tape.ops.views import narrow
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.losses import Loss, Reference, Trainer

_POLICY = {
    Trainer.DPO: Metrics(entropy=True, mean_logits=True, is_top1=True),
    Trainer.KTO: Metrics(entropy=True, mean_logits=True),
}
"""What a trainer logs of the policy."""
_NUM_MASKS = {Trainer.DPO: 3, Trainer.KTO: 6}
"""Integers per token beside the ids: the masks of padding and completions, and the labels; KTO's
ids and masks of mismatched completions too.
"""
_NUM_INPUTS = 4
"""Integers per token that the trainer keeps of a batch.

They are ids, masks and labels of both sides, and ids and masks of their prompts, each of which is
as long as its pair.
"""
_NUM_LOCALS = 3
"""Integers per token of the loss's own beside the ids: masks and labels joined, and a copy."""
_NUM_STATISTICS = 3
"""Numbers per row that a kernel makes beside the log-probability, of which it keeps two."""


def record_referred_loss(
    walk: ModelWalk,
    hidden: Value,
    *,
    trainer: Trainer,
    kind: Loss,
    num_tokens: int,
    reference: Reference | None,
) -> Value:
    """Record two models' log-probabilities and the loss of DPO or KTO.

    ``hidden`` is dropped. Every token is taken for one of a completion. ``kind`` says how logits
    become log-probabilities: ``num_tokens`` are scored at once as TRL does.
    """
    tape, rows = walk.tape, count_scored_rows(walk)
    masks = [allocate_integers(tape, walk.ctx.shape.tokens(1)) for _ in range(_NUM_MASKS[trainer])]
    scorer = Scorer(kind=kind, rows=rows, num_tokens=num_tokens)
    log_probs, kept = scorer.score(walk, hidden, _POLICY[trainer])
    record_balance(walk)
    sums = sum_positions(tape, log_probs.value, rows)
    has_mismatched, is_whole = trainer is Trainer.KTO, kind is Loss.FULL_LOGITS
    if has_mismatched and is_whole:
        tape.free(*_record_scoring(walk, scorer, times=1, is_model=False, adapts=True))
    if has_mismatched:
        copies = _split_by_label(tape, kept)
        tape.free(*(kept if is_whole else ()))
        kept = copies if is_whole else (*kept, *copies)
    scored: list[Value] = []
    if reference is not Reference.PRECOMPUTED:
        # KTO's first pass of two is over mismatched completions, which have labels of their own.
        labels = [allocate_integers(tape, walk.ctx.shape.tokens(1)) for _ in range(has_mismatched)]
        times = 1 + (is_whole and has_mismatched)
        is_model = reference is Reference.MODEL
        scored = _record_scoring(walk, scorer, times=times, is_model=is_model, adapts=False)
        tape.free(*labels)
    if kind is Loss.SELECTIVE:
        record_entropy(walk, rows, kept[0].dtype)
    tape.free(*scored)
    loss = average_sequences(tape, sums)
    tape.free(sums, log_probs.value, *masks, *kept)
    tape.release(*log_probs.names)
    return loss


def _split_by_label(tape: Tape, kept: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return copies of logits by label."""
    return tuple(
        Value(
            tape.allocate(Category.LOGITS, count_bytes(logits.numel, logits.dtype)),
            logits.numel,
            logits.dtype,
        )
        for logits in kept
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """Scoring of every label by a trainer."""

    kind: Loss
    rows: Size
    num_tokens: int

    def score(
        self, walk: ModelWalk, hidden: Value, metrics: Metrics
    ) -> tuple[LogProbs, tuple[Value, ...]]:
        """Return log-probabilities, and logits that metrics read; ``hidden`` is dropped."""
        tape, rows = walk.tape, self.rows
        record = _WHOLE.get(self.kind)
        if record is not None:
            log_probs, logits = record(walk, hidden, rows)
            return LogProbs(value=log_probs, names=()), (logits,)
        view = drop_last_position(tape, hidden, rows, walk.model.spec.hidden_size)
        labels = Labels(num_tokens=self.num_tokens)
        scored = compute_log_probs(
            tape, view, build_head(walk), rows, labels=labels, metrics=metrics
        )
        tape.free(view, hidden)
        end_autocast(tape)
        return scored, ()


_WHOLE = {
    Loss.FULL_LOGITS: record_upcast_log_probs,
    Loss.SELECTIVE: record_selective_log_probs,
}


def _record_scoring(
    walk: ModelWalk,
    scorer: Scorer,
    *,
    times: int,
    is_model: bool,
    adapts: bool,
) -> list[Value]:
    """Return what further forward passes return.

    They are the reference's, or those of the policy, which ``adapts``.

    There is no graph and no checkpoint. The weights of a second model ask for gradients, so that
    autocast keeps its copies of them.
    """
    tape, settings = walk.tape, walk.ctx.settings
    mode, tape.mode = tape.mode, Mode.INFERENCE
    context = replace(settings, checkpointed=False, recompute_every=None)
    if not adapts:
        context = replace(context, lora=None, stacks=None, trains_all=is_model, frozen=())
    returned = []
    for _ in range(times):
        tape.ledger.enter(Section.FORWARD)
        other = type(walk)(walk.model, Recording(tape, context))
        ids = Value(None, context.shape.tokens(1), DType.FP32)
        hidden = other.hidden_states(ids)
        other.drop_tables()
        tape.ledger.enter(Section.LOSS_FORWARD)
        returned.append(scorer.score(other, hidden, Metrics()))
    for scored, _ in returned:
        tape.release(*scored.names)
    tape.mode = mode
    return [value for scored, kept in returned for value in (scored.value, *kept)]


def record_reward_loss(walk: ModelWalk, hidden: Value) -> Value:
    """Record the score of every sequence.

    Those of a pair are compared. ``hidden`` is dropped.
    """
    tape, task = walk.tape, walk.model.task
    assert task is not None  # noqa: S101 - its rules ask for a head of one score
    outputs = record_task(walk.ctx, walk.model, task, hidden)
    tape.free(*outputs.names, hidden)
    loss = average_sequences(tape, outputs.scores, ends_loss=True)
    tape.free(outputs.scores)
    return loss


def record_unreferred_loss(
    walk: ModelWalk, hidden: Value, *, trainer: Trainer, kind: Loss
) -> Value:
    """Record the loss of ORPO, CPO or SimPO over all logits.

    ``hidden`` is dropped. Of ORPO and CPO the chosen sequences have a loss of their own, whose
    logits are a copy. ``kind`` says how logits become log-probabilities.
    """
    tape, rows = walk.tape, count_scored_rows(walk)
    for _ in range(_NUM_INPUTS):
        allocate_integers(tape, walk.ctx.shape.tokens(1))
    integers = [allocate_integers(tape, walk.ctx.shape.tokens(1)) for _ in range(_NUM_LOCALS)]
    logits = record_returned(walk, hidden, upcasts=tape.autocast is not None)
    # Backward runs what was recorded last first: the log-probabilities, then this loss.
    chosen = () if trainer is Trainer.SIMPO else (_record_chosen(walk, logits, rows),)
    score = score_selectively if kind is Loss.SELECTIVE else _score_by_kernel
    log_probs = score(walk, logits, rows, ends_loss=not chosen)
    sums = sum_positions(tape, log_probs, rows)
    losses = [*chosen, average_sequences(tape, sums)]
    tape.free(sums, log_probs, logits, *integers)
    return add_losses(walk, losses)


def _record_chosen(walk: ModelWalk, logits: Value, rows: Size) -> Value:
    """Return the cross-entropy of the first half of the sequences."""
    tape, scored = walk.tape, sizes.scale(rows, walk.model.vocab_size)
    first = narrow(tape, logits, ceil_div_size(logits.numel, 2))
    _end_loss(tape, first)
    view = narrow(tape, first, ceil_div_size(scored, 2))
    copy = tape.emit(
        view.numel,
        view.dtype,
        inputs=(view,),
        category=Category.LOGITS,
        backward=lambda grad: tape.pass_on(view, grad),
    )
    labels = allocate_integers(tape, rows, bytes_each=INDEX_BYTES // 2)
    loss = cross_entropy(tape, copy, labels, last=False)
    tape.free(first, view, copy, labels)
    return loss


def _end_loss(tape: Tape, view: Value) -> None:
    """Let the rest of backward begin with a view's gradient."""
    if view.node is None:
        return
    send = view.node.backward

    def backward(grad: Storage) -> None:
        send(grad)
        tape.ledger.enter(Section.BACKWARD)

    view.node.backward = backward


def _score_by_kernel(walk: ModelWalk, logits: Value, rows: Size, *, ends_loss: bool) -> Value:
    """Return the log-probability of every label by TRL's kernel.

    It keeps the logits, and makes their gradient as one tensor (``trl/kernels/logprob_entropy.py``
    since TRL 1.14).
    """
    tape = walk.tape
    view = drop_last_position(tape, logits, rows, walk.model.vocab_size)
    numbers = [
        Value(tape.allocate(Category.ACTIVATIONS, count_bytes(rows, DType.FP32)), rows, DType.FP32)
        for _ in range(_NUM_STATISTICS)
    ]

    def backward(_: Storage) -> None:
        tape.send(view, tape.allocate(Category.LOGITS, count_bytes(view.numel, view.dtype)))
        if ends_loss:
            tape.ledger.enter(Section.BACKWARD)

    saves = (view, *numbers[1:])
    log_probs = tape.emit(rows, DType.FP32, inputs=(view,), saves=saves, backward=backward)
    tape.free(view, *numbers)
    return log_probs
