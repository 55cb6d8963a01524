"""What collectives between tensor-parallel ranks allocate: functional ones, as DTensor calls them, give a new tensor.

Read off a logged run of transformers 5.23's ``tp_plan`` in a fake process group (torch 2.13): an all-reduce has its input and
its output at once; a gather over the last dimension first stacks the parts along the first, then concatenates them.
"""

from service.estimator.model.weights.tensors import Linear, Split
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Parameter, Value, bytes_of
from service.estimator.tape.ops.products import linear
from service.estimator.tape.sizes import Size


def shared_linear(  # noqa: PLR0913 - what a linear layer reads, and who else holds a part of it
    tape: Tape, layer: Linear, x: Value, weight: Parameter, *, rows: Size, bias: Parameter | None, category: Category
) -> Value:
    """Return the output of a layer of which each rank has a share; ``rows`` is how many tokens there are, ``x`` stays."""
    source = entering(tape, layer, x)
    out = sizes.scale(rows, layer.out_features)
    y = linear(tape, source, weight, out, bias=bias, category=category)
    tape.free(source)
    return leaving(tape, layer, y, category)


def entering(tape: Tape, layer: Linear, x: Value) -> Value:
    """Return ``x`` as one rank's share of a linear layer reads it; ``x`` stays with the caller."""
    if layer.split in {Split.COLUMNS, Split.GATHERED_COLUMNS}:
        return shared_input(tape, x)
    if layer.split is Split.SCATTERED_ROWS:
        return scattered(tape, x, layer.ranks)
    return tape.alias(x)


def leaving(tape: Tape, layer: Linear, y: Value, category: Category) -> Value:
    """Return the whole of what the ranks made of their shares; ``y`` is dropped."""
    if layer.split in {Split.ROWS, Split.SCATTERED_ROWS}:
        whole = summed(tape, y)
    elif layer.split is Split.GATHERED_COLUMNS:
        whole = gathered(tape, y, sizes.scale(y.numel, layer.ranks), category)
    else:
        return y
    tape.free(y)
    return whole


def shared_input(tape: Tape, x: Value) -> Value:
    """Return ``x`` as all ranks' columns read it: their shares of its gradient are added up, into a new tensor."""
    view = tape.alias(x)
    if tape.records and x.requires_grad:
        view.node = tape.append(Node([], lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))))
    return view


def summed(tape: Tape, x: Value) -> Value:
    """Return the sum of all ranks' ``x``, a new tensor; its gradient is every rank's as it is."""
    return tape.emit(x.numel, x.dtype, inputs=(x,), backward=lambda grad: tape.send(x, tape.hold(grad), is_view=True))


def gathered(tape: Tape, x: Value, whole: Size, category: Category) -> Value:
    """Return all ranks' columns side by side, ``whole`` elements; each rank copies its own out of the gradient."""
    stacked = tape.allocate(category, bytes_of(whole, x.dtype))
    y = tape.emit(
        whole, x.dtype, inputs=(x,), category=category, backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))
    )
    tape.release(stacked)
    return y


def scattered(tape: Tape, x: Value, ranks: int) -> Value:
    """Return one rank's part of ``x``, a copy or a sum of all ranks'; the gradient is gathered as forward's parts are."""

    def backward(_: Storage) -> None:
        stacked = tape.scratch(x.numel, x.dtype)
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(stacked)
        tape.send(x, grad)

    return tape.emit(sizes.rows(x.numel, ranks), x.dtype, inputs=(x,), backward=backward)
