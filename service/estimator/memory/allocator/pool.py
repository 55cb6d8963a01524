"""Free blocks of PyTorch's caching allocator.

mypyc may compile this module (``build_native.py``). Both forms are the same code, but for the
search: interpreted, the standard library's over packed keys is fastest; compiled, a loop is.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from service.estimator.tape.compiling import mypyc_attr

if TYPE_CHECKING:
    from mypy_extensions import i64

COMPILED: Final = not __file__.endswith(".py")
ADDRESS_BITS: Final = 40


@mypyc_attr(acyclic=True)
class Block:
    """A stretch of a segment, in use or free, between its neighbours.

    No garbage collector sees it: its allocator unlinks it in the end.
    """

    __slots__ = ("address", "after", "before", "is_free", "pool", "requested", "size")

    def __init__(self, address: i64, size: i64, pool: Pool) -> None:
        """Start in use and alone in a segment of a pool."""
        self.address: i64 = address
        self.size: i64 = size
        self.requested: i64 = 0
        self.pool: Pool = pool
        self.is_free: bool = False
        self.before: Block | None = None
        self.after: Block | None = None


class Pool:
    """The free blocks of one kind, sorted by size and address.

    They are those of one stream. Remainders up to ``max_unsplit`` stay with their block; ``end``
    ends a segment that can grow.
    """

    __slots__ = ("_keys", "_spares", "blocks", "end", "is_small", "max_unsplit")

    def __init__(self, *, is_small: bool, max_unsplit: i64) -> None:
        """Start without any memory."""
        self.is_small: bool = is_small
        self.max_unsplit: i64 = max_unsplit
        self.end: Block | None = None
        self.blocks: list[Block] = []
        self._keys: list[int] = []
        self._spares: list[Block] = []

    def find(self, size: i64, address: i64) -> i64:
        """Return the first index not below a size and address."""
        if not COMPILED:
            return bisect_left(self._keys, size << ADDRESS_BITS | address)
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
            key = block.size << ADDRESS_BITS | block.address
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
            key = block.size << ADDRESS_BITS | block.address
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
        remainder = self._spares.pop() if self._spares else Block(0, 0, self)
        remainder.address = block.address + size
        remainder.size = block.size - size
        remainder.before = block
        remainder.after = after
        if after is not None:
            after.before = remainder
        block.after = remainder
        block.size = size
        self.replace(index, remainder)

    def unlink(self) -> None:
        """Drop all blocks, and what those out of use refer to."""
        for block in self._spares:
            block.before = None
            block.after = None
        self._spares.clear()
        self._keys.clear()
        self.blocks.clear()
        self.end = None

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


def _is_below(block: Block, other: Block) -> bool:
    return block.size < other.size or (block.size == other.size and block.address < other.address)
