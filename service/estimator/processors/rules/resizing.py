"""Sizes to which processors resize an image.

Each function takes and returns pixels, height first, and follows the function of transformers 5.23
that it names, rounding included.
"""

import math

from service.estimator.values.errors import InvalidInputError

_MOST_ASPECT = 200


def resize_smartly(  # noqa: PLR0913 - the numbers of the functions that it follows
    height: int,
    width: int,
    *,
    factor: int,
    min_pixels: int,
    max_pixels: int,
    smallest: int = 0,
    checks_aspect: bool = True,
) -> tuple[int, int]:
    """Return sides that the factor divides, with pixels in a range.

    ``smallest`` bounds a side that was rounded
    (``qwen2_vl/image_processing_qwen2_vl.py``, ``smart_resize``; ``lfm2_vl`` has one with a
    smallest side and any aspect).
    """
    if checks_aspect:
        _check_aspect(height, width)
    rounded = (
        max(smallest, round(height / factor) * factor),
        max(smallest, round(width / factor) * factor),
    )
    if math.prod(rounded) > max_pixels:
        return _shrink(height, width, factor, math.sqrt((height * width) / max_pixels))
    if math.prod(rounded) < min_pixels:
        return _enlarge(height, width, factor, math.sqrt(min_pixels / (height * width)))
    return rounded


def resize_frames_smartly(  # noqa: PLR0913 - the numbers of the function that it follows
    frames: int,
    height: int,
    width: int,
    *,
    temporal_factor: int,
    factor: int,
    min_pixels: int,
    max_pixels: int,
) -> tuple[int, int]:
    """Return sides whose pixels, over all frames, are in a range.

    (``glm4v/image_processing_glm4v.py`` and ``qwen3_vl/video_processing_qwen3_vl.py``,
    ``smart_resize``.)
    """
    if frames < temporal_factor:
        message = f"a video has {frames} frames; this processor needs {temporal_factor} or more"
        raise InvalidInputError(message, field="workload.inputs.videos")
    if height < factor or width < factor:
        scale = max(factor / height, factor / width)
        height, width = int(height * scale), int(width * scale)
    _check_aspect(height, width)
    rounded = (round(height / factor) * factor, round(width / factor) * factor)
    volume = round(frames / temporal_factor) * temporal_factor * math.prod(rounded)
    if volume > max_pixels:
        return _shrink(height, width, factor, math.sqrt((frames * height * width) / max_pixels))
    if volume < min_pixels:
        return _enlarge(height, width, factor, math.sqrt(min_pixels / (frames * height * width)))
    return rounded


def fit_into_square(height: int, width: int, *, longest: int, patch: int) -> tuple[int, int]:
    """Return sides of whole patches, none longer than ``longest`` before.

    (``pixtral/image_processing_pixtral.py``, ``get_resize_output_image_size``.)
    """
    ratio = max(height / longest, width / longest)
    if ratio > 1:
        height, width = math.floor(height / ratio), math.floor(width / ratio)
    return ((height - 1) // patch + 1) * patch, ((width - 1) // patch + 1) * patch


def fit_patches(height: int, width: int, *, patch: int, limit: int) -> tuple[int, int]:
    """Return the largest sides of whole patches within a number of patches.

    (``siglip2/image_processing_siglip2.py``, ``get_image_size_for_max_num_patches``: a search by
    halves for the scale.)
    """
    tolerance = 1e-5
    low, high = tolerance / 10, 100.0
    while high - low >= tolerance:
        scale = (low + high) / 2
        sides = (_scale_side(height, scale, patch), _scale_side(width, scale, patch))
        if (sides[0] / patch) * (sides[1] / patch) <= limit:
            low = scale
        else:
            high = scale
    return _scale_side(height, low, patch), _scale_side(width, low, patch)


def fill_patches(
    height: int, width: int, *, patch: int, pooling: int, limit: int
) -> tuple[int, int]:
    """Return sides of about ``most`` patches, in whole pooling squares.

    (``gemma4/image_processing_gemma4.py``, ``get_aspect_ratio_preserving_size``.)
    """
    scale = math.sqrt(limit * patch**2 / (height * width))
    side = pooling * patch
    tall, wide = math.floor(scale * height / side) * side, math.floor(scale * width / side) * side
    longest = (limit // pooling**2) * side
    if tall == 0 and wide == 0:
        message = f"an image of {width}x{height} pixels becomes one of 0x0"
        raise InvalidInputError(message, field="workload.inputs.images")
    if tall == 0:
        return side, min(math.floor(width / height) * side, longest)
    if wide == 0:
        return min(math.floor(height / width) * side, longest), side
    return tall, wide


def stretch_to_longest(height: int, width: int, *, longest: int, cap: int) -> tuple[int, int]:
    """Return sides of which the longer one is ``longest``, or the cap.

    (``idefics3/image_processing_idefics3.py``, ``get_resize_output_image_size``.)
    """
    height, width = _make_longest(height, width, longest, even=True)
    return (
        _make_longest(height, width, cap, even=False)
        if max(height, width) > cap
        else (
            height,
            width,
        )
    )


def _make_longest(height: int, width: int, longest: int, *, even: bool) -> tuple[int, int]:
    aspect = width / height
    if width >= height:
        height, width = int(longest / aspect), longest
        height += height % 2 if even else 0
    else:
        height, width = longest, int(longest * aspect)
        width += width % 2 if even else 0
    return max(height, 1), max(width, 1)


def _scale_side(side: int, scale: float, patch: int) -> int:
    return max(patch, math.ceil(side * scale / patch) * patch)


def _shrink(height: int, width: int, factor: int, ratio: float) -> tuple[int, int]:
    return (
        max(factor, math.floor(height / ratio / factor) * factor),
        max(factor, math.floor(width / ratio / factor) * factor),
    )


def _enlarge(height: int, width: int, factor: int, ratio: float) -> tuple[int, int]:
    return (
        math.ceil(height * ratio / factor) * factor,
        math.ceil(width * ratio / factor) * factor,
    )


def _check_aspect(height: int, width: int) -> None:
    aspect = max(height, width) / min(height, width)
    if aspect > _MOST_ASPECT:
        message = (
            f"{width}x{height} pixels are {aspect:.1f} times as long as wide; this processor "
            f"refuses more than {_MOST_ASPECT}"
        )
        raise InvalidInputError(message, field="workload.inputs.images")
