"""Operations of state-space mixers, written without their kernels.

Convolution, outer products and the scan as transformers has them.
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Parameter, Value, as_value, count_bytes
from service.estimator.tape.ops.elementwise import cast, promote_dtypes
from service.estimator.tape.ops.products import autocast_input, autocast_weight
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

DECAYED_AND_NEXT = 2
"""States beside the one before while a position's is made: that one's share of it, and the sum with
what enters.
"""
FULL_GRADIENTS = 3
"""At its worst the scan's backward holds the gradient of each of its two inputs, and a third for
one more position.
"""


def convolve_channels(
    tape: Tape, x: Value, weight: Parameter, bias: Parameter | None, out: Size
) -> Value:
    """Return a convolution per channel, and keep its input.

    The input is padded on both sides to ``out`` elements. The weight is a view of the parameter, of
    which autocast's cache keeps no copy (ATen's autocast_mode.cpp).
    """
    source = cast(tape, x, weight.dtype)
    read, table = autocast_input(tape, source), autocast_input(tape, as_value(weight))
    extra = [autocast_weight(tape, bias)] if bias is not None else []
    inputs = [read, table, *extra]

    def backward(_: Storage) -> None:
        for value in inputs:
            if value.requires_grad:
                tape.send(value, tape.scratch(value.numel, value.dtype))

    y = tape.emit(out, read.dtype, inputs=inputs, saves=(read, table), backward=backward)
    tape.free(source, *inputs)
    return y


def multiply_broadcast(tape: Tape, left: Value, right: Value, numel: Size) -> Value:
    """Return ``left * right`` with both broadcast to ``numel``.

    Each gradient is made in full and summed.
    """
    dtype = promote_dtypes(left, right)
    saves = [right] * left.requires_grad + [left] * right.requires_grad

    def backward(_: Storage) -> None:
        sides = [side for side in (left, right) if side.requires_grad]
        grads = [tape.scratch(numel, dtype) for _ in sides]
        for side, grad in zip(sides, grads, strict=True):
            if side.numel == numel and side.dtype is dtype:
                tape.send(side, grad)
                continue
            reduced = tape.scratch(side.numel, side.dtype)
            tape.release(grad)
            tape.send(side, reduced)

    return tape.emit(numel, dtype, inputs=(left, right), saves=saves, backward=backward)


def scan(
    tape: Tape, scanned: tuple[Value, Value, Value], channels: Size, state: Size, dtype: DType
) -> tuple[Value, list[Storage]]:
    """Return the outputs of all positions, and the named storages.

    ``channels`` is the outputs in all. ``scanned`` are decay, input and C of every position,
    ``state`` is one state per sequence. Each position keeps its state for the next one's gradient,
    and a copy in ``dtype``, in which it is read; the last one is kept only where it is read as it
    is. Autocast takes C to ``dtype`` where a norm left it in fp32 (jamba).
    """
    decay, entering, unread_c = scanned
    reading = cast(tape, unread_c, dtype)
    narrow = dtype is not DType.FP32
    before = sizes.subtract(decay.numel, state)
    saved: list[Storage] = []
    early: list[Storage] = []
    records = tape.builds_graph and (decay.requires_grad or entering.requires_grad)
    first = Value(tape.allocate(Category.ACTIVATIONS, count_bytes(state, dtype)), state, dtype)
    last = tape.scratch(state, DType.FP32)
    tape.release(tape.scratch(state, DType.FP32))
    if records:
        states = [(sizes.subtract(before, state), DType.FP32), (state, DType.FP32)]
        copies = (
            [(sizes.subtract(before, state), dtype), (sizes.scale(state, 2), dtype)]
            if narrow
            else []
        )
        for numel, kind in (states[0], *copies[:1]):
            keep_unnamed(tape, saved, numel, kind)
        for numel, kind in (states[1], *copies[1:]):
            keep_unnamed(tape, early, numel, kind)
        tape.save(
            saved,
            (first, decay, reading)
            if narrow
            else (first, decay, reading, Value(last, state, DType.FP32)),
        )
    tape.free(first, reading)
    outputs = tape.allocate(Category.ACTIVATIONS, count_bytes(channels, dtype))
    if not tape.builds_graph or tape.mode is Mode.DISCARDING:
        tape.release(*(tape.scratch(state, DType.FP32) for _ in range(DECAYED_AND_NEXT)))
    y = Value(tape.allocate(Category.ACTIVATIONS, count_bytes(channels, dtype)), channels, dtype)

    def backward(_: Storage) -> None:
        tape.release(*early)
        early.clear()
        # C's gradient is gathered position by position, before the first one's decay has its own.
        read = tape.scratch(reading.numel, dtype)
        grads = [tape.scratch(decay.numel, DType.FP32) for _ in range(FULL_GRADIENTS)]
        carried = tape.scratch(state, DType.FP32)
        tape.release(grads.pop(), carried)
        tape.send(decay, grads[0])
        tape.send(entering, grads[1])
        tape.send(reading, read)

    if records:
        y.node, y.requires_grad = tape.append(Node(saved, backward)), True
    return y, [outputs, last]


def keep_unnamed(tape: Tape, saved: list[Storage], numel: Size, dtype: DType) -> None:
    """Keep a tensor that only backward holds.

    Where nothing is kept it is counted and never there.
    """
    allocates = tape.mode is not Mode.DISCARDING
    value = Value(
        tape.allocate(Category.ACTIVATIONS, count_bytes(numel, dtype)) if allocates else None,
        numel,
        dtype,
    )
    tape.save(saved, (value,))
    tape.free(value)
