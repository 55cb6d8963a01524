"""Queries that meet keys: which kernel runs, and what it reads."""

from dataclasses import dataclass

from service.estimator.dtypes import DType
from service.estimator.recording import Recording
from service.estimator.tape import kernels
from service.estimator.tape.elementwise import chain
from service.estimator.tape.kernels import Heads
from service.estimator.tape.nodes import Value
from service.estimator.tape.products import autocast_input
from service.estimator.workload import Attention as Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """How queries meet keys: heads, the softmax's dtype, and dropout on the scores."""

    num_heads: int
    num_kv_heads: int
    upcast: bool = True
    dropout: float = 0.0
    head_major: bool = False
    """Whether the query lies head after head, as a concatenation of a rotated and a passed part does."""


def attend(run: Recording, query: Value, key: Value, value: Value, how: Scoring) -> Value:
    """Return what queries read, by the kernel that the question asks for or CUDA would choose; the parts stay."""
    tape = run.tape
    heads = Heads(
        num_heads=how.num_heads,
        num_kv_heads=how.num_kv_heads,
        rows=run.extent.tokens(how.num_heads),
        scores=run.extent.scores(how.num_heads),
        dropout=how.dropout,
        head_major=how.head_major,
    )
    q, k, v = (autocast_input(tape, part) for part in (query, key, value))
    kernel = choose_kernel(run.attention, q.dtype, grouped=heads.grouped)
    if kernel is Kernel.EAGER:
        mixed = kernels.eager(tape, q, k, v, heads, upcast=how.upcast)
    elif kernel is Kernel.MATH:
        mixed = kernels.math(tape, q, k, v, heads)
    elif kernel is Kernel.EFFICIENT:
        k, v = (chain(tape, part, lambda t, x: kernels.repeated(t, x, q)) for part in (k, v))
        mixed = kernels.efficient(tape, q, k, v, heads)
    else:
        mixed = kernels.flash(tape, q, k, v, heads)
    tape.free(q, k, v)
    return mixed


def choose_kernel(asked: Kernel, dtype: DType, *, grouped: bool) -> Kernel:
    """Return the kernel that CUDA's SDPA takes for causal attention without a mask.

    Flash needs a 16-bit dtype; the memory-efficient kernel cannot group heads, which leaves the math kernel.
    """
    if asked is not Kernel.SDPA:
        return asked
    if dtype is not DType.FP32:
        return Kernel.FLASH
    return Kernel.MATH if grouped else Kernel.EFFICIENT
