"""Chunks of images that attention reads by themselves."""

from collections.abc import Iterable
from dataclasses import dataclass

from service.estimator.model.images import Grid
from service.estimator.model.modules.vision.image_shape import ImageShape, MixedShape
from service.estimator.tape.sizes import Size, constant


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleChunkShape(MixedShape):
    """Chunks of images that are scored one at a time."""

    @classmethod
    def from_chunks(cls, chunks: ImageShape) -> "SingleChunkShape":
        """Return the same chunks, scored one by one."""
        number, largest = chunks.num_images, chunks.positions_per_image
        groups = chunks.groups if isinstance(chunks, MixedShape) else ((number, largest),)
        return cls(num_images=number, positions_per_image=largest, groups=groups)

    def scores(self, count: int) -> Size:
        """Return ``count`` elements per pair of positions of the largest chunk."""
        return constant(count * self.positions_per_image**2)


def split_windows(grids: Iterable[Grid], patch: int, side: int) -> ImageShape:
    """Return windows of ``side`` patches each way, cut at edges.

    (``models/qwen2_5_vl/modeling_qwen2_5_vl.py``, ``get_window_index``.)
    """
    groups: list[tuple[int, int]] = []
    for grid in grids:
        down, across = (divmod(pixels // patch, side) for pixels in (grid.height, grid.width))
        for rows, tall in ((down[0], side), (1, down[1])):
            for columns, wide in ((across[0], side), (1, across[1])):
                if rows * columns * tall * wide:
                    groups.append((grid.count * rows * columns, tall * wide))
    return MixedShape.from_groups(groups)
