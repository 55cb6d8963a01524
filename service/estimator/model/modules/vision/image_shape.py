"""Shape of a pass over images in place of tokens."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.pass_shape import PassShape
from service.estimator.tape.sizes import Size
from service.estimator.values.units import ceil_div

ALIGNED_ROWS = 32
"""Rows to which the memory-efficient kernel rounds its log-sum-exp (ATen's
mem_eff_attention/kernel_forward.h).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageShape(PassShape):
    """Pass shape of images in place of a sequence's tokens.

    It has the number of images, and the positions that each takes.
    """

    num_images: int
    positions_per_image: int

    def tokens(self, count: int) -> Size:
        """Return ``count`` elements per position of all images."""
        return sizes.per_sequence(count * self.num_images * self.positions_per_image)

    def aligned(self, count: int) -> Size:
        """Return ``count`` elements per position, rounded up to kernel rows.

        The rows are those of the memory-efficient kernel (its ``kAlignLSE``).
        """
        rows = ceil_div(self.positions_per_image, ALIGNED_ROWS) * ALIGNED_ROWS
        return sizes.per_sequence(count * self.num_images * rows)

    def cached(self, count: int) -> Size:
        """Return ``count`` elements per position: there is no cache."""
        return self.tokens(count)

    def scores(self, count: int) -> Size:
        """Return ``count`` elements per pair of positions of each image."""
        return sizes.per_sequence(count * self.num_images * self.positions_per_image**2)

    def positions(self, count: int) -> Size:
        """Return ``count`` elements per position that all images share."""
        return sizes.constant(count * self.positions_per_image)

    def images(self, count: int) -> Size:
        """Return ``count`` elements per image."""
        return sizes.per_sequence(count * self.num_images)


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedShape(ImageShape):
    """Pass shape of images of several sizes.

    ``groups`` are numbers of images and the positions of one of each; ``num_images`` is their sum,
    and ``positions_per_image`` those of the largest.
    """

    groups: tuple[tuple[int, int], ...]

    @classmethod
    def from_groups(cls, groups: Iterable[tuple[int, int]]) -> ImageShape:
        """Return the shape of groups, the plain one where all are equal."""
        merged: Counter[int] = Counter()
        for count, positions in groups:
            merged[positions] += count
        if len(merged) == 1:
            ((positions, count),) = merged.items()
            return ImageShape(num_images=count, positions_per_image=positions)
        return cls(
            num_images=merged.total(),
            positions_per_image=max(merged),
            groups=tuple((count, positions) for positions, count in merged.items()),
        )

    def tokens(self, count: int) -> Size:
        """Return ``count`` elements per position of all images."""
        return sizes.per_sequence(count * sum(number * size for number, size in self.groups))

    def aligned(self, count: int) -> Size:
        """Return ``count`` elements per position, rounded up in each image."""
        rows = sum(
            number * ceil_div(size, ALIGNED_ROWS) * ALIGNED_ROWS for number, size in self.groups
        )
        return sizes.per_sequence(count * rows)

    def scores(self, count: int) -> Size:
        """Return ``count`` elements per pair of positions of each image."""
        return sizes.per_sequence(count * sum(number * size**2 for number, size in self.groups))


@contextmanager
def record_over_images(ctx: Recording, shape: PassShape) -> Iterator[None]:
    """Record over images rather than tokens.

    The padding, the window and the cache of the text beside them do not count meanwhile.
    """
    before = ctx.shape, ctx.padded, ctx.window_reached, ctx.cache
    ctx.shape, ctx.padded, ctx.window_reached, ctx.cache = shape, False, False, None
    yield
    ctx.shape, ctx.padded, ctx.window_reached, ctx.cache = before
