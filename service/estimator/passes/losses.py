"""Losses other than the plain one, operation by operation.

Each runs the operations of its library.
"""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.passes.log_prob_losses import record_log_prob_loss
from service.estimator.passes.policy_losses import (
    add_losses,
    record_grpo_loss,
    record_selective_policy_loss,
    record_whole_logits_loss,
)
from service.estimator.passes.preference_losses import (
    record_referred_loss,
    record_reward_loss,
    record_unreferred_loss,
)
from service.estimator.passes.step import ModelWalk
from service.estimator.passes.whole_logits import record_logits
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import cast, chain
from service.estimator.tape.ops.loss.fused_losses import (
    ceil_div_size,
    compute_compiled_loss,
    compute_in_place_loss,
    compute_shifted_in_place_loss,
)
from service.estimator.tape.ops.loss.linear_loss import compute_linear_loss
from service.estimator.tape.ops.loss.losses import (
    INDEX_BYTES,
    allocate_shifted_labels,
    copy_shifted,
    cross_entropy,
)
from service.estimator.tape.ops.loss.tiled_linear_loss import LossRows, compute_tiled_loss
from service.estimator.tape.ops.products import linear, split
from service.estimator.values.dtypes import DType
from service.estimator.values.losses import (
    LOG_PROB_LOSSES,
    REFERRING_TRAINERS,
    UNREFERRED_TRAINERS,
    Loss,
    Reference,
    Trainer,
)

NUM_CHUNKS = 8
"""Chunks of torchtune's ``CEWithChunkedOutputLoss`` and torchtitan's ``ChunkedLossWrapper`` when
nothing is said.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPass:
    """Computation of the loss.

    ``chunk_tokens`` of a loss with the head inside, of TRL's as many tokens as make a difference;
    ``compiled`` by inductor.
    """

    kind: Loss
    chunk_tokens: int = 0
    compiled: bool = False
    trainer: Trainer = Trainer.SUPERVISED
    reference: Reference | None = None
    completion_length: int | None = None
    num_kept: int = 0
    """Log-probabilities of a policy's completions that were computed before, per token."""
    rows: LossRows | None = None
    """Rows that Unsloth's loss takes at once; None is another's."""
    entropy_bonus: bool = False
    """Whether a policy's loss has the entropy of whole logits in it."""


def record_loss(walk: ModelWalk, hidden: Value, config: LossPass, *, keeps_logits: bool) -> Value:
    """Record the head and the loss; ``hidden`` is dropped."""
    walk.tape.ledger.enter(Section.LOSS_FORWARD)
    if config.trainer in REFERRING_TRAINERS:
        return record_referred_loss(
            walk,
            hidden,
            trainer=config.trainer,
            kind=config.kind,
            num_tokens=config.chunk_tokens,
            reference=config.reference,
        )
    if config.trainer in UNREFERRED_TRAINERS:
        return record_unreferred_loss(walk, hidden, trainer=config.trainer, kind=config.kind)
    if config.trainer is Trainer.REWARD:
        return record_reward_loss(walk, hidden)
    if config.trainer is Trainer.GRPO:
        return _record_policy_loss(walk, hidden, config)
    loss = _RECORDERS[config.kind](walk, hidden, config, keeps_logits)
    walk.tape.free(hidden)
    return loss


def _record_policy_loss(walk: ModelWalk, hidden: Value, config: LossPass) -> Value:
    """Record a policy's loss as its trainer treats the logits."""
    length, num_kept = config.completion_length, config.num_kept
    if config.kind is Loss.SELECTIVE:
        return record_selective_policy_loss(
            walk, hidden, completion_length=length, num_kept=num_kept
        )
    if config.kind not in LOG_PROB_LOSSES:
        return record_whole_logits_loss(
            walk,
            hidden,
            upcasts=config.kind is Loss.FULL_LOGITS,
            has_entropy=config.entropy_bonus,
        )
    return record_grpo_loss(
        walk,
        hidden,
        num_tokens=config.chunk_tokens,
        completion_length=length,
        num_kept=num_kept,
    )


def _record_full_logits(
    walk: ModelWalk,
    hidden: Value,
    config: LossPass,
    keeps_logits: bool,  # noqa: FBT001 - one of equal recorders
) -> Value:
    """Record all logits, then one kernel.

    The kernel has its upcast inside, or writes the gradient over an fp32 copy. flash-attn's keeps
    the same as a compiled loss: the logits and two numbers per row
    (``ops/triton/cross_entropy.py``).
    """
    tape, logits = walk.tape, record_logits(walk, hidden)
    if walk.ctx.settings.returns_fp32:
        logits = chain(tape, logits, _upcast)
    if config.kind is not Loss.FUSED_CROSS_ENTROPY:
        labels = allocate_shifted_labels(tape)
        loss = compute_compiled_loss(tape, logits)
        tape.release(*labels)
    else:
        loss = _record_in_place_loss(walk, logits)
    if keeps_logits:
        walk.logits = logits
    else:
        tape.free(logits)
    return loss


def _upcast(tape: Tape, logits: Value) -> Value:
    """Return logits in fp32."""
    return cast(tape, logits, DType.FP32, category=Category.LOGITS)


def _record_in_place_loss(walk: ModelWalk, logits: Value) -> Value:
    """Record a loss over an fp32 copy, shifted where code is older."""
    tape = walk.tape
    is_copied = walk.ctx.settings.copies_logits
    labels = () if is_copied else allocate_shifted_labels(tape)
    upcast = _upcast(tape, logits)
    if is_copied:
        shifted = copy_shifted(tape, upcast)
        loss = compute_shifted_in_place_loss(tape, shifted)
        tape.free(upcast, shifted)
    else:
        loss = compute_in_place_loss(tape, upcast)
        tape.free(upcast)
    tape.release(*labels)
    return loss


def _record_chunked(walk: ModelWalk, hidden: Value, config: LossPass, _: bool) -> Value:  # noqa: FBT001 - one of equal recorders
    """Record the logits as a list of chunks.

    Each is upcast when its loss is computed (torchtune ``ce_chunked_output_loss.py``). Without
    compilation the log-softmax of every chunk is kept for backward, in fp32.
    """
    tape, model = walk.tape, walk.model
    labels = allocate_shifted_labels(tape)
    part, numel = (
        ceil_div_size(hidden.numel, NUM_CHUNKS),
        ceil_div_size(walk.ctx.shape.tokens(model.vocab_size), NUM_CHUNKS),
    )
    weight = (
        walk.ctx.parameter(model.embedding)
        if model.tied
        else walk.ctx.parameters(model.head.weights(), "")[0]
    )
    pieces = split(tape, tape.alias(hidden), (part,) * NUM_CHUNKS)
    chunks = [linear(tape, piece, weight, numel, category=Category.LOGITS) for piece in pieces]
    tape.free(*pieces)
    losses = [
        _record_chunk_loss(walk, logits, compiled=config.compiled, last=index == 0)
        for index, logits in enumerate(chunks)
    ]
    tape.free(*chunks)
    tape.release(*labels)
    return add_losses(walk, losses)


def _record_chunk_loss(walk: ModelWalk, logits: Value, *, compiled: bool, last: bool) -> Value:
    tape = walk.tape
    if compiled:
        return compute_compiled_loss(tape, logits, last=last)
    upcast = cast(tape, logits, DType.FP32, category=Category.LOGITS)
    labels = Value(None, logits.numel, DType.FP32)
    loss = cross_entropy(tape, upcast, labels, last=last)
    tape.free(upcast)
    return loss


def _record_fused_linear(walk: ModelWalk, hidden: Value, config: LossPass, _: bool) -> Value:  # noqa: FBT001 - one of equal recorders
    tape, model, ctx = walk.tape, walk.model, walk.ctx
    labels = (
        allocate_shifted_labels(tape)
        if config.rows is None
        else (tape.allocate(Category.ACTIVATIONS, sizes.per_token(INDEX_BYTES)),)
    )
    source = (
        model.finish_hidden(ctx, hidden) if model.finish_hidden is not None else tape.alias(hidden)
    )
    weight = (
        ctx.parameter(model.embedding)
        if model.tied
        else ctx.parameters(model.head.weights(), "")[0]
    )
    vocab_size = model.vocab_size
    if config.rows is not None:
        loss = compute_tiled_loss(tape, source, weight, config.rows, vocab_size=vocab_size)
    else:
        loss = compute_linear_loss(
            tape, source, weight, chunk_tokens=config.chunk_tokens, vocab_size=vocab_size
        )
    tape.free(source)
    tape.release(*labels)
    return loss


def _record_log_probs(walk: ModelWalk, hidden: Value, config: LossPass, _: bool) -> Value:  # noqa: FBT001 - one of equal recorders
    return record_log_prob_loss(
        walk, hidden, num_tokens=config.chunk_tokens, is_weighted=config.kind is Loss.DFT
    )


_RECORDERS: dict[Loss, Callable[[ModelWalk, Value, LossPass, bool], Value]] = {
    Loss.FULL_LOGITS: _record_full_logits,
    Loss.FUSED_CROSS_ENTROPY: _record_full_logits,
    Loss.FLASH_CROSS_ENTROPY: _record_full_logits,
    Loss.CHUNKED: _record_chunked,
    Loss.FUSED_LINEAR: _record_fused_linear,
    Loss.CHUNKED_NLL: _record_log_probs,
    Loss.NLL: _record_log_probs,
    Loss.DFT: _record_log_probs,
}
