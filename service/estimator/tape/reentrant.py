"""Reentrant checkpoints: a block runs without a graph, then again.

(torch 2.13 ``utils/checkpoint.py``, ``CheckpointFunction``.) Backward runs the whole block a second
time on a detached input, then a backward of its own: its output and the output's gradient are there
until that is over. Nothing runs ahead of the second forward, and nothing ends it early.
"""

from collections.abc import Callable

from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Value


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
    tape.discarded_nodes, tape.mode = [], Mode.DISCARDING
    y = block(x)
    tape.mode = Mode.RECORDING
    saved = [block_input.storage] if block_input.storage is not None else []
    if lingers:
        saved = [tape.hold(storage) for storage in saved]
    y.node = tape.append(
        Node(saved, lambda grad: recompute(tape, block, block_input, grad, path, lingers=lingers))
    )
    y.requires_grad = True
    return y


def recompute(
    tape: Tape,
    block: Callable[[Value], Value],
    block_input: Value,
    grad: Storage,
    path: str,
    *,
    lingers: bool = False,
) -> None:
    """Run the block and its backward, and pass its input's gradient on."""
    (outer_path, tape.path), (outer_copies, tape.autocast_copies) = (
        (tape.path, path),
        (tape.autocast_copies, {}),
    )
    leaf, accumulated = tape.alias(block_input), Node([], lambda _: None)
    leaf.node = accumulated if block_input.requires_grad else None
    y = block(leaf)
    tape.free(*(copy for copy, _ in tape.autocast_copies.values()))
    if y.node is not None:
        y.node.grad = tape.hold(grad)
    tape.run_backward()
    tape.free(y)
    tape.path, tape.autocast_copies = outer_path, outer_copies
    if accumulated.grad is not None:
        if lingers:
            tape.hold(accumulated.grad)
        tape.send(block_input, accumulated.grad, is_view=accumulated.grad_is_view)
