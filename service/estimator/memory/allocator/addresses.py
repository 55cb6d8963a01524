"""Addresses that ``cudaMalloc`` returns.

Of free blocks of one size PyTorch's allocator takes the lowest, so that addresses decide which
segment a tensor is in. The driver takes address ranges in chunks of 32 MiB, each below the last one
(as ``mmap`` does), and fills the gap that a segment leaves in its last chunk before it takes
another. So lie the segments of 16 recorded loops (torch 2.11, CUDA 13.0, driver 580, H100): with
these addresses a replay of their 240,000 requests reserves to the byte what was reserved there, but
for 2 MiB in one of them; with ascending addresses it is up to 3.7 % off.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from typing import Final

_ADDRESS_BITS: Final = 37
_HIGHEST: Final = 1 << 36
_CHUNK: Final = 65536  # 32 MiB


class AddressSpace(ABC):
    """Places of segments, in blocks of 512 bytes."""

    @abstractmethod
    def take(self, size: int) -> int:
        """Return the address of a new segment."""


class AscendingAddresses(AddressSpace):
    """Segments one above the other.

    So they are counted where the driver is not CUDA's or not known.
    """

    def __init__(self) -> None:
        """Start at the lowest address."""
        self._next = 0

    def take(self, size: int) -> int:
        """Return the address of a new segment."""
        address = self._next
        self._next += size
        return address


class CudaAddresses(AddressSpace):
    """Segments as CUDA places them, in blocks of 512 bytes."""

    def __init__(self) -> None:
        """Start with every address free."""
        self._lowest = _HIGHEST
        self._gaps: list[int] = []
        """In order, each ``size << _ADDRESS_BITS | address``."""

    def take(self, size: int) -> int:
        """Return the address of a new segment.

        It is in the smallest gap that holds it, else below all others.
        """
        index = bisect_left(self._gaps, size << _ADDRESS_BITS)
        if index < len(self._gaps):
            gap = self._gaps.pop(index)
            gap_size = gap >> _ADDRESS_BITS
            address = gap - (gap_size << _ADDRESS_BITS)
        else:
            gap_size = -(-size // _CHUNK) * _CHUNK
            self._lowest -= gap_size
            address = self._lowest
        if gap_size > size:
            insort(self._gaps, (gap_size - size) << _ADDRESS_BITS | (address + size))
        return address
