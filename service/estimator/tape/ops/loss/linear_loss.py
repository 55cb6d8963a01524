"""A loss with the head inside: Liger's fused linear cross entropy.

liger-kernel 0.8, ``liger_kernel/ops/fused_linear_cross_entropy.py``.
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Parameter, Value, as_value, count_bytes
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div

_NUM_CHUNKS = 2
"""Chunks that differ: the first one, and one that meets autocast's copy of the weight."""


def compute_linear_loss(
    tape: Tape, hidden: Value, head: Parameter, *, chunk_tokens: int, vocab_size: int
) -> Value:
    """Return a loss that runs the head in chunks.

    It makes all gradients in forward: it keeps those of its input and of the head's weight, in
    their own dtypes, and needs the logits of one chunk. Without a graph there are zeros in place of
    its input's gradient.
    """
    weight, trains = as_value(head), head.trainable and tape.builds_graph
    grads = [tape.allocate(Category.TEMPORARIES, count_bytes(hidden.numel, hidden.dtype))]
    if trains:
        grads.append(tape.allocate(Category.TEMPORARIES, count_bytes(weight.numel, head.dtype)))
    rows = tape.allocate(Category.ACTIVATIONS, count_bytes(sizes.per_token(1), DType.FP32))
    mask = tape.allocate(Category.ACTIVATIONS, sizes.per_token(1))
    _Chunks(tape, hidden, head, chunk_tokens, vocab_size).run()

    def backward(_: Storage) -> None:
        tape.ledger.enter(Section.BACKWARD)
        if trains:
            tape.send(weight, tape.hold(grads[1]))
        tape.send(hidden, tape.hold(grads[0]))

    saved = [Value(storage, hidden.numel, hidden.dtype) for storage in grads]
    loss = tape.emit(
        sizes.constant(1), DType.FP32, inputs=(hidden, weight), saves=saved, backward=backward
    )
    tape.release(rows, mask, *grads)
    return loss


class _Chunks:
    """The chunks of one loss."""

    def __init__(
        self, tape: Tape, hidden: Value, head: Parameter, chunk_tokens: int, vocab_size: int
    ) -> None:
        """Set up without making any."""
        self._tape, self._head = tape, head
        self._trains = head.trainable and tape.builds_graph
        self._dtype = tape.autocast or hidden.dtype
        self._casts_input = hidden.dtype is not self._dtype
        self._casts_weight = head.dtype is not self._dtype
        self._weight = sizes.constant(head.numel)
        self._rows = sizes.constant(chunk_tokens * (head.numel // vocab_size))
        self._logits = sizes.constant(chunk_tokens * vocab_size)

    def run(self) -> None:
        """Make the logits of each chunk and the gradients from them.

        Where nothing is cast they are all written to one buffer.
        """
        if not self._casts_input and not self._casts_weight:
            logits = self._allocate(Category.LOGITS, self._logits)
            if self._trains and self._dtype is DType.FP32:
                # addmm adds 16-bit products in place; fp32 ones are made first.
                self._tape.release(self._allocate(Category.TEMPORARIES, self._weight))
            self._tape.release(logits)
            return
        for _ in range(_NUM_CHUNKS):
            self._run_cast()

    def _run_cast(self) -> None:
        """Make one chunk under autocast.

        It casts the transposed weight anew, and the weight itself once, if that is trained.
        """
        tape = self._tape
        rows = self._cast(self._rows, Category.ACTIVATIONS, needed=self._casts_input)
        weight = self._cast(self._weight, Category.GATHERED_WEIGHTS, needed=self._casts_weight)
        logits = self._allocate(Category.LOGITS, self._logits)
        tape.release(*rows, *weight)
        if tape.builds_graph:
            weight = self._cast_weight()
            tape.release(self._allocate(Category.TEMPORARIES, self._rows), *weight)
        if self._trains:
            tape.release(*self._cast(self._rows, Category.ACTIVATIONS, needed=self._casts_input))
        tape.release(logits)

    def _cast_weight(self) -> list[Storage]:
        """Return the cast weight to release.

        Autocast keeps a trained one until forward ends.
        """
        if not self._casts_weight or self._head.name in self._tape.autocast_copies:
            return []
        copy = self._allocate(Category.GATHERED_WEIGHTS, self._weight)
        if not self._head.trainable:
            return [copy]
        self._tape.autocast_copies[self._head.name] = (Value(copy, self._weight, self._dtype), 1)
        return []

    def _cast(self, numel: Size, category: Category, *, needed: bool) -> list[Storage]:
        return [self._allocate(category, numel)] if needed else []

    def _allocate(self, category: Category, numel: Size) -> Storage:
        return self._tape.allocate(category, count_bytes(numel, self._dtype))


def liger_chunk_tokens(tokens: int, *, hidden_size: int, vocab_size: int) -> int:
    """Return the tokens of one chunk of Liger's fused linear loss.

    As many logits as the input has elements, a power of two (Liger 0.8): ``chunk =
    next_power_of_2(ceil(tokens / ceil(vocab / hidden)))``, at most all tokens.
    """
    chunk_tokens = ceil_div(tokens, ceil_div(vocab_size, hidden_size))
    return min(1 << (chunk_tokens - 1).bit_length(), tokens)
