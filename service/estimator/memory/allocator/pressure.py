"""Release of cached memory on a full GPU.

c10/cuda/CUDACachingAllocator.cpp (torch 2.11), ``malloc``: memory that the GPU refuses is requested
again after everything cached was released (``release_cached_blocks``); only then is it out of
memory. Segments of fixed size go back where no block of them is in use, pages of an expandable one
where no block in use lies in them.
"""

from collections.abc import Callable
from functools import partial

from service.estimator.memory.allocator.caching_allocator import CachingAllocator
from service.estimator.memory.allocator.pool import Block, Pool

_LARGE_PAGE, _SMALL_PAGE = 40960, 4096
"""20 and 2 MiB in blocks of 512 bytes."""


class DeviceFullError(Exception):
    """A request that finds no room after all cached memory was released."""


def limit_allocator(allocator: CachingAllocator, limit: int) -> None:
    """Let an allocator have so many blocks of 512 bytes.

    It raises DeviceFullError where they do not do.
    """
    release = _release_segments if allocator.large.end is None else _unmap_pages
    allocator.limit = limit
    allocator.make_room = partial(_make_room, allocator, release)


def _make_room(
    allocator: CachingAllocator, release: Callable[[CachingAllocator], None], size: int
) -> None:
    release(allocator)
    if allocator.reserved + size > allocator.limit:
        raise DeviceFullError


def _release_segments(allocator: CachingAllocator) -> None:
    for pool in allocator.pools:
        unused = [block for block in pool.blocks if block.before is None and block.after is None]
        for block in unused:
            pool.pop(pool.find(block.size, block.address))
            allocator.reserved -= block.size


def _unmap_pages(allocator: CachingAllocator) -> None:
    for pool in allocator.pools:
        page = _SMALL_PAGE if pool.is_small else _LARGE_PAGE
        for block in list(pool.blocks):
            begin = -(-block.address // page) * page
            end = (block.address + block.size) // page * page
            if end > begin:
                _unmap(pool, block, begin, end)
                allocator.reserved -= end - begin


def _unmap(pool: Pool, block: Block, begin: int, end: int) -> None:
    """Take the pages between two addresses out of a free block.

    Its other parts stay free; the hole between them is never used again, since addresses are many.
    """
    pool.pop(pool.find(block.size, block.address))
    last = block.address + block.size
    hole = block
    if begin > block.address:
        hole = type(block)(begin, end - begin, pool)
        _insert_after(block, hole)
        block.size = begin - block.address
        pool.insert(block)
    else:
        hole.size = end - begin
        hole.is_free = False
    if last > end:
        rest = type(block)(end, last - end, pool)
        _insert_after(hole, rest)
        pool.insert(rest)


def _insert_after(block: Block, following: Block) -> None:
    following.before, following.after = block, block.after
    if block.after is not None:
        block.after.before = following
    block.after = following
