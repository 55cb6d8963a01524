"""A long repeat in a log: its recorded blocks and their positions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

RECORDED = 4
"""Blocks of a repeat that are recorded: one on either side of the two that are compared."""
LAST_LEADING, TEMPLATE = 1, 2
"""The blocks that are compared: those left out stand between them, and are copies of the second."""


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
