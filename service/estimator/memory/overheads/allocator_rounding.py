"""Bytes that the caching allocator adds to large tensors.

A segment of 10 MiB and more is a multiple of 2 MiB, and what is left of it is only split off when
it is more than 1 MiB (PyTorch, ``CUDACachingAllocator.cpp``: ``get_allocation_size``,
``should_split``).
"""

from collections.abc import Iterable

from service.estimator.values.units import MIB, ceil_div

_LARGE_TENSOR = 10 * MIB
_SEGMENT_STEP = 2 * MIB
_SPLIT_ABOVE = 1 * MIB


def rounding_bytes(tensors: Iterable[tuple[int, int]]) -> int:
    """Return the bytes on top of tensors.

    Each tensor is given as its bytes and how often it occurs.
    """
    return sum(_compute_unsplit_bytes(size) * count for size, count in tensors)


def _compute_unsplit_bytes(size: int) -> int:
    if size < _LARGE_TENSOR:
        return 0
    remainder = ceil_div(size, _SEGMENT_STEP) * _SEGMENT_STEP - size
    return remainder if remainder <= _SPLIT_ABOVE else 0
