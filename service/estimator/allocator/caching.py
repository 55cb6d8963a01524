"""PyTorch's caching allocator: which block a request gets, what is split, merged, and asked of the GPU.

The rules are those of c10/cuda/CUDACachingAllocator.cpp (torch 2.13) with its default settings on one stream: no limit on
splitting, no garbage collection, memory enough. Sizes and addresses are counted in blocks of 512 bytes, the smallest that
there are. A pool keeps its free blocks sorted by size and address, packed into one number each, so that the best fit is one
bisection; neighbours are found by their addresses. A job is tens of thousands of requests, so the two busiest methods write
out what ``put`` and ``take`` say.
"""

from bisect import bisect_left, insort

from service.estimator.workload import Allocator

BLOCK_BYTES = 512
_SMALL = 2048
"""Requests up to 1 MiB come from the pool of small blocks (kSmallSize)."""
_SMALL_SEGMENT = 4096
"""Small segments have 2 MiB (kSmallBuffer)."""
_LARGE = 20480
"""Requests from 10 MiB on get a segment of their own size (kMinLargeAlloc)."""
_LARGE_SEGMENT = 40960
"""Requests between 1 and 10 MiB get a segment of 20 MiB (kLargeBuffer)."""
_ROUND = 4096
"""Larger segments are rounded up to 2 MiB (kRoundLarge)."""
_ADDRESS_BITS = 40
_ADDRESS = (1 << _ADDRESS_BITS) - 1

Block = tuple[int, int, "Pool"]
"""Address, size and pool of a block that is in use."""


class Pool:
    """Free blocks of one kind: by size, by where they begin, and by where they end."""

    __slots__ = ("by_size", "end", "ends", "small", "starts")

    def __init__(self, *, small: bool, end: int = 0) -> None:
        """Start without any memory; an expandable segment ends at ``end``."""
        self.small = small
        self.end = end
        self.by_size: list[int] = []
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}

    def put(self, address: int, size: int) -> None:
        """Add a free block."""
        self.starts[address] = size
        self.ends[address + size] = address
        insort(self.by_size, size << _ADDRESS_BITS | address)

    def take(self, index: int) -> tuple[int, int]:
        """Remove the free block at an index and return its address and size."""
        packed = self.by_size.pop(index)
        address, size = packed & _ADDRESS, packed >> _ADDRESS_BITS
        del self.starts[address], self.ends[address + size]
        return address, size

    def drop(self, address: int, size: int) -> None:
        """Remove a free block that is known."""
        self.take(bisect_left(self.by_size, size << _ADDRESS_BITS | address))


class CachingAllocator:
    """The allocator with segments of fixed size."""

    def __init__(self) -> None:
        """Start with nothing reserved."""
        self.large, self.small = self._pools()
        self.reserved = 0
        self.allocated = 0
        self.highest = 0
        self._next = 0

    def _pools(self) -> tuple[Pool, Pool]:
        return Pool(small=False), Pool(small=True)

    def allocate(self, size: int) -> Block:
        """Return a block of at least ``size``: the smallest that is free, else a part of a new segment."""
        pool = self.small if size <= _SMALL else self.large
        by_size = pool.by_size
        index = bisect_left(by_size, size << _ADDRESS_BITS)
        if index < len(by_size):
            packed = by_size.pop(index)
            address, found = packed & _ADDRESS, packed >> _ADDRESS_BITS
            del pool.starts[address], pool.ends[address + found]
        else:
            address, found = self._segment(pool, size)
        rest = found - size
        if rest and (rest > _SMALL or pool.small):
            pool.put(address + size, rest)
            found = size
        self.allocated += found
        self.highest = max(self.highest, self.allocated)
        return address, found, pool

    def free(self, block: Block) -> None:
        """Take a block back, and merge it with its neighbours."""
        address, size, pool = block
        self.allocated -= size
        by_size, starts, ends = pool.by_size, pool.starts, pool.ends
        end = address + size
        following = starts.pop(end, None)
        if following is not None:
            del by_size[bisect_left(by_size, following << _ADDRESS_BITS | end)]
            end += following
        before = ends.pop(address, None)
        if before is not None:
            del by_size[bisect_left(by_size, (address - before) << _ADDRESS_BITS | before)]
            address = before
        size = end - address
        starts[address], ends[end] = size, address
        insort(by_size, size << _ADDRESS_BITS | address)

    def _segment(self, pool: Pool, size: int) -> tuple[int, int]:
        """Return a new segment; none touches another, so that blocks merge within one only."""
        segment = _LARGE_SEGMENT if size < _LARGE else -(-size // _ROUND) * _ROUND
        segment = _SMALL_SEGMENT if pool.small else segment
        address, self._next = self._next, self._next + segment + 1
        self.reserved += segment
        return address, segment


class ExpandableAllocator(CachingAllocator):
    """The allocator with one segment per pool that grows page by page, and splits down to 512 bytes."""

    def _pools(self) -> tuple[Pool, Pool]:
        return Pool(small=False, end=0), Pool(small=True, end=1 << (_ADDRESS_BITS - 1))

    def allocate(self, size: int) -> Block:
        """Return a block of exactly ``size``; the one that could grow is taken last."""
        pool = self.small if size <= _SMALL else self.large
        index = bisect_left(pool.by_size, size << _ADDRESS_BITS)
        free = len(pool.by_size)
        if index + 1 < free and pool.by_size[index] & _ADDRESS == pool.ends.get(pool.end):
            index += 1
        address, found = pool.take(index) if index < free else self._segment(pool, size)
        if found > size:
            pool.put(address + size, found - size)
        self.allocated += size
        self.highest = max(self.highest, self.allocated)
        return address, size, pool

    def _segment(self, pool: Pool, size: int) -> tuple[int, int]:
        """Grow the pool's segment by whole pages, from its last block on when that is free."""
        page = _SMALL_SEGMENT if pool.small else _LARGE_SEGMENT
        address = pool.ends.get(pool.end, pool.end)
        free = pool.end - address
        if free:
            pool.drop(address, free)
        grown = -(-(size - free) // page) * page
        pool.end += grown
        self.reserved += grown
        return address, free + grown


def allocator_of(kind: Allocator) -> CachingAllocator:
    """Return an empty allocator of a kind."""
    return ExpandableAllocator() if kind is Allocator.EXPANDABLE_SEGMENTS else CachingAllocator()
