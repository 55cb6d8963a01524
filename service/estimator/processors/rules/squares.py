"""Images that become one square, or squares of one size each."""

import math

from service.estimator.processors.rules.items import Crop, Item
from service.estimator.processors.rules.settings import Settings


def count_square_image(settings: Settings, _height: int, _width: int, _images: int) -> Item:
    """Return an image resized to the one size of its encoder.

    ``features`` tokens, or a position each (``siglip``, ``clip``, ``vit``, ``dinov3_vit``,
    ``paligemma``, ``gemma3n``, ``llava``).
    """
    crop = _build_square(settings, 1)
    return Item(
        features=settings.read_integer("image_seq_length"),
        markers=settings.read_count("image_markers"),
        crops=(crop,),
    )


def count_gemma3_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of Gemma 3, with its crops.

    Around the tokens of each stand two special tokens and two tokens of blank lines; the words
    between the crops are text of the prompt (``gemma3/processing_gemma3.py``).
    """
    number = 1 + _count_scans(settings, height, width)
    features = settings.read_integer("image_seq_length")
    return Item(
        features=number * features, markers=4 * number, crops=(_build_square(settings, number),)
    )


def count_square_video(settings: Settings, frames: int, _height: int, _width: int) -> Item:
    """Return a video whose frames are images of one size."""
    features = settings.read_integer("frame_seq_length")
    return Item(
        features=frames * features,
        markers=frames * settings.read_count("frame_markers"),
        crops=(_build_square(settings, frames),),
    )


def _build_square(settings: Settings, count: int) -> Crop:
    side = settings.read_square()
    return Crop(count=count, height=side, width=side, positions=settings.read_integer("positions"))


def _count_scans(settings: Settings, height: int, width: int) -> int:
    """Return the crops of a long image (``pan_and_scan_batched``)."""
    if not settings.read_flag("do_pan_and_scan"):
        return 0
    long, short = max(height, width), min(height, width)
    if long / short < settings.read_number("pan_and_scan_min_ratio_to_activate"):
        return 0
    smallest = settings.read_integer("pan_and_scan_min_crop_size")
    crops = min(long // smallest, math.floor(long / short + 0.5))
    crops = min(settings.read_integer("pan_and_scan_max_num_crops"), max(2, crops))
    return 0 if min(math.ceil(long / crops), short) < smallest else crops
