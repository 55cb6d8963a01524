"""PyTorch's caching allocator.

The rules are those of c10/cuda/CUDACachingAllocator.cpp (torch 2.13) with its default settings: no
limit on splitting, no garbage collection. What a stream has freed serves that stream alone
(``get_free_block`` looks for its blocks, ``BlockComparatorSize`` sorts by stream first). Sizes and
addresses are in blocks of 512 bytes. mypyc may compile this module (``build_native.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from service.estimator.memory.allocator.addresses import AddressSpace, CudaAddresses
from service.estimator.memory.allocator.pool import ADDRESS_BITS, Block, Pool
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
_EVENTS_PER_CHECK: Final = 2048  # a millisecond or two of an interpreter's time

CancelCheck = Callable[[], None]
"""Raises once nobody waits any more for what is computed."""


def _round_up(size: i64, unit: i64) -> i64:
    return (size + unit - 1) // unit * unit


class CachingAllocator:
    """The allocator with segments of fixed size."""

    def __init__(self, addresses: AddressSpace | None = None) -> None:
        """Start empty, with CUDA's addresses or others."""
        self.large = self._make_pool(is_small=False)
        self.small = self._make_pool(is_small=True)
        self.pools = [self.large, self.small]
        self.reserved: i64 = 0
        self.allocated: i64 = 0
        self.highest: i64 = 0
        self.requested: i64 = 0
        self.highest_requested: i64 = 0
        """As ``highest``, of what was asked for: the same whatever blocks were free."""
        self.addresses: AddressSpace = addresses if addresses is not None else CudaAddresses()
        self.limit: i64 = 1 << ADDRESS_BITS
        self.make_room: Callable[[int], None] | None = None
        self._segments: list[Block] = []
        """The first block of each, which stays the first."""

    def __del__(self) -> None:
        """Unlink all blocks.

        They refer to each other, and nothing else would free them.
        """
        for first in self._segments:
            block: Block | None = first
            while block is not None:
                after = block.after
                block.before = None
                block.after = None
                block = after
        for pool in self.pools:
            pool.unlink()

    def allocate(self, size: i64, stream: i64 = 0) -> Block:
        """Return the smallest free block, or a part of a new segment.

        It is one of a stream, of which 0 is the default one.
        """
        is_small = size <= _SMALL
        if stream:
            pool = self._get_pool(stream, is_small=is_small)
        else:
            pool = self.small if is_small else self.large
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
        block.requested = size
        requested = self.requested + size
        self.requested = requested
        if requested > self.highest_requested:  # noqa: PLR1730 - the same
            self.highest_requested = requested
        return block

    def free(self, block: Block) -> None:
        """Take a caller's block back and merge it with its neighbours."""
        self.allocated -= block.size
        self.requested -= block.requested
        block.pool.merge(block)

    def reset_peak(self) -> None:
        """Count the highest sum of blocks from here on."""
        self.highest = self.allocated

    def allocate_all(self, sizes: Iterable[int]) -> list[Block]:
        """Return a block for each size in bytes that is not zero."""
        return [self.allocate((size + BLOCK_BYTES - 1) // BLOCK_BYTES) for size in sizes if size]

    def free_all(self, blocks: Iterable[Block]) -> None:
        """Take blocks back in their order."""
        for block in blocks:
            self.free(block)

    def run(
        self,
        order: tuple[int, ...],
        sizes: list[int],
        check: CancelCheck | None = None,
        streams: list[int] | None = None,
    ) -> dict[int, Block]:
        """Allocate and free in the order of events.

        Event ``i`` allocates ``sizes[i]`` if any, ``~i`` frees it. ``streams[i]`` allocates it;
        None is the default stream for all. Returns the blocks that stay.
        """
        live: list[Block | None] = [None] * len(sizes)
        for begin in range(0, len(order), _EVENTS_PER_CHECK):
            if check is not None:
                check()
            self._run(order[begin : begin + _EVENTS_PER_CHECK], sizes, live, streams)
        return {event: block for event, block in enumerate(live) if block is not None}

    def _run(
        self,
        events: tuple[int, ...],
        sizes: list[int],
        live: list[Block | None],
        streams: list[int] | None,
    ) -> None:
        for event in events:
            if event >= 0:
                if size := sizes[event]:
                    live[event] = self.allocate(size, 0 if streams is None else streams[event])
            else:
                block = live[~event]
                if block is not None:
                    live[~event] = None
                    self.free(block)

    def _get_pool(self, stream: i64, *, is_small: bool) -> Pool:
        while len(self.pools) <= 2 * stream + 1:
            self.pools += [self._make_pool(is_small=False), self._make_pool(is_small=True)]
        return self.pools[2 * stream + is_small]

    def _make_pool(self, *, is_small: bool) -> Pool:
        return Pool(is_small=is_small, max_unsplit=0 if is_small else _SMALL)

    def _find_best_fit(self, pool: Pool, size: i64) -> i64:
        return pool.find(size, 0)

    def _reserve(self, pool: Pool, size: i64) -> None:
        """Add a segment that touches no other: blocks merge within one."""
        large: i64 = _LARGE_SEGMENT if size < _LARGE else _round_up(size, _ROUND_SIZE)
        segment: i64 = _SMALL_SEGMENT if pool.is_small else large
        if self.reserved + segment > self.limit and self.make_room is not None:
            self.make_room(segment)
        block = Block(self.addresses.take(segment), segment, pool)
        self._segments.append(block)
        pool.insert(block)
        self.reserved += segment


class ExpandableAllocator(CachingAllocator):
    """Allocator of one segment per pool, grown by pages, split finely."""

    def _make_pool(self, *, is_small: bool) -> Pool:
        """Return a pool whose segment has no memory yet."""
        pool = Pool(is_small=is_small, max_unsplit=0)
        pool.end = Block(1 << (ADDRESS_BITS - 1) if is_small else 0, 0, pool)
        return pool

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
        block = last if last is not None and last.is_free else Block(end.address, 0, pool)
        if block is last:
            pool.pop(pool.find(block.size, block.address))
        else:
            block.before = last
            block.after = end
            end.before = block
            if last is not None:
                last.after = block
            else:
                self._segments.append(block)
        growth = _round_up(size - block.size, page)
        block.size += growth
        end.address += growth
        self.reserved += growth
        pool.insert(block)


def make_allocator(kind: Allocator, addresses: AddressSpace | None = None) -> CachingAllocator:
    """Return an empty allocator of a kind."""
    return CachingAllocator(addresses) if kind is Allocator.DEFAULT else ExpandableAllocator()
