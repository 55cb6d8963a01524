"""Tiles into which processors cut an image.

Each function takes pixels, height first, and returns rows and columns of tiles, as the function of
transformers 5.23 that it names, ties and rounding included.
"""

import math
import struct
from collections.abc import Iterable
from functools import cache

from service.estimator.values.errors import InvalidInputError

MOST_TILES = 256
"""Tiles of one image that a processor's fields may ask for."""


def find_closest_aspect(
    height: int, width: int, *, tile: int, fewest: int, limit: int
) -> tuple[int, int]:
    """Return the grid whose aspect is nearest to the image's.

    Of equal ones a larger grid is taken where the image has more than half of its pixels
    (``got_ocr2/image_processing_got_ocr2.py``, ``get_optimal_tiled_canvas``; the same in
    ``lfm2_vl`` and ``phi4_multimodal``, ``find_closest_aspect_ratio``).
    """
    aspect, area = width / height, width * height
    best, smallest = (1, 1), math.inf
    for columns, rows in _list_grids(fewest, limit):
        difference = abs(aspect - columns / rows)
        if difference < smallest:
            best, smallest = (rows, columns), difference
        elif difference == smallest and area > 0.5 * tile * tile * columns * rows:
            best = (rows, columns)
    return best


def fit_canvas(height: int, width: int, *, tile: int, limit: int) -> tuple[int, int]:
    """Return the grid that enlarges the image least, or shrinks it least.

    Of several the one with the fewest tiles is taken (``mllama/image_processing_mllama.py``,
    ``get_optimal_tiled_canvas``).
    """
    _check_tiles(limit)
    grids = [
        (rows, columns)
        for columns in range(1, limit + 1)
        for rows in range(1, limit + 1)
        if rows * columns <= limit
    ]
    scales = [min(tile * rows / height, tile * columns / width) for rows, columns in grids]
    return _take_smallest(grids, scales)


def fit_canvas_by_scale(height: int, width: int, *, tile: int, limit: int) -> tuple[int, int]:
    """Return the first grid that enlarges least, in order of tiles.

    (``cohere2_vision/image_processing_cohere2_vision.py``, ``get_optimal_tiled_canvas``.)
    """
    grids = [(rows, columns) for columns, rows in _list_grids(1, limit)]
    scales = [min(tile * rows / height, tile * columns / width) for rows, columns in grids]
    if all(scale < 1 for scale in scales):
        return grids[scales.index(max(scales))]
    enlarging = [scale if scale >= 1 else math.inf for scale in scales]
    return grids[enlarging.index(min(enlarging))]


def fit_canvas_in_fp32(height: int, width: int, *, tile: int, limit: int) -> tuple[int, int]:
    """Return the grid as tensors of 32 bits choose it.

    (``llama4/image_processing_llama4.py``, ``find_supported_resolutions`` and ``get_best_fit``.)
    """
    _check_tiles(limit)
    grids = [
        (rows, tiles // rows)
        for tiles in range(limit, 0, -1)
        for rows in range(1, tiles + 1)
        if tiles % rows == 0
    ]
    scales = [
        min(_round_to_fp32(tile * rows / height), _round_to_fp32(tile * columns / width))
        for rows, columns in grids
    ]
    return _take_smallest(grids, scales)


def fit_resolution(
    height: int, width: int, resolutions: Iterable[tuple[int, int]]
) -> tuple[int, int]:
    """Return the resolution that keeps most of the image, wasting least.

    (``image_processing_utils.py``, ``select_best_resolution``.)
    """
    best, largest, least_waste = (0, 0), 0, math.inf
    for tall, wide in resolutions:
        scale = min(wide / width, tall / height)
        pixels_kept = min(int(width * scale) * int(height * scale), width * height)
        waste = wide * tall - pixels_kept
        if pixels_kept > largest or (pixels_kept == largest and waste < least_waste):
            best, largest, least_waste = (tall, wide), pixels_kept, waste
    return best


@cache
def _list_grids(fewest: int, limit: int) -> list[tuple[int, int]]:
    """Return columns and rows of all grids, those of few tiles first."""
    _check_tiles(limit)
    grids = [
        (columns, rows)
        for columns in range(1, limit + 1)
        for rows in range(1, limit + 1)
        if fewest <= columns * rows <= limit
    ]
    return sorted(grids, key=math.prod)


def _take_smallest(grids: list[tuple[int, int]], scales: list[float]) -> tuple[int, int]:
    enlarging = [scale for scale in scales if scale >= 1]
    chosen = min(enlarging) if enlarging else max(scales)
    return min(
        (grid for grid, scale in zip(grids, scales, strict=True) if scale == chosen),
        key=math.prod,
    )


def _check_tiles(limit: int) -> None:
    if limit > MOST_TILES:
        message = f"{limit} tiles of one image; up to {MOST_TILES} are counted"
        raise InvalidInputError(message, field="workload.inputs.processor")


def _round_to_fp32(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
