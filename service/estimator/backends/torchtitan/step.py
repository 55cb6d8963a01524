"""Walk over the model on one tensor-parallel rank.

The rank has its rows of the table, its part of each sequence, its part of the vocabulary
(torchtitan ``parallelisms/parallelize_llama.py`` of 2024-12, since then
``models/llama3/infra/parallelize.py``).
"""

from service.estimator.backends.torchtitan.sequence import (
    gather_sequence,
    split_by_rank,
    use_full_sequence,
)
from service.estimator.model.architecture import EmbeddingOutput, Masks
from service.estimator.model.weights.collectives import scatter_to_ranks
from service.estimator.passes.step import ModelWalk
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import cast
from service.estimator.tape.ops.loss.losses import INDEX_BYTES
from service.estimator.tape.ops.products import allocate_integers, embedding, linear
from service.estimator.values.dtypes import DType


class RankStep(ModelWalk):
    """One pass over a rank's shard of the model.

    A token of the recording is one of the rank's own.
    """

    @property
    def ranks(self) -> int:
        """Tensor-parallel ranks that share each sequence."""
        return self.model.head.ranks

    def inputs(self) -> Value:
        """Return the token ids: every rank has all of them."""
        with use_full_sequence(self.ctx, self.ranks):
            return super().inputs()

    def _embedded(self, ids: Value) -> EmbeddingOutput:
        """Return the embeddings of the rank's tokens.

        All tokens' rows of its own table, the others zero, are added up over the ranks (torch 2.13
        ``_MaskPartial`` in ``distributed/tensor/placement_types.py``: the ids are copied for the
        rank's own rows).
        """
        tape, model, ctx = self.tape, self.model, self.ctx
        hidden = model.spec.hidden_size
        with use_full_sequence(ctx, self.ranks):
            mask, masked = (
                allocate_integers(tape, ids.numel, bytes_each=1),
                allocate_integers(tape, ids.numel),
            )
            partial = embedding(
                tape, ctx.parameter(model.embedding), masked, ctx.shape.tokens(hidden)
            )
            positions = allocate_integers(tape, ctx.shape.positions(1))
        tape.free(masked, mask)
        parts = split_by_rank(tape, partial)
        x = scatter_to_ranks(tape, parts, self.ranks)
        tape.free(parts, partial)
        return EmbeddingOutput(x=x, layer_args=(positions,))

    def _make_tables(self, hidden: DType, own_masks: Masks = ()) -> None:
        """Make the rotary tables, of all positions."""
        with use_full_sequence(self.ctx, self.ranks):
            super()._make_tables(hidden, own_masks)

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record the head and the vocabulary-parallel cross entropy.

        The head runs on all ranks' tokens, for the rank's part of the vocabulary.
        """
        tape, ctx, head = self.tape, self.ctx, self.model.head
        tape.ledger.enter(Section.LOSS_FORWARD)
        source = gather_sequence(tape, hidden, self.ranks)
        with use_full_sequence(ctx, self.ranks):
            numel, labels = (
                ctx.shape.tokens(head.out_features),
                allocate_integers(tape, ctx.shape.tokens(1), bytes_each=INDEX_BYTES),
            )
        (weight,) = ctx.parameters(head.weights(), "")
        logits = linear(tape, source, weight, numel, category=Category.LOGITS)
        tape.free(source, hidden)
        if self.units is not None:
            self.units.close_head()
        upcast = cast(tape, logits, DType.FP32, category=Category.LOGITS)
        loss = record_parallel_loss(tape, upcast, labels)
        tape.free(upcast, labels)
        if keeps_logits:
            self.logits = logits
        else:
            tape.free(logits)
        return loss


def record_parallel_loss(tape: Tape, logits: Value, labels: Value) -> Value:
    """Return the mean loss over a split vocabulary.

    It is recorded operation by operation; ``logits`` stay with the caller (torch 2.13
    ``distributed/tensor/parallel/loss.py``: forward holds what was shifted and its exponentials or
    their logarithm; backward of the likelihood makes all of the gradient, ``(grad_input + exp(x)) *
    grad_output``, and hands it on).
    """
    numel, dtype = logits.numel, logits.dtype

    def allocate_logits() -> Storage:
        return tape.allocate(Category.LOGITS, count_bytes(numel, dtype))

    def log_softmax_backward(grad: Storage) -> None:
        tape.send(logits, tape.hold(grad), is_view=True)
        tape.ledger.enter(Section.BACKWARD)

    def likelihood_backward(_: Storage) -> None:
        ones, exponentials = allocate_logits(), allocate_logits()
        total = allocate_logits()
        tape.release(exponentials)
        grad = allocate_logits()
        tape.release(ones, total)
        tape.send(probabilities, grad)

    shifted = allocate_logits()
    tape.release(allocate_logits())
    probabilities = tape.emit(
        numel,
        dtype,
        inputs=(logits,),
        saves_output=True,
        category=Category.LOGITS,
        backward=log_softmax_backward,
    )
    tape.release(shifted)
    saves = (probabilities, labels)
    loss = tape.emit(
        sizes.constant(1), dtype, inputs=(probabilities,), saves=saves, backward=likelihood_backward
    )
    tape.free(probabilities)
    return loss
