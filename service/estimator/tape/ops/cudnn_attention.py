"""cuDNN's fused attention, which SDPA takes first on Hopper and on Blackwell.

PyTorch 2.11, ``cuda/sdp_utils.cpp`` (``check_prefer_cudnn_attention``) and ``cudnn/MHA.cpp``; the
workspaces are those that cuDNN 9 asked for on H100 (loops of eight models).
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.ops.attention_masks import make_mask_bias
from service.estimator.tape.ops.elementwise import chain
from service.estimator.tape.ops.products import copy_contiguous
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

_RANDOM_BYTES = 8
"""Philox seed, and the same for its offset: tensors of their own, dropout or not."""
_SCALARS_BYTES = 256
"""What cuDNN asks for beside the tensors in its workspace."""


def run_cudnn_attention(tape: Tape, query: Value, key: Value, value: Value, heads: Heads) -> Value:
    """Return cuDNN's attention.

    It keeps q, k, v, the output and one fp32 per row. Backward's workspace has dq in fp32, a number
    per row, and dk and dv of every query head where several share a key.
    """
    masks = make_mask_bias(tape, query, heads)
    random = [_allocate(tape, sizes.constant(_RANDOM_BYTES)) for _ in range(2)]

    def backward(_: Storage) -> None:
        grads = [tape.scratch(part.numel, part.dtype) for part in (query, key, value)]
        workspace = tape.allocate(
            Category.TEMPORARIES, _count_workspace_bytes(query.numel, query.dtype, heads)
        )
        tape.release(workspace)
        for part, grad in zip((query, key, value), grads, strict=True):
            tape.send(part, grad)

    output = tape.emit(
        query.numel,
        query.dtype,
        inputs=(query, key, value),
        saves=(*masks, key, query, value),
        saves_output=True,
        backward=backward,
    )
    keeps_sums = (
        tape.mode is not Mode.INFERENCE
    )  # ``should_compute_logsumexp`` of ``attention.cpp``
    lse = _allocate(tape, sizes.scale(heads.rows, 4) if keeps_sums else sizes.ZERO)
    tape.release(tape.allocate(Category.TEMPORARIES, sizes.constant(_SCALARS_BYTES)))
    if output.node is not None:
        statistics: list[Storage] = []
        tape.save(statistics, (lse, *random))
        # They are released by name: key, query, value, logsumexp, output, philox_seed.
        place = len(output.node.saved) - 1
        output.node.saved[place:place] = statistics[:1]
        output.node.saved += statistics[1:]
    tape.free(lse, *random, *masks)
    return chain(tape, output, copy_contiguous) if heads.head_major else output


def _allocate(tape: Tape, num_bytes: Size) -> Value:
    return Value(tape.allocate(Category.ACTIVATIONS, num_bytes), sizes.constant(1), DType.FP32)


def _count_workspace_bytes(query: Size, dtype: DType, heads: Heads) -> Size:
    """Return the bytes of backward's workspace."""
    expanded = 2 * dtype.bytes_per_element if heads.grouped else 0
    return sizes.total(
        (
            sizes.scale(query, DType.FP32.bytes_per_element + expanded),
            sizes.scale(heads.rows, DType.FP32.bytes_per_element),
            sizes.constant(_SCALARS_BYTES),
        )
    )
