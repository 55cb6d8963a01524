"""One micro-batch on one chunk of a pipeline stage.

Its peak candidates, and what it keeps until its backward.
"""

from dataclasses import dataclass
from functools import partial

from service.estimator.backends.megatron.layers import record_layer
from service.estimator.backends.megatron.operations import (
    BF16,
    allocate_saved,
    apply_norm,
    record_cross_entropy,
    tokens,
)
from service.estimator.backends.megatron.predictors import add_losses, record_predictors
from service.estimator.backends.megatron.shape import RankShape, Switches
from service.estimator.backends.megatron.stages import StageLayers
from service.estimator.passes.config import PeakCandidates
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Node, Value
from service.estimator.tape.sizes import Size
from service.estimator.values.workload import Checkpointing

BATCH_BYTES = 8 + 8 + 8 + 4
"""Per token of a micro-batch: tokens, labels and positions as 64-bit integers, the loss mask in
fp32 (pretrain_gpt.py).
"""
IDS_BYTES = 8 + 1
"""Per token that the embedding's backward keeps: the rank's own indices, and which of them lie
outside its rows.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRecord:
    """Peak candidates of each section, and bytes retained for backward.

    ``retained`` are the bytes that stay between forward and backward.
    """

    peak_candidates: PeakCandidates
    retained: Size


def record_chunk(shape: RankShape, switches: Switches, layers: StageLayers) -> ChunkRecord:
    """Record what one micro-batch allocates on a chunk.

    Its output's gradient comes from the next chunk, or from the loss.
    """
    tape = Tape(Section.FORWARD, Mode.RECORDING)
    batch = _allocate_batch(tape, shape, switches) if layers.first or layers.last else []
    gradient = _HeadGradient(tape, shape, switches, layers)
    x = _record_embedding(tape, shape, gradient) if layers.first else _receive_input(tape, shape)
    for count, sparse in ((layers.dense, False), (layers.sparse, True)):
        if count:
            x = tape.repeat(count, partial(_record_layer, tape, shape, switches, sparse), x)
    if layers.last:
        x = _record_losses(tape, x, shape, switches, layers.predictors, gradient)
        tape.release(*batch)
        retained = sizes.total(tape.ledger.snapshot().values())
        tape.ledger.enter(Section.LOSS_BACKWARD)
    else:
        tape.release(*batch)
        tape.free(x)  # deallocate_pipeline_outputs: what was sent on is dropped
        retained = sizes.total(tape.ledger.snapshot().values())
        tape.ledger.enter(Section.BACKWARD)
    if x.node is not None:
        x.node.grad = tape.scratch(x.numel, x.dtype)
    tape.run_backward()
    return ChunkRecord(peak_candidates=tape.ledger.find_peak_candidates(), retained=retained)


class _HeadGradient:
    """Gradient of the head's weight.

    It is a tensor where its product does not add it up itself.
    That of a tied head waits for the embedding's, with which it is added: one weight has one sum
    (autograd's ``AccumulateGrad``).
    """

    def __init__(
        self, tape: Tape, shape: RankShape, switches: Switches, layers: StageLayers
    ) -> None:
        """Start without a gradient."""
        self._tape, self._size = tape, sizes.constant(shape.vocabulary * shape.hidden)
        self._is_made = not switches.fuses_gradients
        self._waits = shape.tied and layers.first
        self._waiting: list[Storage] = []

    def make(self) -> None:
        """Make the gradient, and drop it where nothing waits."""
        if self._is_made and not self._waiting:
            grad = self._tape.scratch(self._size, BF16)
            if self._waits:
                self._waiting.append(grad)
            else:
                self._tape.release(grad)

    def add_embedding(self) -> None:
        """Make the gradient of the embedding's table, and drop both."""
        self._tape.release(self._tape.scratch(self._size, BF16), *self._waiting)
        self._waiting = []


def _record_layer(
    tape: Tape,
    shape: RankShape,
    switches: Switches,
    sparse: bool,  # noqa: FBT001 - bound by partial
    x: Value,
) -> Value:
    if switches.checkpointing is Checkpointing.FULL:
        return tape.checkpoint(
            lambda value: record_layer(tape, value, shape, switches, sparse=sparse), x
        )
    return record_layer(tape, x, shape, switches, sparse=sparse)


def _allocate_batch(tape: Tape, shape: RankShape, switches: Switches) -> list[Storage]:
    """Allocate the micro-batch and its attention mask.

    The data loader makes the boolean mask of the batch. Softmax without a kernel of its own keeps
    it for backward (``masked_fill_``), which the first layer comes to last.
    """
    batch = [tape.allocate(Category.ACTIVATIONS, tokens(BATCH_BYTES))]
    if switches.has_mask:
        size = sizes.per_score(shape.context_parallel)
        mask = tape.allocate(Category.ACTIVATIONS, size)
        batch.append(mask)
        if switches.local and not switches.fused_softmax:
            tape.hold(mask)
            tape.hook(partial(tape.release, mask))
    return batch


def _receive_input(tape: Tape, shape: RankShape) -> Value:
    """Return the input that came from the previous stage.

    Its gradient is sent back.
    """
    x = Value(
        tape.allocate(Category.ACTIVATIONS, tokens(2 * shape.hidden // shape.sequence_shards)),
        _hidden_elements(shape),
        BF16,
    )
    x.node, x.requires_grad = tape.append(Node([], lambda _: None)), True
    return x


def _hidden_elements(shape: RankShape) -> Size:
    return tokens(shape.hidden // shape.sequence_shards)


def _record_embedding(tape: Tape, shape: RankShape, gradient: _HeadGradient) -> Value:
    """Return the embeddings.

    Rows of this rank are summed over all ranks, positions are added, the sequence is put first, and
    dropout is applied.
    """
    ids = allocate_saved(tape, tokens(IDS_BYTES))

    def backward(_: Storage) -> None:
        gradient.add_embedding()

    rows = Value(
        tape.allocate(Category.ACTIVATIONS, tokens(2 * shape.hidden)), tokens(shape.hidden), BF16
    )
    rows.node, rows.requires_grad = (
        tape.append(Node([ids.storage] if ids.storage else [], backward)),
        True,
    )
    arranged = _record_move(tape, rows, tokens(shape.hidden))
    placed = (
        _record_move(tape, arranged, _hidden_elements(shape))
        if shape.sequence_shards > 1
        else arranged
    )
    if not shape.hidden_dropout:
        return placed
    mask = allocate_saved(tape, placed.numel)
    y = tape.emit(
        placed.numel,
        BF16,
        inputs=(placed,),
        saves=(mask,),
        backward=lambda _: tape.send(placed, tape.scratch(placed.numel, BF16)),
    )
    tape.free(mask, placed)
    return y


def _record_move(tape: Tape, x: Value, numel: Size) -> Value:
    y = tape.emit(
        numel, BF16, inputs=(x,), backward=lambda _: tape.send(x, tape.scratch(x.numel, BF16))
    )
    tape.free(x)
    return y


def _record_losses(
    tape: Tape,
    x: Value,
    shape: RankShape,
    switches: Switches,
    predictors: int,
    gradient: _HeadGradient,
) -> Value:
    """Return the loss over this rank's part of the vocabulary.

    Those of predictors are beside it.
    """
    hidden = apply_norm(tape, x, shape.statistics)
    tape.free(x)
    states = [hidden]
    if predictors:
        embed = partial(_record_embedding, tape, shape, gradient)
        states = record_predictors(tape, hidden, shape, switches, predictors, embed)
    hidden, *predicted = states
    tape.ledger.enter(Section.LOSS_FORWARD)
    losses = []
    for index, state in enumerate(predicted):
        is_first = index == 0
        losses.append(_record_loss(tape, state, shape, switches, gradient, is_first=is_first))
        tape.free(state)
    if losses:
        main = add_losses(tape, hidden, losses)
        tape.free(hidden)
        hidden = main
    loss = _record_loss(tape, hidden, shape, switches, gradient, is_first=not losses)
    tape.free(hidden, *losses)
    return loss


def _record_loss(
    tape: Tape,
    hidden: Value,
    shape: RankShape,
    switches: Switches,
    gradient: _HeadGradient,
    *,
    is_first: bool,
) -> Value:
    """Return the loss of one hidden state, which stays with the caller.

    Backward comes to the first one last.
    """

    def backward(_: Storage) -> None:
        if is_first:
            tape.ledger.enter(Section.BACKWARD)
        grad = gathered = tape.scratch(tokens(shape.hidden), BF16)
        if shape.sequence_shards > 1:
            grad = tape.scratch(hidden.numel, BF16)
        gradient.make()
        if grad is not gathered:
            tape.release(gathered)
        tape.send(hidden, grad)

    logits = tape.emit(
        tokens(shape.vocabulary),
        BF16,
        inputs=(hidden,),
        saves=(hidden,),
        category=Category.LOGITS,
        backward=backward,
    )
    loss = record_cross_entropy(tape, logits, switches)
    tape.free(logits)
    return loss
