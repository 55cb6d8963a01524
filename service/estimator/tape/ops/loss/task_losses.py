"""Losses of classifiers, of regression and of the ends of answers."""

from collections.abc import Sequence

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import autocast_to_fp32


def compute_squared_loss(tape: Tape, x: Value) -> Value:
    """Return the mean squared difference between ``x`` and labels (``MSELoss``).

    Under autocast it is in fp32. The labels are counted with the batch.
    """
    return _compare(tape, x)


def compute_binary_loss(tape: Tape, x: Value) -> Value:
    """Return the mean binary cross entropy of each label (``BCEWithLogitsLoss``)."""
    return _compare(tape, x)


def _compare(tape: Tape, x: Value) -> Value:
    """Return a loss of a label for each element of ``x``."""
    source = autocast_to_fp32(tape, x)
    is_cast = source.dtype is not x.dtype
    labels = Value(
        tape.allocate(
            Category.LOGITS, count_bytes(x.numel, source.dtype) if is_cast else sizes.ZERO
        ),
        x.numel,
        source.dtype,
    )

    def backward(_: Storage) -> None:
        tape.send(source, tape.allocate(Category.LOGITS, count_bytes(x.numel, source.dtype)))
        tape.ledger.enter(Section.BACKWARD)

    loss = tape.emit(
        sizes.constant(1),
        source.dtype,
        inputs=(source,),
        saves=(source, labels),
        backward=backward,
    )
    tape.free(source, labels)
    return loss


def copy_column(tape: Tape, x: Value) -> Value:
    """Return a column as a contiguous copy, whose gradient is handed on."""
    return tape.emit(
        x.numel,
        x.dtype,
        inputs=(x,),
        category=Category.LOGITS,
        backward=lambda grad: tape.pass_on(x, grad),
    )


def add_scalars(tape: Tape, losses: Sequence[Value]) -> Value:
    """Return the mean of scalar losses, which are dropped."""

    def backward(_: Storage) -> None:
        for loss in losses:
            tape.send(loss, tape.scratch(loss.numel, loss.dtype))

    total = tape.emit(losses[0].numel, losses[0].dtype, inputs=losses, backward=backward)
    tape.free(*losses)
    return total
