"""One micro-batch through one chunk of a pipeline stage: its highest points, and what it keeps until its backward."""

from dataclasses import dataclass
from functools import partial

from service.estimator.backends.megatron.layers import layer
from service.estimator.backends.megatron.operations import (
    BF16,
    kept_bytes,
    logits_loss,
    normed,
    tokens,
)
from service.estimator.backends.megatron.shape import Shape, Switches
from service.estimator.backends.megatron.stages import StageLayers
from service.estimator.passes.recorder import Highs
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Node, Value
from service.estimator.tape.sizes import Size
from service.estimator.values.workload import Checkpointing

BATCH_BYTES = 8 + 8 + 8 + 4
"""Per token of a micro-batch: tokens, labels and positions as 64-bit integers, the loss mask in fp32 (pretrain_gpt.py)."""
IDS_BYTES = 8 + 1
"""Per token that the embedding's backward keeps: the rank's own indices, and which of them lie outside its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRecord:
    """The highest points of each section, and the bytes that stay between forward and backward."""

    highs: Highs
    kept: Size


def record_chunk(shape: Shape, how: Switches, layers: StageLayers) -> ChunkRecord:
    """Return what one micro-batch allocates on a chunk; its output's gradient comes from the next one, or from the loss."""
    tape = Tape(Section.FORWARD, Mode.RECORDING)
    batch = _batch(tape, shape) if layers.first or layers.last else []
    x = _embedded(tape, shape) if layers.first else _received(tape, shape)
    for count, sparse in ((layers.dense, False), (layers.sparse, True)):
        if count:
            x = tape.repeat(count, partial(_run, tape, shape, how, sparse), x)
    if layers.last:
        x = _loss(tape, x, shape, fused=how.fused_loss)
        tape.release(*batch)
        kept = sizes.total(tape.ledger.snapshot().values())
        tape.ledger.enter(Section.LOSS_BACKWARD)
    else:
        tape.release(*batch)
        tape.free(x)  # deallocate_pipeline_outputs: what was sent on is dropped
        kept = sizes.total(tape.ledger.snapshot().values())
        tape.ledger.enter(Section.BACKWARD)
    if x.node is not None:
        x.node.grad = tape.scratch(x.numel, x.dtype)
    tape.run_backward()
    return ChunkRecord(highs=tape.ledger.highest(), kept=kept)


def _run(tape: Tape, shape: Shape, how: Switches, sparse: bool, x: Value) -> Value:  # noqa: FBT001 - bound by partial
    if how.checkpointing is Checkpointing.FULL:
        return tape.checkpoint(lambda value: layer(tape, value, shape, how, sparse=sparse), x)
    return layer(tape, x, shape, how, sparse=sparse)


def _batch(tape: Tape, shape: Shape) -> list[Storage]:
    """Return the micro-batch with the boolean attention mask that the data loader makes of it."""
    mask = sizes.per_score(shape.context_parallel)
    return [tape.allocate(Category.ACTIVATIONS, size) for size in (tokens(BATCH_BYTES), mask)]


def _received(tape: Tape, shape: Shape) -> Value:
    """Return the input that came from the stage before; its gradient is sent back."""
    x = Value(tape.allocate(Category.ACTIVATIONS, tokens(2 * shape.hidden // shape.spread)), _hidden(shape), BF16)
    x.node, x.requires_grad = tape.append(Node([], lambda _: None)), True
    return x


def _hidden(shape: Shape) -> Size:
    return tokens(shape.hidden // shape.spread)


def _embedded(tape: Tape, shape: Shape) -> Value:
    """Return the embeddings: rows of this rank summed over all, positions added, the sequence put first, dropout."""
    ids = kept_bytes(tape, tokens(IDS_BYTES))

    def backward(_: Storage) -> None:
        table = tape.scratch(sizes.constant(shape.vocabulary * shape.hidden), BF16)
        tape.release(table)

    words = Value(tape.allocate(Category.ACTIVATIONS, tokens(2 * shape.hidden)), tokens(shape.hidden), BF16)
    words.node, words.requires_grad = tape.append(Node([ids.storage] if ids.storage else [], backward)), True
    arranged = _moved(tape, words, tokens(shape.hidden))
    placed = _moved(tape, arranged, _hidden(shape)) if shape.spread > 1 else arranged
    if not shape.hidden_dropout:
        return placed
    mask = kept_bytes(tape, placed.numel)
    y = tape.emit(
        placed.numel,
        BF16,
        inputs=(placed,),
        saves=(mask,),
        backward=lambda _: tape.send(placed, tape.scratch(placed.numel, BF16)),
    )
    tape.free(mask, placed)
    return y


def _moved(tape: Tape, x: Value, numel: Size) -> Value:
    y = tape.emit(numel, BF16, inputs=(x,), backward=lambda _: tape.send(x, tape.scratch(x.numel, BF16)))
    tape.free(x)
    return y


def _loss(tape: Tape, x: Value, shape: Shape, *, fused: bool) -> Value:
    """Return the loss over this rank's part of the vocabulary."""
    normal = normed(tape, x, shape.statistics)
    tape.free(x)
    tape.ledger.enter(Section.LOSS_FORWARD)

    def backward(_: Storage) -> None:
        tape.ledger.enter(Section.BACKWARD)
        grad = whole = tape.scratch(tokens(shape.hidden), BF16)
        if shape.spread > 1:
            grad = tape.scratch(normal.numel, BF16)
        # The head's own gradient, or what stands in its place where the product adds to the buffer itself.
        tape.release(tape.scratch(sizes.constant(shape.vocabulary * shape.hidden), BF16))
        if grad is not whole:
            tape.release(whole)
        tape.send(normal, grad)

    logits = tape.emit(
        tokens(shape.vocabulary), BF16, inputs=(normal,), saves=(normal,), category=Category.LOGITS, backward=backward
    )
    tape.free(normal)
    loss = logits_loss(tape, logits, fused=fused)
    tape.free(logits)
    return loss
