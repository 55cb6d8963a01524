"""Operations of chunked scans (transformers' ``mamba2_chunk_scan``): padding, running and segment sums, contractions."""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, bytes_of
from service.estimator.tape.ops.elementwise import chain, from_output, in_fp32
from service.estimator.tape.ops.products import autocast_input, batched_product, copy_of
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def zero_padded(tape: Tape, x: Value, numel: Size) -> Value:
    """Return ``x`` with zeros behind it: a copy even where nothing is added, as its gradient is (ATen's constant_pad_nd)."""
    return tape.emit(numel, x.dtype, inputs=(x,), backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)))


def running_sum(tape: Tape, x: Value) -> Value:
    """Return a cumulative sum: backward flips, sums and flips again, each into a new tensor (ATen's cumsum_backward)."""
    source = in_fp32(tape, x)

    def backward(_: Storage) -> None:
        flipped, summed = tape.scratch(source.numel, source.dtype), tape.scratch(source.numel, source.dtype)
        grad = tape.scratch(source.numel, source.dtype)
        tape.release(flipped, summed)
        tape.send(source, grad)

    y = tape.emit(source.numel, source.dtype, inputs=(source,), backward=backward)
    tape.free(source)
    return y


def filled(tape: Tape, x: Value, mask: Value, numel: Size) -> Value:
    """Return ``x``, broadcast to ``numel``, with a constant where ``mask`` says: the mask is kept."""

    def backward(_: Storage) -> None:
        whole = tape.scratch(numel, x.dtype)
        if numel == x.numel:
            tape.send(x, whole)
            return
        reduced = tape.scratch(x.numel, x.dtype)
        tape.release(whole)
        tape.send(x, reduced)

    return tape.emit(numel, x.dtype, inputs=(x,), saves=(mask,), backward=backward)


def segment_decay(tape: Tape, x: Value, side: int, numel: Size) -> Value:
    """Return ``exp(segment_sum(x))``: ``numel`` sums of stretches of ``side`` positions; ``x`` stays with the caller.

    ``segment_sum`` holds its first filled tensor under its argument's name until it returns.
    """
    mask = triangle(tape, side)
    inverted = _booleans(tape, side)
    first = filled(tape, x, inverted, numel)
    tape.free(inverted)
    summed = running_sum(tape, first)
    again = triangle(tape, side)
    tape.free(mask)
    inverted = _booleans(tape, side)
    second = filled(tape, summed, inverted, numel)
    tape.free(inverted, summed, first, again)
    return chain(tape, second, exponential)


def exponential(tape: Tape, x: Value) -> Value:
    """Return ``exp(x)``, in fp32 under autocast; ``x`` stays with the caller."""
    return chain(tape, in_fp32(tape, x), from_output)


def contraction(tape: Tape, left: Value, right: Value, out: Size, *, copies: tuple[bool, bool]) -> Value:
    """Return an einsum of two tensors as one batched product: a side whose dimensions do not lie in its order is copied first.

    Autocast takes both sides to 16 bit (ATen's sumproduct_pair calls bmm).
    """
    sides = [
        copy_of(tape, side) if is_copied else tape.alias(side) for side, is_copied in zip((left, right), copies, strict=True)
    ]
    operands = [autocast_input(tape, side) for side in sides]
    tape.free(*sides)
    y = batched_product(tape, operands[0], operands[1], out)
    tape.free(*operands)
    return y


def triangle(tape: Tape, side: int) -> Value:
    """Return a triangle of ``side`` x ``side`` booleans, cut out of a square of them that is dropped."""
    ones = _booleans(tape, side)
    triangle = _booleans(tape, side)
    tape.free(ones)
    return triangle


def _booleans(tape: Tape, side: int) -> Value:
    size = sizes.constant(side * side)
    return Value(tape.allocate(Category.ACTIVATIONS, bytes_of(size, DType.FP8)), size, DType.FP8)
