"""Buffers that kernels take of PyTorch's allocator beside their outputs.

A tape notes where an operation asks for one; how large it is depends on the GPU.
"""

from enum import StrEnum
from typing import NamedTuple

from service.estimator.tape.sizes import Size


class BufferKind(StrEnum):
    """Kinds of buffers, by the library that asks for them."""

    CUBLAS = "cublas"
    """The workspace of a thread's cuBLAS handle: made at its first product, never freed."""
    CUBLASLT = "cublaslt"
    """That of its cuBLASLt handle, made at its first product with a bias."""
    REDUCTION = "reduction"
    """Partial sums of a sum over rows that several thread blocks share."""
    EMBEDDING = "embedding"
    """Sums of an embedding's gradient, by stretches of equal indices."""


class KernelBuffer(NamedTuple):
    """A buffer, and the outputs and rows of a sum.

    An embedding has a row for each index, and outputs as wide as its table.
    """

    kind: BufferKind
    outputs: Size
    rows: Size
    table_rows: int = 0

    @property
    def stays(self) -> bool:
        """Whether the process keeps it."""
        return self.kind in {BufferKind.CUBLAS, BufferKind.CUBLASLT}
