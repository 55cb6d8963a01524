"""Ring attention of a context-parallel rank: what PyTorch holds while keys and values of the other ranks come by.

(torch 2.13 ``distributed/tensor/experimental/_context_parallel/_attention.py``; torchtitan gathers keys and values at once.)
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, bytes_of
from service.estimator.tape.ops.attention_kernels import RANDOM_STATE_BYTES, Heads
from service.estimator.values.dtypes import DType

MERGED_TENSORS = 4
"""fp32 outputs while two are merged: ``out - sigmoid(lse' - lse) * (out - out')`` holds both, difference and product."""


def ring_flash(tape: Tape, query: Value, key: Value, value: Value, heads: Heads, *, ranks: int) -> Value:
    """Return flash attention over all ranks' keys and values: it keeps what flash keeps of this rank's tokens."""
    rows = sizes.add(sizes.scale(heads.rows, DType.FP32.bytes_per_element), sizes.constant(RANDOM_STATE_BYTES))
    statistics = Value(tape.allocate(Category.ACTIVATIONS, rows), heads.rows, DType.FP32)
    passing = sizes.scale(bytes_of(sizes.add(key.numel, value.numel), key.dtype), 1 + ranks)
    if not tape.reused:
        merging = [tape.scratch(query.numel, DType.FP32) for _ in range(MERGED_TENSORS)]
        partial = tape.scratch(query.numel, query.dtype)
        tape.release(tape.allocate(Category.TEMPORARIES, passing), *merging, partial)

    def backward(_: Storage) -> None:
        parts = (query, key, value)
        around = [tape.allocate(Category.TEMPORARIES, passing), *(tape.scratch(part.numel, DType.FP32) for part in parts)]
        around += [tape.scratch(part.numel, DType.FP32) for part in (key, value) for _ in ("sent", "received")]
        of_one = [tape.scratch(part.numel, part.dtype) for part in parts]
        tape.release(tape.scratch(query.numel, DType.FP32), *of_one)
        grads = [tape.scratch(part.numel, part.dtype) for part in parts]
        tape.release(*around)
        for part, grad in zip(parts, grads, strict=True):
            tape.send(part, grad)

    output = tape.emit(
        query.numel,
        query.dtype,
        inputs=(query, key, value),
        saves=(query, key, value, statistics),
        saves_output=True,
        backward=backward,
    )
    tape.free(statistics)
    return output
