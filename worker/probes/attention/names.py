"""Which attention kernel CUDA would choose, so that a CPU run can be held to the same choice."""

from dataclasses import dataclass
from enum import StrEnum

from service.estimator.values.workload import Attention


class Kernel(StrEnum):
    """What computes attention; ``EAGER`` is the model's own matrix products."""

    EAGER = "eager"
    FLASH = "flash"
    EFFICIENT = "efficient"
    MATH = "math"


FLASH_MAX_HEAD_DIM = 256
"""Widest head of CUDA's flash kernel (torch 2.13, aten/native/transformers/cuda/sdp_utils.cpp)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """What the choice depends on; ``grouped``: fewer key-value heads than query heads."""

    head_dim: int
    grouped: bool
    half_precision: bool
    masked: bool


def cuda_kernel(attention: Attention, shape: AttentionShape) -> Kernel:
    """Return the kernel that runs on CUDA (torch 2.13, sdp_utils.cpp; transformers 5.23, sdpa_attention.py)."""
    if attention is Attention.SDPA:
        return _sdpa_choice(shape)
    return Kernel(attention.value)


def _sdpa_choice(shape: AttentionShape) -> Kernel:
    if shape.half_precision and not shape.masked and shape.head_dim <= FLASH_MAX_HEAD_DIM:
        return Kernel.FLASH
    # Without a mask transformers leaves the grouping to SDPA, and the memory-efficient kernel knows no groups.
    if shape.grouped and not shape.masked and shape.head_dim <= FLASH_MAX_HEAD_DIM:
        return Kernel.MATH
    return Kernel.EFFICIENT
