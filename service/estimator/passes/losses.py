"""The losses of the contract beside the plain one: each as the operations that its library runs."""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.passes.step import Step
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import cast
from service.estimator.tape.ops.fused_losses import compiled_loss, in_place_loss, linear_loss, share
from service.estimator.tape.ops.losses import cross_entropy, shifted_labels
from service.estimator.tape.ops.products import linear, split
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Loss

NUM_CHUNKS = 8
"""Chunks of torchtune's ``CEWithChunkedOutputLoss`` and torchtitan's ``ChunkedLossWrapper`` when nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPass:
    """How the loss is computed: ``chunk_tokens`` of a loss with the head inside, ``compiled`` by inductor."""

    kind: Loss
    chunk_tokens: int = 0
    compiled: bool = False


def record_loss(step: Step, hidden: Value, how: LossPass, *, keeps_logits: bool) -> Value:
    """Record the head and the loss; ``hidden`` is dropped."""
    step.tape.ledger.enter(Section.LOSS_FORWARD)
    loss = _RECORDERS[how.kind](step, hidden, how, keeps_logits)
    step.tape.free(hidden)
    return loss


def _full(step: Step, hidden: Value, how: LossPass, keeps_logits: bool) -> Value:  # noqa: FBT001 - one of equal recorders
    """Record all logits, then one kernel: with its upcast inside, or writing the gradient over an fp32 copy.

    flash-attn's keeps what a compiled loss does: the logits and two numbers per row (``ops/triton/cross_entropy.py``).
    """
    tape, logits = step.tape, _logits(step, hidden)
    labels = shifted_labels(tape)
    if how.kind is not Loss.FUSED_CROSS_ENTROPY:
        loss = compiled_loss(tape, logits)
    else:
        upcast = cast(tape, logits, DType.FP32, category=Category.LOGITS)
        loss = in_place_loss(tape, upcast)
        tape.free(upcast)
    tape.release(*labels)
    if keeps_logits:
        step.logits = logits
    else:
        tape.free(logits)
    return loss


def _logits(step: Step, hidden: Value) -> Value:
    model = step.model
    logits = step.logits_of(hidden, step.run.extent.tokens(model.vocab_size))
    return logits if model.finish_logits is None else model.finish_logits(step.run, logits)


def _chunked(step: Step, hidden: Value, how: LossPass, _: bool) -> Value:  # noqa: FBT001 - one of equal recorders
    """Record the logits as a list of chunks, each upcast when its loss is computed (torchtune ``ce_chunked_output_loss.py``).

    Without compilation the log-softmax of every chunk is kept for backward, in fp32.
    """
    tape, model = step.tape, step.model
    labels = shifted_labels(tape)
    part, numel = share(hidden.numel, NUM_CHUNKS), share(step.run.extent.tokens(model.vocab_size), NUM_CHUNKS)
    weight = step.run.parameter(model.embedding) if model.tied else step.run.parameters(model.head.weights(), "")[0]
    pieces = split(tape, tape.alias(hidden), (part,) * NUM_CHUNKS)
    chunks = [linear(tape, piece, weight, numel, category=Category.LOGITS) for piece in pieces]
    tape.free(*pieces)
    losses = [_of_chunk(step, logits, compiled=how.compiled, last=index == 0) for index, logits in enumerate(chunks)]
    tape.free(*chunks)
    tape.release(*labels)
    return _sum(step, losses)


def _of_chunk(step: Step, logits: Value, *, compiled: bool, last: bool) -> Value:
    tape = step.tape
    if compiled:
        return compiled_loss(tape, logits, last=last)
    upcast = cast(tape, logits, DType.FP32, category=Category.LOGITS)
    labels = Value(None, logits.numel, DType.FP32)
    loss = cross_entropy(tape, upcast, labels, last=last)
    tape.free(upcast)
    return loss


def _sum(step: Step, losses: list[Value]) -> Value:
    """Return the sum of scalar losses; its gradient is handed on to all."""
    tape = step.tape

    def backward(_: Storage) -> None:
        for loss in losses:
            tape.send(loss, tape.scratch(loss.numel, loss.dtype))

    total = tape.emit(losses[0].numel, losses[0].dtype, inputs=losses, backward=backward)
    tape.free(*losses)
    return total


def _linear(step: Step, hidden: Value, how: LossPass, _: bool) -> Value:  # noqa: FBT001 - one of equal recorders
    tape, model, run = step.tape, step.model, step.run
    labels = shifted_labels(tape)
    source = model.finish_hidden(run, hidden) if model.finish_hidden is not None else tape.alias(hidden)
    weight = run.parameter(model.embedding) if model.tied else run.parameters(model.head.weights(), "")[0]
    loss = linear_loss(tape, source, weight, chunk_tokens=how.chunk_tokens, vocab_size=model.vocab_size)
    tape.free(source)
    tape.release(*labels)
    return loss


_RECORDERS: dict[Loss, Callable[[Step, Value, LossPass, bool], Value]] = {
    Loss.FULL_LOGITS: _full,
    Loss.FUSED_CROSS_ENTROPY: _full,
    Loss.FLASH_CROSS_ENTROPY: _full,
    Loss.CHUNKED: _chunked,
    Loss.FUSED_LINEAR: _linear,
}
