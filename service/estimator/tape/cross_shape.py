"""Shapes of passes whose queries and keys differ in length.

They are those of an encoder, of a decoder, and of the attention between them.
"""

from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.pass_shape import ROWS, PassShape, count_key_padding
from service.estimator.tape.sizes import Size
from service.estimator.values.units import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossShape(PassShape):
    """Queries of one length that meet keys of another.

    None is the length of the sequence, which sizes leave open.
    """

    queries: int | None = None
    keys: int | None = None

    def tokens(self, count: int) -> Size:
        """Return ``count`` elements per query."""
        return _count_per_length(count, self.queries)

    def aligned(self, count: int) -> Size | None:
        """Return ``count`` elements per query of an aligned, known length.

        It is rounded up to the memory-efficient kernel's rows.
        """
        if self.queries is None:
            return PassShape.aligned(self, count)
        return sizes.per_sequence(count * ROWS * ceil_div(self.queries, ROWS))

    def cached(self, count: int) -> Size:
        """Return ``count`` elements per key."""
        return _count_per_length(count, self.keys)

    def positions(self, count: int) -> Size:
        """Return ``count`` elements per query position, shared by all sequences."""
        return (
            sizes.per_position(count)
            if self.queries is None
            else sizes.constant(count * self.queries)
        )

    def scores(self, count: int) -> Size:
        """Return ``count`` elements per query and key."""
        if self.queries is None and self.keys is None:
            return sizes.per_score(count)
        if self.queries is None:
            return sizes.per_token(count * (self.keys or 0))
        return _count_per_length(count * self.queries, self.keys)

    def count_columns_padding(self) -> int:
        """Return the columns that fill up a mask."""
        if self.keys is None:
            return PassShape.count_columns_padding(self)
        return count_key_padding(self.keys)

    def shared_mask(self, count: int) -> Size:
        """Return ``count`` elements per query and key position.

        The mask is one for all sequences together.
        """
        if self.queries is None and self.keys is None:
            return sizes.per_mask_element(count)
        if self.queries is None or self.keys is None:
            return sizes.per_position(count * (self.queries or self.keys or 0))
        return sizes.constant(count * self.queries * self.keys)


def _count_per_length(count: int, length: int | None) -> Size:
    return sizes.per_token(count) if length is None else sizes.per_sequence(count * length)
