"""Loss over logits.

Shifted labels, log-softmax and negative log-likelihood.
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import cast
from service.estimator.values.dtypes import DType

INDEX_BYTES = 8
"""Labels are 64-bit integers."""


def compute_shifted_loss(tape: Tape, logits: Value, *, copies: bool = False) -> Value:
    """Return the loss of the next token, in fp32 (ForCausalLMLoss).

    The logits stay with the caller. ``copies``: they are shifted as a contiguous copy, whose name
    lives as long as that of the fp32 ones.
    """
    upcast = cast(tape, logits, DType.FP32, category=Category.LOGITS)
    source = copy_shifted(tape, upcast) if copies else tape.alias(upcast)
    labels, padded = allocate_shifted_labels(tape)
    loss = cross_entropy(tape, source, Value(labels, source.numel, DType.FP32))
    tape.free(upcast, source)
    tape.release(labels, padded)
    return loss


def copy_shifted(tape: Tape, logits: Value) -> Value:
    """Return all positions but the last as a contiguous copy.

    Backward puts its gradient into zeros of the full size.
    """
    numel = sizes.subtract(logits.numel, sizes.per_sequence(sum(logits.numel)))

    def backward(_: Storage) -> None:
        tape.send(logits, tape.allocate(Category.LOGITS, count_bytes(logits.numel, logits.dtype)))

    return tape.emit(
        numel, logits.dtype, inputs=(logits,), category=Category.LOGITS, backward=backward
    )


def compute_unshifted_loss(tape: Tape, logits: Value, *, upcast: bool) -> Value:
    """Return the loss of labels as they are.

    ``upcast`` says whether the model casts its logits to fp32 itself.
    """
    source = (
        cast(tape, logits, DType.FP32, category=Category.LOGITS) if upcast else tape.alias(logits)
    )
    labels = Value(tape.allocate(Category.ACTIVATIONS, sizes.ZERO), logits.numel, DType.FP32)
    loss = cross_entropy(tape, source, labels)
    tape.free(source, labels)
    return loss


def allocate_shifted_labels(tape: Tape) -> tuple[Storage, Storage]:
    """Return the shifted labels and the padded ones they are cut from.

    They share one storage for a single sequence.
    """
    shifted = sizes.add(sizes.per_token(INDEX_BYTES), sizes.per_sequence(INDEX_BYTES))
    padded = sizes.subtract(sizes.per_token(INDEX_BYTES), sizes.per_position(INDEX_BYTES))
    return tape.allocate(Category.ACTIVATIONS, shifted), tape.allocate(Category.ACTIVATIONS, padded)


def cross_entropy(tape: Tape, logits: Value, labels: Value, *, last: bool = True) -> Value:
    """Return the mean cross-entropy loss.

    Log-softmax keeps its output, the negative log-likelihood its input and labels. Log-softmax runs
    in the dtype of the logits, autocast or not, since cross_entropy names that dtype; the
    likelihood is on autocast's fp32 list. After the gradient of the ``last`` log-softmax is made,
    the rest of backward begins.
    """

    def log_softmax_backward(_: Storage) -> None:
        tape.send(logits, tape.allocate(Category.LOGITS, count_bytes(logits.numel, logits.dtype)))
        if last:
            tape.ledger.enter(Section.BACKWARD)

    def nll_backward(_: Storage) -> None:
        tape.send(source, tape.allocate(Category.LOGITS, count_bytes(source.numel, source.dtype)))

    probabilities = tape.emit(
        logits.numel,
        logits.dtype,
        inputs=(logits,),
        saves_output=True,
        category=Category.LOGITS,
        backward=log_softmax_backward,
    )
    dtype = DType.FP32 if tape.autocast is not None else logits.dtype
    source = cast(tape, probabilities, dtype, category=Category.LOGITS)
    tape.free(probabilities)
    loss = tape.emit(
        sizes.constant(1),
        source.dtype,
        inputs=(source,),
        saves=(source, labels),
        backward=nll_backward,
    )
    tape.free(source)
    return loss
