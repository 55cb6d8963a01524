"""Element-wise operations as PyTorch's derivatives record them.

Each keeps tensors for backward and allocates there.
"""

from collections.abc import Callable

from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, Work, count_bytes
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def promote_dtypes(left: Value, right: Value) -> DType:
    """Return the dtype of an operation on two tensors."""
    return DType.FP32 if DType.FP32 in {left.dtype, right.dtype} else left.dtype


def cast(tape: Tape, x: Value, dtype: DType, *, category: Category = Category.ACTIVATIONS) -> Value:
    """Return ``x`` in ``dtype``, the same tensor when it already is."""
    if x.dtype is dtype:
        return tape.alias(x)

    def backward(_: Storage) -> None:
        tape.send(x, tape.scratch(x.numel, x.dtype))

    return tape.emit(x.numel, dtype, inputs=(x,), category=category, backward=backward)


def multiply(tape: Tape, left: Value, right: Value, *, is_scalar: bool = False) -> Value:
    """Return ``left * right``, whose size the larger side sets.

    Each side is kept when the other needs a gradient. ``is_scalar``: the right side has no
    dimension, and widens no dtype.
    """
    numel = max(left.numel, right.numel, key=_make_order_key)
    dtype = left.dtype if is_scalar else promote_dtypes(left, right)
    saves = [right] * left.requires_grad + [left] * right.requires_grad

    def backward(_: Storage) -> None:
        grads = [tape.scratch(numel, dtype) for side in (left, right) if side.requires_grad]
        tape.release_unpacked()
        for side in (left, right):
            if side.requires_grad:
                _send_gradient(tape, side, grads.pop(), numel)  # ``other`` was first

    return tape.emit(numel, dtype, inputs=(left, right), saves=saves, backward=backward)


def _send_gradient(tape: Tape, side: Value, grad: Storage, numel: Size) -> None:
    if side.numel == numel and grad.size == count_bytes(numel, side.dtype):
        tape.send(side, grad)
        return
    reduced = tape.scratch(side.numel, side.dtype)
    tape.use_reduction(side.numel, numel)
    tape.release(grad)
    tape.send(side, reduced)


def _make_order_key(size: Size) -> tuple[int, ...]:
    return tuple(reversed(size))


def add(tape: Tape, left: Value, right: Value) -> Value:
    """Return ``left + right``.

    The gradient is handed on to both, cast where a side has another dtype.
    """
    dtype = promote_dtypes(left, right)

    def backward(grad: Storage) -> None:
        for side in (left, right):
            if not side.requires_grad:
                continue
            if side.dtype is dtype and side.numel == left.numel:
                tape.pass_on(side, grad)
            else:
                tape.send(side, tape.scratch(side.numel, side.dtype))

    return tape.emit(left.numel, dtype, inputs=(left, right), backward=backward)


def add_scalar(tape: Tape, x: Value) -> Value:
    """Return ``x + c``."""
    return tape.emit(
        x.numel, x.dtype, inputs=(x,), backward=lambda grad: tape.send(x, tape.hold(grad))
    )


def multiply_scalar(tape: Tape, x: Value) -> Value:
    """Return ``c * x``."""
    return tape.emit(
        x.numel,
        x.dtype,
        inputs=(x,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )


def power(tape: Tape, base: Value) -> Value:
    """Return ``x ** c``, in fp32 under autocast.

    ``grad * (c * x ** (c - 1))`` holds both inner products until the end.
    """
    x = autocast_to_fp32(tape, base)

    def backward(_: Storage) -> None:
        inner, scaled = tape.scratch(x.numel, x.dtype), tape.scratch(x.numel, x.dtype)
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(inner, scaled)
        tape.send(x, grad)

    y = tape.emit(x.numel, x.dtype, inputs=(x,), saves=(x,), backward=backward)
    tape.free(x)
    return y


def autocast_to_fp32(tape: Tape, x: Value) -> Value:
    """Return ``x`` as operations on autocast's fp32 list read it."""
    return cast(tape, x, DType.FP32) if tape.autocast is not None else tape.alias(x)


def reduce_mean(tape: Tape, x: Value, rows: Size) -> Value:
    """Return the mean over the last dimension: ``rows`` elements."""
    return tape.emit(
        rows, x.dtype, inputs=(x,), backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))
    )


def activate_saving_input(tape: Tape, x: Value) -> Value:
    """Return an activation whose fused backward keeps its input.

    Such is gelu.
    """
    return tape.emit(
        x.numel,
        x.dtype,
        inputs=(x,),
        saves=(x,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )


SILU_INNER_PRODUCTS = 5
"""Tensors that ``grad * (s * (1 + x * (1 - s)))`` holds until it is done, s = sigmoid(x) (ATen's
math_silu_backward).
"""


def silu(tape: Tape, x: Value) -> Value:
    """Return silu with ATen's composite backward.

    The composite is what runs where no fused kernel is registered. The traces that this model is
    held against ran it. CUDA's fused kernel holds none of the inner products.
    """
    num_inner = 0 if tape.on_gpu else SILU_INNER_PRODUCTS

    def backward(_: Storage) -> None:
        inner = [tape.scratch(x.numel, x.dtype) for _ in range(num_inner)]
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(*inner)
        tape.send(x, grad)

    return tape.emit(x.numel, x.dtype, inputs=(x,), saves=(x,), work=Work.FUSED, backward=backward)


def activate_saving_output(tape: Tape, x: Value) -> Value:
    """Return an activation whose fused backward keeps its output.

    Such are tanh, relu, rsqrt and sigmoid.
    """
    return tape.emit(
        x.numel,
        x.dtype,
        inputs=(x,),
        saves_output=True,
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )


def compute_erf(tape: Tape, x: Value) -> Value:
    """Return the error function of ``x``, which is kept.

    ``2 / sqrt(pi) * exp(-(x ** 2)) * grad`` holds its four inner products until the end
    (``erf`` in torch's ``derivatives.yaml``).
    """

    def backward(_: Storage) -> None:
        inner = [tape.scratch(x.numel, x.dtype) for _ in range(4)]
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(*inner)
        tape.send(x, grad)

    return tape.emit(x.numel, x.dtype, inputs=(x,), saves=(x,), backward=backward)


def softmax(tape: Tape, x: Value, *, names_dtype: bool = False) -> Value:
    """Return the softmax over the last dimension.

    It is in fp32 under autocast, unless the call ``names_dtype`` (``fp32_set_opt_dtype`` of
    ``autocast_mode.h``); its output is kept. CUDA multiplies it with the gradient first.
    """
    source = tape.alias(x) if names_dtype else autocast_to_fp32(tape, x)
    numel, dtype = source.numel, source.dtype

    def backward(_: Storage) -> None:
        grad, *products = [tape.scratch(numel, dtype) for _ in range(1 + tape.on_gpu)]
        tape.release(*products)
        tape.send(source, grad)

    y = tape.emit(numel, dtype, inputs=(source,), saves_output=True, backward=backward)
    tape.free(source)
    return y


def dropout(tape: Tape, x: Value, probability: float) -> Value:
    """Return ``x`` with dropout.

    A mask of one byte per element is kept; without probability it is the same tensor.
    """
    if probability == 0 or not tape.builds_graph:
        return tape.alias(x)
    mask = Value(tape.allocate(Category.ACTIVATIONS, x.numel), x.numel, DType.FP8)
    y = tape.emit(
        x.numel,
        x.dtype,
        inputs=(x,),
        work=Work.FUSED,
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )
    if y.node is not None:
        y.node.needs_only_grad = False
        tape.save(
            y.node.saved, (mask,)
        )  # an output of the kernel as well: a recomputation that ends here has made both
    tape.free(mask)
    return y


def chain(tape: Tape, x: Value, operation: Callable[[Tape, Value], Value]) -> Value:
    """Return ``operation(x)`` and drop ``x``, as a nested expression does."""
    y = operation(tape, x)
    tape.free(x)
    return y


def rotate(tape: Tape, x: Value, table: DType, tables: tuple[Value, ...] = ()) -> Value:
    """Return ``x * cos + rotate_half(x) * sin``.

    Tables are in ``table`` without gradients, so ``x`` itself is not kept. ``tables`` are a layer's
    own cosine and sine, which its products keep; shared ones live outside of the layers.
    """
    cosine, sine = tables[:1], tables[1:]
    left = multiply_by_table(tape, x, table, cosine)
    right = chain(
        tape, rotate_half(tape, x), lambda t, value: multiply_by_table(t, value, table, sine)
    )
    y = add(tape, left, right)
    tape.free(left, right)
    return y


def rotate_half(tape: Tape, x: Value) -> Value:
    """Return the halves of each head swapped, one negated.

    Two slices are put together anew.
    """

    def rotated(grad: Storage) -> None:
        negated = tape.allocate(Category.TEMPORARIES, _halve(grad.size))
        second = tape.scratch(x.numel, x.dtype)
        tape.release(negated)
        tape.send(x, second)
        tape.send(x, tape.scratch(x.numel, x.dtype))

    negated = tape.allocate(Category.ACTIVATIONS, _halve(count_bytes(x.numel, x.dtype)))
    turned = tape.emit(x.numel, x.dtype, inputs=(x,), backward=rotated)
    tape.release(negated)
    return turned


def multiply_by_table(
    tape: Tape, x: Value, table: DType, saved_tables: tuple[Value, ...] = ()
) -> Value:
    """Return ``x`` times a tensor without gradient.

    The product is in the wider of both dtypes; ``saved_tables`` is that tensor, if a layer made it.
    """
    dtype = DType.FP32 if DType.FP32 in {x.dtype, table} else x.dtype

    def backward(_: Storage) -> None:
        _send_gradient(tape, x, tape.scratch(x.numel, dtype), x.numel)

    return tape.emit(x.numel, dtype, inputs=(x,), saves=saved_tables, backward=backward)


def _halve(size: Size) -> Size:
    a, b, c, d, e, f = size
    return (a // 2, b // 2, c // 2, d // 2, e // 2, f // 2)
