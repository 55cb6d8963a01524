"""SDPA over one key/value head that all queries share, without a graph.

Every fused kernel wants as many heads on both sides, or to be told that they are grouped
(``cuda/sdp_utils.cpp``, ``check_batch_size_and_num_heads_dense``), so that a call that does neither
is left to ``_scaled_dot_product_attention_math``, whose products broadcast the head. Order and
sizes are those of ATen (``transformers/attention.cpp``, torch 2.11): a mask is added in place, and
rows without any key are found by booleans of all scores.
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.ops.elementwise import cast, chain, multiply_scalar, softmax
from service.estimator.tape.ops.products import batched_product, copy_contiguous
from service.estimator.tape.ops.views import note_change_in_place
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def run_broadcast_attention(
    tape: Tape, query: Value, key: Value, value: Value, heads: Heads, *, batched: bool
) -> Value:
    """Return what queries read, head after head copied to token after token.

    Query, key and value stay with the caller. Products of several sequences copy the shared head
    for each of the others, and queries that lie token after token; those of one read all as views.
    """
    num_copies = heads.num_heads // heads.num_kv_heads if batched else 0
    masks = [] if heads.bias is None else [tape.scratch(heads.bias, query.dtype)]
    parts = [cast(tape, part, DType.FP32) for part in (query, key, value)]
    scaled_query = multiply_scalar(tape, parts[0])
    scores = chain(
        tape,
        multiply_scalar(tape, parts[1]),
        lambda t, side: _multiply_queries(t, scaled_query, side, num_copies, heads),
    )
    probabilities = chain(tape, scores, lambda t, x: _softmax_safely(t, x, heads))
    returned_weights = cast(tape, probabilities, query.dtype)
    mixed = _multiply(tape, probabilities, parts[2], num_copies, query.numel)
    output = chain(tape, mixed, lambda t, x: cast(t, x, query.dtype))
    tape.free(returned_weights, probabilities, scaled_query, *parts)
    tape.release(*masks)
    return chain(tape, output, copy_contiguous)


def _multiply_queries(tape: Tape, query: Value, key: Value, num_copies: int, heads: Heads) -> Value:
    if not heads.token_major_queries:
        return _multiply(tape, query, key, num_copies, heads.scores)
    return chain(
        tape,
        copy_contiguous(tape, query),
        lambda t, side: _multiply(t, side, key, num_copies, heads.scores),
    )


def _multiply(tape: Tape, left: Value, shared: Value, num_copies: int, out: Size) -> Value:
    """Return a product with the shared head, copied or as it lies."""
    if not num_copies:
        return batched_product(tape, left, shared, out)
    return chain(
        tape,
        copy_contiguous(tape, shared, numel=sizes.scale(shared.numel, num_copies)),
        lambda t, side: batched_product(t, left, side, out),
    )


def _softmax_safely(tape: Tape, scores: Value, heads: Heads) -> Value:
    """Return a softmax of masked scores, zero in empty rows."""
    note_change_in_place(tape, scores)
    probabilities = softmax(tape, scores)
    note_change_in_place(tape, probabilities)
    masked: list[Storage] = [
        tape.allocate(Category.TEMPORARIES, count_bytes(numel, DType.FP8))
        for numel in (heads.scores, heads.rows)
    ]
    tape.release(*masked)
    return probabilities
