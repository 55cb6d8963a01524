"""PyTorch's caching allocator: which block a request gets, what is split, merged, and asked of the GPU.

The rules are those of c10/cuda/CUDACachingAllocator.cpp (torch 2.13) with its default settings on one stream: no limit on
splitting, no garbage collection, memory enough. Sizes and addresses are counted in blocks of 512 bytes, the smallest that
there are. A pool keeps its free blocks sorted by size and address, packed into one number each, so that the best fit is one
bisection; neighbours are found by their addresses. A job is tens of thousands of requests, so ``run`` writes out what
``allocate`` and ``free`` say.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

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
_ROUND = 4096
"""Larger segments are rounded up to 2 MiB (kRoundLarge)."""
ADDRESS_BITS = 40
_ADDRESS = (1 << ADDRESS_BITS) - 1

_BETWEEN_CHECKS = 2048
"""Events of a pass that are run at once: some two milliseconds."""

Block = tuple[int, int, "Pool"]
"""Address, size and pool of a block that is in use."""
Check = Callable[[], None]
"""Raises once nobody waits any more for what is worked out."""


class Pool:
    """Free blocks of one kind, packed: by size, by where they begin, and by where they end."""

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
        """Remove the free block at an index and return its address and size."""
        packed = self.by_size.pop(index)
        address, size = packed & _ADDRESS, packed >> ADDRESS_BITS
        del self.starts[address], self.ends[address + size]
        return address, size

    def drop(self, packed: int) -> tuple[int, int]:
        """Remove a free block that is known and return its address and size."""
        return self.take(bisect_left(self.by_size, packed))


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
        index = bisect_left(pool.by_size, size << ADDRESS_BITS)
        address, found = pool.take(index) if index < len(pool.by_size) else self._segment(pool, size)
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
        following, before = pool.starts.get(address + size), pool.ends.get(address)
        if following is not None:
            size += pool.drop(following)[1]
        if before is not None:
            address, more = pool.drop(before)
            size += more
        pool.put(address, size)

    def run(self, order: Sequence[int], sizes: Sequence[int], check: Check = lambda: None) -> dict[int, Block]:
        """Allocate ``sizes[i]`` where an event is ``i``, free it where one is ``~i``; return what stays, in order.

        What has no size, and what is freed and not there, is passed over. ``check`` is called now and then, and may raise.
        """
        live: dict[int, int] = {}
        for begin in range(0, len(order), _BETWEEN_CHECKS):
            check()
            self._run(order[begin : begin + _BETWEEN_CHECKS], sizes, live)
        return {event: self._block(packed) for event, packed in live.items()}

    def _run(self, events: Sequence[int], sizes: Sequence[int], live: dict[int, int]) -> None:  # noqa: PLR0915 - see the module
        """Run a part of a pass; ``live`` are the blocks in use, packed."""
        large, small = ((pool.by_size, pool.starts, pool.ends) for pool in (self.large, self.small))
        bits, mask, edge, bisect, insert, drop = ADDRESS_BITS, _ADDRESS, _SMALL, bisect_left, insort, live.pop
        allocated, highest = self.allocated, self.highest
        for event in events:
            if event < 0:
                packed = drop(~event, 0)
                if not packed:
                    continue
                size, address = packed >> bits, packed & mask
                allocated -= size
                by_size, starts, ends = small if size <= edge else large
                following, before = starts.pop(address + size, 0), ends.pop(address, 0)
                if following:
                    del by_size[bisect(by_size, following)]
                    size += following >> bits
                if before:
                    del by_size[bisect(by_size, before)]
                    size += before >> bits
                    address = before & mask
                packed = size << bits | address
                starts[address] = ends[address + size] = packed
                insert(by_size, packed)
            elif size := sizes[event]:
                by_size, starts, ends = small if size <= edge else large
                packed = size << bits
                index = bisect(by_size, packed)
                if index == len(by_size):
                    self._open(size)
                    index = bisect(by_size, packed)
                free = by_size.pop(index)
                address, found = free & mask, free >> bits
                del starts[address]
                if found > size and (found - size > edge or size <= edge):
                    rest = free - packed + size
                    starts[address + size] = ends[address + found] = rest
                    insert(by_size, rest)
                    live[event], found = packed | address, size
                else:
                    del ends[address + found]
                    live[event] = free
                allocated += found
                highest = max(highest, allocated)
        self.allocated, self.highest = allocated, highest

    def _open(self, size: int) -> None:
        pool = self.small if size <= _SMALL else self.large
        pool.put(*self._segment(pool, size))

    def _block(self, packed: int) -> Block:
        size = packed >> ADDRESS_BITS
        return packed & _ADDRESS, size, self.small if size <= _SMALL else self.large

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
        return Pool(small=False, end=0), Pool(small=True, end=1 << (ADDRESS_BITS - 1))

    def allocate(self, size: int) -> Block:
        """Return a block of exactly ``size``; the one that could grow is taken last."""
        pool = self.small if size <= _SMALL else self.large
        index = bisect_left(pool.by_size, size << ADDRESS_BITS)
        free = len(pool.by_size)
        if index + 1 < free and pool.by_size[index] == pool.ends.get(pool.end):
            index += 1
        address, found = pool.take(index) if index < free else self._segment(pool, size)
        if found > size:
            pool.put(address + size, found - size)
        self.allocated += size
        self.highest = max(self.highest, self.allocated)
        return address, size, pool

    def run(self, order: Sequence[int], sizes: Sequence[int], check: Check = lambda: None) -> dict[int, Block]:
        """Run a pass request by request."""
        live: dict[int, Block] = {}
        for place, event in enumerate(order):
            if not place % _BETWEEN_CHECKS:
                check()
            if event >= 0:
                if sizes[event]:
                    live[event] = self.allocate(sizes[event])
            elif ~event in live:
                self.free(live.pop(~event))
        return live

    def _segment(self, pool: Pool, size: int) -> tuple[int, int]:
        """Grow the pool's segment by whole pages, from its last block on when that is free."""
        page = _SMALL_SEGMENT if pool.small else _LARGE_SEGMENT
        last = pool.ends.get(pool.end)
        address, free = (pool.end, 0) if last is None else pool.drop(last)
        grown = -(-(size - free) // page) * page
        pool.end += grown
        self.reserved += grown
        return address, free + grown


def allocator_of(kind: Allocator) -> CachingAllocator:
    """Return an empty allocator of a kind."""
    return ExpandableAllocator() if kind is Allocator.EXPANDABLE_SEGMENTS else CachingAllocator()
