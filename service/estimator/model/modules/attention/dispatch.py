"""Attention dispatch: the kernel that runs and what it reads."""

from dataclasses import dataclass, replace

from service.estimator.model.recording import Recording
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops import attention_kernels as kernels
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.ops.context_attention import exchange_heads, ring_flash
from service.estimator.tape.ops.cudnn_attention import run_cudnn_attention
from service.estimator.tape.ops.products import autocast_input, view_heads
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import ContextMethod
from service.estimator.values.workload import Attention as Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionConfig:
    """Settings of one attention: heads, softmax dtype and score dropout."""

    num_heads: int
    num_kv_heads: int
    upcast: bool = True
    softcap: bool = False
    sliding_window: int | None = None
    dropout: float = 0.0
    causal: bool = True
    casts_back: bool = True
    head_major: bool = False
    """Whether the query lies head after head, as a concatenation of a rotated and a passed part
    does.
    """
    one_by_one: bool = False
    """Whether each sequence is attended to for itself, in a loop."""
    values: Size | None = None
    """Elements that queries read in all, where a head's values are not as many as its keys."""


def attend(
    ctx: Recording, query: Value, key: Value, value: Value, config: AttentionConfig
) -> Value:
    """Record attention with the requested kernel, or CUDA's own choice.

    Returns what queries read; query, key and value stay with the caller.
    """
    tape, masked = ctx.tape, ctx.has_mask(config.sliding_window)
    heads = build_heads(ctx, config)
    if ctx.settings.attention is Kernel.EAGER:
        mixed, weights = kernels.run_eager_attention(
            tape, (query, key, value), heads, mask=ctx.settings.dtype, upcast=config.upcast
        )
        ctx.discard_weights(weights)
        return mixed
    kernel = choose_kernel(
        ctx.settings.attention,
        tape.autocast or query.dtype,
        grouped=heads.grouped,
        masked=masked or config.values is not None,
    )
    # Under a mask SDPA gets as many heads on both sides: a single query is packed by key/value head
    # (transformers' pack_gqa).
    # xFormers, which Unsloth requires, gets them as well, where no flash-attn is named.
    is_xformers = ctx.settings.unsloth and ctx.settings.attention is not Kernel.FLASH
    ungrouped = kernel is Kernel.EFFICIENT or (kernel is Kernel.MATH and masked) or is_xformers
    repeats = ungrouped and not (masked and ctx.shape.decoding)
    # transformers has names for what it repeated until the kernel is through.
    names = [
        kernels.repeat_kv(tape, part, heads) if repeats else tape.alias(part)
        for part in (key, value)
    ]
    # Autocast casts the last argument first.
    v, k = (autocast_input(tape, part) for part in reversed(names))
    q = autocast_input(tape, query)
    if ctx.settings.context_ranks > 1:
        mixed = _attend_across_ranks(ctx, q, k, v, heads)
        tape.free(q, k, v, *names)
        return mixed
    cudnn = ctx.settings.cudnn and ctx.settings.attention is Kernel.SDPA and not is_xformers
    seen = replace(heads, num_kv_heads=heads.num_heads) if ungrouped else heads
    if kernel is not Kernel.MATH and cudnn and q.dtype is not DType.FP32:
        mixed = run_cudnn_attention(tape, q, k, v, seen)
    elif kernel is Kernel.MATH:
        mixed = kernels.run_math_attention(tape, q, k, v, seen)
    elif kernel is Kernel.EFFICIENT:
        mixed = kernels.run_efficient_attention(tape, q, k, v, heads)
    else:
        mixed = kernels.run_flash_attention(tape, q, k, v, seen)
    tape.free(q, k, v, *names)
    return mixed


def _attend_across_ranks(
    ctx: Recording, query: Value, key: Value, value: Value, heads: Heads
) -> Value:
    """Record flash attention over sequences that ranks share.

    Query, key and value stay with the caller.
    """
    tape, ranks = ctx.tape, ctx.settings.context_ranks
    if ctx.settings.context_method is ContextMethod.RING:
        return ring_flash(tape, query, key, value, heads, ranks=ranks)
    copies = max(1, ranks // heads.num_kv_heads)
    q, k, v = (
        exchange_heads(tape, part, copies=times)
        for part, times in ((query, 1), (key, copies), (value, copies))
    )
    read = kernels.run_flash_attention(tape, q, k, v, heads)
    tape.free(q, k, v)
    mixed = exchange_heads(tape, read)
    tape.free(read)
    return mixed


def view_projection(
    ctx: Recording, x: Value, config: AttentionConfig, *, heads: int, rotated: bool = False
) -> Value:
    """Return a projection as attention reads it, head by head.

    The gradient of what is rotated, repeated, or multiplied as matrices lies head after head; fused
    kernels return it as it lay.
    """
    if ctx.settings.unsloth:
        return x  # its rotations and xFormers return what lies token after token
    kernel, grouped = ctx.settings.attention, config.num_heads != config.num_kv_heads
    if kernel is not Kernel.EAGER:
        kernel = choose_kernel(
            kernel,
            ctx.tape.autocast or x.dtype,
            grouped=grouped,
            masked=ctx.has_mask(config.sliding_window) or config.values is not None,
        )
    repeats = grouped and kernel is Kernel.EFFICIENT
    copies = rotated or repeats or kernel in {Kernel.EAGER, Kernel.MATH}
    return view_heads(ctx.tape, x) if copies and heads > 1 else x


def attend_masked(
    ctx: Recording, query: Value, key: Value, value: Value, config: AttentionConfig
) -> Value:
    """Record attention under a boolean mask.

    Flash has no kernel for such a mask: SDPA makes a bias of it, anew for each layer.
    """
    if ctx.settings.attention in {Kernel.EAGER, Kernel.MATH}:
        return attend(ctx, query, key, value, config)
    tape, shape = ctx.tape, ctx.get_read_shape(config.sliding_window)
    heads = replace(build_heads(ctx, config), bias=shape.mask(1), padded_bias=shape.padded_mask())
    q, k, v = (autocast_input(tape, part) for part in (query, key, value))
    mixed = kernels.run_efficient_attention(tape, q, k, v, heads)
    tape.free(q, k, v)
    return mixed


def build_heads(ctx: Recording, config: AttentionConfig) -> Heads:
    """Build the tensor sizes of an attention in this pass."""
    shape, masked = ctx.get_read_shape(config.sliding_window), ctx.has_mask(config.sliding_window)
    return Heads(
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        rows=ctx.shape.tokens(config.num_heads),
        aligned_rows=ctx.shape.aligned(config.num_heads),
        scores=shape.scores(config.num_heads),
        bias=shape.mask(1) if masked else None,
        padded_bias=shape.padded_mask() if masked else None,
        causal_mask=shape.shared_mask(1)
        if config.causal and not masked and not ctx.shape.decoding
        else None,
        softcap=config.softcap,
        dropout=config.dropout,
        causal=config.causal,
        casts_back=config.casts_back,
        head_major=config.head_major,
        output=config.values,
        per_sequence=config.one_by_one or not ctx.settings.batched,
        token_major_queries=ctx.settings.batched and not ctx.shape.decoding,
        token_major_keys=ctx.settings.batched and ctx.cache is None,
    )


def choose_kernel(
    requested: Kernel, dtype: DType, *, grouped: bool, masked: bool = False
) -> Kernel:
    """Return the kernel that CUDA's SDPA takes for causal attention.

    Flash needs a 16-bit dtype and takes no mask, nor heads with more keys than values; the
    memory-efficient kernel cannot group heads, which leaves the math kernel unless there is a mask:
    then transformers repeats keys and values itself.
    """
    if masked and requested in {Kernel.SDPA, Kernel.FLASH}:
        return Kernel.EFFICIENT
    if requested is not Kernel.SDPA:
        return requested
    if dtype is not DType.FP32:
        return Kernel.FLASH
    return Kernel.MATH if grouped else Kernel.EFFICIENT
