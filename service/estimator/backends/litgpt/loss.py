"""LitGPT's cross entropy in chunks (``litgpt/utils.py``, ``chunked_cross_entropy``).

Chunks of one kind are recorded as one tensor: what backward makes of them chunk by chunk, and
drops as it goes, is two chunks beside what was there.
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Node, Value, count_bytes
from service.estimator.tape.ops.elementwise import cast
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

CHUNK_TOKENS = 128
"""Tokens of a chunk of the head's input, and rows of a chunk of the loss."""


def cast_in_chunks(tape: Tape, logits: Value, dtype: DType, chunk: Size) -> Value:
    """Return logits in ``dtype``; their gradient is cast chunk by chunk."""
    if logits.dtype is dtype:
        return tape.alias(logits)

    def backward(grad: Storage) -> None:
        piece = tape.allocate(Category.LOGITS, count_bytes(chunk, logits.dtype))
        tape.release(grad)
        joined = tape.allocate(Category.LOGITS, count_bytes(logits.numel, logits.dtype))
        tape.release(piece)
        tape.send(logits, joined)

    y = tape.emit(
        logits.numel, dtype, inputs=(logits,), category=Category.LOGITS, backward=backward
    )
    if y.node is not None:
        y.node.consumes_grad = True
    return y


def watch_input(tape: Tape, x: Value, storages: list[Storage]) -> Value:
    """Return a view of the head's input; its gradient ends ``storages``."""
    viewed = Value(x.storage, x.numel, x.dtype)
    tape.hold_value(viewed)

    def backward(grad: Storage) -> None:
        tape.release(*storages)
        storages.clear()
        tape.send(x, tape.hold(grad), is_view=True)

    viewed.node, viewed.requires_grad = tape.append(Node([], backward)), True
    return viewed


def scale_in_chunks(tape: Tape, logits: Value, scale: Value, chunk: Size) -> Value:
    """Return logits by a trained scale, which go back chunk by chunk."""

    def backward(grad: Storage) -> None:
        size = count_bytes(chunk, logits.dtype)
        tape.release(*(tape.allocate(Category.LOGITS, size) for _ in range(2)))
        tape.send(scale, tape.scratch(scale.numel, scale.dtype))
        tape.send(logits, tape.hold(grad))

    return tape.emit(
        logits.numel,
        logits.dtype,
        inputs=(logits, scale),
        saves=(logits, scale),
        category=Category.LOGITS,
        backward=backward,
    )


def drop_last(tape: Tape, logits: Value, numel: Size) -> Value:
    """Return a view of all but each sequence's last position.

    Only the last chunk's gradient is put among zeros: all others are their own.
    """
    shifted = Value(logits.storage, numel, logits.dtype)
    tape.hold_value(shifted)

    def backward(grad: Storage) -> None:
        tape.release(grad)
        tape.send(logits, tape.allocate(Category.LOGITS, count_bytes(logits.numel, logits.dtype)))

    if logits.node is not None:
        marker = tape.emit(sizes.ZERO, logits.dtype, inputs=(logits,), backward=backward)
        assert marker.node is not None  # noqa: S101 - the logits have a gradient
        marker.node.consumes_grad = True
        shifted.node, shifted.requires_grad = marker.node, True
        tape.free(marker)
    return shifted


def compute_chunked_loss(tape: Tape, logits: Value, rows: Size, chunk: Size) -> Value:
    """Return the mean of the losses of all chunks.

    ``logits`` stay with the caller. ``rows`` are those of all logits, ``chunk`` the elements of one
    chunk.
    """
    bytes_ = count_bytes(logits.numel, logits.dtype)
    log_probs = tape.allocate(Category.LOGITS, bytes_)

    def backward(_: Storage) -> None:
        pair = [tape.allocate(Category.LOGITS, count_bytes(chunk, logits.dtype)) for _ in range(2)]
        tape.release(log_probs)
        grad = tape.allocate(Category.LOGITS, bytes_)
        tape.release(*pair)
        tape.send(logits, grad)
        tape.ledger.enter(Section.BACKWARD)

    losses = tape.emit(rows, DType.FP32, inputs=(logits,), backward=backward)
    gathered = tape.scratch(rows, DType.FP32)
    mean = tape.emit(
        sizes.constant(1),
        DType.FP32,
        inputs=(losses,),
        backward=lambda grad: tape.send(losses, tape.hold(grad), is_view=True),
    )
    tape.release(gathered)
    tape.free(losses)
    return mean


def cast_to_fp32(tape: Tape, logits: Value) -> Value:
    """Return logits in fp32, as Lightning returns what a module returns."""
    return cast(tape, logits, DType.FP32, category=Category.LOGITS)
