"""DoRA (arXiv:2402.09353) as PEFT 0.21 runs it.

A magnitude per output is divided by the norm of the weight with its adapter in it. The norm is made
anew in every forward (``peft/tuners/lora/dora.py``): the adapter's product with an identity matrix,
the weight in the adapter's dtype and their sum are tensors of the size of the weight; the first two
have names until the layer is done. With dropout the base is computed once more, from what was
dropped, as a product with that weight, which is kept for its backward.
"""

from collections.abc import Callable

from service.estimator.model.adapters.low_rank import (
    cast_adapter_input,
    get_factors,
    multiply_factors,
)
from service.estimator.model.adapters.site import Site
from service.estimator.model.weights.scheme import Packing
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value, Work, as_value
from service.estimator.tape.ops.elementwise import (
    add,
    add_scalar,
    cast,
    chain,
    dropout,
    multiply,
    multiply_scalar,
)
from service.estimator.tape.ops.products import (
    autocast_input,
    autocast_weight,
    copy_contiguous,
)
from service.estimator.values.dtypes import DType


def dora(site: Site, x: Value, base: Callable[[Value], Value], *, rank: int, dtype: DType) -> Value:
    """Return the layer's output with DoRA's adapter.

    It is turned towards the adapter and scaled to its magnitude.
    """
    tape, result = site.tape, base(x)
    output_dtype = result.dtype
    if site.is_packed_as(Packing.BLOCKS_4BIT):
        result = chain(tape, result, copy_contiguous)
    source = cast_adapter_input(site, x, dtype)
    drops = site.dropout > 0 and tape.builds_graph
    read = dropout(tape, source, site.dropout)
    norm, weight, storages = _compute_norm(site, rank, source.dtype, dtype)
    scale = _divide_by_norm(site, norm, dtype)
    low_rank = multiply_factors(site, tape.alias(read), rank=rank, dtype=dtype)
    turned = _multiply_again(site, read, weight) if drops else _subtract_bias(site, result)
    adaptation = _apply_magnitude(site, scale, turned, low_rank)
    tape.free(low_rank, scale, norm, turned, weight)
    tape.release(*storages)
    summed = add(tape, result, adaptation)
    tape.free(adaptation, result, read)
    adapted = cast(tape, summed, output_dtype)
    tape.free(summed, source)
    return adapted


def _compute_norm(
    site: Site, rank: int, dtype: DType, adapter: DType
) -> tuple[Value, Value, list[Storage]]:
    """Return the norm of each adapted row, and the weight.

    The rows are those of the weight with its adapter; the weight is in ``dtype``. The storages
    beside them live until the layer is done.
    """
    tape = site.tape
    numel, rows = sizes.constant(site.elements), sizes.constant(site.layer.out_features)
    storages = _multiply_identity(site, rank, dtype, adapter)
    weight = Value(None, numel, dtype)
    if site.scheme is not None or site.weight_dtype is not dtype:
        stored = [tape.scratch(numel, site.compute_dtype)] if site.scheme is not None else []
        weight = Value(tape.scratch(numel, dtype), numel, dtype)
        tape.release(*stored)
    scaled = tape.scratch(numel, dtype)
    summed = tape.scratch(numel, dtype)
    tape.release(scaled)
    norm = Value(tape.scratch(rows, dtype), rows, dtype)
    tape.release(summed)
    return norm, weight, storages


def _multiply_identity(site: Site, rank: int, dtype: DType, adapter: DType) -> list[Storage]:
    """Return ``B(A(identity))`` and what its graph keeps.

    The graph keeps it for a gradient that never comes, as long as it has a name.
    """
    tape, in_features = site.tape, site.layer.in_features
    square, compute_dtype = sizes.constant(in_features**2), tape.autocast or adapter
    down, up = get_factors(site, rank=rank, dtype=adapter)
    keeps = tape.builds_graph and tape.mode is not Mode.DISCARDING
    identity = tape.scratch(square, adapter)
    copies = [autocast_weight(tape, down)]
    read = (
        tape.scratch(square, compute_dtype) if compute_dtype is not adapter else tape.hold(identity)
    )
    low = tape.scratch(sizes.constant(in_features * rank), compute_dtype)
    if not keeps:
        tape.release(read)
    copies.append(autocast_weight(tape, up))
    product = tape.scratch(sizes.constant(site.elements), compute_dtype)
    tape.release(identity)
    if not keeps:
        tape.release(low)
    saved = [read, low] if keeps else []
    if compute_dtype is not dtype:
        converted = tape.scratch(sizes.constant(site.elements), dtype)
        tape.release(product)
        product = converted
    tape.free(*copies)
    return [*saved, product]


def _divide_by_norm(site: Site, norm: Value, dtype: DType) -> Value:
    """Return the magnitude over the norm.

    The norm is kept for the magnitude's gradient.
    """
    tape = site.tape
    magnitude = as_value(site.parameter("lora_magnitude_vector", site.layer.out_features, dtype))

    def backward(_: Storage) -> None:
        tape.send(magnitude, tape.scratch(norm.numel, dtype), is_view=True)

    return tape.emit(norm.numel, dtype, inputs=(magnitude,), saves=(norm,), backward=backward)


def _multiply_again(site: Site, read: Value, weight: Value) -> Value:
    """Return what the layer makes of a dropped input, without its bias.

    The product is one with a weight that is not trained, and keeps it for the input's gradient.
    """
    tape = site.tape
    cast_weight, source = autocast_input(tape, weight), autocast_input(tape, read)

    def backward(_: Storage) -> None:
        grad = tape.scratch(source.numel, source.dtype)
        tape.use_workspace()
        tape.send(source, grad, is_view=True)

    y = tape.emit(
        site.output_numel,
        source.dtype,
        inputs=(source,),
        saves=(cast_weight,),
        work=Work.PRODUCT,
        backward=backward,
    )
    tape.use_workspace()
    tape.free(source, cast_weight)
    return y


def _subtract_bias(site: Site, result: Value) -> Value:
    """Return the layer's output without its bias.

    The bias is in the format of weights, which may be wider than the output's under autocast.
    """
    if not site.layer.bias:
        return site.tape.alias(result)
    bias = Value(None, sizes.constant(site.layer.out_features), site.weight_dtype)
    return add(site.tape, result, bias)


def _apply_magnitude(site: Site, scale: Value, base: Value, low_rank: Value) -> Value:
    """Return ``(scale - 1) * base + scale * low * scaling``."""
    tape = site.tape
    shifted = add_scalar(tape, scale)
    left = multiply(tape, shifted, base)
    tape.free(shifted)
    right = chain(tape, multiply(tape, scale, low_rank), multiply_scalar)
    adaptation = add(tape, left, right)
    tape.free(left, right)
    return adaptation
