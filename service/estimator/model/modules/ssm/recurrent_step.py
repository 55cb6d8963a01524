"""One decode step of state-space mixers.

States are written in place (transformers 5.23, fallbacks of its kernels).
"""

from collections.abc import Callable

from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import (
    activate_saving_input,
    add,
    cast,
    chain,
    multiply,
    promote_dtypes,
    silu,
)
from service.estimator.tape.ops.products import copy_contiguous
from service.estimator.tape.ops.scan import multiply_broadcast
from service.estimator.tape.ops.segments import exponentiate
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

STATE_DTYPE = DType.FP32
"""A scan's states are fp32, and the cache keeps them as they come (``torch.zeros_like`` in
cache_utils.py).
"""


def store_state(ctx: Recording, per_sequence: int, dtype: DType) -> None:
    """Record a state that prefill makes and the cache keeps."""
    if ctx.cache is not None and not ctx.shape.decoding:
        ctx.tape.allocate(
            Category.RECURRENT_STATE, count_bytes(sizes.per_sequence(per_sequence), dtype)
        )


def update_convolution(
    ctx: Recording, x: Value, kernel_size: int, activation: Callable[[Tape, Value], Value]
) -> Value:
    """Return the convolution of the newest position.

    It is convolved with the positions that the state keeps (``causal_conv1d_update``); ``x`` is
    dropped.
    """
    tape, width = ctx.tape, x.numel
    joined = _allocate_value(tape, sizes.scale(width, kernel_size + 1), x.dtype)
    wide = _allocate_value(tape, sizes.scale(width, 2), x.dtype)
    y = activation(tape, Value(wide.storage, width, x.dtype))
    tape.free(wide, joined, x)
    return y


def update_channels(
    ctx: Recording, selected: tuple[Value, Value, Value, Value, Value], numel: Size
) -> Value:
    """Return the states' output per channel.

    ``selected`` are hidden states, steps, decay, B and C; there are ``numel`` states
    (``mamba_selective_state_update``).
    """
    tape = ctx.tape
    hidden, steps, rates, entering, reading = selected
    fp32_steps = cast(tape, steps, DType.FP32)
    decay = chain(tape, multiply_broadcast(tape, fp32_steps, rates, numel), exponentiate)
    wide = cast(tape, entering, DType.FP32)
    discrete_b = multiply_broadcast(tape, fp32_steps, wide, numel)
    tape.free(fp32_steps, wide)
    source = cast(tape, hidden, DType.FP32)
    entered = multiply_broadcast(tape, discrete_b, source, numel)
    tape.free(source)
    state = _update_state(tape, decay, entered, numel)
    out = chain(
        tape,
        cast(tape, state, reading.dtype),
        lambda t, _: _allocate_value(t, hidden.numel, reading.dtype),
    )
    tape.free(decay, discrete_b, entered, state)
    return out


def update_heads(
    ctx: Recording, selected: tuple[Value, Value, Value, Value, Value], numel: Size, spread: Size
) -> Value:
    """Return the states' output per head (``mamba2_selective_state_update``).

    B and C are expanded to the size ``spread``.
    """
    tape = ctx.tape
    hidden, raw, rates, entering, reading = selected
    steps = chain(tape, _allocate_value(tape, hidden.numel, raw.dtype), activate_saving_input)
    fp32_steps = cast(tape, steps, DType.FP32)
    decay = chain(
        tape,
        chain(tape, fp32_steps, lambda t, v: multiply_broadcast(t, v, rates, numel)),
        exponentiate,
    )
    wide = copy_contiguous(tape, entering, numel=spread)
    discrete_b = multiply_broadcast(tape, steps, wide, numel)
    entered = multiply_broadcast(tape, discrete_b, hidden, numel)
    state = _update_state(tape, decay, entered, numel)
    read = copy_contiguous(tape, reading, numel=spread)
    narrowed = chain(tape, state, lambda t, v: cast(t, v, reading.dtype))
    out = _allocate_value(tape, hidden.numel, reading.dtype)
    skipped = multiply(tape, hidden, hidden)
    summed = add(tape, out, skipped)
    tape.free(skipped, out, narrowed, read, entered, discrete_b, wide, decay, steps)
    return summed


def apply_gate(tape: Tape, x: Value, hidden: Value, gate: Value) -> Value:
    """Return ``(x + hidden * D) * silu(gate)``; ``x`` is dropped."""
    skipped = multiply(tape, hidden, hidden)
    summed = add(tape, x, skipped)
    tape.free(skipped, x)
    opened = silu(tape, gate)
    y = multiply(tape, summed, opened)
    tape.free(summed, opened)
    return y


def _update_state(tape: Tape, decay: Value, entered: Value, numel: Size) -> Value:
    """Return the next state, ``state * decay + entered``.

    The product and the sum are new, then the sum is copied into the state.
    """
    dtype = promote_dtypes(decay, entered)
    faded = _allocate_value(tape, numel, dtype)
    state = _allocate_value(tape, numel, dtype)
    tape.free(faded)
    return state


def _allocate_value(tape: Tape, numel: Size, dtype: DType) -> Value:
    return Value(tape.allocate(Category.ACTIVATIONS, count_bytes(numel, dtype)), numel, dtype)
