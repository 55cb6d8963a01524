"""Losses of policies over the completions that they generated.

TRL 1.16: ``trl/trainer/grpo_trainer.py``, ``_compute_loss``, with ``loss_type`` dapo, its default.
verl 0.9: ``verl/workers/engine/fsdp/transformer_impl.py``, ``prepare_model_outputs``.
OpenRLHF 0.11: ``openrlhf/models/actor.py``, ``forward``.
"""

from service.estimator.passes.log_prob_losses import build_head, count_scored_rows
from service.estimator.passes.step import ModelWalk
from service.estimator.passes.whole_logits import record_entropy, score_view
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Node, Value, count_bytes
from service.estimator.tape.ops.elementwise import cast, chain
from service.estimator.tape.ops.loss.fused_losses import (
    compute_compiled_loss,
    compute_in_place_loss,
)
from service.estimator.tape.ops.loss.log_probs import (
    Labels,
    Metrics,
    compute_log_probs,
    drop_last_position,
)
from service.estimator.tape.ops.products import allocate_integers, end_autocast
from service.estimator.tape.ops.views import narrow
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

_METRICS = Metrics(entropy=True)
"""What GRPOTrainer logs."""
NUM_INPUTS = 2
"""Integers per token that the trainer keeps of its generation: ids, and the mask of padding."""
NUM_LOCALS = 2
"""Integers per token of the loss's own beside the ids: the joined mask, and the labels."""


def record_grpo_loss(
    walk: ModelWalk,
    hidden: Value,
    *,
    num_tokens: int,
    completion_length: int | None,
    num_kept: int,
) -> Value:
    """Record the log-probabilities of completions and the clipped loss.

    ``hidden`` is dropped. ``completion_length`` None: every token is one of a completion.
    ``num_kept`` log-probabilities of each came with the batch.
    """
    tape, rows = walk.tape, count_scored_rows(walk)
    scored = rows if completion_length is None else sizes.per_sequence(completion_length)
    for _ in range(NUM_INPUTS):
        allocate_integers(tape, walk.ctx.shape.tokens(1))
    for _ in range(num_kept):
        allocate_integers(tape, scored, bytes_each=DType.FP32.bytes_per_element)
    num_locals = NUM_LOCALS - walk.ctx.padded  # A mask that is read came with the inputs.
    integers = [allocate_integers(tape, walk.ctx.shape.tokens(1)) for _ in range(num_locals)]
    view = drop_last_position(tape, hidden, rows, walk.model.spec.hidden_size)
    policy = compute_log_probs(
        tape,
        view,
        build_head(walk),
        rows,
        labels=Labels(num_tokens=num_tokens, rows=scored),
        metrics=_METRICS,
    )
    tape.free(view, hidden)
    end_autocast(tape)
    log_probs = _slice_completions(tape, policy.value, scored)
    tape.free(policy.value)
    loss = _clip(tape, log_probs, scored)
    tape.free(log_probs, *integers)
    tape.release(*policy.names)
    return loss


def record_selective_policy_loss(
    walk: ModelWalk, hidden: Value, *, completion_length: int | None, num_kept: int
) -> Value:
    """Record all logits of completions and the clipped loss.

    ``hidden`` is dropped. So does TRL before 1.15 (1.9 ``trl/trainer/grpo_trainer.py``,
    ``_get_per_token_logps_and_entropies``), which divides them in place.
    """
    tape, rows = walk.tape, count_completion_rows(walk, completion_length)
    for _ in range(NUM_INPUTS):
        allocate_integers(tape, walk.ctx.shape.tokens(1))
    for _ in range(num_kept):
        allocate_integers(tape, rows, bytes_each=DType.FP32.bytes_per_element)
    num_locals = NUM_LOCALS - walk.ctx.padded
    integers = [allocate_integers(tape, walk.ctx.shape.tokens(1)) for _ in range(num_locals)]
    logits = record_completion_logits(walk, hidden, rows)
    view = _divide_in_place(tape, logits, sizes.scale(rows, walk.model.vocab_size))
    log_probs = score_view(tape, view, rows, ends_loss=False)
    record_entropy(walk, rows, logits.dtype)
    tape.free(logits)
    loss = _clip(tape, log_probs, rows)
    tape.free(log_probs, *integers)
    return loss


def count_completion_rows(walk: ModelWalk, completion_length: int | None) -> Size:
    """Return the positions whose labels are completions' tokens."""
    if completion_length is None:
        return count_scored_rows(walk)
    return sizes.per_sequence(completion_length)


def record_completion_logits(walk: ModelWalk, hidden: Value, rows: Size) -> Value:
    """Return logits of completions and of one position before each.

    ``hidden`` is dropped. Its last positions are copied, as a product of a view does.
    """
    tape, positions = walk.tape, sizes.add(rows, sizes.per_sequence(1))
    view = narrow(tape, hidden, sizes.scale(positions, walk.model.spec.hidden_size))
    last = tape.emit(
        view.numel,
        view.dtype,
        inputs=(view,),
        backward=lambda grad: tape.pass_on(view, grad),
    )
    logits = walk.record_logits(last, sizes.scale(positions, walk.model.vocab_size))
    tape.free(view, last, hidden)
    upcasts = tape.autocast is not None
    end_autocast(tape)
    if not upcasts:
        return logits
    return chain(tape, logits, lambda t, x: cast(t, x, DType.FP32, category=Category.LOGITS))


def _divide_in_place(tape: Tape, logits: Value, numel: Size) -> Value:
    """Return a view of logits that is divided by the temperature.

    Autograd gives the whole a gradient of its own, and divides a copy of the view's
    (``CopySlices``).
    """
    divided = tape.alias(logits)

    def backward(_: Storage) -> None:
        base = tape.allocate(Category.LOGITS, count_bytes(logits.numel, logits.dtype))
        copies = [tape.scratch(numel, logits.dtype) for _ in range(2)]
        tape.release(*copies)
        tape.ledger.enter(Section.BACKWARD)
        tape.send(logits, base)

    if tape.builds_graph and logits.requires_grad:
        divided.node = tape.append(Node([], backward))
    first = narrow(tape, divided, numel)
    view = narrow(tape, first, numel)
    tape.free(divided, first)
    return view


def record_whole_logits_loss(
    walk: ModelWalk, hidden: Value, *, upcasts: bool, has_entropy: bool
) -> Value:
    """Record all logits and a clipped loss.

    ``hidden`` is dropped. OpenRLHF ``upcasts`` the logits. verl has the gradient written over them
    (``logprobs_from_logits``, ``inplace_backward``), but where the entropy's compiled kernel reads
    them too: then each of both makes a gradient.
    """
    tape = walk.tape
    for _ in range(NUM_INPUTS):
        allocate_integers(tape, walk.ctx.shape.tokens(1))
    labels = allocate_integers(tape, walk.ctx.shape.tokens(1))
    logits = walk.record_logits(hidden, walk.ctx.shape.tokens(walk.model.vocab_size))
    tape.free(hidden)
    if upcasts:
        logits = chain(
            tape, logits, lambda t, value: cast(t, value, DType.FP32, category=Category.LOGITS)
        )
    if has_entropy:
        entropy = compute_compiled_loss(tape, logits, last=True)
        clipped = compute_compiled_loss(tape, logits, last=False)
        loss = add_losses(walk, [entropy, clipped])
    elif upcasts:
        loss = compute_compiled_loss(tape, logits)
    else:
        loss = compute_in_place_loss(tape, logits)
    tape.free(logits, labels)
    return loss


def add_losses(walk: ModelWalk, losses: list[Value]) -> Value:
    """Return the sum of scalar losses, whose gradient all of them get."""
    tape = walk.tape

    def backward(_: Storage) -> None:
        for loss in losses:
            tape.send(loss, tape.scratch(loss.numel, loss.dtype))

    total = tape.emit(losses[0].numel, losses[0].dtype, inputs=losses, backward=backward)
    tape.free(*losses)
    return total


def _slice_completions(tape: Tape, x: Value, scored: Size) -> Value:
    """Return a copy of the last positions.

    Its gradient is put into zeros.
    """
    return tape.emit(
        scored,
        x.dtype,
        inputs=(x,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )


def _clip(tape: Tape, log_probs: Value, scored: Size) -> Value:
    """Return the mean of the lesser ratio, as it is or clipped.

    Both are weighed with the advantages.
    """
    ratio = _apply(tape, (log_probs,), scored)
    weights = _apply(tape, (ratio,), scored, saves_output=True)
    clipped = _apply(tape, (weights,), scored, saves=(weights,))
    plain_loss, clipped_loss = (_apply(tape, (x,), scored) for x in (weights, clipped))
    losses = _apply(tape, (plain_loss, clipped_loss), scored, saves=(plain_loss, clipped_loss))
    loss = tape.emit(
        sizes.constant(1),
        DType.FP32,
        inputs=(losses,),
        backward=lambda _: tape.send(losses, tape.scratch(scored, DType.FP32)),
    )
    tape.free(ratio, weights, clipped, plain_loss, clipped_loss, losses)
    return loss


def _apply(
    tape: Tape,
    inputs: tuple[Value, ...],
    numel: Size,
    *,
    saves: tuple[Value, ...] = (),
    saves_output: bool = False,
) -> Value:
    """Return the output of an operation on a number for each position."""

    def backward(_: object) -> None:
        for x in inputs:
            tape.send(x, tape.scratch(numel, DType.FP32))

    return tape.emit(
        numel, DType.FP32, inputs=inputs, saves=saves, saves_output=saves_output, backward=backward
    )
