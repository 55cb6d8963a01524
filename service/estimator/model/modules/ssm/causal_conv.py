"""Padding mask and causal convolution of state-space mixers.

Both run before the mixer's scan (transformers 5.23).
"""

from collections.abc import Callable, Sequence

from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Parameter, Value
from service.estimator.tape.ops.elementwise import chain, multiply_by_table
from service.estimator.tape.ops.scan import convolve_channels
from service.estimator.tape.ops.views import narrow


def mask_padding(ctx: Recording, x: Value) -> Value:
    """Return ``x`` with padding rows set to zero.

    (``apply_mask_to_padding_states``.) ``x`` stays with the caller. The mask is the batch's own,
    which lives as long as its ids do.
    """
    if not ctx.padded:
        return ctx.tape.alias(x)
    return multiply_by_table(ctx.tape, x, x.dtype, (Value(None, ctx.shape.tokens(1), x.dtype),))


def convolve_causally(
    ctx: Recording,
    x: Value,
    filters: Sequence[Parameter],
    kernel_size: int,
    activation: Callable[[Tape, Value], Value],
) -> Value:
    """Return ``x`` after a causal depthwise convolution and its activation.

    Each channel is convolved over its last ``kernel_size`` positions. The convolution pads both
    sides and its end is cut off; ``filters`` are its weight and perhaps its bias. ``x`` is dropped.
    """
    tape, numel = ctx.tape, x.numel
    width = numel[3]
    padded = sizes.add(numel, sizes.per_sequence((kernel_size - 1) * width))
    wide = convolve_channels(tape, x, filters[0], filters[1] if len(filters) > 1 else None, padded)
    tape.free(x)
    return chain(tape, chain(tape, wide, lambda t, value: narrow(t, value, numel)), activation)
