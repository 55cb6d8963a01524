"""Checkpoints whose block inputs wait in host memory.

An input leaves the GPU with its last name, and comes back to be read.
"""

from collections.abc import Callable

from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Value, count_bytes
from service.estimator.tape.reentrant import recompute

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


class BufferedCheckpoint:
    """Unsloth's checkpoints, whose inputs come back into two buffers.

    unsloth_zoo 2026.10 ``gradient_checkpointing.py``, ``UnslothCheckpointFunction``: reentrant; the
    buffers stay on the GPU, one is read while the other is filled, and the input of the last layer
    stays where it is. One pass has one of these.
    """

    def __init__(self) -> None:
        """Start without buffers, which the first block makes."""
        self._buffer: Storage | None = None
        self._last: Storage | None = None

    def __call__(self, tape: Tape, block: Callable[[Value], Value], x: Value) -> Value:
        """Run a block that backward computes again from a buffer."""
        if not tape.builds_graph:
            return block(x)
        if self._buffer is None:
            size = count_bytes(x.numel, x.dtype)
            self._buffer, _ = (tape.allocate(Category.ACTIVATIONS, size) for _ in range(2))
        copied = Value(self._buffer, x.numel, x.dtype, x.node)
        copied.requires_grad, path = x.requires_grad, tape.path
        tape.discarded_nodes, tape.mode = [], Mode.DISCARDING
        y = block(x)
        tape.mode = Mode.RECORDING
        y.node = tape.append(
            Node([], lambda grad: self._recompute(tape, block, copied, grad, path))
        )
        y.requires_grad = True
        return y

    def keep_last_input(self, tape: Tape, hidden: Value) -> None:
        """Hold the last block's input until its backward is over."""
        if self._buffer is not None:
            size = count_bytes(hidden.numel, hidden.dtype)
            self._last = tape.allocate(Category.ACTIVATIONS, size)

    def _recompute(
        self,
        tape: Tape,
        block: Callable[[Value], Value],
        copied: Value,
        grad: Storage,
        path: str,
    ) -> None:
        recompute(tape, block, copied, grad, path)
        if self._last is not None:
            tape.release(self._last)
            self._last = None
