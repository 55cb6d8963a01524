"""DoRA (arXiv:2402.09353) as PEFT 0.21 runs it: a magnitude per output, over the norm of the weight with its adapter in it.

The norm is made anew in every forward (``peft/tuners/lora/dora.py``): the adapter's product with an identity matrix, the weight
in the adapter's dtype and their sum are tensors of the size of the weight; the first two have names until the layer is done.
"""

from collections.abc import Callable

from service.estimator.model.adapters.low_rank import cast_before, raw
from service.estimator.model.adapters.site import Site
from service.estimator.model.weights.scheme import Packing
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value, value_of
from service.estimator.tape.ops.elementwise import add, add_scalar, cast, chain, multiply, multiply_scalar
from service.estimator.tape.ops.products import copy_of
from service.estimator.values.dtypes import DType


def dora(site: Site, x: Value, base: Callable[[Value], Value], *, rank: int, dtype: DType) -> Value:
    """Return the layer's output turned towards the adapter and scaled to its magnitude."""
    tape, result = site.tape, base(x)
    wanted = result.dtype
    if site.packed_as(Packing.BLOCKS_4BIT):
        result = chain(tape, result, copy_of)
    source = cast_before(site, x, dtype)
    norm, held = _norm(site, rank, source.dtype, dtype)
    scale = _over_norm(site, norm, dtype)
    low = raw(site, source, rank=rank, dtype=dtype)
    turned = _turned(site, scale, result, low)
    tape.free(low, scale, norm)
    tape.release(*held)
    summed = add(tape, result, turned)
    tape.free(turned, result)
    adapted = cast(tape, summed, wanted)
    tape.free(summed, source)
    return adapted


def _norm(site: Site, rank: int, dtype: DType, adapter: DType) -> tuple[Value, list[Storage]]:
    """Return the norm of each row of the weight with its adapter, and what lives until the layer is done."""
    tape = site.tape
    whole, rows = sizes.constant(site.elements), sizes.constant(site.layer.out_features)
    held = _product(site, rank, dtype, adapter)
    if site.scheme is not None or site.weight_dtype is not dtype:
        stored = [tape.scratch(whole, site.compute)] if site.scheme is not None else []
        held.append(tape.scratch(whole, dtype))
        tape.release(*stored)
    scaled = tape.scratch(whole, dtype)
    summed = tape.scratch(whole, dtype)
    tape.release(scaled)
    norm = Value(tape.scratch(rows, dtype), rows, dtype)
    tape.release(summed)
    return norm, held


def _product(site: Site, rank: int, dtype: DType, adapter: DType) -> list[Storage]:
    """Return ``B(A(identity))``, and what its graph keeps for a gradient that never comes, as long as it has a name."""
    tape, ins = site.tape, site.layer.in_features
    square, run_in = sizes.constant(ins**2), tape.autocast or adapter
    identity = tape.scratch(square, adapter)
    read = tape.scratch(square, run_in) if run_in is not adapter else tape.hold(identity)
    low = tape.scratch(sizes.constant(ins * rank), run_in)
    made = tape.scratch(sizes.constant(site.elements), run_in)
    tape.release(identity)
    kept = [read, low]
    if tape.mode is Mode.DISCARDING:
        tape.release(*kept)
        kept = []
    if run_in is dtype:
        return [*kept, made]
    wanted = tape.scratch(sizes.constant(site.elements), dtype)
    tape.release(made)
    return [*kept, wanted]


def _over_norm(site: Site, norm: Value, dtype: DType) -> Value:
    """Return the magnitude over the norm, which is kept for the magnitude's gradient."""
    tape = site.tape
    magnitude = value_of(site.parameter("lora_magnitude_vector", site.layer.out_features, dtype))

    def backward(_: Storage) -> None:
        tape.send(magnitude, tape.scratch(norm.numel, dtype), is_view=True)

    return tape.emit(norm.numel, dtype, inputs=(magnitude,), saves=(norm,), backward=backward)


def _turned(site: Site, scale: Value, base: Value, low: Value) -> Value:
    """Return ``(scale - 1) * base + scale * low * scaling``."""
    tape = site.tape
    shifted = add_scalar(tape, scale)
    left = multiply(tape, shifted, base)
    tape.free(shifted)
    right = chain(tape, multiply(tape, scale, low), multiply_scalar)
    turned = add(tape, left, right)
    tape.free(left, right)
    return turned
