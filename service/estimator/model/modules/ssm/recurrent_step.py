"""One decode step of state-space mixers, whose states are written in place (transformers 5.23, fallbacks of its kernels)."""

from collections.abc import Callable

from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, bytes_of
from service.estimator.tape.ops.elementwise import add, cast, chain, from_input, multiply, promoted, silu
from service.estimator.tape.ops.products import copy_of
from service.estimator.tape.ops.scan import outer
from service.estimator.tape.ops.segments import exponential
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

STATE_DTYPE = DType.FP32
"""A scan's states are fp32, and the cache keeps them as they come (``torch.zeros_like`` in cache_utils.py)."""


def keep_state(run: Recording, per_sequence: int, dtype: DType) -> None:
    """Record a state that the cache makes in prefill and keeps."""
    if run.store is not None and not run.extent.decoding:
        run.tape.allocate(Category.RECURRENT_STATE, bytes_of(sizes.per_sequence(per_sequence), dtype))


def updated_convolution(run: Recording, x: Value, kernel_size: int, activation: Callable[[Tape, Value], Value]) -> Value:
    """Return the newest position convolved with those that the state keeps (``causal_conv1d_update``); ``x`` is dropped."""
    tape, width = run.tape, x.numel
    joined = _made(tape, sizes.scale(width, kernel_size + 1), x.dtype)
    wide = _made(tape, sizes.scale(width, 2), x.dtype)
    y = activation(tape, Value(wide.storage, width, x.dtype))
    tape.free(wide, joined, x)
    return y


def updated_channels(run: Recording, selected: tuple[Value, Value, Value, Value, Value], numel: Size) -> Value:
    """Return what ``numel`` states give out for hidden states, steps, decay, B and C (``mamba_selective_state_update``)."""
    tape = run.tape
    hidden, steps, rates, entering, reading = selected
    moments = cast(tape, steps, DType.FP32)
    decay = chain(tape, outer(tape, moments, rates, numel), exponential)
    wide = cast(tape, entering, DType.FP32)
    kept = outer(tape, moments, wide, numel)
    tape.free(moments, wide)
    source = cast(tape, hidden, DType.FP32)
    entered = outer(tape, kept, source, numel)
    tape.free(source)
    state = _next(tape, decay, entered, numel)
    out = chain(tape, cast(tape, state, reading.dtype), lambda t, _: _made(t, hidden.numel, reading.dtype))
    tape.free(decay, kept, entered, state)
    return out


def updated_heads(run: Recording, selected: tuple[Value, Value, Value, Value, Value], numel: Size, spread: Size) -> Value:
    """Return what heads give out (``mamba2_selective_state_update``); B and C are made as large as ``spread`` says."""
    tape = run.tape
    hidden, raw, rates, entering, reading = selected
    steps = chain(tape, _made(tape, hidden.numel, raw.dtype), from_input)
    moments = cast(tape, steps, DType.FP32)
    decay = chain(tape, chain(tape, moments, lambda t, v: outer(t, v, rates, numel)), exponential)
    wide = copy_of(tape, entering, numel=spread)
    kept = outer(tape, steps, wide, numel)
    entered = outer(tape, kept, hidden, numel)
    state = _next(tape, decay, entered, numel)
    read = copy_of(tape, reading, numel=spread)
    narrowed = chain(tape, state, lambda t, v: cast(t, v, reading.dtype))
    out = _made(tape, hidden.numel, reading.dtype)
    skipped = multiply(tape, hidden, hidden)
    summed = add(tape, out, skipped)
    tape.free(skipped, out, narrowed, read, entered, kept, wide, decay, steps)
    return summed


def gated(tape: Tape, x: Value, hidden: Value, gate: Value) -> Value:
    """Return ``(x + hidden * D) * silu(gate)``; ``x`` is dropped."""
    skipped = multiply(tape, hidden, hidden)
    summed = add(tape, x, skipped)
    tape.free(skipped, x)
    opened = silu(tape, gate)
    y = multiply(tape, summed, opened)
    tape.free(summed, opened)
    return y


def _next(tape: Tape, decay: Value, entered: Value, numel: Size) -> Value:
    """Return ``state * decay + entered``: the product and the sum are new, then the sum is copied into the state."""
    dtype = promoted(decay, entered)
    faded = _made(tape, numel, dtype)
    state = _made(tape, numel, dtype)
    tape.free(faded)
    return state


def _made(tape: Tape, numel: Size, dtype: DType) -> Value:
    return Value(tape.allocate(Category.ACTIVATIONS, bytes_of(numel, dtype)), numel, dtype)
