"""Operations of the chunked delta rule.

Triangular systems, and the loop over chunks that carries a state.
"""

from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Value
from service.estimator.tape.ops.scan import keep_unnamed
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

CARRIED = 3
"""States that a step of the loop makes: the faded one, the update, and their sum, the next one.

The one before has its name until then.
"""

NAMED, SUMMED = 2, 2
"""A chunk's corrected values and what it reads of the state have names until the end; a product and
a sum have none.
"""


def solve_triangular(tape: Tape, system: Value, right: Value) -> Value:
    """Return the solution of a triangular system.

    The solution and the system are kept (ATen's linalg_solve_triangular_backward).
    """

    def backward(_: Storage) -> None:
        right_grad = tape.scratch(right.numel, right.dtype)
        product, negated = (
            tape.scratch(system.numel, system.dtype),
            tape.scratch(system.numel, system.dtype),
        )
        tape.release(product)
        lower = tape.scratch(system.numel, system.dtype)
        tape.release(negated)
        tape.send(system, lower)
        tape.send(right, right_grad)

    return tape.emit(
        right.numel,
        right.dtype,
        inputs=(system, right),
        saves=(system,),
        saves_output=True,
        backward=backward,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLoop:
    """Operands that the loop reads slice by slice, and its state's size.

    ``state`` is for all sequences, and the first one is there; ``outputs`` are written in place.
    ``new_values`` and ``decayed_keys`` are solutions of the triangular system, ``intra_scores`` the
    scores inside of a chunk, ``state_keys`` the keys that update the state, ``final_decay`` its
    decay over a chunk.
    """

    new_values: Value
    decayed_keys: Value
    decayed_queries: Value
    intra_scores: Value
    state_keys: Value
    final_decay: Value
    outputs: Value
    state: Size
    chunk_of_values: Size
    chunk_of_keys: Size
    num_chunks: int

    @property
    def operands(self) -> tuple[Value, ...]:
        """All operands that are sliced."""
        return (
            self.new_values,
            self.decayed_keys,
            self.decayed_queries,
            self.intra_scores,
            self.state_keys,
            self.final_decay,
        )


def scan_chunks(tape: Tape, loop: ChunkLoop) -> list[Value]:
    """Write the outputs of all chunks; return what is named.

    Each chunk keeps the state that it starts with and its corrected values; each slice's gradient
    is put into zeros of the full size and added up, and writing in place copies the full gradient
    once more per chunk (autograd's CopySlices).
    """
    numel = loop.new_values.numel
    saved: list[Storage] = []
    if tape.builds_graph:
        _keep_operands(tape, saved, loop)
    named = [
        Value(tape.scratch(loop.chunk_of_values, DType.FP32), loop.chunk_of_values, DType.FP32)
        for _ in range(1 if tape.mode is Mode.RECORDING else NAMED)
    ]
    tape.release(*[tape.scratch(loop.chunk_of_values, DType.FP32) for _ in range(SUMMED)])
    is_kept = tape.mode in {Mode.RECORDING, Mode.RECOMPUTING}
    made = CARRIED - 1 if is_kept else CARRIED
    tape.release(*[tape.scratch(loop.state, DType.FP32) for _ in range(made)])

    def backward(_: Storage) -> None:
        copied = tape.scratch(numel, DType.FP32)
        grads = [(value, tape.scratch(value.numel, value.dtype)) for value in loop.operands]
        tape.release(tape.scratch(numel, DType.FP32), copied)
        for value, grad in grads:
            tape.send(value, grad)

    if tape.builds_graph:
        loop.outputs.node = tape.append(Node(saved, backward))
        loop.outputs.requires_grad = True
    return named


def _keep_operands(tape: Tape, saved: list[Storage], loop: ChunkLoop) -> None:
    """Keep the operands that products read.

    They are slices of what is there, or under autocast a copy of each slice for each product. The
    first state has no gradient, so that what is multiplied with it is not kept; the last one is
    read by nothing.
    """
    num_later, narrow = loop.num_chunks - 1, tape.autocast
    keep_unnamed(
        tape,
        saved,
        sizes.scale(loop.state, loop.num_chunks if narrow is None else num_later),
        DType.FP32,
    )
    if narrow is None:
        keep_unnamed(tape, saved, loop.new_values.numel, DType.FP32)
        tape.save(
            saved,
            (
                loop.intra_scores,
                *(
                    (loop.decayed_keys, loop.decayed_queries, loop.state_keys, loop.final_decay)
                    if num_later
                    else ()
                ),
            ),
        )
        return
    states = sizes.scale(loop.state, loop.num_chunks)
    value_chunks, key_chunks = (
        sizes.scale(size, num_later) for size in (loop.chunk_of_values, loop.chunk_of_keys)
    )
    for numel in (
        states,
        states,
        loop.intra_scores.numel,
        loop.new_values.numel,
        value_chunks,
        key_chunks,
        key_chunks,
        key_chunks,
    ):
        keep_unnamed(tape, saved, numel, narrow)
    tape.save(saved, (loop.final_decay,) if num_later else ())
