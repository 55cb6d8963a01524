"""Products with a quantised, frozen weight.

They differ in what they keep for backward and what they allocate for a moment: bitsandbytes 0.50
(``autograd/_functions.py``, ``backends/cuda/ops.py``), AutoAWQ (``WQLinearMMFunction``), the Triton
kernels of AutoGPTQ (``QuantLinearFunction``, dequantising as ``tritonv2`` does) and transformers
5.23 (``FP8LinearFunction``).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from service.estimator.model.adapters.site import Site
from service.estimator.model.weights.packing import BLOCK_4BIT
from service.estimator.model.weights.scheme import Packing
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, Work
from service.estimator.tape.ops.elementwise import cast
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div

FP32_BYTES = 4
FP8_GROUP = 128
"""Inputs that share a scale when an activation is quantised (transformers ``fp8_linear``)."""

TRAINABLE: Mapping[Packing, str] = MappingProxyType(
    {
        Packing.BLOCKS_4BIT: "bitsandbytes, 4 bits",
        Packing.INT8_ROWS: "bitsandbytes, 8 bits",
        Packing.GPTQ: "GPTQ",
        Packing.AWQ: "AWQ",
        Packing.FP8: "fp8",
    },
)
"""Formats whose product has a backward for its input."""


def apply_frozen_linear(
    site: Site, x: Value, *, category: Category = Category.ACTIVATIONS
) -> Value:
    """Return the product with a quantised weight, in the dtype of ``x``.

    Neither the weight itself nor a bias gets a gradient.
    """
    assert site.scheme is not None  # noqa: S101 - the caller asked whether the weight is quantised
    return _PRODUCTS[site.scheme.packing](site, x, category)


def _multiply_dequantised(site: Site, x: Value, category: Category) -> Value:
    """Record a product that dequantises the full weight.

    It does so in forward and again in backward.
    """
    tape, compute = site.tape, site.compute_dtype
    source = cast(tape, x, compute)
    weight = [*_shift_scales(site), *_dequantise_weight(site)]
    y = tape.emit(
        site.output_numel,
        compute,
        inputs=(source,),
        saves=_get_saved_inputs(site, source),
        category=category,
        work=Work.PRODUCT,
        backward=_make_input_backward(site, source),
    )
    tape.release(*weight)
    returned = cast(tape, y, x.dtype)
    tape.free(y, source)
    return returned


def _get_saved_inputs(site: Site, source: Value) -> tuple[Value, ...]:
    """Return the inputs that the product keeps.

    AWQ's keeps its input, though it has no weight to train, the others nothing.
    """
    return (source,) if site.is_packed_as(Packing.AWQ) else ()


def _make_input_backward(site: Site, source: Value) -> Callable[[Storage], None]:
    """Return the backward of a product for its input alone."""

    def backward(_: Storage) -> None:
        weight = _dequantise_weight(site)
        grad = site.tape.scratch(source.numel, source.dtype)
        site.tape.release(*weight)
        site.tape.send(source, grad)

    return backward


def _shift_scales(site: Site) -> list[Storage]:
    """Return the storage of dequantised scales without their offset.

    Forward adds the offset out of place, backward in place (bitsandbytes' ``backends/cuda/ops.py``,
    ``_dequant_linear_fallback``, and ``functional.py``, ``dequantize_4bit``).
    """
    if site.scheme is None or not site.scheme.double:
        return []
    blocks = ceil_div(site.elements, BLOCK_4BIT)
    return [site.tape.scratch(sizes.constant(blocks), DType.FP32)]


def _dequantise_weight(site: Site) -> list[Storage]:
    """Return the storages of the weight in the compute dtype.

    Its fp32 scales are among them where those are quantised themselves.
    """
    storages = []
    if site.scheme is not None and site.scheme.double:
        blocks = ceil_div(site.elements, BLOCK_4BIT)
        storages.append(site.tape.scratch(sizes.constant(blocks), DType.FP32))
    storages.append(site.tape.scratch(sizes.constant(site.elements), site.compute_dtype))
    return storages


def _multiply_int8(site: Site, x: Value, category: Category) -> Value:
    """Record LLM.int8 without outlier features.

    The input is quantised, the product a 32-bit integer, then 16 bits. Its autograd function hangs
    the input on its context rather than saving it: no checkpoint drops it, and it stays until the
    graph does (``MatMul8bitLt``).
    """
    tape, rows = site.tape, site.tokens(1)
    half = [tape.scratch(x.numel, DType.FP16)] if x.dtype is not DType.FP16 else []
    codes, scales = tape.scratch(x.numel, DType.FP8), tape.scratch(rows, DType.FP32)
    magnitudes, outliers = tape.scratch(x.numel, DType.FP16), tape.scratch(x.numel, DType.FP8)
    tape.release(magnitudes, outliers, *half)
    integers = tape.scratch(site.output_numel, DType.FP32)
    product = tape.scratch(site.output_numel, DType.FP16)
    y = tape.emit(
        site.output_numel,
        x.dtype,
        inputs=(x,),
        category=category,
        work=Work.PRODUCT,
        backward=_make_input_backward(site, x),
    )
    tape.release(integers, product, codes, scales)
    if tape.mode in {Mode.RECORDING, Mode.DISCARDING} and x.requires_grad:
        tape.hold_value(x)
    return y


def _multiply_fp8(site: Site, x: Value, category: Category) -> Value:
    """Record a product in fp8.

    The input is quantised in groups of 128; backward dequantises the weight.
    """
    tape = site.tape
    groups = ceil_div(site.layer.in_features, FP8_GROUP)
    quantised = [
        tape.scratch(x.numel, DType.FP8),
        tape.allocate(Category.TEMPORARIES, site.tokens(groups * FP32_BYTES)),
    ]
    y = tape.emit(
        site.output_numel,
        x.dtype,
        inputs=(x,),
        category=category,
        work=Work.PRODUCT,
        backward=_make_input_backward(site, x),
    )
    tape.release(*quantised)
    return y


_PRODUCTS: dict[Packing, Callable[[Site, Value, Category], Value]] = {
    Packing.BLOCKS_4BIT: _multiply_dequantised,
    Packing.INT8_ROWS: _multiply_int8,
    Packing.GPTQ: _multiply_dequantised,
    Packing.AWQ: _multiply_dequantised,
    Packing.FP8: _multiply_fp8,
}
