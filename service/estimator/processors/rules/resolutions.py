"""Images of LLaVA-NeXT and LLaVA-OneVision: the whole beside tiles of a resolution."""

import math

from service.estimator.processors.rules.canvases import fit_resolution
from service.estimator.processors.rules.items import Crop, Item
from service.estimator.processors.rules.settings import FIELD, Settings
from service.estimator.values.errors import InvalidInputError


def count_llava_next_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of LLaVA-NeXT.

    Features of the tiles lose what is padding, and each row of them gets a line end
    (``llava_next/processing_llava_next.py``, ``_get_number_of_features``).
    """
    base = settings.read_integer("image_seq_length")
    rows, columns = _count_tiles(settings, height, width)
    edge = settings.read_integer("edge_features")
    lines, across = _unpad(height, width, edge * rows, edge * columns)
    crop = _build_crop(settings, rows * columns + 1)
    return Item(features=lines * across + lines + base, crops=(crop,))


def count_llava_onevision_image(settings: Settings, height: int, width: int, images: int) -> Item:
    """Return an image of LLaVA-OneVision.

    Several images of a prompt are each one square and a line end; a single one has tiles, of which
    no more than ``anyres_max`` are kept (``llava_onevision/processing_llava_onevision.py``).
    """
    base, dropped = settings.read_integer("image_seq_length"), settings.read_count("dropped_tokens")
    if images > 1:
        return Item(features=base + 1 - dropped, crops=(_build_crop(settings, 1),))
    edge = math.isqrt(base)
    rows, columns = _count_tiles(settings, height, width)
    lines, across = _unpad(height, width, edge * rows, edge * columns)
    ratio = math.sqrt(lines * across / (settings.read_integer("anyres_max") * edge**2))
    if ratio > 1.1:  # noqa: PLR2004 - as the processor has it
        lines, across = int(lines // ratio), int(across // ratio)
    crop = _build_crop(settings, rows * columns + 1)
    return Item(features=lines * across + lines + base - dropped, crops=(crop,))


def count_llava_onevision_video(settings: Settings, frames: int, _height: int, _width: int) -> Item:
    """Return a video, each frame pooled by two, with one line end.

    (``llava_onevision/processing_llava_onevision.py``, ``replace_video_token``.)
    """
    pooled = math.ceil(math.isqrt(settings.read_integer("image_seq_length")) / 2)
    return Item(features=frames * pooled**2 + 1, crops=(_build_crop(settings, frames),))


def _count_tiles(settings: Settings, height: int, width: int) -> tuple[int, int]:
    """Return rows and columns of tiles of the image's resolution."""
    side = settings.read_square()
    tall, wide = fit_resolution(height, width, settings.read_pairs("image_grid_pinpoints"))
    if min(tall, wide) < side:
        message = f"a resolution of {wide}x{tall} pixels has no whole tile of {side}x{side}"
        raise InvalidInputError(message, field=FIELD)
    return tall // side, wide // side


def _build_crop(settings: Settings, count: int) -> Crop:
    side = settings.read_square()
    return Crop(count=count, height=side, width=side, positions=settings.read_integer("positions"))


def _unpad(height: int, width: int, rows: int, columns: int) -> tuple[int, int]:
    """Return rows and columns of features that are no padding.

    (``_get_unpadded_features``, its rounding to seven places included.)
    """
    if width / height > columns / rows:
        padding = (rows - int(round(height * (columns / width), 7))) // 2
        return rows - 2 * padding, columns
    padding = (columns - int(round(width * (rows / height), 7))) // 2
    return rows, columns - 2 * padding
