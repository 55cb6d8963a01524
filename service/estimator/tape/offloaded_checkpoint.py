"""A checkpoint whose input waits in the host's memory: it leaves the GPU with its last name, and comes back to be read."""

from collections.abc import Callable

from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, bytes_of

Checkpoint = Callable[[Tape, Callable[[Value], Value], Value], Value]
"""How a block is run that backward computes again."""


def checkpoint_on_host(tape: Tape, block: Callable[[Value], Value], x: Value) -> Value:
    """Run a block whose tensors are computed again from an input that is copied back (torch ``saved_tensors_hooks``)."""
    if not tape.records:
        return block(x)
    away = Value(None, x.numel, x.dtype, x.node)
    away.requires_grad = x.requires_grad

    def run(value: Value) -> Value:
        here = x
        if tape.mode is Mode.RECOMPUTING:
            here = Value(tape.allocate(Category.ACTIVATIONS, bytes_of(x.numel, x.dtype)), x.numel, x.dtype)
        here.node, here.requires_grad = value.node, value.requires_grad
        return block(here)

    return tape.checkpoint(run, away)
