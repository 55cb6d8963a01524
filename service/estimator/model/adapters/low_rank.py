"""Low-rank adapters (arXiv:2106.09685) as PEFT 0.21 runs them, around a plain or a quantised layer."""

from service.estimator.model.adapters.site import Site
from service.estimator.model.weights.scheme import Packing
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, cast, chain, multiply_scalar
from service.estimator.tape.ops.products import copy_of, linear
from service.estimator.values.dtypes import DType


def low_rank(site: Site, x: Value, result: Value, *, rank: int, dtype: DType) -> Value:
    """Return ``result + B(A(x)) * scaling``; ``result`` is dropped.

    The wrappers of bitsandbytes' layers cast the adapter's output before it is added, and leave casts to autocast where that
    is on; the 4-bit one copies the layer's output first (``peft/tuners/lora/bnb.py``). All others add in the wider dtype and
    cast the sum (``peft/tuners/lora/layer.py``, ``gptq.py``).
    """
    if site.packed_as(Packing.BLOCKS_4BIT):
        result = chain(site.tape, result, copy_of)
        return _cast_first(site, x, result, rank=rank, dtype=dtype)
    if site.packed_as(Packing.INT8_ROWS):
        return _cast_first(site, x, result, rank=rank, dtype=dtype)
    tape = site.tape
    source = cast_before(site, x, dtype)
    scaled = _scaled(site, source, rank=rank, dtype=dtype)
    summed = add(tape, result, scaled)
    wanted = result.dtype
    tape.free(scaled, result)
    adapted = cast(tape, summed, wanted)
    tape.free(summed, source)
    return adapted


def _cast_first(site: Site, x: Value, result: Value, *, rank: int, dtype: DType) -> Value:
    tape = site.tape
    source = cast_before(site, x, dtype)
    scaled = _scaled(site, source, rank=rank, dtype=dtype)
    output = tape.alias(scaled) if tape.autocast is not None else cast(tape, scaled, result.dtype)
    tape.free(scaled)
    adapted = add(tape, result, output)
    tape.free(output, result, source)
    return adapted


def cast_before(site: Site, x: Value, dtype: DType) -> Value:
    """Return the layer's input as the adapter reads it: bitsandbytes' wrappers leave the cast to autocast where it is on."""
    leaves = site.packed_as(Packing.BLOCKS_4BIT) or site.packed_as(Packing.INT8_ROWS)
    return site.tape.alias(x) if leaves and site.tape.autocast is not None else cast(site.tape, x, dtype)


def _scaled(site: Site, source: Value, *, rank: int, dtype: DType) -> Value:
    """Return ``B(A(source)) * scaling``."""
    return chain(site.tape, raw(site, source, rank=rank, dtype=dtype), multiply_scalar)


def raw(site: Site, source: Value, *, rank: int, dtype: DType) -> Value:
    """Return ``B(A(source))``."""
    tape, layer = site.tape, site.layer
    down = site.parameter("lora_A", rank * layer.in_features, dtype)
    up = site.parameter("lora_B", rank * layer.out_features, dtype)
    low = linear(tape, source, down, site.tokens(rank))
    return chain(tape, low, lambda t, value: linear(t, value, up, site.outs))
