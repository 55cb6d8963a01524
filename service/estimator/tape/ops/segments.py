"""Operations of chunked scans (transformers' ``mamba2_chunk_scan``).

Padding, running and segment sums, contractions.
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import activate_saving_output, autocast_to_fp32, chain
from service.estimator.tape.ops.products import copy_contiguous, multiply_heads
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def pad_with_zeros(tape: Tape, x: Value, numel: Size) -> Value:
    """Return ``x`` with zeros behind it.

    It is a copy even where nothing is added, as its gradient is (ATen's constant_pad_nd).
    """
    return tape.emit(
        numel, x.dtype, inputs=(x,), backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))
    )


def cumsum(tape: Tape, x: Value) -> Value:
    """Return a cumulative sum.

    Backward flips, sums and flips again, each into a new tensor (ATen's cumsum_backward).
    """
    source = autocast_to_fp32(tape, x)

    def backward(_: Storage) -> None:
        flipped, summed = (
            tape.scratch(source.numel, source.dtype),
            tape.scratch(source.numel, source.dtype),
        )
        grad = tape.scratch(source.numel, source.dtype)
        tape.release(flipped, summed)
        tape.send(source, grad)

    y = tape.emit(source.numel, source.dtype, inputs=(source,), backward=backward)
    tape.free(source)
    return y


def fill_masked(tape: Tape, x: Value, mask: Value, numel: Size) -> Value:
    """Return ``x`` with a constant where ``mask`` is set.

    ``x`` is broadcast to ``numel``; the mask is kept.
    """

    def backward(_: Storage) -> None:
        full_grad = tape.scratch(numel, x.dtype)
        if numel == x.numel:
            tape.send(x, full_grad)
            return
        reduced = tape.scratch(x.numel, x.dtype)
        tape.release(full_grad)
        tape.send(x, reduced)

    return tape.emit(numel, x.dtype, inputs=(x,), saves=(mask,), backward=backward)


def compute_segment_decay(tape: Tape, x: Value, side: int, numel: Size) -> Value:
    """Return ``exp(segment_sum(x))``.

    It has ``numel`` sums of stretches of ``side`` positions; ``x`` stays with the caller.
    ``segment_sum`` holds its first filled tensor under its argument's name until it returns.
    """
    mask = make_triangle(tape, side)
    inverted = _allocate_booleans(tape, side)
    first = fill_masked(tape, x, inverted, numel)
    tape.free(inverted)
    summed = cumsum(tape, first)
    second_mask = make_triangle(tape, side)
    tape.free(mask)
    inverted = _allocate_booleans(tape, side)
    second = fill_masked(tape, summed, inverted, numel)
    tape.free(inverted, summed, first, second_mask)
    return chain(tape, second, exponentiate)


def exponentiate(tape: Tape, x: Value) -> Value:
    """Return ``exp(x)``, in fp32 under autocast; ``x`` stays with the caller."""
    return chain(tape, autocast_to_fp32(tape, x), activate_saving_output)


def contract(
    tape: Tape, left: Value, right: Value, out: Size, *, copies: tuple[bool, bool]
) -> Value:
    """Return an einsum of two tensors as one batched product.

    A side whose dimensions do not lie in its order is copied first. Autocast takes both sides to 16
    bit (ATen's sumproduct_pair calls bmm).
    """
    sides = [
        copy_contiguous(tape, side) if is_copied else tape.alias(side)
        for side, is_copied in zip((left, right), copies, strict=True)
    ]
    y = multiply_heads(tape, sides[0], sides[1], out, reads=(Tape.alias, Tape.alias))
    tape.free(*sides)
    return y


def make_triangle(tape: Tape, side: int) -> Value:
    """Return a triangle of ``side`` x ``side`` booleans.

    It is cut out of a square of them that is dropped.
    """
    ones = _allocate_booleans(tape, side)
    triangle = _allocate_booleans(tape, side)
    tape.free(ones)
    return triangle


def _allocate_booleans(tape: Tape, side: int) -> Value:
    size = sizes.constant(side * side)
    return Value(tape.allocate(Category.ACTIVATIONS, count_bytes(size, DType.FP8)), size, DType.FP8)
