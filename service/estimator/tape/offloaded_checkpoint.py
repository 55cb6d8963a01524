"""Checkpoints whose block inputs wait in host memory.

An input leaves the GPU with its last name, and comes back to be read.
"""

from collections.abc import Callable

from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, count_bytes

Checkpoint = Callable[[Tape, Callable[[Value], Value], Value], Value]
"""Runs a block that backward computes again."""


def checkpoint_on_host(tape: Tape, block: Callable[[Value], Value], x: Value) -> Value:
    """Run a checkpointed block whose input is offloaded to the host.

    Its tensors are computed again from an input that is copied back (torch
    ``saved_tensors_hooks``).
    """
    if not tape.builds_graph:
        return block(x)
    offloaded = Value(None, x.numel, x.dtype, x.node)
    offloaded.requires_grad = x.requires_grad

    def run_block(value: Value) -> Value:
        block_input = x
        if tape.mode is Mode.RECOMPUTING:
            block_input = Value(
                tape.allocate(Category.ACTIVATIONS, count_bytes(x.numel, x.dtype)), x.numel, x.dtype
            )
        block_input.node, block_input.requires_grad = value.node, value.requires_grad
        return block(block_input)

    return tape.checkpoint(run_block, offloaded)
