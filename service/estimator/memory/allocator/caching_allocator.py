"""PyTorch's caching allocator.

The rules are those of c10/cuda/CUDACachingAllocator.cpp (torch 2.13) with its default settings on
one stream: no limit on splitting, no garbage collection. Sizes and addresses are in blocks of 512
bytes. mypyc may compile this module (``build_native.py``). Both forms are the same code, but for
the search: interpreted, the standard library's over packed keys is fastest; compiled, a loop is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from service.estimator.memory.allocator.addresses import AddressSpace, CudaAddresses
from service.estimator.values.workload import Allocator

if TYPE_CHECKING:
    from mypy_extensions import i64

COMPILED: Final = not __file__.endswith(".py")
BLOCK_BYTES: Final = 512
_SMALL: Final = 2048  # kSmallSize: requests up to 1 MiB come from the pool of small blocks
_SMALL_SEGMENT: Final = 4096  # kSmallBuffer: its segments have 2 MiB
_LARGE: Final = 20480  # kMinLargeAlloc: requests from 10 MiB on get a segment of their own size
_LARGE_SEGMENT: Final = 40960  # kLargeBuffer: requests between get a segment of 20 MiB
_ROUND_SIZE: Final = 4096  # kRoundLarge: larger segments are rounded up to 2 MiB
_ADDRESS_BITS: Final = 40
_EVENTS_PER_CHECK: Final = 2048  # a millisecond or two of an interpreter's time

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

    Remainders up to ``max_unsplit`` stay with their block; ``end`` ends a segment that can grow.
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
        """Return the first index not below a size and address."""
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

    def pop(self, index: i64) -> None:
        """Take a block out of the list."""
        if not COMPILED:
            del self._keys[index]
        self.blocks.pop(index)

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

    def replace(self, index: i64, block: Block) -> None:
        """Replace a block with another that mostly has the same neighbours."""
        blocks, keys = self.blocks, self._keys
        if COMPILED:
            stays = (index == 0 or _is_below(blocks[index - 1], block)) and (
                index + 1 == len(blocks) or _is_below(block, blocks[index + 1])
            )
        else:
            key = block.size << _ADDRESS_BITS | block.address
            stays = (index == 0 or keys[index - 1] < key) and (
                index + 1 == len(keys) or key < keys[index + 1]
            )
            keys[index] = key
        if stays:
            blocks[index] = block
            block.is_free = True
        else:
            self.pop(index)
            self.insert(block)

    def split(self, index: i64, size: i64) -> None:
        """Take a part of a block out; the remainder stays free."""
        block = self.blocks[index]
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
        self.replace(index, remainder)

    def merge(self, block: Block) -> None:
        """Add a block together with its free neighbours."""
        before = block.before
        after = block.after
        if after is not None and after.is_free:
            index = self.find(after.size, after.address)
            self._absorb(block, after)
            if before is None or not before.is_free:
                self.replace(index, block)
                return
            self.pop(index)
        if before is not None and before.is_free:
            index = self.find(before.size, before.address)
            self._absorb(before, block)
            self.replace(index, before)
        else:
            self.insert(block)

    def _absorb(self, block: Block, following: Block) -> None:
        after = following.after
        block.size += following.size
        block.after = after
        if after is not None:
            after.before = block
        self._spares.append(following)


def _round_up(size: i64, unit: i64) -> i64:
    return (size + unit - 1) // unit * unit


def _is_below(block: Block, other: Block) -> bool:
    return block.size < other.size or (block.size == other.size and block.address < other.address)


class CachingAllocator:
    """The allocator with segments of fixed size."""

    def __init__(self, addresses: AddressSpace | None = None) -> None:
        """Start empty, with CUDA's addresses or others."""
        self.large = Pool(is_small=False, max_unsplit=_SMALL)
        self.small = Pool(is_small=True, max_unsplit=0)
        self.reserved: i64 = 0
        self.allocated: i64 = 0
        self.highest: i64 = 0
        self.addresses: AddressSpace = addresses if addresses is not None else CudaAddresses()
        self.limit: i64 = 1 << _ADDRESS_BITS
        self.make_room: Callable[[int], None] | None = None

    def allocate(self, size: i64) -> Block:
        """Return the smallest free block, or a part of a new segment."""
        pool = self.small if size <= _SMALL else self.large
        index = self._find_best_fit(pool, size)
        if index == len(pool.blocks):
            self._reserve(pool, size)
            index = self._find_best_fit(pool, size)
        block = pool.blocks[index]
        if block.size - size > pool.max_unsplit:
            pool.split(index, size)
        else:
            pool.pop(index)
        block.is_free = False
        allocated = self.allocated + block.size
        self.allocated = allocated
        if allocated > self.highest:  # noqa: PLR1730 - ``max`` is a call
            self.highest = allocated
        return block

    def free(self, block: Block) -> None:
        """Take a caller's block back and merge it with its neighbours."""
        self.allocated -= block.size
        pool = self.small if block.size <= _SMALL else self.large
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
        """Allocate and free in the order of events.

        Event ``i`` allocates ``sizes[i]`` if any, ``~i`` frees it. Returns the blocks that stay.
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
                if size := sizes[event]:
                    live[event] = self.allocate(size)
            else:
                block = live[~event]
                if block is not None:
                    live[~event] = None
                    self.free(block)

    def _find_best_fit(self, pool: Pool, size: i64) -> i64:
        return pool.find(size, 0)

    def _reserve(self, pool: Pool, size: i64) -> None:
        """Add a segment that touches no other: blocks merge within one."""
        large: i64 = _LARGE_SEGMENT if size < _LARGE else _round_up(size, _ROUND_SIZE)
        segment: i64 = _SMALL_SEGMENT if pool.is_small else large
        if self.reserved + segment > self.limit and self.make_room is not None:
            self.make_room(segment)
        pool.insert(Block(self.addresses.take(segment), segment))
        self.reserved += segment


class ExpandableAllocator(CachingAllocator):
    """Allocator of one segment per pool, grown by pages, split finely."""

    def __init__(self) -> None:
        """Start with two segments that have no memory yet."""
        super().__init__()
        self.large = Pool(is_small=False, max_unsplit=0, end=Block(0, 0))
        self.small = Pool(is_small=True, max_unsplit=0, end=Block(1 << (_ADDRESS_BITS - 1), 0))

    def _find_best_fit(self, pool: Pool, size: i64) -> i64:
        """Return the best fit's index, that of the growing block last."""
        index = pool.find(size, 0)
        blocks = pool.blocks
        if index + 1 < len(blocks) and blocks[index].after is pool.end:
            index += 1
        return index

    def _reserve(self, pool: Pool, size: i64) -> None:
        """Grow the segment by whole pages, from a free last block."""
        page: i64 = _SMALL_SEGMENT if pool.is_small else _LARGE_SEGMENT
        end = pool.end
        assert end is not None  # noqa: S101 - both pools of this allocator were made with one
        last = end.before
        growth = _round_up(size - (last.size if last is not None and last.is_free else 0), page)
        if self.reserved + growth > self.limit and self.make_room is not None:
            self.make_room(_round_up(size, page))
            last = end.before
        block = last if last is not None and last.is_free else Block(end.address, 0)
        if block is last:
            pool.pop(pool.find(block.size, block.address))
        else:
            block.before = last
            block.after = end
            end.before = block
            if last is not None:
                last.after = block
        growth = _round_up(size - block.size, page)
        block.size += growth
        end.address += growth
        self.reserved += growth
        pool.insert(block)


def make_allocator(kind: Allocator, addresses: AddressSpace | None = None) -> CachingAllocator:
    """Return an empty allocator of a kind."""
    return CachingAllocator(addresses) if kind is Allocator.DEFAULT else ExpandableAllocator()
