"""Normalisations as the model code writes them."""

from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Parameter, Value, Work, as_value, count_bytes
from service.estimator.tape.ops.elementwise import (
    add_scalar,
    cast,
    chain,
    multiply,
    power,
    reduce_mean,
)
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def rms_norm(tape: Tape, x: Value, weight: Parameter, rows: Size) -> Value:
    """Return a root-mean-square norm over rows.

    It is computed in fp32 by separate operations (transformers' LlamaRMSNorm).
    """
    upcast = cast(tape, x, DType.FP32)
    squared = power(tape, upcast)
    variance = reduce_mean(tape, squared, rows)
    tape.free(squared)
    inverse = chain(tape, add_scalar(tape, variance), take_inverse_root)
    normalised = multiply(tape, upcast, inverse)
    tape.free(inverse, upcast)
    downcast = cast(tape, normalised, x.dtype)
    y = multiply(tape, as_value(weight), downcast)
    tape.free(downcast, normalised, variance)
    return y


def take_inverse_root(tape: Tape, x: Value) -> Value:
    """Return ``rsqrt(x)``.

    Its gradient is ``-0.5 * grad * result ** 3``, and CUDA has both factors as tensors.
    """

    def backward(_: Storage) -> None:
        factors = [tape.scratch(x.numel, x.dtype) for _ in range(2 * tape.on_gpu)]
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(*factors)
        tape.send(x, grad)

    return tape.emit(x.numel, x.dtype, inputs=(x,), saves_output=True, backward=backward)


def rms_norm_cast_first(tape: Tape, x: Value, weight: Parameter, rows: Size) -> Value:
    """Return a root-mean-square norm, cast back before its weight.

    The norm is a function of its own, whose names end with it (transformers' Llama4TextRMSNorm).
    """
    normalised = _normalise_unnamed(tape, x, rows)
    downcast = chain(tape, normalised, lambda t, value: cast(t, value, x.dtype))
    y = multiply(tape, downcast, as_value(weight))
    tape.free(downcast)
    return y


def rms_norm_all_fp32(tape: Tape, x: Value, weight: Parameter, rows: Size) -> Value:
    """Return a root-mean-square norm whose weight is applied in fp32.

    That is before the cast back (transformers' Olmo2RMSNorm).
    """
    normalised, variance = _normalise_rms(tape, x, rows)
    scaled = multiply(tape, as_value(weight), normalised)
    y = cast(tape, scaled, x.dtype)
    tape.free(scaled, normalised, variance)
    return y


def rms_norm_cast_weight(tape: Tape, x: Value, weight: Parameter, rows: Size) -> Value:
    """Return a root-mean-square norm whose weight is cast to fp32 as well.

    (transformers' NemotronHRMSNorm.)
    """
    normalised, variance = _normalise_rms(tape, x, rows)
    scale = cast(tape, as_value(weight), DType.FP32)
    scaled = multiply(tape, scale, normalised)
    y = cast(tape, scaled, x.dtype)
    tape.free(scaled, scale, normalised, variance)
    return y


def rms_norm_plus_one(tape: Tape, x: Value, weight: Parameter, rows: Size) -> Value:
    """Return ``norm(x) * (1 + weight)`` (transformers' GemmaRMSNorm).

    All of it is in fp32 and then cast back.
    """
    normalised = _normalise_unnamed(tape, x, rows)
    factor = chain(tape, cast(tape, as_value(weight), DType.FP32), add_scalar)
    scaled = chain(tape, normalised, lambda t, value: multiply(t, value, factor))
    tape.free(factor)
    return chain(tape, scaled, lambda t, value: cast(t, value, x.dtype))


def _normalise_rms(tape: Tape, x: Value, rows: Size) -> tuple[Value, Value]:
    """Return ``x`` over its root mean square, and the mean square.

    Both are in fp32.
    """
    upcast = cast(tape, x, DType.FP32)
    variance = chain(tape, power(tape, upcast), lambda t, value: reduce_mean(t, value, rows))
    inverse = chain(tape, add_scalar(tape, variance), take_inverse_root)
    normalised = multiply(tape, upcast, inverse)
    tape.free(inverse, upcast)
    return normalised, variance


def _normalise_unnamed(tape: Tape, x: Value, rows: Size) -> Value:
    """Return ``x`` over its root mean square in one expression, in fp32."""
    upcast = cast(tape, x, DType.FP32)
    variance = chain(tape, power(tape, upcast), lambda t, value: reduce_mean(t, value, rows))
    inverse = chain(tape, chain(tape, variance, add_scalar), take_inverse_root)
    normalised = multiply(tape, upcast, inverse)
    tape.free(inverse, upcast)
    return normalised


def centred_norm(tape: Tape, x: Value, weight: Parameter, rows: Size) -> Value:
    """Return a layer norm by separate operations in fp32.

    (transformers' CohereLayerNorm.) The difference is made twice.
    """
    upcast = cast(tape, x, DType.FP32)
    mean = reduce_mean(tape, upcast, rows)
    squared = chain(tape, subtract_broadcast(tape, upcast, mean), power)
    variance = chain(tape, squared, lambda t, value: reduce_mean(t, value, rows))
    centred, inverse = (
        subtract_broadcast(tape, upcast, mean),
        chain(tape, add_scalar(tape, variance), take_inverse_root),
    )
    normalised = multiply(tape, centred, inverse)
    tape.free(centred, inverse, upcast)
    factor = cast(tape, as_value(weight), DType.FP32)
    scaled = chain(tape, normalised, lambda t, value: multiply(t, factor, value))
    tape.free(factor)
    y = cast(tape, scaled, x.dtype)
    tape.free(scaled, mean, variance)
    return y


def subtract_broadcast(tape: Tape, x: Value, mean: Value) -> Value:
    """Return ``x - mean`` with the mean broadcast.

    The mean's share of the gradient is negated, then summed over the row.
    """

    def backward(grad: Storage) -> None:
        negated = tape.scratch(x.numel, x.dtype)
        tape.release(negated)
        tape.send(x, tape.hold(grad))
        tape.send(mean, tape.scratch(mean.numel, mean.dtype))

    return tape.emit(x.numel, x.dtype, inputs=(x, mean), backward=backward)


def layer_norm_without_weight(tape: Tape, x: Value, rows: Size) -> Value:
    """Return a layer norm without weights, computed in fp32 (transformers' OlmoLayerNorm)."""
    upcast = cast(tape, x, DType.FP32)
    normalised = chain(tape, upcast, lambda t, value: _apply_fused_norm(t, value, (value,), rows))
    return chain(tape, normalised, lambda t, value: cast(t, value, x.dtype))


def layer_norm_plus_one(
    tape: Tape, x: Value, weight: Parameter, bias: Parameter, rows: Size
) -> Value:
    """Return a layer norm with ``1 + weight``.

    (transformers' NemotronLayerNorm1P.) It is in autocast's dtype where there is one.
    """
    factor, shift = add_scalar(tape, as_value(weight)), as_value(bias)
    dtype = tape.autocast or x.dtype
    inputs = tuple(cast(tape, value, dtype) for value in (x, factor, shift))
    y = _apply_fused_norm(tape, inputs[0], inputs, rows)
    tape.free(factor, *inputs)
    return y


def layer_norm(
    tape: Tape, x: Value, weight: Parameter, bias: Parameter | None, rows: Size
) -> Value:
    """Return a layer norm of one fused operation.

    It keeps its input and two fp32 numbers per row; autocast runs it in fp32.
    """
    source = cast(tape, x, DType.FP32) if tape.autocast is not None else tape.alias(x)
    inputs = (source, as_value(weight), *((as_value(bias),) if bias is not None else ()))
    return chain(tape, source, lambda t, _: _apply_fused_norm(t, source, inputs, rows))


def _apply_fused_norm(tape: Tape, source: Value, inputs: tuple[Value, ...], rows: Size) -> Value:
    """Return the fused layer norm of ``source``.

    Gradients go to all inputs that want one.
    """

    def backward(_: Storage) -> None:
        grads = [
            (value, tape.scratch(value.numel, value.dtype))
            for value in inputs
            if value.requires_grad
        ]
        for value, grad in grads:
            tape.send(value, grad)

    y = tape.emit(
        source.numel,
        source.dtype,
        inputs=inputs,
        saves=inputs,
        work=Work.FUSED,
        backward=backward,
    )
    statistics = Value(
        tape.allocate(Category.ACTIVATIONS, _statistics_bytes(rows)), rows, DType.FP32
    )
    if y.node is not None:
        # The kernel made all of its outputs before a recomputation that has these ends.
        tape.save(y.node.saved, [statistics])
    tape.free(statistics)
    return y


def _statistics_bytes(rows: Size) -> Size:
    a, b, c, d, e, f = rows
    return (8 * a, 8 * b, 8 * c, 8 * d, 8 * e, 8 * f)


def rms_norm_without_weight(tape: Tape, x: Value, rows: Size) -> Value:
    """Return ``x`` over the root of its mean square.

    It is in fp32 and cast back (Llama4TextL2Norm, FalconMambaWeightlessRMSNorm).
    """
    upcast = cast(tape, x, DType.FP32)
    variance = chain(tape, power(tape, upcast), lambda t, squared: reduce_mean(t, squared, rows))
    inverse = chain(tape, chain(tape, variance, add_scalar), take_inverse_root)
    y = chain(tape, multiply(tape, upcast, inverse), lambda t, value: cast(t, value, x.dtype))
    tape.free(upcast, inverse)
    return y


def fused_rms_norm(tape: Tape, x: Value, weight: Parameter, rows: Size) -> Value:
    """Return a root-mean-square norm in one kernel.

    It keeps its input and one fp32 per row (torch 2.9's, or inductor's).
    """
    scale = as_value(weight)
    inverse = Value(
        tape.allocate(Category.ACTIVATIONS, count_bytes(rows, DType.FP32)), rows, DType.FP32
    )

    def backward(_: Storage) -> None:
        grads = [
            (value, tape.scratch(value.numel, value.dtype))
            for value in (x, scale)
            if value.requires_grad
        ]
        for value, grad in grads:
            tape.send(value, grad)

    y = tape.emit(
        x.numel,
        x.dtype,
        inputs=(x, scale),
        saves=(x, inverse),
        work=Work.FUSED,
        backward=backward,
    )
    tape.free(inverse)
    return y
