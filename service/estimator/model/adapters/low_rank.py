"""Low-rank adapters (arXiv:2106.09685) as PEFT 0.21 runs them.

They stand around a plain or a quantised layer.
"""

from service.estimator.model.adapters.site import Site
from service.estimator.model.weights.scheme import Packing
from service.estimator.tape.nodes import Parameter, Value
from service.estimator.tape.ops.elementwise import add, cast, chain, dropout, multiply_scalar
from service.estimator.tape.ops.products import copy_contiguous, linear
from service.estimator.values.dtypes import DType


def apply_low_rank(site: Site, x: Value, result: Value, *, rank: int, dtype: DType) -> Value:
    """Return ``result + B(A(x)) * scaling``, and drop ``result``.

    The wrappers of bitsandbytes' layers cast the adapter's output before it is added, and leave
    casts to autocast where that is on; the 4-bit one copies the layer's output first
    (``peft/tuners/lora/bnb.py``). All others add in the wider dtype and cast the sum
    (``peft/tuners/lora/layer.py``, ``gptq.py``).
    """
    if site.is_packed_as(Packing.BLOCKS_4BIT):
        result = chain(site.tape, result, copy_contiguous)
        return _add_after_cast(site, x, result, rank=rank, dtype=dtype)
    if site.is_packed_as(Packing.INT8_ROWS):
        return _add_after_cast(site, x, result, rank=rank, dtype=dtype)
    tape = site.tape
    source = cast_adapter_input(site, x, dtype)
    scaled = _apply_scaled_factors(site, source, rank=rank, dtype=dtype)
    summed = add(tape, result, scaled)
    output_dtype = result.dtype
    tape.free(scaled, result)
    adapted = cast(tape, summed, output_dtype)
    tape.free(summed, source)
    return adapted


def _add_after_cast(site: Site, x: Value, result: Value, *, rank: int, dtype: DType) -> Value:
    tape = site.tape
    source = cast_adapter_input(site, x, dtype)
    scaled = _apply_scaled_factors(site, source, rank=rank, dtype=dtype)
    output = tape.alias(scaled) if tape.autocast is not None else cast(tape, scaled, result.dtype)
    tape.free(scaled)
    adapted = add(tape, result, output)
    tape.free(output, result, source)
    return adapted


def cast_adapter_input(site: Site, x: Value, dtype: DType) -> Value:
    """Return the layer's input as the adapter reads it.

    bitsandbytes' wrappers leave the cast to autocast where it is on.
    """
    leaves_to_autocast = site.is_packed_as(Packing.BLOCKS_4BIT) or site.is_packed_as(
        Packing.INT8_ROWS
    )
    return (
        site.tape.alias(x)
        if leaves_to_autocast and site.tape.autocast is not None
        else cast(site.tape, x, dtype)
    )


def _apply_scaled_factors(site: Site, source: Value, *, rank: int, dtype: DType) -> Value:
    """Return ``B(A(source)) * scaling``."""
    return chain(site.tape, apply_factors(site, source, rank=rank, dtype=dtype), multiply_scalar)


def get_factors(site: Site, *, rank: int, dtype: DType) -> tuple[Parameter, Parameter]:
    """Return the parameters A and B."""
    layer = site.layer
    return (
        site.parameter("lora_A", rank * layer.in_features, dtype),
        site.parameter("lora_B", rank * layer.out_features, dtype),
    )


def apply_factors(site: Site, source: Value, *, rank: int, dtype: DType) -> Value:
    """Return ``B(A(dropout(source)))``.

    With dropout each adapter keeps a mask and an input of its own.
    """
    return multiply_factors(site, dropout(site.tape, source, site.dropout), rank=rank, dtype=dtype)


def multiply_factors(site: Site, read: Value, *, rank: int, dtype: DType) -> Value:
    """Return ``B(A(read))``, and drop ``read``."""
    tape, (down, up) = site.tape, get_factors(site, rank=rank, dtype=dtype)
    low = chain(tape, read, lambda t, value: linear(t, value, down, site.tokens(rank)))
    return chain(tape, low, lambda t, value: linear(t, value, up, site.output_numel))
