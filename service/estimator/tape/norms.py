"""Normalisations as the model code writes them."""

from service.estimator.dtypes import DType
from service.estimator.tape.elementwise import (
    add_scalar,
    cast,
    chain,
    from_output,
    mean_of_last,
    multiply,
    power,
)
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Parameter, Value, value_of
from service.estimator.tape.sizes import Size


def rms_norm(tape: Tape, x: Value, weight: Parameter, rows: Size) -> Value:
    """Return a root-mean-square norm over rows, computed in fp32 by separate operations (transformers' LlamaRMSNorm)."""
    upcast = cast(tape, x, DType.FP32)
    squared = power(tape, upcast)
    variance = mean_of_last(tape, squared, rows)
    tape.free(squared)
    inverse = chain(tape, add_scalar(tape, variance), from_output)
    normalised = multiply(tape, upcast, inverse)
    tape.free(upcast, inverse)
    downcast = cast(tape, normalised, x.dtype)
    y = multiply(tape, value_of(weight), downcast)
    tape.free(downcast, normalised, variance)
    return y


def layer_norm(tape: Tape, x: Value, weight: Parameter, bias: Parameter | None, rows: Size) -> Value:
    """Return a layer norm: one fused operation that keeps its input and two fp32 numbers per row; autocast runs it in fp32."""
    source = cast(tape, x, DType.FP32) if tape.autocast is not None else tape.alias(x)
    statistics = Value(tape.allocate(Category.ACTIVATIONS, _eight_bytes(rows)), rows, DType.FP32)
    inputs = [source, value_of(weight)] + ([value_of(bias)] if bias is not None else [])

    def backward(_: Storage) -> None:
        grads = [(value, tape.scratch(value.numel, value.dtype)) for value in inputs if value.requires_grad]
        for value, grad in grads:
            tape.send(value, grad)

    saves = (source, statistics)
    y = tape.emit(x.numel, source.dtype, inputs=inputs, saves=saves, backward=backward)
    tape.free(source, statistics)
    return y


def _eight_bytes(rows: Size) -> Size:
    a, b, c, d, e, f = rows
    return (8 * a, 8 * b, 8 * c, 8 * d, 8 * e, 8 * f)
