"""Bytes of quantised matrices against what the libraries allocate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.model.weights.packing import PackedBytes, is_packable, packed_bytes
from service.estimator.model.weights.scheme import Packing, Scheme

SINGLE = Scheme(packing=Packing.BLOCKS_4BIT)
DOUBLE = Scheme(packing=Packing.BLOCKS_4BIT, double=True)


@pytest.mark.parametrize(
    ("shape", "codes", "absmax", "nested"),
    [
        ((128, 96), 6144, 192, 1),
        ((11008, 4096), 22544384, 704512, 2752),
        ((33, 65), 1073, 34, 1),
        ((1, 100), 50, 2, 1),
    ],
)
def test_nf4_is_what_bitsandbytes_allocates(
    shape: tuple[int, int], codes: int, absmax: int, nested: int
) -> None:
    """The tensors of ``quantize_4bit`` (bitsandbytes 0.50.2 on a CPU): codes, scales, lookup
    tables, and the offset.
    """
    assert packed_bytes(*shape, SINGLE) == PackedBytes(codes, 4 * absmax + 64)
    assert packed_bytes(*shape, DOUBLE) == PackedBytes(codes, absmax + 4 * nested + 4 + 1024 + 64)


def test_double_quantisation_costs_4_127_bits() -> None:
    """4 bits, 8 per block of 64, 32 per 256 of those: 4.127 bits per parameter (arXiv:2305.14314,
    section 3).
    """
    rows, columns = 8192, 8192

    packed = packed_bytes(rows, columns, DOUBLE)

    assert packed.total * 8 / (rows * columns) == pytest.approx(4.127, abs=1e-3)


def test_int8_keeps_a_scale_per_row() -> None:
    """One byte per element and four per output feature (``Int8Params``: CB and SCB)."""
    assert packed_bytes(64, 48, Scheme(packing=Packing.INT8_ROWS)) == PackedBytes(64 * 48, 64 * 4)


@pytest.mark.parametrize(
    ("bits", "qweight", "qzeros"),
    [
        (2, 256 * 4096, 32 * 256),
        (3, 384 * 4096, 32 * 384),
        (4, 512 * 4096, 32 * 512),
        (8, 1024 * 4096, 32 * 1024),
    ],
)
def test_gptq_packs_into_integers(bits: int, qweight: int, qzeros: int) -> None:
    """The shapes of a 4096 x 4096 layer in groups of 128: int32 codes and zero points, fp16 scales,
    an int32 index.
    """
    packed = packed_bytes(4096, 4096, Scheme(packing=Packing.GPTQ, bits=bits, group_size=128))

    assert packed.codes == 4 * qweight
    assert packed.scales == 4 * qzeros + 2 * 32 * 4096 + 4 * 4096


def test_awq_packs_along_the_output() -> None:
    """The shapes are qweight (4096, 1376), qzeros (32, 1376) and scales (32, 11008) of a 4096 ->
    11008 layer.
    """
    packed = packed_bytes(11008, 4096, Scheme(packing=Packing.AWQ, group_size=128))

    assert packed == PackedBytes(4 * 4096 * 1376, 4 * 32 * 1376 + 2 * 32 * 11008)


def test_fp8_rectangles_are_rounded_up() -> None:
    """DeepSeek-V3's kv_a_proj_with_mqa of 576 x 7168 has 5 x 56 fp32 scales."""
    packed = packed_bytes(576, 7168, Scheme(packing=Packing.FP8, block=(128, 128), scale_bytes=4))

    assert packed == PackedBytes(576 * 7168, 5 * 56 * 4)


def test_fp8_per_tensor_and_per_row() -> None:
    """One scale for the tensor, one for each row, and one for the input where that is static."""
    scheme = Scheme(packing=Packing.FP8, scale_bytes=4)

    assert packed_bytes(8, 16, scheme).scales == 4
    assert (
        packed_bytes(8, 16, Scheme(packing=Packing.FP8, scale_bytes=4, static_inputs=True)).scales
        == 8
    )
    assert (
        packed_bytes(8, 16, Scheme(packing=Packing.FP8, scale_bytes=4, per_row=True)).scales == 32
    )


def test_mxfp4_has_a_byte_per_block_of_32() -> None:
    """4.25 bits per parameter (OCP Microscaling Formats 1.0)."""
    assert packed_bytes(5760, 2880, Scheme(packing=Packing.MXFP4)) == PackedBytes(
        5760 * 1440, 5760 * 90
    )


def test_compressed_tensors_keep_the_shape() -> None:
    """weight_packed, weight_scale and weight_shape of a symmetric w4a16 layer in groups of 128."""
    scheme = Scheme(packing=Packing.PACKED, group_size=128, zero_points=False, group_index=False)

    assert packed_bytes(1024, 4096, scheme) == PackedBytes(1024 * 2048, 2 * 1024 * 32 + 16)


def test_hqq_keeps_scale_and_zero_per_group() -> None:
    """4 bits in groups of 64 with two 16-bit numbers each: 4.5 bits."""
    assert packed_bytes(256, 128, Scheme(packing=Packing.HQQ, group_size=64)) == PackedBytes(
        256 * 64, 2 * 2 * 512
    )


def test_a_gate_of_one_output_is_not_packed() -> None:
    """Qwen2-MoE's shared_expert_gate has one output, and an integer holds eight."""
    assert not is_packable(1, Scheme(packing=Packing.AWQ))
    assert not is_packable(1, Scheme(packing=Packing.GPTQ))
    assert is_packable(1, DOUBLE)


@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from(Packing))
def test_codes_hold_every_element(rows: int, columns: int, packing: Packing) -> None:
    """Whatever the packing, its codes have at least the bits of all elements."""
    scheme = Scheme(packing=packing, bits=8 if packing in {Packing.INT8_ROWS, Packing.FP8} else 4)

    packed = packed_bytes(rows, columns, scheme)

    assert packed.codes * 8 >= rows * columns * scheme.bits
