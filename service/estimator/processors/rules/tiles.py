"""Images that are cut into tiles of the encoder's size."""

import math

from service.estimator.processors.rules.canvases import (
    find_closest_aspect,
    fit_canvas,
    fit_canvas_by_scale,
    fit_canvas_in_fp32,
)
from service.estimator.processors.rules.items import Crop, Item
from service.estimator.processors.rules.resizing import resize_smartly, stretch_to_longest
from service.estimator.processors.rules.settings import Settings

_MOST_PIXELS = 4096
"""``MAX_IMAGE_SIZE`` of ``idefics3/image_processing_idefics3.py``."""
_PHI_GLOBAL_TOKENS = 256 + 1 + 16
"""Tokens of the whole image, of the separator, and of its line ends."""


def count_internvl_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of InternVL, between two special tokens.

    (``internvl/processing_internvl.py``; ``got_ocr2/image_processing_got_ocr2.py``.)
    """
    tiles = _count_closest_tiles(settings, height, width)
    return _build_tiles(settings, tiles, markers=2)


def count_aya_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of Aya Vision, a special token a tile.

    (``aya_vision/processing_aya_vision.py``, ``_get_num_multimodal_tokens``.)
    """
    tiles = _count_closest_tiles(settings, height, width)
    return _build_tiles(settings, tiles, markers=2 + tiles)


def count_cohere_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of Command A Vision, a break a tile.

    (``cohere2_vision/processing_cohere2_vision.py``, ``replace_image_token``.)
    """
    tile, limit = settings.read_square(), settings.read_integer("max_patches")
    tiles = 1
    if settings.read_flag("crop_to_patches") and limit > 1:
        grid = math.prod(fit_canvas_by_scale(height, width, tile=tile, limit=limit))
        tiles += grid if grid > 1 else 0
    return _build_tiles(settings, tiles, markers=2 + tiles)


def count_idefics3_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of Idefics3 or SmolVLM.

    A special token and a name stand before each tile, a line end after each row, and three special
    tokens around the whole (``idefics3/processing_idefics3.py``, ``replace_image_token``; two line
    ends are one token).
    """
    tile = settings.read_longest("max_image_size")
    rows = columns = 0
    if settings.read_flag("do_image_splitting"):
        tall, wide = stretch_to_longest(
            height, width, longest=settings.read_longest(), cap=_MOST_PIXELS
        )
        rows, columns = _cover_keeping_aspect(tall, wide, tile)
        if rows * columns <= 1:
            rows = columns = 0
    tiles = rows * columns + 1
    markers = 3 + rows * (2 * columns + 1)
    return _build_tiles(settings, tiles, markers=markers, side=tile)


def count_llama4_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of Llama 4, its tiles apart by special tokens.

    (``llama4/processing_llama4.py``, ``_prompt_split_image``.)
    """
    limit = settings.read_integer("max_patches")
    rows, columns = fit_canvas_in_fp32(height, width, tile=settings.read_square(), limit=limit)
    tiles = rows * columns
    if tiles == 1:
        return _build_tiles(settings, 1, markers=3)
    return _build_tiles(settings, tiles + 1, markers=3 + rows * columns)


def count_mllama_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of Llama 3.2 Vision, which cross attention reads.

    One token stands for it in the sequence; its tiles are padded to the most
    (``mllama/image_processing_mllama.py``).
    """
    limit, side = settings.read_integer("max_image_tiles"), settings.read_square()
    fit_canvas(height, width, tile=side, limit=limit)
    crop = Crop(count=limit, height=side, width=side, positions=settings.read_integer("positions"))
    return Item(features=0, markers=1, crops=(crop,))


def count_phi4_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of Phi-4 multimodal, without the tokens of its padding.

    (``phi4_multimodal/image_processing_phi4_multimodal.py``, ``dynamic_preprocess`` and
    ``_preprocess``.)
    """
    side, patch = settings.read_square(), settings.read_integer("patch_size")
    limit = settings.read_integer("dynamic_hd")
    rows, columns = _cover(height, width, side)
    if rows * columns > limit:
        rows, columns = find_closest_aspect(height, width, tile=side, fewest=1, limit=limit)
    tall, wide = side * rows, side * columns
    wider = wide / width < tall / height
    bottom = tall - int(height * (wide / width)) if wider else 0
    right = 0 if wider else wide - int(width * (tall / height))
    lines = _halve(side // patch * rows - bottom // patch)
    features = lines * _halve(side // patch * columns - right // patch) + lines
    return _build_tiles(
        settings, rows * columns + 1, markers=0, features=features + _PHI_GLOBAL_TOKENS
    )


def count_lfm2_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of LFM2-VL: any size, or tiles and thumbnail.

    Two special tokens stand around them, and one before each tile and the thumbnail
    (``lfm2_vl/image_processing_lfm2_vl.py``, ``processing_lfm2_vl.py``). Pieces are padded to the
    most patches.
    """
    patch, down = (
        settings.read_integer("encoder_patch_size"),
        settings.read_integer("downsample_factor"),
    )
    factor, limit = patch * down, settings.read_integer("max_image_tokens")
    tall, wide = _resize_thumbnail(settings, height, width, factor, limit)
    thumbnail_tokens = math.ceil(tall // patch / down) * math.ceil(wide // patch / down)
    tile, splits = settings.read_integer("tile_size"), settings.read_flag("do_image_splitting")
    padded = max(limit * down**2, (tile // patch) ** 2 if splits else 0)
    rounded = [max(patch, round(side / factor) * factor) for side in (height, width)]
    too_large = math.prod(rounded) > limit * factor**2 * settings.read_number(
        "max_pixels_tolerance"
    )
    rows = columns = 1
    if splits and too_large:
        rows, columns = find_closest_aspect(
            height,
            width,
            tile=tile,
            fewest=settings.read_integer("min_tiles"),
            limit=settings.read_integer("max_tiles"),
        )
    thumbnail = Crop(count=1, height=tall, width=wide, positions=padded)
    if rows * columns == 1:
        return Item(features=thumbnail_tokens, markers=2, crops=(thumbnail,))
    tiles = Crop(count=rows * columns, height=tile, width=tile, positions=padded)
    tile_tokens = math.ceil(tile // patch / down) ** 2
    if not settings.read_flag("use_thumbnail"):
        return Item(
            features=rows * columns * tile_tokens, markers=2 + rows * columns, crops=(tiles,)
        )
    return Item(
        features=rows * columns * tile_tokens + thumbnail_tokens,
        markers=3 + rows * columns,
        crops=(tiles, thumbnail),
    )


def _resize_thumbnail(
    settings: Settings, height: int, width: int, factor: int, limit: int
) -> tuple[int, int]:
    """Return the sides of the whole image, none below one token.

    (``Lfm2VlImageProcessor.smart_resize``.)
    """
    return resize_smartly(
        height,
        width,
        factor=factor,
        min_pixels=settings.read_integer("min_image_tokens") * factor**2,
        max_pixels=limit * factor**2,
        smallest=factor,
        checks_aspect=False,
    )


def _count_closest_tiles(settings: Settings, height: int, width: int) -> int:
    """Return the tiles, and the whole image where there are several."""
    limit = settings.read_integer("max_patches")
    if not settings.read_flag("crop_to_patches") or limit == 1:
        return 1
    grid = math.prod(
        find_closest_aspect(
            height,
            width,
            tile=settings.read_square(),
            fewest=settings.read_integer("min_patches"),
            limit=limit,
        )
    )
    return grid + 1 if grid > 1 else 1


def _build_tiles(
    settings: Settings,
    count: int,
    *,
    markers: int,
    side: int | None = None,
    features: int | None = None,
) -> Item:
    side = settings.read_square() if side is None else side
    crop = Crop(count=count, height=side, width=side, positions=settings.read_integer("positions"))
    if features is None:
        features = count * settings.read_integer("image_seq_length")
    return Item(features=features, markers=markers, crops=(crop,))


def _cover(height: int, width: int, tile: int) -> tuple[int, int]:
    return -(-height // tile), -(-width // tile)


def _cover_keeping_aspect(height: int, width: int, tile: int) -> tuple[int, int]:
    """Return rows and columns once the longer side is whole tiles.

    (``resize_for_vision_encoder``.)
    """
    aspect = width / height
    if width >= height:
        wide = math.ceil(width / tile) * tile
        return math.ceil(int(wide / aspect) / tile), wide // tile
    tall = math.ceil(height / tile) * tile
    return tall // tile, math.ceil(int(tall * aspect) / tile)


def _halve(number: int) -> int:
    return -(-number // 2)
