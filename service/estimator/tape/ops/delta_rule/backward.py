"""Backward of the loop over a delta rule's chunks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.delta_rule.loop import NUM_VISITED, ChunkKept, ChunkLoop, Kept
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


@dataclass(slots=True, kw_only=True)
class ChunksBackward:
    """Gradients of a loop's operands, gathered chunk by chunk.

    A slice's gradient is put into zeros of the operand's size and added up, and writing in place
    copies the gradient of all outputs once more per chunk (autograd's CopySlices). The chunk before
    the last is the highest, beside all that is gathered by then; those before it hold less.
    """

    tape: Tape
    loop: ChunkLoop
    saved: list[Storage]
    """What the loop's node keeps, without what has been dropped."""
    late: Sequence[ChunkKept]
    """What each of the last chunks keeps, the last one first."""
    grads: dict[int, Storage] = field(default_factory=dict)

    def run(self, outputs_grad: Storage) -> list[tuple[Value, Storage]]:
        """Return operands with their gradients; drops the gradient of the outputs."""
        loop = self.loop
        copied, grad = self._copy_outputs(0, outputs_grad)
        carried = self._visit(0, grad, None)
        if copied is not None:
            copied = self._visit_before_last(copied, carried)
        if copied is not None:
            self.tape.release(copied)
        grads = self.grads
        return [(value, grads[id(value)]) for value in loop.operands if id(value) in grads]

    def _visit_before_last(self, copied: Storage, carried: Storage | None) -> Storage | None:
        """Visit the chunk before the last; return the outputs' gradient."""
        tape, loop = self.tape, self.loop
        through_keys = self._make(loop.chunk_of_values)
        written = self._make(loop.chunk_of_keys)
        self._drop(1, Kept.KEYS)
        if loop.num_chunks == NUM_VISITED:
            self._drop_operand(loop.state_keys)
        self._gather(loop.state_keys, written)
        of_decay = self._make(loop.state)
        faded = self._make(loop.state) if loop.num_chunks > NUM_VISITED else None
        tape.release(of_decay)
        if carried is not None:
            tape.release(carried)
        self._gather(loop.final_decay, None)
        remaining, grad = self._copy_outputs(1, copied)
        carried = self._visit(1, grad, through_keys, faded)
        if carried is not None:
            tape.release(carried)
        return remaining

    def _visit(
        self, place: int, grad: Storage, through_keys: Storage | None, faded: Storage | None = None
    ) -> Storage | None:
        """Add a chunk's gradients; return that of its first state.

        ``through_keys`` is the gradient that its values have by the next state, ``faded`` what the
        next state hands on.
        """
        tape, loop = self.tape, self.loop
        has_state = place + 1 < loop.num_chunks
        of_values = self._make(loop.chunk_of_values)
        scores = self._make(sizes.count_rows(loop.intra_scores.numel, loop.num_chunks))
        self._drop(place, Kept.VALUES)
        if not has_state:
            self._drop_operand(loop.intra_scores)
        if through_keys is not None:
            total = self._make(loop.chunk_of_values)
            tape.release(through_keys, of_values)
            of_values = total
        self._gather(loop.intra_scores, scores)
        read = self._make(loop.state) if has_state else None
        queries = self._make(loop.chunk_of_keys)
        self._drop(place, Kept.QUERIES)
        if place + NUM_VISITED == loop.num_chunks:
            # The first chunk reads a state without a gradient, and keeps no query and no key.
            self._drop_operand(loop.decayed_queries)
        tape.release(grad)
        if faded is not None and read is not None:
            tape.release(read)
            read = faded
        self._gather(loop.decayed_queries, queries)
        negated = self._make(loop.chunk_of_values)
        retrieved = self._make(loop.state) if has_state else None
        keys = self._make(loop.chunk_of_keys)
        self._drop(place, Kept.STATE)
        if place + NUM_VISITED == loop.num_chunks:
            self._drop_operand(loop.decayed_keys)
        tape.release(negated)
        carried = self._join(read, retrieved, in_place=faded is not None)
        self._gather(loop.decayed_keys, keys)
        self._gather(loop.new_values, None)
        tape.release(of_values)
        return carried

    def _join(
        self, read: Storage | None, retrieved: Storage | None, *, in_place: bool
    ) -> Storage | None:
        """Return the sum of a state's gradients."""
        if read is None or retrieved is None:
            return None
        if in_place:
            self.tape.release(retrieved)
            return read
        carried = self._make(self.loop.state)
        self.tape.release(read, retrieved)
        return carried

    def _copy_outputs(self, place: int, before: Storage) -> tuple[Storage | None, Storage]:
        """Return the outputs' gradient without a chunk, and that chunk's.

        That of zeros, which is left of the first chunk, goes to nothing. ``before`` is dropped.
        """
        tape, size = self.tape, self.loop.chunk_of_values
        copied, grad = self._make(self.loop.outputs.numel), self._make(size)
        if place + 1 == self.loop.num_chunks:
            tape.release(copied, before)
            return None, grad
        tape.release(self._make(size), before)
        return copied, grad

    def _gather(self, operand: Value, part: Storage | None) -> None:
        """Put a slice's gradient into zeros, and add them up."""
        full = self._make(operand.numel)
        if part is not None:
            self.tape.release(part)
        if id(operand) in self.grads:
            self.tape.release(full)
        else:
            self.grads[id(operand)] = full

    def _drop(self, place: int, which: Kept) -> None:
        for storage in self.late[place][which] if self.late else ():
            self.saved.remove(storage)
            self.tape.release(storage)

    def _drop_operand(self, operand: Value) -> None:
        if operand.storage is not None and operand.storage in self.saved:
            self.saved.remove(operand.storage)
            self.tape.release(operand.storage)

    def _make(self, numel: Size) -> Storage:
        return self.tape.scratch(numel, DType.FP32)
