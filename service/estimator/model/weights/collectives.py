"""Memory of collectives between tensor-parallel ranks.

Functional collectives, as DTensor calls them, give a new tensor. Read off a logged run of
transformers 5.23's ``tp_plan`` in a fake process group (torch 2.13): an all-reduce has its input
and its output at once; a gather over the last dimension first stacks the parts along the first,
then concatenates them.
"""

from service.estimator.model.weights.tensors import Linear, Split
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Parameter, Value, count_bytes
from service.estimator.tape.ops.products import linear
from service.estimator.tape.sizes import Size


def apply_sharded_linear(  # noqa: PLR0913 - what a linear layer reads, and who else holds a part of it
    tape: Tape,
    layer: Linear,
    x: Value,
    weight: Parameter,
    *,
    rows: Size,
    bias: Parameter | None,
    category: Category,
) -> Value:
    """Return the output of a layer that is sharded over ranks.

    ``rows`` is how many tokens there are, ``x`` stays.
    """
    source = enter_parallel_region(tape, layer, x)
    out = sizes.scale(rows, layer.out_features)
    y = linear(tape, source, weight, out, bias=bias, category=category)
    tape.free(source)
    return leave_parallel_region(tape, layer, y, category)


def enter_parallel_region(tape: Tape, layer: Linear, x: Value) -> Value:
    """Return ``x`` as one rank's shard of a linear layer reads it.

    ``x`` stays with the caller.
    """
    if layer.split in {Split.COLUMNS, Split.GATHERED_COLUMNS}:
        return copy_to_ranks(tape, x)
    if layer.split is Split.SCATTERED_ROWS:
        return scatter_to_ranks(tape, x, layer.ranks)
    return tape.alias(x)


def leave_parallel_region(tape: Tape, layer: Linear, y: Value, category: Category) -> Value:
    """Return the full output that the ranks' shards give together.

    ``y`` is dropped.
    """
    if layer.split in {Split.ROWS, Split.SCATTERED_ROWS}:
        output = all_reduce(tape, y)
    elif layer.split is Split.GATHERED_COLUMNS:
        output = all_gather(tape, y, sizes.scale(y.numel, layer.ranks), category)
    else:
        return y
    tape.free(y)
    return output


def copy_to_ranks(tape: Tape, x: Value) -> Value:
    """Return ``x`` as all ranks' columns read it.

    Their shares of its gradient are added up, into a new tensor.
    """
    view = tape.alias(x)
    if tape.builds_graph and x.requires_grad:
        view.node = tape.append(Node([], lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))))
    return view


def all_reduce(tape: Tape, x: Value) -> Value:
    """Return the sum of all ranks' ``x``, a new tensor.

    Its gradient is every rank's as it is.
    """
    return tape.emit(
        x.numel,
        x.dtype,
        inputs=(x,),
        backward=lambda grad: tape.send(x, tape.hold(grad), is_view=True),
    )


def all_gather(tape: Tape, x: Value, out: Size, category: Category) -> Value:
    """Return all ranks' columns side by side, ``out`` elements.

    Each rank copies its own out of the gradient.
    """
    stacked = tape.allocate(category, count_bytes(out, x.dtype))
    y = tape.emit(
        out,
        x.dtype,
        inputs=(x,),
        category=category,
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )
    tape.release(stacked)
    return y


def scatter_to_ranks(tape: Tape, x: Value, ranks: int) -> Value:
    """Return one rank's part of ``x``.

    It is a copy or a sum of all ranks'; the gradient is gathered as forward's parts are.
    """

    def backward(_: Storage) -> None:
        stacked = tape.scratch(x.numel, x.dtype)
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(stacked)
        tape.send(x, grad)

    return tape.emit(sizes.count_rows(x.numel, ranks), x.dtype, inputs=(x,), backward=backward)
