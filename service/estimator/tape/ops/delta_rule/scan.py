"""Operations of the chunked delta rule.

Triangular systems, and the loop over chunks that carries a state.
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Value
from service.estimator.tape.ops.delta_rule.backward import ChunksBackward
from service.estimator.tape.ops.delta_rule.loop import NUM_VISITED, ChunkKept, ChunkLoop, Kept
from service.estimator.tape.ops.scan import keep_unnamed
from service.estimator.values.dtypes import DType

_KEEPING = frozenset({Mode.RECORDING, Mode.RECOMPUTING})
NAMED, SUMMED = 2, 2
"""A chunk's corrected values and what it reads of the state have names until the end; a product and
a sum have none. Corrected values that are kept are counted there.
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


def scan_chunks(tape: Tape, loop: ChunkLoop) -> list[Value]:
    """Write the outputs of all chunks; return what is named.

    Each chunk keeps the state that it starts with and its corrected values.
    """
    saved: list[Storage] = []
    late: list[ChunkKept] = []
    if tape.builds_graph:
        late = _keep_operands(tape, saved, loop)
    named = [
        Value(tape.scratch(loop.chunk_of_values, DType.FP32), loop.chunk_of_values, DType.FP32)
        for _ in range(1 if tape.mode in _KEEPING else NAMED)
    ]
    tape.release(*[tape.scratch(loop.chunk_of_values, DType.FP32) for _ in range(SUMMED)])
    _update_state(tape, loop)

    def backward(grad: Storage) -> None:
        if tape.autocast is None:
            grads = ChunksBackward(tape=tape, loop=loop, saved=saved, late=late).run(grad)
        else:
            copied = tape.scratch(loop.new_values.numel, DType.FP32)
            grads = [(value, tape.scratch(value.numel, value.dtype)) for value in loop.operands]
            tape.release(tape.scratch(loop.new_values.numel, DType.FP32), copied, grad)
        for value, full in grads:
            tape.send(value, full)

    if tape.builds_graph:
        loop.outputs.node = tape.append(Node(saved, backward, consumes_grad=True))
        loop.outputs.requires_grad = True
    return named


def _update_state(tape: Tape, loop: ChunkLoop) -> None:
    """Make what a step makes of the state.

    The sum is there already where states are kept.
    """
    copies = [loop.chunk_of_keys] if loop.copies_slices else []
    if copies:
        tape.release(
            tape.scratch(loop.chunk_of_keys, DType.FP32),
            tape.scratch(loop.chunk_of_values, DType.FP32),
        )
    faded, copied, update = (
        [tape.scratch(size, DType.FP32) for size in group]
        for group in ([loop.state], copies, [loop.state])
    )
    if tape.mode not in _KEEPING:
        tape.release(*copied)
        copied = [tape.scratch(loop.state, DType.FP32)]
    tape.release(*faded, *copied, *update)


def _keep_operands(tape: Tape, saved: list[Storage], loop: ChunkLoop) -> list[ChunkKept]:
    """Keep the operands that products read.

    Returns what the last chunks alone keep. Operands are slices of what is there, or under autocast
    a copy of each slice for each product. The first state has no gradient, so that what is
    multiplied with it is not kept; the last one is read by nothing.
    """
    num_later, narrow = loop.num_chunks - 1, tape.autocast
    if narrow is None:
        visited = range(min(NUM_VISITED, loop.num_chunks))
        late = [_keep_chunk(tape, saved, loop, place) for place in visited]
        slices = (loop.decayed_queries, loop.state_keys)
        early = max(loop.num_chunks - NUM_VISITED, 0)
        sizes_kept = [(loop.state, early), (loop.chunk_of_values, early)]
        if loop.copies_slices:
            sizes_kept += [(loop.chunk_of_keys, early), (loop.chunk_of_keys, max(early - 1, 0))]
        for size, count in sizes_kept:
            keep_unnamed(tape, saved, sizes.scale(size, count), DType.FP32)
        read = (loop.decayed_keys, *(() if loop.copies_slices else slices), loop.final_decay)
        tape.save(saved, (loop.intra_scores, *(read if num_later else ())))
        return late
    keep_unnamed(tape, saved, sizes.scale(loop.state, num_later), DType.FP32)
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
    return []


def _keep_chunk(tape: Tape, saved: list[Storage], loop: ChunkLoop, place: int) -> ChunkKept:
    """Keep and return what a chunk alone reads.

    The last one's ``place`` is 0.
    """
    storages: dict[Kept, list[Storage]] = {which: [] for which in Kept}
    keep_unnamed(tape, storages[Kept.VALUES], loop.chunk_of_values, DType.FP32)
    keep_unnamed(tape, storages[Kept.STATE], loop.state, DType.FP32)
    if loop.copies_slices and place + 1 < loop.num_chunks:
        keep_unnamed(tape, storages[Kept.QUERIES], loop.chunk_of_keys, DType.FP32)
    if loop.copies_slices and place:
        keep_unnamed(tape, storages[Kept.KEYS], loop.chunk_of_keys, DType.FP32)
    for group in storages.values():
        saved += group
    return storages
