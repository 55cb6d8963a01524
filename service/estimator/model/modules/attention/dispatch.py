"""Queries that meet keys: which kernel runs, and what it reads."""

from dataclasses import dataclass, replace

from service.estimator.model.recording import Recording
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops import attention_kernels as kernels
from service.estimator.tape.ops.attention_kernels import Heads
from service.estimator.tape.ops.elementwise import chain
from service.estimator.tape.ops.products import autocast_input
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention as Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """How queries meet keys: heads, the softmax's dtype, and dropout on the scores."""

    num_heads: int
    num_kv_heads: int
    upcast: bool = True
    softcap: bool = False
    sliding_window: int | None = None
    dropout: float = 0.0
    causal: bool = True
    casts_back: bool = True
    head_major: bool = False
    """Whether the query lies head after head, as a concatenation of a rotated and a passed part does."""
    one_by_one: bool = False
    """Whether each sequence is attended to for itself, in a loop."""
    values: Size | None = None
    """Elements that queries read in all, where a head's values are not as many as its keys."""


def attend(run: Recording, query: Value, key: Value, value: Value, how: Scoring) -> Value:
    """Return what queries read, by the kernel that the question asks for or CUDA would choose; the parts stay."""
    tape, masked = run.tape, run.masked(how.sliding_window)
    heads = heads_of(run, how)
    if run.attention is Kernel.EAGER:
        mixed, weights = kernels.eager(tape, query, key, value, heads, upcast=how.upcast)
        run.leave(weights)
        return mixed
    q = autocast_input(tape, query)
    kernel = choose_kernel(run.attention, q.dtype, grouped=heads.grouped, masked=masked or how.values is not None)
    # Under a mask SDPA gets as many heads on both sides: a single query is packed by key/value head (transformers' pack_gqa).
    ungrouped = kernel is Kernel.EFFICIENT or (kernel is Kernel.MATH and masked)
    repeats = ungrouped and not run.extent.decoding
    k, v = (_read(tape, part, heads if repeats else None) for part in (key, value))
    if kernel is Kernel.MATH:
        mixed = kernels.math(tape, q, k, v, replace(heads, num_kv_heads=heads.num_heads) if ungrouped else heads)
    elif kernel is Kernel.EFFICIENT:
        mixed = kernels.efficient(tape, q, k, v, heads)
    else:
        mixed = kernels.flash(tape, q, k, v, heads)
    tape.free(q, k, v)
    return mixed


def _read(tape: Tape, part: Value, repeats: Heads | None) -> Value:
    """Return key or value as the kernel reads it: with as many heads as the query where ``repeats`` says so, then cast."""
    whole = tape.alias(part) if repeats is None else kernels.as_many(tape, part, repeats)
    return chain(tape, whole, autocast_input)


def attend_masked(run: Recording, query: Value, key: Value, value: Value, how: Scoring) -> Value:
    """Return attention under a boolean mask, for which flash has no kernel: SDPA makes a bias of it, anew for each layer."""
    if run.attention in {Kernel.EAGER, Kernel.MATH}:
        return attend(run, query, key, value, how)
    tape, heads = run.tape, replace(heads_of(run, how), bias=run.reach(how.sliding_window).mask(1))
    q, k, v = (autocast_input(tape, part) for part in (query, key, value))
    mixed = kernels.efficient(tape, q, k, v, heads)
    tape.free(q, k, v)
    return mixed


def heads_of(run: Recording, how: Scoring) -> Heads:
    """Return the sizes of an attention in this pass."""
    extent, masked = run.reach(how.sliding_window), run.masked(how.sliding_window)
    return Heads(
        num_heads=how.num_heads,
        num_kv_heads=how.num_kv_heads,
        rows=run.extent.tokens(how.num_heads),
        aligned_rows=run.extent.aligned(how.num_heads),
        scores=extent.scores(how.num_heads),
        bias=extent.mask(1) if masked else None,
        triangle=extent.shared_mask(1) if how.causal and not masked and not run.extent.decoding else None,
        softcap=how.softcap,
        dropout=how.dropout,
        causal=how.causal,
        casts_back=how.casts_back,
        head_major=how.head_major,
        values=how.values,
        one_by_one=how.one_by_one or not run.batched,
        loose_queries=run.batched and not run.extent.decoding,
        loose_keys=run.batched and run.store is None,
    )


def choose_kernel(asked: Kernel, dtype: DType, *, grouped: bool, masked: bool = False) -> Kernel:
    """Return the kernel that CUDA's SDPA takes for causal attention.

    Flash needs a 16-bit dtype and takes no mask, nor heads with more keys than values; the memory-efficient kernel cannot
    group heads, which leaves the math kernel unless there is a mask: then transformers repeats keys and values itself.
    """
    if masked and asked in {Kernel.SDPA, Kernel.FLASH}:
        return Kernel.EFFICIENT
    if asked is not Kernel.SDPA:
        return asked
    if dtype is not DType.FP32:
        return Kernel.FLASH
    return Kernel.MATH if grouped else Kernel.EFFICIENT
