"""Bytes of one quantised matrix, tensor by tensor.

They are those that the library that packs it allocates.
"""

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
NV_BLOCK = 16
FP32 = 4
SHAPE_BYTES = 2 * 8
"""compressed-tensors keeps the unpacked shape as two 64-bit integers (``weight_shape``)."""


@dataclass(frozen=True, slots=True)
class PackedBytes:
    """Bytes of the codes, and of the scales needed to read them."""

    codes: int
    scales: int

    def __add__(self, other: "PackedBytes") -> "PackedBytes":
        """Return the sum of codes and of scales."""
        return PackedBytes(self.codes + other.codes, self.scales + other.scales)

    @property
    def total(self) -> int:
        """Total bytes."""
        return self.codes + self.scales

    def times(self, count: int) -> "PackedBytes":
        """Return the bytes of ``count`` such matrices."""
        return PackedBytes(self.codes * count, self.scales * count)


def is_packable(rows: int, scheme: Scheme) -> bool:
    """Return whether a matrix with so many outputs can be packed.

    Where integers hold several outputs, they must be full.
    """
    if scheme.packing is Packing.AWQ or (scheme.packing is Packing.GPTQ and scheme.zero_points):
        return rows * scheme.bits % INTEGER_BITS == 0
    return True


def packed_bytes(rows: int, columns: int, scheme: Scheme, dtype: DType = DType.BF16) -> PackedBytes:
    """Return the bytes of a packed matrix.

    It has ``rows`` outputs and ``columns`` inputs; ``dtype`` is that of weights that are not
    packed.
    """
    return _BYTES[scheme.packing](rows, columns, scheme, dtype)


def _blocks_4bit_bytes(rows: int, columns: int, scheme: Scheme, _: DType) -> PackedBytes:
    """Return the bytes of bitsandbytes' 4-bit blocks (``quantize_4bit``).

    Two codes per byte; fp32 scales, or bytes with an fp32 scale per 256 and one offset.
    """
    elements = rows * columns
    blocks = ceil_div(elements, scheme.group_size or BLOCK_4BIT)
    double = blocks + ceil_div(blocks, NESTED_BLOCK) * FP32 + FP32 + LOOKUP_8BIT
    return PackedBytes(
        ceil_div(elements, 2), (double if scheme.double else blocks * FP32) + LOOKUP_4BIT
    )


def _int8_rows_bytes(rows: int, columns: int, _: Scheme, __: DType) -> PackedBytes:
    """Return the bytes of LLM.int8's rows (bitsandbytes ``Int8Params``).

    One byte per element, an fp32 scale per row: ``CB`` and ``SCB``.
    """
    return PackedBytes(rows * columns, rows * FP32)


def _count_groups(columns: int, scheme: Scheme) -> int:
    return ceil_div(columns, scheme.group_size) if scheme.group_size else 1


def _gptq_bytes(rows: int, columns: int, scheme: Scheme, _: DType) -> PackedBytes:
    """Return the bytes of a GPTQ layer (gptqmodel ``BaseQuantLinear``).

    They are ``qweight``, ``scales``, ``qzeros`` and ``g_idx``.
    """
    groups = _count_groups(columns, scheme)
    zeros = ceil_div(rows * scheme.bits, INTEGER_BITS) * FP32 * groups if scheme.zero_points else 0
    index = columns * FP32 if scheme.group_index else 0
    codes = ceil_div(columns * scheme.bits, INTEGER_BITS) * FP32 * rows
    return PackedBytes(codes, groups * rows * scheme.scale_bytes + zeros + index)


def _awq_bytes(rows: int, columns: int, scheme: Scheme, _: DType) -> PackedBytes:
    """Return the bytes of AWQ's gemm layout (AutoAWQ ``WQLinear_GEMM``).

    They are ``qweight``, ``qzeros`` and ``scales``.
    """
    groups = _count_groups(columns, scheme)
    packed_rows = ceil_div(rows * scheme.bits, INTEGER_BITS) * FP32
    zeros = packed_rows * groups if scheme.zero_points else 0
    return PackedBytes(packed_rows * columns, zeros + groups * rows * scheme.scale_bytes)


def _fp8_bytes(rows: int, columns: int, scheme: Scheme, _: DType) -> PackedBytes:
    """Return the bytes of an fp8 matrix.

    One byte per element; scales per rectangle (transformers ``FP8Linear``), per row or one for the
    tensor.
    """
    if scheme.block is not None:
        height, width = scheme.block
        num_scales = ceil_div(rows, height) * ceil_div(columns, width)
    elif scheme.group_size is not None:
        num_scales = rows * _count_groups(columns, scheme)
    else:
        num_scales = rows if scheme.per_row else 1
    inputs = scheme.scale_bytes if scheme.static_inputs else 0
    return PackedBytes(rows * columns, num_scales * scheme.scale_bytes + inputs)


def _mxfp4_bytes(rows: int, columns: int, _: Scheme, __: DType) -> PackedBytes:
    """Return the bytes of an mxfp4 matrix.

    Blocks of 32 inputs: 16 bytes of codes and one exponent byte (transformers
    ``Mxfp4GptOssExperts``).
    """
    blocks = rows * ceil_div(columns, MX_BLOCK)
    return PackedBytes(blocks * MX_BLOCK // 2, blocks)


def _nvfp4_bytes(rows: int, columns: int, scheme: Scheme, _: DType) -> PackedBytes:
    """Return the bytes of an nvfp4 matrix.

    Two codes per byte, an fp8 scale per 16 inputs, an fp32 scale of the tensor and one of its
    inputs: ``weight``, ``weight_scale``, ``weight_scale_2``, ``input_scale`` (ModelOpt 0.47;
    compressed-tensors 0.20 has the same under other names).
    """
    scales = rows * ceil_div(columns, scheme.group_size or NV_BLOCK)
    return PackedBytes(
        rows * ceil_div(columns, 2), scales + FP32 + (FP32 if scheme.static_inputs else 0)
    )


def _mx_blocks_bytes(rows: int, columns: int, scheme: Scheme, _: DType) -> PackedBytes:
    """Return the bytes of a matrix in microscaling blocks.

    There is an exponent byte per 32 inputs.
    """
    return PackedBytes(
        rows * ceil_div(columns * scheme.bits, 8), rows * ceil_div(columns, MX_BLOCK)
    )


def _compressed_tensors_bytes(rows: int, columns: int, scheme: Scheme, dtype: DType) -> PackedBytes:
    """Return the bytes of a compressed-tensors matrix.

    ``weight_packed``, ``weight_scale``, ``weight_zero_point``, ``weight_g_idx`` and
    ``weight_shape``.
    """
    groups = _count_groups(columns, scheme)
    zeros = ceil_div(rows * scheme.bits, INTEGER_BITS) * FP32 * groups if scheme.zero_points else 0
    index = columns * FP32 if scheme.group_index else 0
    codes = ceil_div(columns * scheme.bits, INTEGER_BITS) * FP32 * rows
    return PackedBytes(codes, rows * groups * dtype.bytes_per_element + zeros + index + SHAPE_BYTES)


def _hqq_bytes(rows: int, columns: int, scheme: Scheme, dtype: DType) -> PackedBytes:
    """Return the bytes of an HQQ matrix.

    Codes in bytes, scale and zero point of each group in the compute dtype (arXiv: none; hqq
    ``Quantizer.quantize``).
    """
    elements = rows * columns
    groups = ceil_div(elements, scheme.group_size) if scheme.group_size else rows
    return PackedBytes(ceil_div(elements * scheme.bits, 8), 2 * groups * dtype.bytes_per_element)


_BYTES: dict[Packing, Callable[[int, int, Scheme, DType], PackedBytes]] = {
    Packing.BLOCKS_4BIT: _blocks_4bit_bytes,
    Packing.INT8_ROWS: _int8_rows_bytes,
    Packing.GPTQ: _gptq_bytes,
    Packing.AWQ: _awq_bytes,
    Packing.FP8: _fp8_bytes,
    Packing.MXFP4: _mxfp4_bytes,
    Packing.NVFP4: _nvfp4_bytes,
    Packing.MX_BLOCKS: _mx_blocks_bytes,
    Packing.PACKED: _compressed_tensors_bytes,
    Packing.HQQ: _hqq_bytes,
}
