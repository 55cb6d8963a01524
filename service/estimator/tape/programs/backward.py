"""Backward of recorded nodes on a tape."""

from collections.abc import Sequence

from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import SILU_INNER_PRODUCTS
from service.estimator.tape.programs.program import Action, Gradient, GraphNode, Source
from service.estimator.tape.programs.stepped_sizes import resolve_size

_PRODUCT_NODES = {"MmBackward0": 2, "BmmBackward0": 2, "BaddbmmBackward0": 2, "AddmmBackward0": 2}
"""Products of a node's backward, at most one for each target."""
_SILU = "SiluBackward0"


def _allocate_composite(tape: Tape, node: GraphNode, length: int | None) -> list[Storage]:
    """Return the inner products of silu's backward without fused kernel.

    The traces that the estimator is held against ran them; CUDA's kernel holds none.
    """
    if tape.on_gpu or node.name != _SILU:
        return []
    size = resolve_size(node.events[0].size, length)
    return [tape.allocate(Category.TEMPORARIES, size) for _ in range(SILU_INNER_PRODUCTS)]


def _note_products(tape: Tape, name: str, targets: Sequence[tuple[Gradient, Value]]) -> None:
    """Note the products of a backward."""
    for _ in targets[: _PRODUCT_NODES.get(name, 0)]:
        tape.use_workspace()


def run_backward(
    tape: Tape,
    node: GraphNode,
    targets: Sequence[tuple[Gradient, Value]],
    incoming: Sequence[Storage | None],
    length: int | None,
) -> None:
    """Run a node's backward on the gradients that came in."""
    allocated: dict[int, Storage] = {}
    composite = _allocate_composite(tape, node, length)
    for event in node.events:
        if event.action is Action.ALLOCATE:
            size = resolve_size(event.size, length)
            allocated[event.index] = tape.allocate(Category.TEMPORARIES, size)
        elif event.action is Action.FREE:
            tape.release(allocated.pop(event.index))
        else:
            tape.release_unpacked()
    tape.release(*composite)
    _note_products(tape, node.name, targets)
    sent: set[int] = set()
    for gradient, value in targets:
        if gradient.source is Source.ALLOCATED:
            storage = allocated[gradient.index]
            tape.send(
                value,
                tape.hold(storage) if gradient.index in sent else storage,
                is_view=gradient.is_view,
            )
            sent.add(gradient.index)
            continue
        grad = incoming[gradient.index]
        if grad is None:
            continue
        if gradient.is_view:
            tape.send(value, tape.hold(grad), is_view=True)
        else:
            tape.pass_on(value, grad)
    tape.release(*(storage for index, storage in allocated.items() if index not in sent))
