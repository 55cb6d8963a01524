"""Scaled dot-product attention, kernel by kernel.

These are the tensors that PyTorch's scaled_dot_product_attention keeps and needs. Shapes: query ``b
x heads x s x d``, key and value ``b x kv_heads x s x d``.
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, Work, count_bytes
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.ops.attention_masks import (
    align_mask_bias,
    allocate_flash_sums,
    allocate_row_sums,
    make_causal_bias,
    make_mask_bias,
)
from service.estimator.tape.ops.elementwise import (
    activate_saving_output,
    add_scalar,
    cast,
    chain,
    dropout,
    multiply_scalar,
    softmax,
)
from service.estimator.tape.ops.padded_heads import narrow_heads, pad_heads
from service.estimator.tape.ops.products import (
    ReadSide,
    batched_product,
    copy_contiguous,
    multiply_heads,
)
from service.estimator.tape.ops.views import expand, note_change_in_place, rearrange
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def run_flash_attention(tape: Tape, query: Value, key: Value, value: Value, heads: Heads) -> Value:
    """Return flash attention.

    It keeps q, k, v, the output and one fp32 per row; backward accumulates dq in fp32. Heads of
    other widths than the kernel's are padded.
    """
    padding = heads.count_padding(query)
    if padding:
        parts = [pad_heads(tape, part, heads, query, padding) for part in (query, key, value)]
        padded = _run_aligned_flash(tape, parts[0], parts[1], parts[2], heads)
        tape.free(*parts)
        return chain(tape, narrow_heads(tape, padded, query), copy_contiguous)
    output = _run_aligned_flash(tape, query, key, value, heads)
    return chain(tape, output, copy_contiguous) if heads.head_major else output


def _run_aligned_flash(tape: Tape, query: Value, key: Value, value: Value, heads: Heads) -> Value:
    """Return flash attention on heads of a width of its kernel."""
    sums = allocate_flash_sums(tape, heads)

    def backward(_: Storage) -> None:
        grads = [tape.scratch(part.numel, part.dtype) for part in (query, key, value)]
        accumulator = tape.scratch(query.numel, DType.FP32)
        rows = tape.scratch(heads.rows, DType.FP32)
        expanded = [tape.scratch(query.numel, query.dtype) for _ in range(2 * heads.grouped)]
        tape.release(accumulator, rows, *expanded)
        for part, grad in zip((query, key, value), grads, strict=True):
            tape.send(part, grad)

    saves = (query, key, value, *sums)
    output = tape.emit(
        query.numel,
        query.dtype,
        inputs=(query, key, value),
        saves=saves,
        saves_output=True,
        work=Work.ATTENTION,
        backward=backward,
    )
    tape.free(*sums)
    return output


def run_efficient_attention(
    tape: Tape, query: Value, key: Value, value: Value, heads: Heads
) -> Value:
    """Return memory-efficient attention.

    Key and value have as many heads as the query; it keeps what flash keeps, and a bias.
    """
    masks, saved_masks = align_mask_bias(tape, make_mask_bias(tape, query, heads), heads)
    lse = allocate_row_sums(tape, (query, key, value), heads)

    def backward(_: Storage) -> None:
        grads = [tape.scratch(part.numel, part.dtype) for part in (query, key, value)]
        delta = tape.scratch(heads.rows, DType.FP32)
        tape.release(delta)
        for part, grad in zip((query, key, value), grads, strict=True):
            tape.send(part, grad)

    saves = (query, key, value, lse, *saved_masks)
    output = tape.emit(
        heads.output or query.numel,
        query.dtype,
        inputs=(query, key, value),
        saves=saves,
        saves_output=True,
        work=Work.ATTENTION,
        backward=backward,
    )
    tape.free(lse, *masks)
    return output


def repeat_kv_heads(tape: Tape, x: Value, heads: Heads) -> Value:
    """Return key or value with as many heads as the query.

    It is the same tensor when it has them.
    """
    return (
        copy_contiguous(tape, x, numel=sizes.scale(x.numel, heads.num_heads // heads.num_kv_heads))
        if heads.grouped
        else tape.alias(x)
    )


def repeat_kv(tape: Tape, x: Value, heads: Heads) -> Value:
    """Return key or value as transformers' ``repeat_kv`` does.

    That is a copy for each group, but a view of an only head.
    """
    if heads.multi_query:
        return expand(tape, x, sizes.scale(x.numel, heads.num_heads))
    return repeat_kv_heads(tape, x, heads)


def copy_if_slice(tape: Tape, x: Value) -> Value:
    """Return ``x`` as a batched product reads it.

    A part of a fused projection is copied out, as for any batch beyond one.
    """
    size = count_bytes(x.numel, x.dtype)
    is_part = (
        x.storage is not None and x.storage.size != size and sizes.covers(x.storage.size, size)
    )
    return copy_contiguous(tape, x) if is_part else tape.alias(x)


def _select_read(heads: Heads, *, copies: bool) -> ReadSide:
    """Return how a product reads a side.

    A side that is no plain stack of matrices is copied. Such is what lies token after token or
    shows an only head again and again, which is what ``copies`` says, and a part of a fused
    projection; sequences that come one by one are read as they lie.
    """
    if heads.per_sequence:
        return Tape.alias
    return copy_contiguous if copies else copy_if_slice


def run_eager_attention(
    tape: Tape, parts: tuple[Value, Value, Value], heads: Heads, *, mask: DType, upcast: bool
) -> tuple[Value, Value]:
    """Return attention as the model's code writes it, and its weights.

    ``parts`` are query, key and value. A mask of this dtype is added; ``upcast``: the softmax is in
    fp32.
    """
    query, key, value = parts
    keys, values = (repeat_kv(tape, part, heads) for part in (key, value))
    token_major = heads.token_major_keys and not heads.grouped
    reads = (
        _select_read(heads, copies=heads.token_major_queries and not heads.head_major),
        _select_read(
            heads,
            copies=(token_major and not heads.head_major) or _is_expanded_view(tape, keys, heads),
        ),
    )
    product = multiply_heads(tape, query, keys, heads.scores, reads=reads)
    weights = chain(tape, product, multiply_scalar)
    if heads.softcap:
        weights = chain(
            tape,
            chain(tape, chain(tape, weights, multiply_scalar), activate_saving_output),
            multiply_scalar,
        )
    if heads.causal or heads.bias is not None:
        weights = chain(tape, weights, lambda t, x: add_mask(t, x, mask))
    source = cast(tape, weights, DType.FP32) if upcast else tape.alias(weights)
    probabilities = chain(tape, source, softmax)
    # A softmax in fp32 is cast in its own line, so that the name of what went in still stands.
    named = (weights,) if upcast else ()
    tape.free(*() if upcast else (weights,))
    weights = chain(
        tape,
        probabilities,
        lambda t, x: cast(t, x, query.dtype) if heads.casts_back else t.alias(x),
    )
    tape.free(*named)
    weights = chain(tape, weights, lambda t, x: dropout(t, x, heads.dropout))
    read = _select_read(heads, copies=token_major or _is_expanded_view(tape, values, heads))
    mixed = multiply_heads(
        tape, weights, values, heads.output or query.numel, reads=(Tape.alias, read)
    )
    output = chain(tape, _stack_gradient(tape, mixed, heads), copy_contiguous)
    tape.free(keys, values)
    return output, weights


def _stack_gradient(tape: Tape, mixed: Value, heads: Heads) -> Value:
    """Return a product of all heads, and drop it.

    Its gradient lies token after token, and is copied to be a plain stack of matrices again.
    """
    return mixed if heads.per_sequence else chain(tape, mixed, rearrange)


def _is_expanded_view(tape: Tape, part: Value, heads: Heads) -> bool:
    """Return whether a product gets a view of an only head.

    A cast would have made a full tensor of it.
    """
    return heads.multi_query and tape.autocast in {None, part.dtype}


def add_mask(tape: Tape, scores: Value, dtype: DType) -> Value:
    """Return scores plus a mask, in the wider of their dtypes.

    The mask's is the hidden state's: fp32 over fp32 weights, where autocast makes narrower scores.
    """
    is_wider = dtype is DType.FP32 and scores.dtype is not DType.FP32
    return cast(tape, scores, DType.FP32) if is_wider else add_scalar(tape, scores)


def run_math_attention(tape: Tape, query: Value, key: Value, value: Value, heads: Heads) -> Value:
    """Return attention of SDPA's math kernel.

    Both sides are scaled, scores are in fp32 for 16-bit input, a mask is added where there is one.
    The kernel has names for its fp32 parts and for the scaled query until its end, and gives out
    the probabilities as well, in the dtype of its input (ATen's
    ``_scaled_dot_product_attention_math``).
    """
    upcast = query.dtype is not DType.FP32
    parts = (
        [cast(tape, part, DType.FP32) for part in (query, key, value)]
        if upcast
        else [tape.alias(p) for p in (query, key, value)]
    )
    scaled_query = multiply_scalar(tape, parts[0])
    masks = make_mask_bias(tape, query, heads) or make_causal_bias(tape, scaled_query.dtype, heads)
    keys, values = repeat_kv_heads(tape, parts[1], heads), repeat_kv_heads(tape, parts[2], heads)
    scaled_key = multiply_scalar(tape, keys)
    weights = _multiply_heads(tape, scaled_query, scaled_key, heads, heads.scores)
    tape.free(scaled_key)
    if masks and not tape.on_gpu:
        weights = chain(tape, weights, add_scalar)
    probabilities = chain(tape, weights, _softmax_of_scores)
    probabilities = chain(tape, probabilities, lambda t, x: dropout(t, x, heads.dropout))
    returned_weights = cast(tape, probabilities, query.dtype)
    mixed = _multiply_heads(tape, probabilities, values, heads, heads.output or query.numel)
    stacked = _stack_gradient(tape, mixed, heads)
    output = chain(tape, stacked, lambda t, x: cast(t, x, query.dtype))
    tape.free(returned_weights, scaled_query, probabilities, keys, values, *masks, *parts)
    return chain(tape, output, copy_contiguous)


def _softmax_of_scores(tape: Tape, scores: Value) -> Value:
    """Return the softmax of scores.

    CUDA adds the mask in place, looks for rows without any score in a boolean of their size, and
    fills those in place (``_safe_softmax``).
    """
    if tape.on_gpu:
        note_change_in_place(tape, scores)
    probabilities = softmax(tape, scores)
    note_change_in_place(tape, probabilities)
    if tape.on_gpu:
        tape.release(tape.allocate(Category.TEMPORARIES, scores.numel))
    return probabilities


def _multiply_heads(tape: Tape, left: Value, right: Value, heads: Heads, out: Size) -> Value:
    """Return a product of all heads.

    Its sides are copied to lie head after head where there are several sequences. Probabilities lie
    so from the start, and so do keys and values that were repeated.
    """
    copies = (
        heads.token_major_queries and left.numel != heads.scores,
        heads.token_major_keys and not heads.grouped,
    )
    sides = [
        copy_contiguous(tape, side) if copied else tape.alias(side)
        for side, copied in zip((left, right), copies, strict=True)
    ]
    y = batched_product(tape, sides[0], sides[1], out)
    tape.free(*sides)
    return y
