"""Attention of a rank that has a part of every sequence.

Of a ring, what PyTorch holds while keys and values of the other ranks come by (torch 2.13
``distributed/tensor/experimental/_context_parallel/_attention.py``; torchtitan and accelerate
gather keys and values at once). Of Ulysses, what exchanges sequences for heads (deepspeed
``runtime/sequence_parallel/ulysses_sp.py``; arXiv:2309.14509, section 3).
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.ops.attention_masks import allocate_flash_sums
from service.estimator.values.dtypes import DType

MERGED_TENSORS = 4
"""fp32 outputs while two are merged: ``out - sigmoid(lse' - lse) * (out - out')`` holds both,
difference and product.
"""


def ring_flash(
    tape: Tape, query: Value, key: Value, value: Value, heads: Heads, *, ranks: int
) -> Value:
    """Record flash attention over all ranks' keys and values.

    It keeps what flash keeps of this rank's tokens.
    """
    sums = allocate_flash_sums(tape, heads)
    received_bytes = sizes.scale(
        count_bytes(sizes.add(key.numel, value.numel), key.dtype), 1 + ranks
    )
    if not tape.reusable_storages:
        merging = [tape.scratch(query.numel, DType.FP32) for _ in range(MERGED_TENSORS)]
        partial = tape.scratch(query.numel, query.dtype)
        tape.release(tape.allocate(Category.TEMPORARIES, received_bytes), *merging, partial)

    def backward(_: Storage) -> None:
        parts = (query, key, value)
        buffers = [
            tape.allocate(Category.TEMPORARIES, received_bytes),
            *(tape.scratch(part.numel, DType.FP32) for part in parts),
        ]
        buffers += [
            tape.scratch(part.numel, DType.FP32)
            for part in (key, value)
            for _ in ("sent", "received")
        ]
        rank_gradients = [tape.scratch(part.numel, part.dtype) for part in parts]
        tape.release(tape.scratch(query.numel, DType.FP32), *rank_gradients)
        grads = [tape.scratch(part.numel, part.dtype) for part in parts]
        tape.release(*buffers)
        for part, grad in zip(parts, grads, strict=True):
            tape.send(part, grad)

    output = tape.emit(
        query.numel,
        query.dtype,
        inputs=(query, key, value),
        saves=(query, key, value, *sums),
        saves_output=True,
        backward=backward,
    )
    tape.free(*sums)
    return output


def exchange_heads(tape: Tape, x: Value, *, copies: int = 1) -> Value:
    """Return all tokens of a rank's heads, or the way back.

    ``x`` stays with the caller. A contiguous copy is sent, and what comes is put in order
    (``_combine_local_sequences``, ``_partition_global_sequence``); heads of keys that are fewer
    than ranks are repeated.
    """
    numel = sizes.scale(x.numel, copies)

    def backward(_: Storage) -> None:
        sent, received = tape.scratch(numel, x.dtype), tape.scratch(numel, x.dtype)
        tape.release(sent)
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(received)
        tape.send(x, grad)

    sent, received = tape.scratch(numel, x.dtype), tape.scratch(numel, x.dtype)
    tape.release(sent)
    y = tape.emit(numel, x.dtype, inputs=(x,), backward=backward)
    tape.release(received)
    return y
