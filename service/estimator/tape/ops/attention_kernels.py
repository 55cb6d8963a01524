"""Attention kernels: what PyTorch's scaled_dot_product_attention keeps and needs, kernel by kernel.

Shapes: query ``b x heads x s x d``, key and value ``b x kv_heads x s x d``.
"""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, bytes_of
from service.estimator.tape.ops.elementwise import add_scalar, cast, chain, dropout, from_output, multiply_scalar, softmax
from service.estimator.tape.ops.products import autocast_input, batched_product, copy_of
from service.estimator.tape.ops.views import expand
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

SEED_BYTES = 16
"""Philox seed and offset that memory-efficient attention returns, and keeps, even without dropout."""
RANDOM_STATE_BYTES = 24
"""Philox seed and offset that flash attention returns, and keeps, even without dropout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Sizes of one attention: heads, rows of the softmax, and its scores; ``dropout`` is the chance to drop a score."""

    num_heads: int
    num_kv_heads: int
    rows: Size
    scores: Size
    bias: Size | None = None
    """Elements of a mask that the scores get beside the causal one: SDPA makes it a bias in the query's dtype, each time."""
    triangle: Size | None = None
    """Elements of the causal mask where it is no tensor but a flag, of which the math kernel makes one."""
    softcap: bool = False
    dropout: float = 0.0
    causal: bool = True
    casts_back: bool = True
    """Whether eager code casts probabilities back to the query's dtype before dropout; else autocast does, for the product."""
    head_major: bool = False
    """Whether the query lies head after head: then flash's output does too, and is copied to lie token after token."""
    values: Size | None = None
    """Elements of the output where a head's values are not as many as its keys; flash has no kernel for that."""
    one_by_one: bool = False
    """Whether each sequence is attended to for itself: products read its parts as they lie."""
    loose_queries: bool = False
    """Whether queries of several sequences lie token after token, where the math kernel runs."""
    loose_keys: bool = False
    """The same of keys and values, which lie head after head once they come out of a cache."""
    aligned_rows: Size | None = None
    """Rows of the softmax rounded up to the memory-efficient kernel's multiple, where the length is known."""

    @property
    def grouped(self) -> bool:
        """Whether several query heads share a key and value head."""
        return self.num_heads != self.num_kv_heads

    @property
    def shared(self) -> bool:
        """Whether all query heads share the only key and value head."""
        return self.grouped and self.num_kv_heads == 1


def flash(tape: Tape, query: Value, key: Value, value: Value, heads: Heads) -> Value:
    """Return flash attention: keeps q, k, v, the output and one fp32 per row; backward accumulates dq in fp32."""
    lse = Value(
        tape.allocate(Category.ACTIVATIONS, sizes.add(sizes.scale(heads.rows, 4), sizes.constant(RANDOM_STATE_BYTES))),
        heads.rows,
        DType.FP32,
    )

    def backward(_: Storage) -> None:
        grads = [tape.scratch(part.numel, part.dtype) for part in (query, key, value)]
        accumulator = tape.scratch(query.numel, DType.FP32)
        rows = tape.scratch(heads.rows, DType.FP32)
        expanded = [tape.scratch(query.numel, query.dtype) for _ in range(2 * heads.grouped)]
        tape.release(accumulator, rows, *expanded)
        for part, grad in zip((query, key, value), grads, strict=True):
            tape.send(part, grad)

    saves = (query, key, value, lse)
    output = tape.emit(query.numel, query.dtype, inputs=(query, key, value), saves=saves, saves_output=True, backward=backward)
    tape.free(lse)
    return chain(tape, output, copy_of) if heads.head_major else output


def efficient(tape: Tape, query: Value, key: Value, value: Value, heads: Heads) -> Value:
    """Return memory-efficient attention (key and value with as many heads as the query): keeps what flash keeps, and a bias."""
    masks = _biases(tape, query, heads)
    kept = sizes.add(sizes.scale(heads.aligned_rows or heads.rows, 4), sizes.constant(SEED_BYTES))
    lse = Value(tape.allocate(Category.ACTIVATIONS, kept), heads.rows, DType.FP32)

    def backward(_: Storage) -> None:
        grads = [tape.scratch(part.numel, part.dtype) for part in (query, key, value)]
        delta = tape.scratch(heads.rows, DType.FP32)
        tape.release(delta)
        for part, grad in zip((query, key, value), grads, strict=True):
            tape.send(part, grad)

    saves = (query, key, value, lse, *masks)
    output = tape.emit(
        heads.values or query.numel, query.dtype, inputs=(query, key, value), saves=saves, saves_output=True, backward=backward
    )
    tape.free(lse, *masks)
    return output


def _biases(tape: Tape, query: Value, heads: Heads) -> tuple[Value, ...]:
    """Return the bias that SDPA makes of a boolean mask, when there is one."""
    if heads.bias is None:
        return ()
    return (Value(tape.allocate(Category.ACTIVATIONS, bytes_of(heads.bias, query.dtype)), heads.bias, query.dtype),)


def _triangle(tape: Tape, dtype: DType, heads: Heads) -> tuple[Value, ...]:
    """Return the bias that the math kernel makes for causal queries, for all sequences together."""
    if heads.triangle is None:
        return ()
    return (Value(tape.allocate(Category.ACTIVATIONS, bytes_of(heads.triangle, dtype)), heads.triangle, dtype),)


def repeated(tape: Tape, x: Value, heads: Heads) -> Value:
    """Return key or value with as many heads as the query: the same tensor when it has them."""
    return (
        copy_of(tape, x, numel=sizes.scale(x.numel, heads.num_heads // heads.num_kv_heads)) if heads.grouped else tape.alias(x)
    )


def as_many(tape: Tape, x: Value, heads: Heads) -> Value:
    """Return key or value as transformers' ``repeat_kv`` does: a copy for each group, but a view of an only head."""
    if heads.shared:
        return expand(tape, x, sizes.scale(x.numel, heads.num_heads))
    return repeated(tape, x, heads)


def apart(tape: Tape, x: Value) -> Value:
    """Return ``x`` as a batched product reads it: a part of a fused projection is copied out, as for any batch beyond one."""
    size = bytes_of(x.numel, x.dtype)
    is_part = x.storage is not None and x.storage.size != size and sizes.covers(x.storage.size, size)
    return copy_of(tape, x) if is_part else tape.alias(x)


def _side(tape: Tape, x: Value, heads: Heads, *, loose: bool) -> Value:
    """Return a side of a product, cast where autocast does: one that is no plain stack of matrices is copied.

    Such is what lies token after token or shows an only head again and again, which is ``loose``, and a part of a fused
    projection; sequences that come one by one are read as they lie.
    """
    read: Callable[[Tape, Value], Value] = Tape.alias if heads.one_by_one else copy_of if loose else apart
    return chain(tape, autocast_input(tape, x), read)


def eager(tape: Tape, query: Value, key: Value, value: Value, heads: Heads, *, upcast: bool) -> tuple[Value, Value]:
    """Return attention as the model code writes it, a mask added, and its weights; ``upcast``: the softmax is in fp32.

    Under autocast the mask is fp32, as the hidden state is, and so is what it is added to.
    """
    keys, values = (as_many(tape, part, heads) for part in (key, value))
    loose = heads.loose_keys and not heads.grouped
    sides = (
        _side(tape, query, heads, loose=heads.loose_queries and not heads.head_major),
        _side(tape, keys, heads, loose=(loose and not heads.head_major) or _shown_again(tape, keys, heads)),
    )
    product = batched_product(tape, sides[0], sides[1], heads.scores)
    tape.free(*sides)
    weights = chain(tape, product, multiply_scalar)
    if heads.softcap:
        weights = chain(tape, chain(tape, chain(tape, weights, multiply_scalar), from_output), multiply_scalar)
    if heads.causal or heads.bias is not None:
        weights = chain(tape, weights, _masked)
    source = cast(tape, weights, DType.FP32) if upcast else tape.alias(weights)
    probabilities = chain(tape, source, softmax)
    tape.free(weights)
    weights = chain(tape, probabilities, lambda t, x: cast(t, x, query.dtype) if heads.casts_back else t.alias(x))
    weights = chain(tape, weights, lambda t, x: dropout(t, x, heads.dropout))
    read, side = autocast_input(tape, weights), _side(tape, values, heads, loose=loose or _shown_again(tape, values, heads))
    mixed = batched_product(tape, read, side, heads.values or query.numel)
    tape.free(read, side)
    output = chain(tape, mixed, copy_of)
    tape.free(keys, values)
    return output, weights


def _shown_again(tape: Tape, part: Value, heads: Heads) -> bool:
    """Tell whether a product gets a view of an only head, which a cast would have made whole."""
    return heads.shared and tape.autocast in {None, part.dtype}


def _masked(tape: Tape, scores: Value) -> Value:
    """Return scores plus a mask in the hidden state's dtype."""
    return add_scalar(tape, scores) if tape.autocast is None else cast(tape, scores, DType.FP32)


def math(tape: Tape, query: Value, key: Value, value: Value, heads: Heads) -> Value:
    """Return SDPA's math kernel: both sides scaled, scores in fp32 for 16-bit input, a mask added where there is one.

    The kernel has names for its fp32 parts and for the scaled query until its end, and gives out the probabilities as well, in
    the dtype of its input (ATen's ``_scaled_dot_product_attention_math``).
    """
    upcast = query.dtype is not DType.FP32
    parts = (
        [cast(tape, part, DType.FP32) for part in (query, key, value)]
        if upcast
        else [tape.alias(p) for p in (query, key, value)]
    )
    scaled_query = multiply_scalar(tape, parts[0])
    masks = _biases(tape, query, heads) or _triangle(tape, scaled_query.dtype, heads)
    keys, values = repeated(tape, parts[1], heads), repeated(tape, parts[2], heads)
    scaled_key = multiply_scalar(tape, keys)
    weights = _laid_out(tape, scaled_query, scaled_key, heads, heads.scores)
    tape.free(scaled_key)
    if masks:
        weights = chain(tape, weights, add_scalar)
    probabilities = chain(tape, weights, softmax)
    probabilities = chain(tape, probabilities, lambda t, x: dropout(t, x, heads.dropout))
    given = cast(tape, probabilities, query.dtype)
    mixed = _laid_out(tape, probabilities, values, heads, heads.values or query.numel)
    output = chain(tape, mixed, lambda t, x: cast(t, x, query.dtype))
    tape.free(given, scaled_query, probabilities, keys, values, *masks, *parts)
    return chain(tape, output, copy_of)


def _laid_out(tape: Tape, left: Value, right: Value, heads: Heads, out: Size) -> Value:
    """Return a product of all heads, whose sides are copied to lie head after head where there are several sequences.

    Probabilities lie so from the start, and so do keys and values that were repeated.
    """
    copies = heads.loose_queries and left.numel != heads.scores, heads.loose_keys and not heads.grouped
    sides = [copy_of(tape, side) if copied else tape.alias(side) for side, copied in zip((left, right), copies, strict=True)]
    y = batched_product(tape, sides[0], sides[1], out)
    tape.free(*sides)
    return y
