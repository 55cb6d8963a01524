"""Operations of routed experts.

Choosing, sorting by expert, grouped products, and putting tokens back in order.
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Parameter, Value, Work, as_value, count_bytes
from service.estimator.tape.ops.elementwise import cast
from service.estimator.tape.ops.products import allocate_integers, batched_product, linear
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def top_k(tape: Tape, x: Value, out: Size) -> tuple[Value, Value]:
    """Return the largest values of each row and their indices.

    They have ``out`` elements each; backward scatters into zeros.
    """
    indices = allocate_integers(tape, out)
    return gather(tape, x, indices, out), indices


def gather(tape: Tape, x: Value, indices: Value, out: Size) -> Value:
    """Return elements of ``x`` at ``indices``.

    The indices are kept, and backward writes a copy of zeros of the size of ``x``: on a GPU the
    zeros themselves (``index_backward``).
    """

    def backward(_: Storage) -> None:
        zeros = [tape.scratch(x.numel, x.dtype) for _ in range(not tape.on_gpu)]
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(*zeros)
        tape.send(x, grad)

    return tape.emit(out, x.dtype, inputs=(x,), saves=(indices,), backward=backward)


def divide_in_place(tape: Tape, x: Value, divisor: Value) -> Value:
    """Return ``x /= divisor``, the same tensor.

    Autograd keeps a copy of what ``x`` was, for the divisor's gradient.
    """
    y = tape.alias(x)
    if not (tape.builds_graph and x.requires_grad):
        return y
    saved: list[Storage] = []
    original = Value(
        tape.allocate(Category.ACTIVATIONS, count_bytes(x.numel, x.dtype)), x.numel, x.dtype
    )
    tape.save(saved, (original, divisor))
    tape.free(original)

    def backward(_: Storage) -> None:
        ratio, quotient, negated = (tape.scratch(x.numel, x.dtype) for _ in range(3))
        scaled = tape.scratch(x.numel, x.dtype)
        tape.release(ratio, quotient, negated)
        grad, reduced = tape.scratch(x.numel, x.dtype), tape.scratch(divisor.numel, divisor.dtype)
        tape.release(scaled)
        tape.send(x, grad)
        tape.send(divisor, reduced)

    y.node, y.requires_grad = tape.append(Node(saved, backward)), True
    return y


def grouped_product(tape: Tape, x: Value, table: Value, offsets: Value, out: Size) -> Value:
    """Return the product of sorted rows with stacked expert weights.

    Rows are sorted by expert; ``offsets`` say where an expert's rows end. Autocast does not know
    the operation, so that the rows are cast to the weights (transformers' ``_grouped_mm``).
    """
    rows = cast(tape, x, table.dtype)
    saves = [rows] * table.requires_grad + [table] * rows.requires_grad + [offsets]

    def backward(_: Storage) -> None:
        grads = [
            (side, tape.scratch(side.numel, side.dtype))
            for side in (table, rows)
            if side.requires_grad
        ]
        for side, grad in grads:
            tape.send(side, grad)

    y = tape.emit(
        out,
        rows.dtype,
        inputs=(rows, table),
        saves=saves,
        work=Work.PRODUCT,
        backward=backward,
    )
    tape.free(rows)
    return y


def sum_rows(tape: Tape, x: Value, out: Size) -> Value:
    """Return sums over the last dimension.

    The gradient is an expanded view, handed on without a copy.
    """
    return tape.emit(
        out, x.dtype, inputs=(x,), backward=lambda grad: tape.send(x, tape.hold(grad), is_view=True)
    )


def sum_over_experts(tape: Tape, x: Value, out: Size) -> Value:
    """Return each token's sum over its experts.

    The expanded gradient is copied to leave the view by token. Autocast asks for sums in fp32,
    which CUDA's kernel makes without a copy of what it reads (ATen's ``make_reduction``).
    """
    dtype = DType.FP32 if tape.autocast is not None else x.dtype
    return tape.emit(
        out, dtype, inputs=(x,), backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))
    )


def apply_linear_in_fp32(tape: Tape, x: Value, weight: Parameter, out: Size) -> Value:
    """Return ``linear(x.float(), weight.float())``.

    Autocast takes both back to 16 bit.
    """
    source = cast(tape, x, DType.FP32)
    if tape.autocast is not None or weight.dtype is DType.FP32:
        y = linear(tape, source, weight, out)
    else:
        table = cast(tape, as_value(weight), DType.FP32)
        y = batched_product(tape, source, table, out)
        tape.free(table)
    tape.free(source)
    return y


def clamp(tape: Tape, x: Value, *, limits: int = 2) -> Value:
    """Return ``x`` within limits, of which it has one or two.

    Its input is kept, and backward makes a boolean of where it lies within each.
    """

    def backward(_: Storage) -> None:
        within = [tape.scratch(x.numel, DType.FP8) for _ in range(limits)]
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(*within)
        tape.send(x, grad)

    return tape.emit(x.numel, x.dtype, inputs=(x,), saves=(x,), backward=backward)


def keep_router_logits(tape: Tape, logits: Value) -> None:
    """Keep a router's logits for a loss over all layers.

    Behind the loss their gradient is in their place until backward comes to the layer. What is
    computed again has no part in it.
    """
    if not tape.builds_graph or tape.mode is Mode.RECOMPUTING or logits.storage is None:
        return
    storage = tape.hold(logits.storage)
    tape.hook(lambda: tape.release(storage))


def balance_experts(tape: Tape, logits: Size, num_layers: int, dtype: DType) -> None:
    """Record the loss that balances the experts of ``num_layers`` layers.

    Each layer's softmax is kept, in fp32 under autocast; what sums it up over the tokens are two
    copies in fp32 that the next layer's take the place of (transformers 5.23
    ``models/mixtral/modeling_mixtral.py``, ``load_balancing_loss_func``).
    """
    kept = DType.FP32 if tape.autocast is not None else dtype
    shares = tape.allocate(Category.ACTIVATIONS, sizes.scale(count_bytes(logits, kept), num_layers))
    tape.hook(lambda: tape.release(shares))
    summed = [tape.scratch(logits, DType.FP32) for _ in range(2)]
    tape.release(*summed)
