"""Long repeats in a log, and the parts between their ends."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from service.estimator.tape.kernel_buffers import KernelBuffer

RECORDED = 4
"""Blocks of a repeat that are recorded: one on either side of the two that are compared."""
LAST_LEADING, TEMPLATE = 1, 2
"""The blocks that are compared: those left out stand between them, and are copies of the second."""
MIDDLE = frozenset({LAST_LEADING, TEMPLATE})
OUTSIDE = -1
"""In place of a loop's number: between the loops."""


@dataclass(slots=True, kw_only=True)
class Loop:
    """A repeat of ``count`` blocks and the log positions of those recorded.

    ``forward`` is where in the log each recorded block begins in forward, ``backward`` the same in
    backward from the last block on. Both lists have one more place, where the last of their blocks
    ends.
    """

    count: int
    forward: list[int] = field(default_factory=list)
    backward: list[int] = field(default_factory=list)

    def drop_event(self, index: int) -> None:
        """Adjust the positions for an event that left the log."""
        for places in (self.forward, self.backward):
            places[:] = [start - (start > index) for start in places]

    def get_block_index(self, block: int) -> int:
        """Return the index among all blocks of a recorded one."""
        return block if block <= LAST_LEADING else block + self.count - RECORDED

    def get_copied_blocks(self, phase: int) -> Sequence[int]:
        """Return the indices of the omitted blocks in a phase's order."""
        omitted = range(TEMPLATE, self.count - RECORDED + TEMPLATE)
        return omitted[::-1] if phase else omitted


class Part(NamedTuple):
    """Events of one recorded block, or of the part between loops.

    Phase 0 is forward, phase 1 is backward. It makes ``num_storages`` from number ``first`` on;
    ``workspaces`` are those of them that the first block of all has alone.
    """

    loop: int
    phase: int
    block: int
    begin: int
    end: int
    first: int
    num_storages: int
    workspaces: tuple[int, ...]

    def get_position(self, storage: int) -> int:
        """Return the number of a storage among those that all blocks make."""
        return storage - self.first - sum(storage > workspace for workspace in self.workspaces)


def iter_parts(
    order: Sequence[int], loops: Sequence[Loop], buffers: Mapping[int, KernelBuffer]
) -> Iterator[Part]:
    """Yield the parts of the whole log in order, block by block.

    Some of its storages are buffers of kernels.
    """
    first = 0
    staying = [number for number, buffer in sorted(buffers.items()) if buffer.stays]
    for loop, phase, block, begin, end in _iter_places(loops, len(order)):
        count = sum([event >= 0 for event in order[begin:end]])
        workspaces = tuple(number for number in staying if first <= number < first + count)
        yield Part(loop, phase, block, begin, end, first, count, workspaces)
        first += count


def _iter_places(loops: Sequence[Loop], length: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield loop, phase, block, begin and end of each part."""
    blocks: list[tuple[int, int, int, int, int]] = []
    for number, loop in enumerate(loops):
        blocks += [(number, 0, turn, *ends) for turn, ends in enumerate(pairwise(loop.forward))]
        blocks += [
            (number, 1, RECORDED - 1 - turn, *ends)
            for turn, ends in enumerate(pairwise(loop.backward))
        ]
    blocks.sort(key=lambda block: block[3])
    reached = 0
    for block in blocks:
        *_, begin, end = block
        yield (OUTSIDE, 0, 0, reached, begin)
        yield block
        reached = end
    yield (OUTSIDE, 0, 0, reached, length)
