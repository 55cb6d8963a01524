"""Norms as LitGPT writes them (``litgpt/model.py``, ``RMSNorm``)."""

from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Norm, Weight
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Parameter, Value, as_value
from service.estimator.tape.ops.elementwise import (
    add_scalar,
    cast,
    chain,
    multiply,
    reduce_mean,
)
from service.estimator.tape.ops.norms import layer_norm, take_inverse_root
from service.estimator.values.dtypes import DType
from service.estimator.values.releases.litgpt import Adapter, LitGptCode, NormCast

PLUS_ONE = "rms_plus_one"
"""Style of a norm whose weight is added to one (gemma)."""


def normalise(ctx: Recording, norm: Norm, x: Value, scope: str, code: LitGptCode) -> Value:
    """Return ``x`` normalised; it stays with the caller."""
    parameters = [_get_parameter(ctx, weight, scope, code) for weight in norm.weights()]
    if norm.style == "layer":
        return layer_norm(ctx.tape, x, parameters[0], parameters[1], ctx.shape.tokens(1))
    tape, dtype, cast_back = ctx.tape, x.dtype, code.norm
    weight = as_value(parameters[0])
    upcast, normalised, mean = _normalise_in_fp32(ctx, x)
    if cast_back is NormCast.EARLY:
        normalised = chain(tape, normalised, lambda t, value: cast(t, value, dtype))
    factor = add_scalar(tape, weight) if norm.style == PLUS_ONE else tape.alias(weight)
    scale = cast(tape, factor, DType.FP32) if cast_back is NormCast.WEIGHTED else tape.alias(factor)
    product = multiply(tape, normalised, scale)
    tape.free(scale)
    y = chain(tape, product, lambda t, value: cast(t, value, dtype))
    tape.free(factor, normalised, mean, upcast)
    return y


def _get_parameter(ctx: Recording, weight: Weight, scope: str, code: LitGptCode) -> Parameter:
    """Return a weight, which the second kind of adapter trains."""
    if code.adapter is Adapter.V2:
        return ctx.adapter(f"{scope}{weight.name}", weight.numel, ctx.settings.dtype)
    return ctx.parameter(weight, scope)


def _normalise_in_fp32(ctx: Recording, x: Value) -> tuple[Value, Value, Value]:
    """Return ``x`` in fp32, ``x`` normalised, and the mean square."""
    tape = ctx.tape
    upcast = cast(tape, x, DType.FP32)
    mean = chain(tape, _square(tape, upcast), lambda t, y: reduce_mean(t, y, ctx.shape.tokens(1)))
    inverse = chain(tape, add_scalar(tape, mean), take_inverse_root)
    normalised = multiply(tape, upcast, inverse)
    tape.free(inverse)
    return upcast, normalised, mean


def _square(tape: Tape, x: Value) -> Value:
    return multiply(tape, x, x)
