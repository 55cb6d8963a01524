"""Gate and norm of what a Mamba-2 mixer's scan gives (transformers 5.23)."""

from service.estimator.model.recording import Recording
from service.estimator.tape.nodes import Parameter, Value, as_value
from service.estimator.tape.ops.elementwise import (
    activate_saving_output,
    add_scalar,
    cast,
    chain,
    multiply,
    power,
    reduce_mean,
    silu,
)
from service.estimator.values.dtypes import DType


def apply_gate(
    ctx: Recording, x: Value, gate: Value, scale: Parameter | None, *, num_groups: int
) -> Value:
    """Return the gated and normalised output of the scan.

    The output is multiplied by its gate and divided by its root mean square
    (``MambaRMSNormGated``), group by group, where it has a scale; ``x`` is dropped.
    """
    tape = ctx.tape
    if scale is None:
        opened = silu(tape, gate)
        gated = multiply(tape, x, opened)
        tape.free(opened, x)
        return gated
    opened = chain(tape, cast(tape, gate, DType.FP32), silu)
    gated = multiply(tape, x, opened)
    tape.free(opened)
    squared = power(tape, gated)
    variance = chain(tape, squared, lambda t, v: reduce_mean(t, v, ctx.shape.tokens(num_groups)))
    inverse = chain(tape, add_scalar(tape, variance), activate_saving_output)
    normed = multiply(tape, gated, inverse)
    tape.free(gated, inverse)
    y = multiply(tape, as_value(scale), normed)
    tape.free(normed, variance, x)
    return y
