"""Element counts of a pass.

They are per token, position, row and score.
"""

from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.sizes import Size

ROWS = 32
"""Queries that the memory-efficient kernel takes at once
(aten/native/transformers/cuda/attention.cu, ``kAlignLSE``).
"""
_ALIGNED_KEYS = 8
"""Elements of which a row of a bias has a multiple (ATen ``transformers/attention.cpp``,
``mem_eff_alignment``).
"""


def count_key_padding(num_keys: int) -> int:
    """Return the columns that fill up so many keys (``pad_bias``)."""
    return -num_keys % _ALIGNED_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class PassShape:
    """Elements per token, position, row and score of a pass.

    In training and prefill every position is a query; in a decode step only the last one is.
    """

    decoding: bool = False
    static: bool = False
    """Whether every query meets a whole window of a static cache."""
    window: int | None = None
    """Tokens that each query reads at most, when that is less than there are."""
    own_positions: bool = False
    """Whether the caller gives each sequence positions of its own, as ``generate`` does."""
    row_padding: int = 0
    """Positions that all of them lack to a multiple of the memory-efficient kernel's rows."""

    def tokens(self, count: int) -> Size:
        """Return ``count`` elements per token that is processed."""
        return sizes.per_sequence(count) if self.decoding else sizes.per_token(count)

    def aligned(self, count: int) -> Size | None:
        """Return ``count`` elements per token of an aligned length.

        None where it is aligned.

        The length is rounded up to the memory-efficient kernel's 32 rows.
        """
        padding = sizes.per_sequence(count * self.row_padding)
        return sizes.add(self.tokens(count), padding) if self.row_padding else None

    def cached(self, count: int) -> Size:
        """Return ``count`` elements per token that is stored.

        A window's worth at most is stored beside the processed ones.
        """
        if self.window is not None and (self.decoding or self.static):
            return sizes.per_sequence(count * self.window)
        return sizes.per_token(count)

    def scores(self, count: int) -> Size:
        """Return ``count`` elements per query and key."""
        if self.static and self.window is not None:
            return sizes.per_token(count * self.window)
        return self.cached(count) if self.decoding else sizes.per_score(count)

    def positions(self, count: int) -> Size:
        """Return ``count`` elements per position that is processed."""
        if self.own_positions:
            return self.tokens(count)
        return sizes.constant(count) if self.decoding else sizes.per_position(count)

    def mask(self, count: int) -> Size:
        """Return ``count`` elements per query and key position of each sequence."""
        return self.scores(count)

    def padded_mask(self) -> Size:
        """Return the elements of a mask with filled rows."""
        return sizes.add(self.mask(1), self.tokens(self.count_columns_padding()))

    def count_columns_padding(self) -> int:
        """Return the columns that fill up a mask."""
        if self.window is not None and (self.decoding or self.static):
            return count_key_padding(self.window)
        return self.row_padding % _ALIGNED_KEYS

    def shared_mask(self, count: int) -> Size:
        """Return ``count`` elements per query and key position.

        The mask is one for all sequences together.
        """
        if self.static and self.window is not None:
            return sizes.per_position(count * self.window)
        if self.decoding:
            return (
                sizes.constant(count * self.window)
                if self.window is not None
                else sizes.per_position(count)
            )
        return sizes.per_mask_element(count)
