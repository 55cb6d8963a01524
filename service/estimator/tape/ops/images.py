"""Operations of vision models: patches out of pixels, parameters spread over a batch, image features put among tokens."""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Parameter, Value, bytes_of, value_of
from service.estimator.tape.ops.elementwise import add, cast, chain
from service.estimator.tape.ops.products import autocast_input, autocast_weight
from service.estimator.tape.ops.views import concatenate
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def pixels_of(tape: Tape, numel: Size, dtype: DType) -> Value:
    """Return the pixels that come with a batch; they live as long as the step."""
    return Value(tape.allocate(Category.ACTIVATIONS, bytes_of(numel, dtype)), numel, dtype)


def patches(tape: Tape, pixels: Value, weight: Parameter, bias: Parameter | None, out: Size) -> Value:
    """Return a convolution whose stride is its kernel: keeps pixels and weight (derivatives.yaml, ``convolution``)."""
    source, kernel = autocast_input(tape, pixels), autocast_weight(tape, weight)
    shift = (autocast_weight(tape, bias),) if bias is not None else ()
    inputs = (source, kernel, *shift)

    def backward(_: Storage) -> None:
        made = [(value, tape.scratch(value.numel, value.dtype)) for value in inputs if value.requires_grad]
        for value, grad in made:
            tape.send(value, grad)

    y = tape.emit(out, source.dtype, inputs=inputs, saves=(source, kernel), backward=backward)
    tape.free(*inputs)
    return y


def spread(tape: Tape, parameter: Parameter, numel: Size) -> Value:
    """Return a parameter expanded over a batch, a view: its gradient is summed over the batch."""
    source = value_of(parameter)
    view = Value(None, numel, parameter.dtype)
    if tape.records and parameter.trainable:
        view.node = tape.append(Node([], lambda _: tape.send(source, tape.scratch(source.numel, source.dtype))))
        view.requires_grad = True
        parameter.pending += 1
    return view


def behind(tape: Tape, first: Value, rest: Value) -> Value:
    """Return both in one tensor, which autocast casts to the wider dtype first (``cat`` is on its promote list)."""
    dtype = DType.FP32 if DType.FP32 in {first.dtype, rest.dtype} else rest.dtype
    widened = cast(tape, rest, dtype)
    joined = concatenate(tape, (first, widened))
    tape.free(widened)
    return joined


def placed(tape: Tape, x: Value, positions: Value) -> Value:
    """Return ``x`` plus positions that all images share: their gradient is summed over the batch."""
    return chain(tape, x, lambda t, value: add(t, value, positions))


def scattered(tape: Tape, x: Value, features: Value, mask: Value) -> Value:
    """Return ``x`` with image features in the places of the mask (``masked_scatter``), which is kept for backward."""

    def backward(_: Storage) -> None:
        made = [(side, tape.scratch(side.numel, side.dtype)) for side in (x, features) if side.requires_grad]
        for side, grad in made:
            tape.send(side, grad)

    return tape.emit(x.numel, x.dtype, inputs=(x, features), saves=(mask,), backward=backward)


def restacked(tape: Tape, x: Value) -> Value:
    """Return the images of ``x`` listed one by one and joined again: the gradients of the list are stacked anew."""

    def backward(_: Storage) -> None:
        tape.send(x, tape.scratch(x.numel, x.dtype))

    return tape.emit(x.numel, x.dtype, inputs=(x,), backward=backward)


def regrouped(tape: Tape, x: Value) -> Value:
    """Return ``x`` cut or ordered in another way, a view: its gradient is put together anew."""
    view = Value(x.storage, x.numel, x.dtype)
    tape.hold_value(view)
    if tape.records and x.requires_grad:
        view.node = tape.append(Node([], lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))))
        view.requires_grad = True
    return view


def keeping(tape: Tape, x: Value, size: Size) -> Value:
    """Return ``x`` as another name, beside which so many bytes are kept for backward until its gradient comes by."""
    keeps = tape.mode in {Mode.RECORDING, Mode.RECOMPUTING} and x.requires_grad
    kept = Value(tape.allocate(Category.ACTIVATIONS, size) if keeps else None, size, x.dtype)
    view = Value(x.storage, x.numel, x.dtype)
    tape.hold_value(view)
    if tape.records and x.requires_grad:
        saved: list[Storage] = []
        tape.save(saved, [kept])
        view.node = tape.append(Node(saved, lambda grad: tape.send(x, tape.hold(grad))))
        view.requires_grad = True
    tape.free(kept)
    return view


def picked(tape: Tape, x: Value, index: Value) -> Value:
    """Return rows of ``x`` in the order of an index, which is kept; its gradient is put into zeros, which are copied."""

    def backward(_: Storage) -> None:
        zeros = tape.scratch(x.numel, x.dtype)
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(zeros)
        tape.send(x, grad)

    return tape.emit(x.numel, x.dtype, inputs=(x,), saves=(index,), backward=backward)


def pooled_squares(tape: Tape, x: Value, numel: Size) -> Value:
    """Return the mean over square windows (``avg_pool2d``), which keeps its input."""
    return tape.emit(numel, x.dtype, inputs=(x,), saves=(x,), backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)))


def sum_of_last(tape: Tape, x: Value, rows: Size) -> Value:
    """Return the sum over the last dimension: ``rows`` elements, whose gradient is expanded as a view."""
    return tape.emit(rows, x.dtype, inputs=(x,), backward=lambda grad: tape.send(x, tape.hold(grad), is_view=True))


def divide(tape: Tape, left: Value, right: Value) -> Value:
    """Return ``left / right`` with one ``right`` per row; both are kept (derivatives.yaml, ``div``)."""

    def backward(_: Storage) -> None:
        grad = tape.scratch(left.numel, left.dtype)
        quotient, negated = tape.scratch(left.numel, left.dtype), tape.scratch(left.numel, left.dtype)
        tape.release(negated)
        tape.send(left, grad)
        tape.send(right, tape.scratch(right.numel, right.dtype))
        tape.release(quotient)

    return tape.emit(left.numel, left.dtype, inputs=(left, right), saves=(left, right), backward=backward)


def gathered_position(tape: Tape, x: Value, numel: Size) -> Value:
    """Return one position of each sequence by index: a copy, which keeps a pair of 64-bit indices per sequence."""
    indices = Value(tape.allocate(Category.ACTIVATIONS, sizes.per_sequence(2 * 8)), sizes.per_sequence(2), DType.FP32)
    y = tape.emit(
        numel, x.dtype, inputs=(x,), saves=(indices,), backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))
    )
    tape.free(indices)
    return y
