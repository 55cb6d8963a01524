"""Matrix products: linear layers, batched products, embeddings."""

from collections.abc import Callable

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Parameter, Value, Work, as_value
from service.estimator.tape.ops.elementwise import cast
from service.estimator.tape.shared_weights import cast_once
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def autocast_input(tape: Tape, x: Value) -> Value:
    """Return ``x`` as a product under autocast reads it.

    It is cast anew for every product.
    """
    return cast(tape, x, tape.autocast) if tape.autocast is not None else tape.alias(x)


def autocast_weight(tape: Tape, parameter: Parameter) -> Value:
    """Return the weight as a product reads it.

    Autocast keeps its copy of a trained weight until forward ends. It keeps none of a view
    (``cached_cast`` in ATen ``autocast_mode.cpp``: leaves that require a gradient).
    """
    if tape.autocast is None or parameter.dtype is tape.autocast:
        return as_value(parameter)
    if parameter.name in tape.autocast_copies:
        return tape.alias(tape.autocast_copies[parameter.name][0])
    if parameter.shared:
        copy = cast_once(tape, parameter, tape.autocast)
    else:
        copy = cast(tape, as_value(parameter), tape.autocast, category=Category.GATHERED_WEIGHTS)
    if parameter.trainable and not parameter.viewed:
        tape.autocast_copies[parameter.name] = (tape.alias(copy), tape.repeat_count)
    return copy


def end_autocast(tape: Tape) -> None:
    """Drop autocast's copies of weights, of repeated blocks too.

    Those that an operation kept for backward stay.
    """
    for copy, times in tape.autocast_copies.values():
        tape.free(copy)
        if copy.storage is not None and copy.storage.references == 0:
            tape.ledger.remove(copy.storage.category, sizes.scale(copy.storage.size, times - 1))
    tape.autocast_copies.clear()


def linear(
    tape: Tape,
    x: Value,
    weight: Parameter,
    out: Size,
    *,
    bias: Parameter | None = None,
    category: Category = Category.ACTIVATIONS,
) -> Value:
    """Return ``x W^T + b`` with ``out`` elements.

    It keeps ``x`` for a trained weight, and the weight for a differentiable ``x``.
    """
    # Autocast casts the last argument first, as compilers evaluate the arguments of a call.
    cast_b = autocast_weight(tape, bias) if bias is not None else None
    cast_w = autocast_weight(tape, weight)
    cast_x = autocast_input(tape, x)
    dtype = cast_x.dtype
    inputs = (cast_x, cast_w) if cast_b is None else (cast_x, cast_w, cast_b)
    saves = [cast_x] * cast_w.requires_grad + [cast_w] * cast_x.requires_grad
    if cast_b is None:
        saves.reverse()

    def backward(_: Storage) -> None:
        grad_x = grad_w = None
        # A product's gradients are made, and what it saved is freed, by the names of its arguments:
        # ``mat1`` and ``mat2`` of one with a bias (addmm), ``mat2`` and ``self`` of one without.
        if cast_b is not None and cast_x.requires_grad:
            grad_x = _scratch_product(tape, cast_x.numel, dtype)
        if cast_w.requires_grad:
            grad_w = _scratch_product(tape, cast_w.numel, cast_w.dtype)
        if cast_b is None and cast_x.requires_grad:
            grad_x = _scratch_product(tape, cast_x.numel, dtype)
        if cast_b is not None and cast_b.requires_grad:
            tape.send(cast_b, tape.scratch(cast_b.numel, cast_b.dtype), is_view=True)
            tape.use_reduction(cast_b.numel, out)
        if grad_w is not None:
            tape.send(cast_w, grad_w, is_view=True)
        if grad_x is not None:
            tape.send(cast_x, grad_x, is_view=True)

    y = tape.emit(
        out,
        dtype,
        inputs=inputs,
        saves=saves,
        category=category,
        work=Work.PRODUCT,
        backward=backward,
    )
    tape.use_workspace(has_bias=cast_b is not None)
    tape.free(*inputs)
    return y


def _scratch_product(tape: Tape, numel: Size, dtype: DType) -> Storage:
    """Return a product that is a gradient."""
    grad = tape.scratch(numel, dtype)
    tape.use_workspace()
    return grad


def batched_product(tape: Tape, left: Value, right: Value, out: Size) -> Value:
    """Return a batched matrix product with ``out`` elements.

    Each side is kept for the other's gradient.
    """
    saves = [right] * left.requires_grad + [left] * right.requires_grad

    def backward(_: Storage) -> None:
        grads = [
            (side, _scratch_product(tape, side.numel, side.dtype))
            for side in (right, left)  # as bmm's ``mat2`` and ``self``
            if side.requires_grad
        ]
        for side, grad in grads:
            tape.send(side, grad, is_view=True)

    y = tape.emit(
        out,
        left.dtype,
        inputs=(left, right),
        saves=saves,
        work=Work.BATCHED,
        backward=backward,
    )
    tape.use_workspace()
    return y


ReadSide = Callable[[Tape, Value], Value]


def multiply_heads(
    tape: Tape, left: Value, right: Value, out: Size, *, reads: tuple[ReadSide, ReadSide]
) -> Value:
    """Return ``matmul(left, right)``; ``reads`` give both sides as the kernel reads them.

    Autocast casts the last argument first, and has names for its casts until the product is there.
    """
    cast_right, cast_left = autocast_input(tape, right), autocast_input(tape, left)
    operands = reads[0](tape, cast_left), reads[1](tape, cast_right)
    y = batched_product(tape, *operands, out)
    tape.free(*operands, cast_left, cast_right)
    return y


def embedding(tape: Tape, weight: Parameter, indices: Value, out: Size) -> Value:
    """Return the rows of ``weight`` at ``indices``.

    Backward makes a gradient of the full table.
    """
    table = as_value(weight)

    def backward(_: Storage) -> None:
        tape.send(table, tape.scratch(table.numel, weight.dtype))
        width = sum(out) // max(sum(indices.numel), 1)
        tape.use_embedding_sums(width, indices.numel, weight.numel // max(width, 1))

    return tape.emit(out, weight.dtype, inputs=(table,), saves=(indices,), backward=backward)


def copy_contiguous(tape: Tape, x: Value, *, numel: Size | None = None) -> Value:
    """Return a contiguous copy of ``x``.

    It is expanded to ``numel`` elements when given: its gradient is summed back.
    """
    out = x.numel if numel is None else numel

    def backward(grad: Storage) -> None:
        if out == x.numel:
            tape.send(x, tape.hold(grad), is_view=True)
        else:
            tape.send(x, tape.scratch(x.numel, x.dtype))

    return tape.emit(out, x.dtype, inputs=(x,), backward=backward)


def view(tape: Tape, x: Value) -> Value:
    """Return a view of ``x`` in another shape, and drop ``x``.

    So is its gradient.
    """
    viewed = Value(x.storage, x.numel, x.dtype)
    if not (tape.builds_graph and x.requires_grad):
        return x
    node = Node([], lambda grad: tape.send(x, tape.hold(grad), is_view=True))
    viewed.node, viewed.requires_grad = tape.append(node), True
    return viewed


def view_heads(tape: Tape, x: Value) -> Value:
    """Return a view of ``x`` head by head, and drop ``x``.

    Its gradient lies head after head, and is copied to lie token after token.
    """
    view = Value(x.storage, x.numel, x.dtype)
    if not (tape.builds_graph and x.requires_grad):
        return x
    view.node = tape.append(Node([], lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))))
    view.requires_grad = True
    return view


def allocate_integers(tape: Tape, count: Size, *, bytes_each: int = 8) -> Value:
    """Return an integer tensor."""
    return Value(
        tape.allocate(Category.ACTIVATIONS, sizes.scale(count, bytes_each)), count, DType.FP32
    )


def split(tape: Tape, fused: Value, numels: tuple[Size, ...]) -> tuple[Value, ...]:
    """Return views of ``fused``, which is dropped.

    Backward puts their gradients together into one of its size.
    """
    parts: list[Storage] = []

    def backward(_: Storage) -> None:
        joint_grad = tape.scratch(fused.numel, fused.dtype)
        tape.release(*parts)
        parts.clear()
        tape.send(fused, joint_grad)

    joint = Node([], backward)
    differentiable = tape.builds_graph and fused.requires_grad
    if differentiable:
        tape.append(joint)

    def hand_on(grad: Storage) -> None:
        parts.append(tape.hold(grad))
        if joint.grad is None:
            joint.grad = tape.hold(grad)

    views = []
    for numel in numels:
        view = Value(fused.storage, numel, fused.dtype)
        tape.hold_value(view)
        if differentiable:
            view.node = tape.append(Node([], hand_on))
            view.requires_grad = True
        views.append(view)
    tape.free(fused)
    return tuple(views)
