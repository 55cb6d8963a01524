"""Biases that SDPA makes of masks."""

from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.values.dtypes import DType


def make_mask_bias(tape: Tape, query: Value, heads: Heads) -> tuple[Value, ...]:
    """Return the bias that SDPA makes of a boolean mask, if any."""
    if heads.bias is None:
        return ()
    return (
        Value(
            tape.allocate(Category.ACTIVATIONS, count_bytes(heads.bias, query.dtype)),
            heads.bias,
            query.dtype,
        ),
    )


def make_causal_bias(tape: Tape, dtype: DType, heads: Heads) -> tuple[Value, ...]:
    """Return the bias that the math kernel makes for causal queries.

    It is for all sequences together.
    """
    if heads.causal_mask is None:
        return ()
    return (
        Value(
            tape.allocate(Category.ACTIVATIONS, count_bytes(heads.causal_mask, dtype)),
            heads.causal_mask,
            dtype,
        ),
    )
