"""A long repeat in a log: which of its blocks were recorded, and where."""

from collections.abc import Sequence
from dataclasses import dataclass, field

RECORDED = 4
"""Blocks of a repeat that are recorded: one on either side of the two that are compared."""
LAST_LEADING, TEMPLATE = 1, 2
"""The blocks that are compared: those left out stand between them, and are copies of the second."""


@dataclass(slots=True, kw_only=True)
class Loop:
    """A repeat of ``count`` blocks: where in the log each recorded block begins in forward, and in backward from the last on.

    Both lists have one more place, where the last of their blocks ends.
    """

    count: int
    forward: list[int] = field(default_factory=list)
    backward: list[int] = field(default_factory=list)

    def strike(self, place: int) -> None:
        """Follow an event that is struck out of the log."""
        for places in (self.forward, self.backward):
            places[:] = [each - (each > place) for each in places]

    def place(self, block: int) -> int:
        """Return which of all blocks a recorded one is."""
        return block if block <= LAST_LEADING else block + self.count - RECORDED

    def copies(self, phase: int) -> Sequence[int]:
        """Return the places of the blocks that were left out, in the order of a phase."""
        left_out = range(TEMPLATE, self.count - RECORDED + TEMPLATE)
        return left_out[::-1] if phase else left_out
