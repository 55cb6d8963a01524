"""Reentrant checkpoints: a block runs without a graph, then again.

(torch 2.13 ``utils/checkpoint.py``, ``CheckpointFunction``.) Backward runs the whole block a second
time on a detached input, then a backward of its own: its outputs and their gradients are there
until that is over, zeros for what nothing else read (``materialize_grads``). Nothing runs
ahead of the second forward, and nothing ends it early.
"""

from collections.abc import Callable, Sequence

from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Value, count_bytes
from service.estimator.tape.sizes import Size


def checkpoint_reentrant(tape: Tape, block: Callable[[Value], Value], x: Value) -> Value:
    """Run a block of which only the input is kept."""
    return _checkpoint(tape, block, x, lingers=False)


def checkpoint_in_frozen_unit(tape: Tape, block: Callable[[Value], Value], x: Value) -> Value:
    """Run a block that is a frozen unit of FSDP1.

    The unit has no trained weights; its detached input and that one's gradient linger. A hook on
    the input reshards such a unit (``distributed/fsdp/_runtime_utils.py``,
    ``_register_post_backward_reshard_only_hook``). ``register_multi_grad_hook`` holds the node that
    accumulates into the leaf, the node the leaf, and the leaf the hook: until all hooks are removed
    at the end of backward, neither tensor is freed.
    """
    return _checkpoint(tape, block, x, lingers=True)


def _checkpoint(tape: Tape, block: Callable[[Value], Value], x: Value, *, lingers: bool) -> Value:
    if not tape.builds_graph:
        return block(x)
    block_input, path = tape.alias(x), tape.path
    tape.discarded_nodes, tape.mode, tape.enables_grad = [], Mode.DISCARDING, False
    y, returned = _run_block(tape, block, x)
    tape.mode, tape.enables_grad = Mode.RECORDING, True
    unread = [count_bytes(value.numel, value.dtype) for value in returned]
    tape.free(*returned)
    saved = [block_input.storage] if block_input.storage is not None else []
    if lingers:
        saved = [tape.hold(storage) for storage in saved]
    y.node = tape.append(
        Node(
            saved,
            lambda grad: recompute(
                tape, block, block_input, grad, path, unread=unread, lingers=lingers
            ),
        )
    )
    y.requires_grad = True
    return y


def _run_block(tape: Tape, block: Callable[[Value], Value], x: Value) -> tuple[Value, list[Value]]:
    """Return a block's hidden state, and what it returns beside that."""
    outer, returned = tape.returned, list[Value]()
    tape.returned = returned
    y = block(x)
    tape.returned = outer
    return y, returned


def recompute(  # noqa: PLR0913 - what the checkpoint's function kept
    tape: Tape,
    block: Callable[[Value], Value],
    block_input: Value,
    grad: Storage,
    path: str,
    *,
    unread: Sequence[Size] = (),
    lingers: bool = False,
) -> None:
    """Run the block and its backward, and pass its input's gradient on."""
    (outer_path, tape.path), (outer_copies, tape.autocast_copies) = (
        (tape.path, path),
        (tape.autocast_copies, {}),
    )
    zeros = [tape.allocate(Category.TEMPORARIES, size) for size in unread]
    leaf, accumulated = tape.alias(block_input), Node([], lambda _: None)
    leaf.node = accumulated if block_input.requires_grad else None
    y, returned = _run_block(tape, block, leaf)
    tape.free(*(copy for copy, _ in tape.autocast_copies.values()))
    if y.node is not None:
        y.node.grad = tape.hold(grad)
    for value, zero in zip(returned, zeros, strict=True):
        if value.node is not None:
            value.node.grad = tape.hold(zero)
    tape.run_backward()
    tape.free(y, *returned)
    tape.release(*zeros)
    tape.path, tape.autocast_copies = outer_path, outer_copies
    if accumulated.grad is not None:
        if lingers:
            tape.hold(accumulated.grad)
        tape.send(block_input, accumulated.grad, is_view=accumulated.grad_is_view)
