"""PyTorch's caching allocator.

It decides which block a request gets, and when blocks are split, merged, and requested from the
GPU. The rules are those of c10/cuda/CUDACachingAllocator.cpp (torch 2.13) with its default settings
on one stream: no limit on splitting, no garbage collection, memory enough. Sizes and addresses are
counted in blocks of 512 bytes, the smallest that there are. A pool keeps its free blocks sorted by
size and address, packed into one number each, so that the best fit is one bisection; neighbours are
found by their addresses. A job is tens of thousands of requests, so ``run`` writes out the code of
``allocate`` and ``free``.
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
_ROUND_SIZE = 4096
"""Larger segments are rounded up to 2 MiB (kRoundLarge)."""
ADDRESS_BITS = 40
_ADDRESS = (1 << ADDRESS_BITS) - 1

_EVENTS_PER_CHECK = 2048
"""Events of a pass that are run at once: some two milliseconds."""

Block = tuple[int, int, "Pool"]
"""Address, size and pool of a block that is in use."""
CancelCheck = Callable[[], None]
"""Raises once nobody waits any more for what is worked out."""


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
        self.large, self.small = self._make_pools()
        self.reserved = 0
        self.allocated = 0
        self.highest = 0
        self._next = 0

    def _make_pools(self) -> tuple[Pool, Pool]:
        return Pool(small=False), Pool(small=True)

    def allocate(self, size: int) -> Block:
        """Return a block of at least ``size``.

        It is the smallest that is free, else a part of a new segment.
        """
        pool = self.small if size <= _SMALL else self.large
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
        following, before = pool.starts.get(address + size), pool.ends.get(address)
        if following is not None:
            size += pool.drop(following)[1]
        if before is not None:
            address, more = pool.drop(before)
            size += more
        pool.put(address, size)

    def run(
        self, order: Sequence[int], sizes: Sequence[int], check: CancelCheck = lambda: None
    ) -> dict[int, Block]:
        """Allocate and free blocks in order; return the live ones.

        An event ``i`` allocates ``sizes[i]``, an event ``~i`` frees it. Events without a size, and
        frees of blocks that are not live, are skipped. ``check`` is called now and then, and may
        raise.
        """
        live: dict[int, int] = {}
        for begin in range(0, len(order), _EVENTS_PER_CHECK):
            check()
            self._run(order[begin : begin + _EVENTS_PER_CHECK], sizes, live)
        return {event: self._unpack_block(packed) for event, packed in live.items()}

    def _run(self, events: Sequence[int], sizes: Sequence[int], live: dict[int, int]) -> None:  # noqa: PLR0915 - see the module
        """Run a part of a pass; ``live`` packs the blocks in use."""
        large, small = ((pool.by_size, pool.starts, pool.ends) for pool in (self.large, self.small))
        bits, mask, edge, bisect, insert, drop = (
            ADDRESS_BITS,
            _ADDRESS,
            _SMALL,
            bisect_left,
            insort,
            live.pop,
        )
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
                    self._open_segment(size)
                    index = bisect(by_size, packed)
                free = by_size.pop(index)
                address, block_size = free & mask, free >> bits
                del starts[address]
                if block_size > size and (block_size - size > edge or size <= edge):
                    remainder = free - packed + size
                    starts[address + size] = ends[address + block_size] = remainder
                    insert(by_size, remainder)
                    live[event], block_size = packed | address, size
                else:
                    del ends[address + block_size]
                    live[event] = free
                allocated += block_size
                highest = max(highest, allocated)
        self.allocated, self.highest = allocated, highest

    def _open_segment(self, size: int) -> None:
        pool = self.small if size <= _SMALL else self.large
        pool.put(*self._reserve_segment(pool, size))

    def _unpack_block(self, packed: int) -> Block:
        size = packed >> ADDRESS_BITS
        return packed & _ADDRESS, size, self.small if size <= _SMALL else self.large

    def _reserve_segment(self, pool: Pool, size: int) -> tuple[int, int]:
        """Return a new segment.

        None touches another, so that blocks merge within one only.
        """
        segment = _LARGE_SEGMENT if size < _LARGE else -(-size // _ROUND_SIZE) * _ROUND_SIZE
        segment = _SMALL_SEGMENT if pool.small else segment
        address, self._next = self._next, self._next + segment + 1
        self.reserved += segment
        return address, segment


class ExpandableAllocator(CachingAllocator):
    """Allocator with one expandable segment per pool.

    The segment grows page by page, and splits down to 512 bytes.
    """

    def _make_pools(self) -> tuple[Pool, Pool]:
        return Pool(small=False, end=0), Pool(small=True, end=1 << (ADDRESS_BITS - 1))

    def allocate(self, size: int) -> Block:
        """Return a block of exactly ``size``.

        The one that could grow is taken last.
        """
        pool = self.small if size <= _SMALL else self.large
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

    def run(
        self, order: Sequence[int], sizes: Sequence[int], check: CancelCheck = lambda: None
    ) -> dict[int, Block]:
        """Run a pass request by request."""
        live: dict[int, Block] = {}
        for index, event in enumerate(order):
            if not index % _EVENTS_PER_CHECK:
                check()
            if event >= 0:
                if sizes[event]:
                    live[event] = self.allocate(sizes[event])
            elif ~event in live:
                self.free(live.pop(~event))
        return live

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
