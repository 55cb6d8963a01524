"""Losses that never hold fp32 copies of all logits.

They run in place, compiled, by chunks, or with the head inside.
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.loss.losses import INDEX_BYTES
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div


def compute_in_place_loss(tape: Tape, logits: Value) -> Value:
    """Return a loss that writes the gradient over the logits.

    Its kernel keeps the logits (Liger 0.8 ``cross_entropy.py``).
    """
    rows = tape.allocate(Category.ACTIVATIONS, count_bytes(sizes.per_token(1), logits.dtype))

    def backward(_: Storage) -> None:
        if logits.storage is not None:
            tape.send(logits, tape.hold(logits.storage))
        tape.ledger.enter(Section.BACKWARD)

    loss = tape.emit(
        sizes.constant(1), logits.dtype, inputs=(logits,), saves=(logits,), backward=backward
    )
    tape.release(rows)
    return loss


def compute_shifted_in_place_loss(tape: Tape, logits: Value) -> Value:
    """Return the loss of shifted logits, over which its gradient is written.

    Beside them one fp32 number per row is kept, and another is summed (fms-acceleration-foak 0.7
    ``kernels/unsloth/cross_entropy_loss.py``, ``FastForCausalLMLoss``).
    """
    rows = sizes.subtract(sizes.per_token(1), sizes.per_sequence(1))
    labels = tape.allocate(Category.ACTIVATIONS, sizes.scale(rows, INDEX_BYTES))
    target = Value(labels, rows, DType.FP32)
    losses, logarithms = (
        Value(tape.allocate(Category.ACTIVATIONS, count_bytes(rows, DType.FP32)), rows, DType.FP32)
        for _ in range(2)
    )

    def backward(_: Storage) -> None:
        if logits.storage is not None:
            tape.send(logits, tape.hold(logits.storage))
        tape.ledger.enter(Section.BACKWARD)

    loss = tape.emit(
        sizes.constant(1),
        DType.FP32,
        inputs=(logits,),
        saves=(logits, logarithms, target),
        backward=backward,
    )
    tape.free(losses, logarithms, target)
    return loss


def compute_compiled_loss(
    tape: Tape, logits: Value, numel: Size | None = None, *, last: bool = True
) -> Value:
    """Return a compiled cross entropy with its upcast.

    One kernel keeps the logits and two fp32 numbers per row. Its backward makes the gradient in the
    dtype of the logits (torch 2.13 inductor on ``cross_entropy(logits.float())``). ``last``:
    nothing of the loss is left to run backward after it.
    """
    rows = Value(
        tape.allocate(Category.ACTIVATIONS, count_bytes(sizes.per_token(2), DType.FP32)),
        sizes.per_token(2),
        DType.FP32,
    )

    def backward(_: Storage) -> None:
        tape.send(
            logits, tape.allocate(Category.LOGITS, count_bytes(numel or logits.numel, logits.dtype))
        )
        if last:
            tape.ledger.enter(Section.BACKWARD)

    loss = tape.emit(
        sizes.constant(1), DType.FP32, inputs=(logits,), saves=(logits, rows), backward=backward
    )
    tape.free(rows)
    return loss


def ceil_div_size(size: Size, parts: int) -> Size:
    """Return one of so many equal parts of a size, rounded up."""
    a, b, c, d, e, f = (ceil_div(count, parts) for count in size)
    return (a, b, c, d, e, f)
