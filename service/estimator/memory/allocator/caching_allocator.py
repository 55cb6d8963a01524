"""PyTorch's caching allocator: which block a request gets, and what is split, merged, reserved.

The rules are those of c10/cuda/CUDACachingAllocator.cpp (torch 2.13) with its default settings on
one stream: no limit on splitting, no garbage collection, memory enough. Sizes and addresses are
counted in blocks of 512 bytes, the smallest that there are.

This is the one module of the estimator that mypyc may compile (``setup.py``): a training step is
tens of thousands of requests, whose places depend on each other, so that none can be left out. Both
forms are the same code, but for the search of a pool's list: interpreted, the standard library's
search in C over packed keys is faster than a loop; compiled, the loop is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from service.estimator.values.workload import Allocator

if TYPE_CHECKING:
    from mypy_extensions import i64

COMPILED: Final = not __file__.endswith(".py")
"""Whether this is machine code."""
BLOCK_BYTES: Final = 512
_SMALL: Final = 2048
"""Requests up to 1 MiB come from the pool of small blocks (kSmallSize)."""
_SMALL_SEGMENT: Final = 4096
"""Small segments have 2 MiB (kSmallBuffer)."""
_LARGE: Final = 20480
"""Requests from 10 MiB on get a segment of their own size (kMinLargeAlloc)."""
_LARGE_SEGMENT: Final = 40960
"""Requests between 1 and 10 MiB get a segment of 20 MiB (kLargeBuffer)."""
_ROUND_SIZE: Final = 4096
"""Larger segments are rounded up to 2 MiB (kRoundLarge)."""
_ADDRESS_BITS: Final = 40
_EVENTS_PER_CHECK: Final = 2048
"""Events of a pass that are run at once: a millisecond or two of an interpreter's time."""

CancelCheck = Callable[[], None]
"""Raises once nobody waits any more for what is computed."""


class Block:
    """A stretch of a segment, in use or free, between its neighbours."""

    __slots__ = ("address", "after", "before", "is_free", "size")

    def __init__(self, address: i64, size: i64) -> None:
        """Start in use and alone in a segment."""
        self.address: i64 = address
        self.size: i64 = size
        self.is_free: bool = False
        self.before: Block | None = None
        self.after: Block | None = None


class Pool:
    """The free blocks of one kind, sorted by size and address.

    ``max_unsplit`` is the largest remainder that stays with its block; ``end`` stands where a
    segment that grows ends, and is never free.
    """

    __slots__ = ("_keys", "_spares", "blocks", "end", "is_small", "max_unsplit")

    def __init__(self, *, is_small: bool, max_unsplit: i64, end: Block | None = None) -> None:
        """Start without any memory."""
        self.is_small: bool = is_small
        self.max_unsplit: i64 = max_unsplit
        self.end: Block | None = end
        self.blocks: list[Block] = []
        self._keys: list[int] = []
        self._spares: list[Block] = []

    def find(self, size: i64, address: i64) -> i64:
        """Return the index of the first block that is not below a size and an address."""
        if not COMPILED:
            return bisect_left(self._keys, size << _ADDRESS_BITS | address)
        blocks = self.blocks
        low: i64 = 0
        high: i64 = len(blocks)
        while low < high:
            middle = (low + high) >> 1
            block = blocks[middle]
            if block.size < size or (block.size == size and block.address < address):
                low = middle + 1
            else:
                high = middle
        return low

    def pop(self, index: i64) -> Block:
        """Take a block out of the list."""
        if not COMPILED:
            del self._keys[index]
        return self.blocks.pop(index)

    def remove(self, block: Block) -> None:
        """Take a known block out of the list."""
        if COMPILED:
            self.blocks.pop(self.find(block.size, block.address))
        else:
            index = bisect_left(self._keys, block.size << _ADDRESS_BITS | block.address)
            del self._keys[index]
            del self.blocks[index]

    def insert(self, block: Block) -> None:
        """Add a block that is free and has no free neighbour."""
        block.is_free = True
        if COMPILED:
            self.blocks.insert(self.find(block.size, block.address), block)
        else:
            key = block.size << _ADDRESS_BITS | block.address
            index = bisect_left(self._keys, key)
            self._keys.insert(index, key)
            self.blocks.insert(index, block)

    def split(self, block: Block, size: i64) -> None:
        """Cut a block down to a size; what remains of it is free."""
        after = block.after
        remainder = self._spares.pop() if self._spares else Block(0, 0)
        remainder.address = block.address + size
        remainder.size = block.size - size
        remainder.before = block
        remainder.after = after
        if after is not None:
            after.before = remainder
        block.after = remainder
        block.size = size
        self.insert(remainder)

    def merge(self, block: Block) -> None:
        """Add a block together with its free neighbours."""
        after = block.after
        if after is not None and after.is_free:
            self.remove(after)
            self._absorb(block, after)
        before = block.before
        if before is not None and before.is_free:
            self.remove(before)
            self._absorb(before, block)
            block = before
        self.insert(block)

    def _absorb(self, block: Block, following: Block) -> None:
        after = following.after
        block.size += following.size
        block.after = after
        if after is not None:
            after.before = block
        self._spares.append(following)


class CachingAllocator:
    """The allocator with segments of fixed size."""

    def __init__(self) -> None:
        """Start with nothing reserved."""
        self.large = Pool(is_small=False, max_unsplit=_SMALL)
        self.small = Pool(is_small=True, max_unsplit=0)
        self.reserved: i64 = 0
        self.allocated: i64 = 0
        self.highest: i64 = 0
        self._next_address: i64 = 0

    def get_pool(self, size: i64) -> Pool:
        """Return the pool that a request or a block in use belongs to."""
        return self.small if size <= _SMALL else self.large

    def allocate(self, size: i64) -> Block:
        """Return the smallest free block of at least ``size``, or a part of a new segment."""
        pool = self.small if size <= _SMALL else self.large
        index = self._find_best_fit(pool, size)
        block = pool.pop(index) if index < len(pool.blocks) else self._reserve(pool, size)
        if block.size - size > pool.max_unsplit:
            pool.split(block, size)
        block.is_free = False
        allocated = self.allocated + block.size
        self.allocated = allocated
        if allocated > self.highest:  # noqa: PLR1730 - ``max`` is a call
            self.highest = allocated
        return block

    def free(self, block: Block) -> None:
        """Take a block back, and merge it with its neighbours; it is no longer the caller's."""
        size = block.size
        self.allocated -= size
        pool = self.small if size <= _SMALL else self.large
        pool.merge(block)

    def allocate_all(self, sizes: Iterable[int]) -> list[Block]:
        """Return a block for each size in bytes that is not zero."""
        return [self.allocate((size + BLOCK_BYTES - 1) // BLOCK_BYTES) for size in sizes if size]

    def free_all(self, blocks: Iterable[Block]) -> None:
        """Take blocks back in their order."""
        for block in blocks:
            self.free(block)

    def run(
        self, order: tuple[int, ...], sizes: list[int], check: CancelCheck | None = None
    ) -> dict[int, Block]:
        """Allocate ``sizes[i]`` where an event is ``i``, free it where one is ``~i``.

        Return what stays, in the order of its numbers. What has no size, and what is freed and not
        there, is passed over. ``check`` is called now and then, and may raise.
        """
        live: list[Block | None] = [None] * len(sizes)
        for begin in range(0, len(order), _EVENTS_PER_CHECK):
            if check is not None:
                check()
            self._run(order[begin : begin + _EVENTS_PER_CHECK], sizes, live)
        return {event: block for event, block in enumerate(live) if block is not None}

    def _run(self, events: tuple[int, ...], sizes: list[int], live: list[Block | None]) -> None:
        for event in events:
            if event >= 0:
                size: i64 = sizes[event]
                if size:
                    live[event] = self.allocate(size)
            else:
                block = live[~event]
                if block is not None:
                    live[~event] = None
                    self.free(block)

    def _find_best_fit(self, pool: Pool, size: i64) -> i64:
        return pool.find(size, 0)

    def _reserve(self, pool: Pool, size: i64) -> Block:
        """Return a new segment; none touches another, so that blocks merge within one only."""
        segment: i64 = (
            _LARGE_SEGMENT
            if size < _LARGE
            else (size + _ROUND_SIZE - 1) // _ROUND_SIZE * _ROUND_SIZE
        )
        if pool.is_small:
            segment = _SMALL_SEGMENT
        block = Block(self._next_address, segment)
        self._next_address += segment + 1
        self.reserved += segment
        return block


class ExpandableAllocator(CachingAllocator):
    """The allocator with one segment per pool that grows by pages, split down to 512 bytes."""

    def __init__(self) -> None:
        """Start with two segments that have no memory yet."""
        super().__init__()
        self.large = Pool(is_small=False, max_unsplit=0, end=Block(0, 0))
        self.small = Pool(is_small=True, max_unsplit=0, end=Block(1 << (_ADDRESS_BITS - 1), 0))

    def _find_best_fit(self, pool: Pool, size: i64) -> i64:
        """Return the index of the best fit; the block that could grow is taken last."""
        index = pool.find(size, 0)
        blocks = pool.blocks
        if index + 1 < len(blocks) and blocks[index].after is pool.end:
            index += 1
        return index

    def _reserve(self, pool: Pool, size: i64) -> Block:
        """Grow the segment by whole pages, from its last block on when that is free."""
        end = pool.end
        assert end is not None  # noqa: S101 - both pools of this allocator were made with one
        block = end.before
        if block is not None and block.is_free:
            pool.remove(block)
        else:
            block = _append(end)
        page: i64 = _SMALL_SEGMENT if pool.is_small else _LARGE_SEGMENT
        growth = (size - block.size + page - 1) // page * page
        block.size += growth
        end.address += growth
        self.reserved += growth
        return block


def _append(end: Block) -> Block:
    """Return a block without memory at the end of a segment."""
    block = Block(end.address, 0)
    block.before = end.before
    block.after = end
    if block.before is not None:
        block.before.after = block
    end.before = block
    return block


def make_allocator(kind: Allocator) -> CachingAllocator:
    """Return an empty allocator of a kind."""
    return ExpandableAllocator() if kind is Allocator.EXPANDABLE_SEGMENTS else CachingAllocator()
