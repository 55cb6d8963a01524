"""Attention written out by the model's own code.

Scores and softmax are in fp32.
"""

from service.estimator.model.recording import Recording
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import (
    add_scalar,
    cast,
    chain,
    dropout,
    multiply_scalar,
    softmax,
)
from service.estimator.tape.ops.products import ReadSide, copy_contiguous, multiply_heads
from service.estimator.tape.ops.views import rearrange
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def make_tensor(ctx: Recording, numel: Size, dtype: DType) -> Value:
    """Return a tensor without gradient."""
    return Value(ctx.tape.allocate(Category.ACTIVATIONS, count_bytes(numel, dtype)), numel, dtype)


def attend_in_fp32(
    ctx: Recording,
    parts: tuple[Value, Value, Value],
    *,
    num_heads: int,
    probability: float,
    masks_first: bool = False,
) -> tuple[Value, Value]:
    """Record attention with fp32 scores.

    Returns what queries read, and the probabilities (``_attn`` of GPT-J, CodeGen and GPT-Neo);
    query, key and value stay with the caller. Products copy sides that lie token after token, as
    for any batch beyond one; scores are scaled or masked by a buffer, and get a mask,
    ``masks_first``: before they are scaled.
    """
    tape, (query, key, value) = ctx.tape, parts
    # A cache has its heads one after another, and a single query has no other order.
    queries, keys = (
        ctx.settings.batched and not ctx.shape.decoding,
        ctx.settings.batched and ctx.cache is None,
    )
    upcast = [cast(tape, part, DType.FP32) for part in (query, key)]
    scores = multiply_heads(
        tape,
        upcast[0],
        upcast[1],
        ctx.get_read_shape(None).scores(num_heads),
        reads=(_select_copy(queries), _select_copy(keys)),
    )
    first, second = (
        (add_in_fp32, multiply_scalar) if masks_first else (multiply_scalar, add_in_fp32)
    )
    masked = chain(tape, chain(tape, scores, first), second)
    probabilities = chain(tape, masked, softmax)
    probabilities = chain(tape, probabilities, lambda t, p: cast(t, p, value.dtype))
    probabilities = chain(tape, probabilities, lambda t, p: dropout(t, p, probability))
    mixed = multiply_heads(
        tape, probabilities, value, query.numel, reads=(Tape.alias, _select_copy(keys))
    )
    tape.free(*upcast)
    return (chain(tape, mixed, rearrange) if queries else mixed), probabilities


def _select_copy(copies: bool) -> ReadSide:  # noqa: FBT001 - the only thing that there is to say
    """Return the operation by which a product reads a side."""
    return copy_contiguous if copies else Tape.alias


def add_in_fp32(tape: Tape, x: Value) -> Value:
    """Return ``x`` plus an fp32 tensor without gradient."""
    return add_scalar(tape, x) if x.dtype is DType.FP32 else cast(tape, x, DType.FP32)
