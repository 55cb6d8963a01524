"""Operations of the chunked delta rule: triangular systems, and the loop over chunks that carries a state."""

from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Value, bytes_of
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

CARRIED = 3
"""States there at once in a step of the loop: the faded one, the update, and their sum."""

NAMED, SUMMED = 2, 2
"""A chunk's corrected values and what it reads of the state have names until the end; a product and a sum have none."""


def solved(tape: Tape, system: Value, right: Value) -> Value:
    """Return the solution of a triangular system: it and the system are kept (ATen's linalg_solve_triangular_backward)."""

    def backward(_: Storage) -> None:
        of_right = tape.scratch(right.numel, right.dtype)
        product, negated = tape.scratch(system.numel, system.dtype), tape.scratch(system.numel, system.dtype)
        tape.release(product)
        lower = tape.scratch(system.numel, system.dtype)
        tape.release(negated)
        tape.send(system, lower)
        tape.send(right, of_right)

    return tape.emit(right.numel, right.dtype, inputs=(system, right), saves=(system,), saves_output=True, backward=backward)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLoop:
    """What the loop reads slice by slice, and the size of its state for all sequences."""

    fresh: Value
    known: Value
    asked: Value
    inner: Value
    written: Value
    ending: Value
    state: Size
    chunk_of_values: Size
    chunk_of_keys: Size
    num_chunks: int

    @property
    def values(self) -> tuple[Value, ...]:
        """All that is sliced."""
        return (self.fresh, self.known, self.asked, self.inner, self.written, self.ending)


def scan_chunks(tape: Tape, loop: ChunkLoop) -> tuple[Value, list[Storage]]:
    """Return what all chunks give out, written in place into one tensor, and the last state under its name.

    Each chunk keeps the state that it starts with and its corrected values; each slice's gradient is put into zeros of the
    whole and added up, and writing in place copies the whole gradient once more per chunk (autograd's CopySlices).
    """
    whole = loop.fresh.numel
    last = tape.scratch(loop.state, DType.FP32)
    y = Value(tape.allocate(Category.ACTIVATIONS, bytes_of(whole, DType.FP32)), whole, DType.FP32)
    saved: list[Storage] = []
    if tape.records:
        _keep_operands(tape, saved, loop)
    named = [tape.scratch(loop.chunk_of_values, DType.FP32) for _ in range(1 if tape.mode is Mode.RECORDING else NAMED)]
    tape.release(*[tape.scratch(loop.chunk_of_values, DType.FP32) for _ in range(SUMMED)])
    tape.release(*[tape.scratch(loop.state, DType.FP32) for _ in range(CARRIED - 1)])

    def backward(_: Storage) -> None:
        copied = tape.scratch(whole, DType.FP32)
        grads = [(value, tape.scratch(value.numel, value.dtype)) for value in loop.values]
        tape.release(tape.scratch(whole, DType.FP32), copied)
        for value, grad in grads:
            tape.send(value, grad)

    if tape.records:
        y.node, y.requires_grad = tape.append(Node(saved, backward)), True
    return y, [last, *named]


def _keep_operands(tape: Tape, saved: list[Storage], loop: ChunkLoop) -> None:
    """Keep what products read: slices of what is there, or under autocast a copy of each slice for each product.

    The first state has no gradient, so that what is multiplied with it is not kept; the last one is read by nothing.
    """
    later, narrow = loop.num_chunks - 1, tape.autocast
    _keep(tape, saved, sizes.scale(loop.state, loop.num_chunks if narrow is None else later), DType.FP32)
    if narrow is None:
        _keep(tape, saved, loop.fresh.numel, DType.FP32)
        tape.save(saved, (loop.inner, *((loop.known, loop.asked, loop.written, loop.ending) if later else ())))
        return
    states = sizes.scale(loop.state, loop.num_chunks)
    of_values, of_keys = (sizes.scale(size, later) for size in (loop.chunk_of_values, loop.chunk_of_keys))
    for numel in (states, states, loop.inner.numel, loop.fresh.numel, of_values, of_keys, of_keys, of_keys):
        _keep(tape, saved, numel, narrow)
    tape.save(saved, (loop.ending,) if later else ())


def _keep(tape: Tape, saved: list[Storage], numel: Size, dtype: DType) -> None:
    """Keep a tensor that only backward holds; where nothing is kept it is counted and never there."""
    there = tape.mode is not Mode.DISCARDING
    kept = Value(tape.allocate(Category.ACTIVATIONS, bytes_of(numel, dtype)) if there else None, numel, dtype)
    tape.save(saved, (kept,))
    tape.free(kept)
