"""Bytes of one quantised matrix, tensor by tensor, as the library that packs it allocates them."""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div

BLOCK_4BIT = 64
"""Elements that share a scale in bitsandbytes' 4-bit formats (``Params4bit``, 0.50)."""
NESTED_BLOCK = 256
"""Scales that share a second scale under double quantisation (``quantize_4bit``, 0.50)."""
LOOKUP_4BIT, LOOKUP_8BIT = 16 * 4, 256 * 4
"""Bytes of the fp32 values that codes of 4 and 8 bits stand for; each tensor has its own."""
INTEGER_BITS = 32
MX_BLOCK = 32
FP32 = 4
SHAPE_BYTES = 2 * 8
"""compressed-tensors keeps the unpacked shape as two 64-bit integers (``weight_shape``)."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Bytes of the codes, and of what is needed to read them."""

    codes: int
    scales: int

    def __add__(self, other: "Packed") -> "Packed":
        """Return both together."""
        return Packed(self.codes + other.codes, self.scales + other.scales)

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.codes + self.scales

    def times(self, count: int) -> "Packed":
        """Return so many of it."""
        return Packed(self.codes * count, self.scales * count)


def packable(rows: int, scheme: Scheme) -> bool:
    """Tell whether a matrix with so many outputs can be packed: where integers hold several of them, they must be full."""
    if scheme.packing is Packing.AWQ or (scheme.packing is Packing.GPTQ and scheme.zero_points):
        return rows * scheme.bits % INTEGER_BITS == 0
    return True


def packed_bytes(rows: int, columns: int, scheme: Scheme, dtype: DType = DType.BF16) -> Packed:
    """Return the bytes of a matrix of ``rows`` outputs and ``columns`` inputs; ``dtype`` is that of weights that are kept."""
    return _BYTES[scheme.packing](rows, columns, scheme, dtype)


def _blocks_4bit(rows: int, columns: int, scheme: Scheme, _: DType) -> Packed:
    """Two codes per byte; fp32 scales, or bytes with an fp32 scale per 256 and one offset (bitsandbytes ``quantize_4bit``)."""
    elements = rows * columns
    blocks = ceil_div(elements, scheme.group_size or BLOCK_4BIT)
    double = blocks + ceil_div(blocks, NESTED_BLOCK) * FP32 + FP32 + LOOKUP_8BIT
    return Packed(ceil_div(elements, 2), (double if scheme.double else blocks * FP32) + LOOKUP_4BIT)


def _int8_rows(rows: int, columns: int, _: Scheme, __: DType) -> Packed:
    """One byte per element, an fp32 scale per row (bitsandbytes ``Int8Params``: ``CB`` and ``SCB``)."""
    return Packed(rows * columns, rows * FP32)


def _groups(columns: int, scheme: Scheme) -> int:
    return ceil_div(columns, scheme.group_size) if scheme.group_size else 1


def _gptq(rows: int, columns: int, scheme: Scheme, _: DType) -> Packed:
    """``qweight``, ``scales``, ``qzeros`` and ``g_idx`` of a GPTQ layer (gptqmodel ``BaseQuantLinear``)."""
    groups = _groups(columns, scheme)
    zeros = ceil_div(rows * scheme.bits, INTEGER_BITS) * FP32 * groups if scheme.zero_points else 0
    index = columns * FP32 if scheme.group_index else 0
    codes = ceil_div(columns * scheme.bits, INTEGER_BITS) * FP32 * rows
    return Packed(codes, groups * rows * scheme.scale_bytes + zeros + index)


def _awq(rows: int, columns: int, scheme: Scheme, _: DType) -> Packed:
    """``qweight``, ``qzeros`` and ``scales`` of AWQ's gemm layout (AutoAWQ ``WQLinear_GEMM``)."""
    groups = _groups(columns, scheme)
    packed_rows = ceil_div(rows * scheme.bits, INTEGER_BITS) * FP32
    zeros = packed_rows * groups if scheme.zero_points else 0
    return Packed(packed_rows * columns, zeros + groups * rows * scheme.scale_bytes)


def _fp8(rows: int, columns: int, scheme: Scheme, _: DType) -> Packed:
    """One byte per element; scales per rectangle (transformers ``FP8Linear``), per row or one for the tensor."""
    if scheme.block is not None:
        high, wide = scheme.block
        num_scales = ceil_div(rows, high) * ceil_div(columns, wide)
    elif scheme.group_size is not None:
        num_scales = rows * _groups(columns, scheme)
    else:
        num_scales = rows if scheme.per_row else 1
    inputs = scheme.scale_bytes if scheme.static_inputs else 0
    return Packed(rows * columns, num_scales * scheme.scale_bytes + inputs)


def _mxfp4(rows: int, columns: int, _: Scheme, __: DType) -> Packed:
    """Blocks of 32 inputs: 16 bytes of codes and one exponent byte (transformers ``Mxfp4GptOssExperts``)."""
    blocks = rows * ceil_div(columns, MX_BLOCK)
    return Packed(blocks * MX_BLOCK // 2, blocks)


def _packed(rows: int, columns: int, scheme: Scheme, dtype: DType) -> Packed:
    """``weight_packed``, ``weight_scale``, ``weight_zero_point``, ``weight_g_idx``, ``weight_shape`` (compressed-tensors)."""
    groups = _groups(columns, scheme)
    zeros = ceil_div(rows * scheme.bits, INTEGER_BITS) * FP32 * groups if scheme.zero_points else 0
    index = columns * FP32 if scheme.group_index else 0
    codes = ceil_div(columns * scheme.bits, INTEGER_BITS) * FP32 * rows
    return Packed(codes, rows * groups * dtype.bytes_per_element + zeros + index + SHAPE_BYTES)


def _hqq(rows: int, columns: int, scheme: Scheme, dtype: DType) -> Packed:
    """Codes in bytes, scale and zero point of each group in the compute dtype (arXiv: none; hqq ``Quantizer.quantize``)."""
    elements = rows * columns
    groups = ceil_div(elements, scheme.group_size) if scheme.group_size else rows
    return Packed(ceil_div(elements * scheme.bits, 8), 2 * groups * dtype.bytes_per_element)


_BYTES: dict[Packing, Callable[[int, int, Scheme, DType], Packed]] = {
    Packing.BLOCKS_4BIT: _blocks_4bit,
    Packing.INT8_ROWS: _int8_rows,
    Packing.GPTQ: _gptq,
    Packing.AWQ: _awq,
    Packing.FP8: _fp8,
    Packing.MXFP4: _mxfp4,
    Packing.PACKED: _packed,
    Packing.HQQ: _hqq,
}
