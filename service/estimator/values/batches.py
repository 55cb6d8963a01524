"""Rows that the sequences of a micro batch make."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum


class SequencePacking(StrEnum):
    """Way in which the sequences of a micro batch become rows."""

    NONE = "none"
    """a row each, padded to the longest"""
    PADDING_FREE = "padding_free"
    """one row of all of them, one after another (TRL's ``padding_free``)"""
    PACKED = "packed"
    """one row of blocks that are filled with sequences (TRL's ``packing``)"""


Lengths = tuple[tuple[int, int], ...]
"""Tokens of sequences and how many have them, the longest first."""


def count_lengths(lengths: Sequence[int]) -> Lengths:
    """Return how many sequences have each length."""
    return tuple(sorted(Counter(lengths).items(), reverse=True))


def get_row_length(
    packing: SequencePacking, lengths: Lengths, *, num_sequences: int, max_length: int
) -> int:
    """Return the tokens of a row of the worst batch.

    Longer sequences are cut to ``max_length``. Without ``lengths`` all have as many.
    """
    if packing is SequencePacking.PACKED or not lengths:
        return max_length * (1 if packing is SequencePacking.NONE else num_sequences)
    longest = min(lengths[0][0], max_length)
    if packing is SequencePacking.NONE:
        return longest
    tokens, left = 0, num_sequences
    for length, count in lengths:
        tokens += min(length, max_length) * min(count, left)
        left -= min(count, left)
    return tokens
