"""Operations of vision models.

Patches out of pixels, parameters expanded over a batch, image features put among tokens.
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Parameter, Value, as_value, count_bytes
from service.estimator.tape.ops.elementwise import add, cast, chain, promote_dtypes
from service.estimator.tape.ops.products import autocast_input, autocast_weight
from service.estimator.tape.ops.views import concatenate
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def embed_patches(
    tape: Tape, pixels: Value, weight: Parameter, bias: Parameter | None, out: Size
) -> Value:
    """Return a convolution whose stride is its kernel.

    It keeps pixels and weight (derivatives.yaml, ``convolution``).
    """
    # Autocast casts the last argument first, as compilers evaluate the arguments of a call.
    shift = (autocast_weight(tape, bias),) if bias is not None else ()
    kernel = autocast_weight(tape, weight)
    source = autocast_input(tape, pixels)
    inputs = (source, kernel, *shift)

    def backward(_: Storage) -> None:
        grads = [
            (value, tape.scratch(value.numel, value.dtype))
            for value in inputs
            if value.requires_grad
        ]
        for value, grad in grads:
            tape.send(value, grad)

    y = tape.emit(out, source.dtype, inputs=inputs, saves=(source, kernel), backward=backward)
    tape.free(*inputs)
    return y


def expand_parameter(tape: Tape, parameter: Parameter, numel: Size) -> Value:
    """Return a parameter expanded over a batch, a view.

    Its gradient is summed over the batch.
    """
    source = as_value(parameter)
    view = Value(None, numel, parameter.dtype)
    if tape.builds_graph and parameter.trainable:
        view.node = tape.append(
            Node([], lambda _: tape.send(source, tape.scratch(source.numel, source.dtype)))
        )
        view.requires_grad = True
        parameter.pending_gradients += 1
    return view


def concatenate_promoted(tape: Tape, first: Value, second: Value) -> Value:
    """Return both values in one tensor of the wider dtype.

    Autocast casts to that dtype first (``cat`` is on its promote list).
    """
    dtype = DType.FP32 if DType.FP32 in {first.dtype, second.dtype} else second.dtype
    widened = cast(tape, second, dtype)
    joined = concatenate(tape, (first, widened))
    tape.free(widened)
    return joined


def add_positions(tape: Tape, x: Value, positions: Value) -> Value:
    """Return ``x`` plus positions that all images share.

    Their gradient is summed over the batch.
    """
    return chain(tape, x, lambda t, value: add(t, value, positions))


def scatter_features(tape: Tape, x: Value, features: Value, mask: Value) -> Value:
    """Return ``x`` with image features at the mask (``masked_scatter``).

    The mask is kept for backward.
    """

    def backward(_: Storage) -> None:
        grads = [
            (side, tape.scratch(side.numel, side.dtype))
            for side in (x, features)
            if side.requires_grad
        ]
        for side, grad in grads:
            tape.send(side, grad)

    return tape.emit(x.numel, x.dtype, inputs=(x, features), saves=(mask,), backward=backward)


def restack_images(tape: Tape, x: Value) -> Value:
    """Return the images of ``x`` listed one by one and joined again.

    The gradients of the list are stacked anew.
    """

    def backward(_: Storage) -> None:
        tape.send(x, tape.scratch(x.numel, x.dtype))

    return tape.emit(x.numel, x.dtype, inputs=(x,), backward=backward)


def save_bytes(tape: Tape, x: Value, size: Size) -> Value:
    """Return an alias of ``x`` that keeps so many bytes for backward.

    They are kept until its gradient comes by.
    """
    keeps = tape.mode in {Mode.RECORDING, Mode.RECOMPUTING} and x.requires_grad
    saved_value = Value(tape.allocate(Category.ACTIVATIONS, size) if keeps else None, size, x.dtype)
    view = Value(x.storage, x.numel, x.dtype)
    tape.hold_value(view)
    if tape.builds_graph and x.requires_grad:
        saved: list[Storage] = []
        tape.save(saved, [saved_value])
        view.node = tape.append(Node(saved, lambda grad: tape.send(x, tape.hold(grad))))
        view.requires_grad = True
    tape.free(saved_value)
    return view


def select_rows(tape: Tape, x: Value, index: Value) -> Value:
    """Return rows of ``x`` in the order of an index.

    The index is kept; the gradient is put into zeros, which are copied.
    """

    def backward(_: Storage) -> None:
        zeros = tape.scratch(x.numel, x.dtype)
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(zeros)
        tape.send(x, grad)

    return tape.emit(x.numel, x.dtype, inputs=(x,), saves=(index,), backward=backward)


def avg_pool2d(tape: Tape, x: Value, numel: Size) -> Value:
    """Return the mean over square windows (``avg_pool2d``).

    It keeps its input.
    """
    return tape.emit(
        numel,
        x.dtype,
        inputs=(x,),
        saves=(x,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )


def reduce_sum(tape: Tape, x: Value, rows: Size) -> Value:
    """Return the sum over the last dimension: ``rows`` elements.

    Its gradient is expanded as a view.
    """
    return tape.emit(
        rows,
        x.dtype,
        inputs=(x,),
        backward=lambda grad: tape.send(x, tape.hold(grad), is_view=True),
    )


def divide(tape: Tape, left: Value, right: Value) -> Value:
    """Return ``left / right`` with one ``right`` per row.

    Its dtype is the wider of both. Both are kept (derivatives.yaml, ``div``); a gradient is cast
    where its side has another dtype.
    """
    dtype = promote_dtypes(left, right)

    def backward(_: Storage) -> None:
        quotients = [tape.scratch(left.numel, dtype) for _ in range(2)]
        negated, product = (tape.scratch(left.numel, dtype) for _ in range(2))
        tape.release(negated, *reversed(quotients))
        tape.send(left, _cast_gradient(tape, tape.scratch(left.numel, dtype), left))
        total = tape.scratch(right.numel, right.dtype)
        tape.release(product)
        tape.send(right, total)

    return tape.emit(
        left.numel, dtype, inputs=(left, right), saves=(left, right), backward=backward
    )


def _cast_gradient(tape: Tape, grad: Storage, target: Value) -> Storage:
    """Return a gradient in the dtype of its target."""
    if grad.size == count_bytes(target.numel, target.dtype):
        return grad
    narrowed = tape.scratch(target.numel, target.dtype)
    tape.release(grad)
    return narrowed


def gather_position(tape: Tape, x: Value, numel: Size) -> Value:
    """Return one position of each sequence by index.

    It is a copy, which keeps a pair of 64-bit indices per sequence.
    """
    indices = Value(
        tape.allocate(Category.ACTIVATIONS, sizes.per_sequence(2 * 8)),
        sizes.per_sequence(2),
        DType.FP32,
    )
    y = tape.emit(
        numel,
        x.dtype,
        inputs=(x,),
        saves=(indices,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )
    tape.free(indices)
    return y
