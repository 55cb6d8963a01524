"""The caching allocator in the plainest form: what the estimator's own is compared with.

Free blocks are packed numbers in one sorted list per pool, and neighbours are looked up by where
they begin and end.
"""

from bisect import bisect_left, insort

from service.estimator.values.workload import Allocator

BLOCK_BYTES = 512
_SMALL = 2048
"""Requests up to 1 MiB come from the pool of small blocks (kSmallSize)."""
_SMALL_SEGMENT = 4096
"""Small segments have 2 MiB (kSmallBuffer)."""
_LARGE = 20480
"""Requests from 10 MiB on get a segment of their own size (kMinLargeAlloc)."""
_LARGE_SEGMENT = 40960
"""Requests between 1 and 10 MiB get a segment of 20 MiB (kLargeBuffer)."""
_ROUND_SIZE = 4096
"""Larger segments are rounded up to 2 MiB (kRoundLarge)."""
_CHUNK = 65536
"""``cudaMalloc`` takes addresses by 32 MiB, from the highest down."""
ADDRESS_BITS = 40
_ADDRESS = (1 << ADDRESS_BITS) - 1

Block = tuple[int, int, "Pool"]
"""Address, size and pool of a block that is in use."""


class Pool:
    """Free blocks of one kind, packed.

    They are indexed by size, by begin and by end.
    """

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
        packed = size << ADDRESS_BITS | address
        self.starts[address] = self.ends[address + size] = packed
        insort(self.by_size, packed)

    def take(self, index: int) -> tuple[int, int]:
        """Remove the free block at an index.

        Returns its address and size.
        """
        packed = self.by_size.pop(index)
        address, size = packed & _ADDRESS, packed >> ADDRESS_BITS
        del self.starts[address], self.ends[address + size]
        return address, size

    def drop(self, packed: int) -> tuple[int, int]:
        """Remove a packed free block.

        Returns its address and size.
        """
        return self.take(bisect_left(self.by_size, packed))


class CachingAllocator:
    """The allocator with segments of fixed size."""

    def __init__(self) -> None:
        """Start with nothing reserved."""
        self._pools = {0: self._make_pools()}
        self.reserved = 0
        self.allocated = 0
        self.highest = 0
        self._lowest = 1 << 36
        self._gaps: list[tuple[int, int]] = []
        self._begins: set[int] = set()

    def _make_pools(self) -> tuple[Pool, Pool]:
        return Pool(small=False), Pool(small=True)

    def _get_pool(self, stream: int, size: int) -> Pool:
        if stream not in self._pools:
            self._pools[stream] = self._make_pools()
        large, small = self._pools[stream]
        return small if size <= _SMALL else large

    def allocate(self, size: int, stream: int = 0) -> Block:
        """Return a block of at least ``size``.

        It is the smallest that is free on the stream, else a part of a new segment.
        """
        pool = self._get_pool(stream, size)
        index = bisect_left(pool.by_size, size << ADDRESS_BITS)
        address, block_size = (
            pool.take(index) if index < len(pool.by_size) else self._reserve_segment(pool, size)
        )
        remainder = block_size - size
        if remainder and (remainder > _SMALL or pool.small):
            pool.put(address + size, remainder)
            block_size = size
        self.allocated += block_size
        self.highest = max(self.highest, self.allocated)
        return address, block_size, pool

    def free(self, block: Block) -> None:
        """Take a block back, and merge it with its neighbours."""
        address, size, pool = block
        self.allocated -= size
        following = pool.starts.get(address + size)
        before = pool.ends.get(address)
        if address + size in self._begins:
            following = None
        if address in self._begins:
            before = None
        if following is not None:
            size += pool.drop(following)[1]
        if before is not None:
            address, more = pool.drop(before)
            size += more
        pool.put(address, size)

    def _reserve_segment(self, pool: Pool, size: int) -> tuple[int, int]:
        """Return a new segment."""
        segment = _LARGE_SEGMENT if size < _LARGE else -(-size // _ROUND_SIZE) * _ROUND_SIZE
        segment = _SMALL_SEGMENT if pool.small else segment
        self.reserved += segment
        return self._place(segment), segment

    def _place(self, segment: int) -> int:
        """Return an address for a segment.

        The smallest gap in a chunk of 32 MiB is filled before another chunk is taken.
        """
        self._gaps.sort()
        index = next((i for i, (size, _) in enumerate(self._gaps) if size >= segment), None)
        if index is None:
            chunks = -(-segment // _CHUNK) * _CHUNK
            self._lowest -= chunks
            size, address = chunks, self._lowest
        else:
            size, address = self._gaps.pop(index)
        if size > segment:
            self._gaps.append((size - segment, address + segment))
        self._begins.add(address)
        return address


class ExpandableAllocator(CachingAllocator):
    """Allocator with one expandable segment per pool.

    The segment grows page by page, and splits down to 512 bytes.
    """

    def _make_pools(self) -> tuple[Pool, Pool]:
        return Pool(small=False, end=0), Pool(small=True, end=1 << (ADDRESS_BITS - 1))

    def allocate(self, size: int, stream: int = 0) -> Block:
        """Return a block of exactly ``size``.

        The one that could grow is taken last.
        """
        pool = self._get_pool(stream, size)
        index = bisect_left(pool.by_size, size << ADDRESS_BITS)
        free = len(pool.by_size)
        if index + 1 < free and pool.by_size[index] == pool.ends.get(pool.end):
            index += 1
        address, block_size = (
            pool.take(index) if index < free else self._reserve_segment(pool, size)
        )
        if block_size > size:
            pool.put(address + size, block_size - size)
        self.allocated += size
        self.highest = max(self.highest, self.allocated)
        return address, size, pool

    def _reserve_segment(self, pool: Pool, size: int) -> tuple[int, int]:
        """Grow the pool's segment by whole pages.

        It grows from its last block on when that is free.
        """
        page = _SMALL_SEGMENT if pool.small else _LARGE_SEGMENT
        last = pool.ends.get(pool.end)
        address, free = (pool.end, 0) if last is None else pool.drop(last)
        grown = -(-(size - free) // page) * page
        pool.end += grown
        self.reserved += grown
        return address, free + grown


def make_allocator(kind: Allocator) -> CachingAllocator:
    """Return an empty allocator of a kind."""
    return ExpandableAllocator() if kind is Allocator.EXPANDABLE_SEGMENTS else CachingAllocator()
