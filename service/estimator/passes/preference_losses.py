"""Losses of preferences, as TRL's trainers compute them, and LLaMA-Factory's.

TRL 1.16: ``trl/trainer/dpo_trainer.py`` and ``kto_trainer.py``, ``_compute_loss``, and
``reward_trainer.py``. LLaMA-Factory 0.9.5: ``train/dpo/trainer.py`` and ``train/kto/trainer.py``,
``concatenated_forward``.
"""

from dataclasses import dataclass, replace

from service.estimator.model.recording import Recording
from service.estimator.passes.heads import record_task
from service.estimator.passes.log_prob_losses import (
    build_head,
    count_scored_rows,
    record_balance,
)
from service.estimator.passes.step import ModelWalk
from service.estimator.passes.whole_logits import (
    record_entropy,
    record_selective_log_probs,
    record_upcast_log_probs,
)
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.loss.log_probs import (
    Labels,
    LogProbs,
    Metrics,
    compute_log_probs,
    drop_last_position,
)
from service.estimator.tape.ops.products import allocate_integers, end_autocast
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
    sums = _sum_positions(tape, log_probs.value, rows)
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
    loss = _average(tape, sums)
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
