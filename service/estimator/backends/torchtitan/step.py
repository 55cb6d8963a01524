"""A step of one tensor-parallel rank: its rows of the table, its part of each sequence, its part of the vocabulary.

(torchtitan ``parallelisms/parallelize_llama.py`` of 2024-12, since then ``models/llama3/infra/parallelize.py``.)
"""

from service.estimator.backends.torchtitan.sequence import gathered_sequence, in_parts, whole_sequence
from service.estimator.model.architecture import Embedded
from service.estimator.model.weights.collectives import scattered
from service.estimator.passes.step import Step
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value, bytes_of
from service.estimator.tape.ops.elementwise import cast
from service.estimator.tape.ops.losses import INDEX_BYTES
from service.estimator.tape.ops.products import embedding, integers, linear
from service.estimator.values.dtypes import DType


class RankStep(Step):
    """One pass over a rank's share of the model; a token of the recording is one of the rank's own."""

    @property
    def ranks(self) -> int:
        """Ranks that share each sequence."""
        return self.model.head.ranks

    def inputs(self) -> Value:
        """Return the token ids: every rank has all of them."""
        with whole_sequence(self.run, self.ranks):
            return super().inputs()

    def _embedded(self, ids: Value) -> Embedded:
        """Return the rank's tokens: all tokens' rows of its own table, the others zero, are added up over the ranks.

        (torch 2.13 ``_MaskPartial`` in ``distributed/tensor/placement_types.py``: the ids are copied for the rank's own rows.)
        """
        tape, model, run = self.tape, self.model, self.run
        hidden = model.spec.hidden_size
        with whole_sequence(run, self.ranks):
            mask, masked = integers(tape, ids.numel, bytes_each=1), integers(tape, ids.numel)
            partial = embedding(tape, run.parameter(model.embedding), masked, run.extent.tokens(hidden))
            positions = integers(tape, run.extent.positions(1))
        tape.free(masked, mask)
        parts = in_parts(tape, partial)
        x = scattered(tape, parts, self.ranks)
        tape.free(parts, partial)
        return Embedded(x=x, passed=(positions,))

    def _make_tables(self, hidden: DType) -> None:
        """Make the rotary tables, of all positions."""
        with whole_sequence(self.run, self.ranks):
            super()._make_tables(hidden)

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record the head on all ranks' tokens, and the cross entropy over the rank's part of the vocabulary."""
        tape, run, head = self.tape, self.run, self.model.head
        tape.ledger.enter(Section.LOSS_FORWARD)
        source = gathered_sequence(tape, hidden, self.ranks)
        with whole_sequence(run, self.ranks):
            numel, labels = run.extent.tokens(head.out_features), integers(tape, run.extent.tokens(1), bytes_each=INDEX_BYTES)
        (weight,) = run.parameters(head.weights(), "")
        logits = linear(tape, source, weight, numel, category=Category.LOGITS)
        tape.free(source, hidden)
        if self.units is not None:
            self.units.close_head()
        upcast = cast(tape, logits, DType.FP32, category=Category.LOGITS)
        loss = parallel_loss(tape, upcast, labels)
        tape.free(upcast, labels)
        if keeps_logits:
            self.logits = logits
        else:
            tape.free(logits)
        return loss


def parallel_loss(tape: Tape, logits: Value, labels: Value) -> Value:
    """Return the mean loss over a vocabulary that ranks share, operation by operation; ``logits`` stay.

    (torch 2.13 ``distributed/tensor/parallel/loss.py``: forward holds what was shifted and its exponentials or their logarithm;
    backward of the likelihood makes all of the gradient, ``(grad_input + exp(x)) * grad_output``, and hands it on.)
    """
    numel, dtype = logits.numel, logits.dtype

    def made() -> Storage:
        return tape.allocate(Category.LOGITS, bytes_of(numel, dtype))

    def log_softmax_backward(grad: Storage) -> None:
        tape.send(logits, tape.hold(grad), is_view=True)
        tape.ledger.enter(Section.BACKWARD)

    def likelihood_backward(_: Storage) -> None:
        ones, exponentials = made(), made()
        total = made()
        tape.release(exponentials)
        grad = made()
        tape.release(ones, total)
        tape.send(probabilities, grad)

    shifted = made()
    tape.release(made())
    probabilities = tape.emit(
        numel, dtype, inputs=(logits,), saves_output=True, category=Category.LOGITS, backward=log_softmax_backward
    )
    tape.release(shifted)
    saves = (probabilities, labels)
    loss = tape.emit(sizes.constant(1), dtype, inputs=(probabilities,), saves=saves, backward=likelihood_backward)
    tape.free(probabilities)
    return loss
