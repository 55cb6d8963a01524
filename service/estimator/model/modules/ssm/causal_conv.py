"""What state-space mixers do before their scan (transformers 5.23): padding masked out, a short causal convolution."""

from collections.abc import Callable, Sequence

from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Parameter, Value
from service.estimator.tape.ops.elementwise import chain, times_table
from service.estimator.tape.ops.scan import convolution
from service.estimator.tape.ops.views import narrow


def masked_rows(run: Recording, x: Value) -> Value:
    """Return ``x`` with the rows of padding set to zero (``apply_mask_to_padding_states``); ``x`` stays with the caller.

    The mask is the batch's own, which lives as long as its ids do.
    """
    if not run.padded:
        return run.tape.alias(x)
    return times_table(run.tape, x, x.dtype, (Value(None, run.extent.tokens(1), x.dtype),))


def convolved(
    run: Recording, x: Value, filters: Sequence[Parameter], kernel_size: int, activation: Callable[[Tape, Value], Value]
) -> Value:
    """Return ``x`` convolved per channel over its last ``kernel_size`` positions and activated; ``x`` is dropped.

    The convolution pads both sides and its end is cut off; ``filters`` are its weight and perhaps its bias.
    """
    tape, kept = run.tape, x.numel
    width = kept[3]
    padded = sizes.add(kept, sizes.per_sequence((kernel_size - 1) * width))
    wide = convolution(tape, x, filters[0], filters[1] if len(filters) > 1 else None, padded)
    tape.free(x)
    return chain(tape, chain(tape, wide, lambda t, value: narrow(t, value, kept)), activation)
