"""Formats of tensors in GGUF files.

ggml, ``ggml-common.h`` (blocks) and ``ggml.h`` (``enum ggml_type``); gguf 0.19.0, ``constants.py``
(``GGMLQuantizationType``, ``GGML_QUANT_SIZES``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from types import MappingProxyType


class GgmlType(StrEnum):
    """Formats of a tensor, by ggml's names."""

    F32 = "F32"
    F16 = "F16"
    BF16 = "BF16"
    F64 = "F64"
    I8 = "I8"
    I16 = "I16"
    I32 = "I32"
    I64 = "I64"
    Q1_0 = "Q1_0"
    Q4_0 = "Q4_0"
    Q4_1 = "Q4_1"
    Q5_0 = "Q5_0"
    Q5_1 = "Q5_1"
    Q8_0 = "Q8_0"
    Q8_1 = "Q8_1"
    Q2_K = "Q2_K"
    Q3_K = "Q3_K"
    Q4_K = "Q4_K"
    Q5_K = "Q5_K"
    Q6_K = "Q6_K"
    Q8_K = "Q8_K"
    IQ1_S = "IQ1_S"
    IQ1_M = "IQ1_M"
    IQ2_XXS = "IQ2_XXS"
    IQ2_XS = "IQ2_XS"
    IQ2_S = "IQ2_S"
    IQ3_XXS = "IQ3_XXS"
    IQ3_S = "IQ3_S"
    IQ4_NL = "IQ4_NL"
    IQ4_XS = "IQ4_XS"
    TQ1_0 = "TQ1_0"
    TQ2_0 = "TQ2_0"
    MXFP4 = "MXFP4"
    NVFP4 = "NVFP4"


@dataclass(frozen=True, slots=True)
class GgmlBlock:
    """One block of a format.

    ``number`` is that of the format in a file.
    """

    number: int
    elements: int
    bytes: int


BLOCKS: Mapping[GgmlType, GgmlBlock] = MappingProxyType(
    {
        GgmlType.F32: GgmlBlock(0, 1, 4),
        GgmlType.F16: GgmlBlock(1, 1, 2),
        GgmlType.Q4_0: GgmlBlock(2, 32, 18),
        GgmlType.Q4_1: GgmlBlock(3, 32, 20),
        GgmlType.Q5_0: GgmlBlock(6, 32, 22),
        GgmlType.Q5_1: GgmlBlock(7, 32, 24),
        GgmlType.Q8_0: GgmlBlock(8, 32, 34),
        GgmlType.Q8_1: GgmlBlock(9, 32, 40),
        GgmlType.Q2_K: GgmlBlock(10, 256, 84),
        GgmlType.Q3_K: GgmlBlock(11, 256, 110),
        GgmlType.Q4_K: GgmlBlock(12, 256, 144),
        GgmlType.Q5_K: GgmlBlock(13, 256, 176),
        GgmlType.Q6_K: GgmlBlock(14, 256, 210),
        GgmlType.Q8_K: GgmlBlock(15, 256, 292),
        GgmlType.IQ2_XXS: GgmlBlock(16, 256, 66),
        GgmlType.IQ2_XS: GgmlBlock(17, 256, 74),
        GgmlType.IQ3_XXS: GgmlBlock(18, 256, 98),
        GgmlType.IQ1_S: GgmlBlock(19, 256, 50),
        GgmlType.IQ4_NL: GgmlBlock(20, 32, 18),
        GgmlType.IQ3_S: GgmlBlock(21, 256, 110),
        GgmlType.IQ2_S: GgmlBlock(22, 256, 82),
        GgmlType.IQ4_XS: GgmlBlock(23, 256, 136),
        GgmlType.I8: GgmlBlock(24, 1, 1),
        GgmlType.I16: GgmlBlock(25, 1, 2),
        GgmlType.I32: GgmlBlock(26, 1, 4),
        GgmlType.I64: GgmlBlock(27, 1, 8),
        GgmlType.F64: GgmlBlock(28, 1, 8),
        GgmlType.IQ1_M: GgmlBlock(29, 256, 56),
        GgmlType.BF16: GgmlBlock(30, 1, 2),
        GgmlType.TQ1_0: GgmlBlock(34, 256, 54),
        GgmlType.TQ2_0: GgmlBlock(35, 256, 66),
        GgmlType.MXFP4: GgmlBlock(39, 32, 17),
        GgmlType.NVFP4: GgmlBlock(40, 64, 36),
        GgmlType.Q1_0: GgmlBlock(41, 128, 18),
    },
)


def compute_tensor_bytes(ggml_type: GgmlType, shape: tuple[int, ...]) -> int:
    """Return the bytes of a tensor; ``shape`` begins with its rows' length.

    Raises ValueError where blocks do not divide a row, as ggml refuses it.
    """
    block = BLOCKS[ggml_type]
    columns, *rows = shape
    if columns % block.elements:
        message = f"rows of {columns} elements are no whole blocks of {block.elements}"
        raise ValueError(message)
    return columns // block.elements * block.bytes * prod(rows)
