"""Selection of the attention kernel that CUDA would choose.

A CPU run is held to the same choice.
"""

from dataclasses import dataclass
from enum import StrEnum

from service.estimator.values.workload import Attention


class Kernel(StrEnum):
    """Attention kernels; ``EAGER`` is the model's own matrix products."""

    EAGER = "eager"
    FLASH = "flash"
    EFFICIENT = "efficient"
    MATH = "math"


FLASH_MAX_HEAD_DIM = 256
"""Widest head of CUDA's flash kernel (torch 2.13, aten/native/transformers/cuda/sdp_utils.cpp)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """Properties of attention that decide its kernel.

    ``grouped``: fewer key-value heads than query heads.
    """

    head_dim: int
    grouped: bool
    half_precision: bool
    masked: bool


def select_cuda_kernel(attention: Attention, shape: AttentionShape) -> Kernel:
    """Select the kernel that runs on CUDA.

    (torch 2.13, sdp_utils.cpp; transformers 5.23, sdpa_attention.py.)
    """
    if attention is Attention.SDPA:
        return _select_sdpa_kernel(shape)
    return Kernel(attention.value)


def _select_sdpa_kernel(shape: AttentionShape) -> Kernel:
    if shape.half_precision and not shape.masked and shape.head_dim <= FLASH_MAX_HEAD_DIM:
        return Kernel.FLASH
    # Without a mask transformers leaves the grouping to SDPA, and the memory-efficient kernel knows
    # no groups.
    if shape.grouped and not shape.masked and shape.head_dim <= FLASH_MAX_HEAD_DIM:
        return Kernel.MATH
    return Kernel.EFFICIENT
