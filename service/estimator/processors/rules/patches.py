"""Images of any size, cut into patches in one row."""

from service.estimator.processors.rules.items import Crop, Item
from service.estimator.processors.rules.resizing import (
    fill_patches,
    fit_into_square,
    fit_patches,
    resize_frames_smartly,
    resize_smartly,
)
from service.estimator.processors.rules.settings import Settings


def count_qwen_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of Qwen2-VL and its successors.

    (``qwen2_vl/image_processing_qwen2_vl.py``, ``get_number_of_image_patches``.)
    """
    patch, merge = settings.read_integer("patch_size"), settings.read_integer("merge_size")
    fewest, limit = settings.read_edges()
    tall, wide = resize_smartly(
        height, width, factor=patch * merge, min_pixels=fewest, max_pixels=limit
    )
    return _build_patch_grid(tall, wide, patch=patch, merge=merge, frames=1)


def count_glm_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of GLM-4V, resized as a short video.

    (``glm4v/image_processing_glm4v.py``, ``get_number_of_image_patches``.)
    """
    return _count_resized_frames(
        settings, settings.read_integer("temporal_patch_size"), height, width, 1
    )


def count_qwen2_video(settings: Settings, frames: int, height: int, width: int) -> Item:
    """Return a video of Qwen2-VL, each frame resized as an image.

    (``qwen2_vl/video_processing_qwen2_vl.py``, ``resize`` and ``patchify``: the last frame is
    repeated to whole temporal patches; ``cap_pixels_per_frame`` bounds all frames together.)
    """
    patch, merge = settings.read_integer("patch_size"), settings.read_integer("merge_size")
    temporal, factor = settings.read_integer("temporal_patch_size"), patch * merge
    fewest, limit = settings.read_edges()
    if settings.read_flag("cap_pixels_per_frame"):
        pixels = int(settings.read_integer("max_video_tokens") * factor * factor * 0.9)
        limit = max(min(limit, pixels * temporal // frames), int(fewest * 1.05))
    tall, wide = resize_smartly(height, width, factor=factor, min_pixels=fewest, max_pixels=limit)
    return _build_patch_grid(tall, wide, patch=patch, merge=merge, frames=-(-frames // temporal))


def count_qwen3_video(settings: Settings, frames: int, height: int, width: int) -> Item:
    """Return a video of Qwen3-VL, whose frames share a budget of pixels.

    Each pair of frames stands between two special tokens; its time in words is text of the prompt
    (``qwen3_vl/video_processing_qwen3_vl.py``, ``resize``; ``processing_qwen3_vl.py``,
    ``replace_video_token``).
    """
    factor = settings.read_integer("patch_size") * settings.read_integer("merge_size")
    limit = None
    if settings.read_flag("cap_pixels_per_frame"):
        fewest, pixels = settings.read_edges()
        cap = settings.read_integer("max_video_tokens") * factor * factor
        limit = max(min(cap, pixels // frames), int(fewest * 1.05)) * frames
    groups = -(-frames // settings.read_integer("temporal_patch_size"))
    item = _count_resized_frames(settings, frames, height, width, groups, limit)
    return Item(features=item.features, markers=2 * groups, crops=item.crops)


def count_glm_video(settings: Settings, frames: int, height: int, width: int) -> Item:
    """Return a video of GLM-4V, whose frames share a budget of pixels.

    Each pair of frames stands between two special tokens (``glm4v/processing_glm4v.py``,
    ``replace_frame_token_id``).
    """
    groups = -(-frames // settings.read_integer("temporal_patch_size"))
    item = _count_resized_frames(settings, frames, height, width, groups)
    return Item(features=item.features, markers=2 * groups, crops=item.crops)


def count_pixtral_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of Pixtral, with breaks after its rows.

    (``pixtral/processing_pixtral.py``, ``replace_image_token``.)
    """
    merge = settings.read_integer("spatial_merge_size")
    patch = settings.read_integer("patch_size")
    side = patch * merge
    tall, wide = fit_into_square(height, width, longest=settings.read_longest(), patch=side)
    rows, columns = tall // side, wide // side
    positions = rows * columns * merge**2
    crop = Crop(count=1, height=tall, width=wide, positions=positions)
    return Item(features=rows * columns, markers=rows, crops=(crop,))


def count_siglip2_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of SigLIP 2, padded to the most patches.

    (``siglip2/image_processing_siglip2.py``, ``_preprocess``.)
    """
    patch, limit = settings.read_integer("patch_size"), settings.read_integer("max_num_patches")
    tall, wide = fit_patches(height, width, patch=patch, limit=limit)
    crop = Crop(count=1, height=tall, width=wide, positions=limit)
    return Item(features=(tall // patch) * (wide // patch), crops=(crop,))


def count_gemma4_image(settings: Settings, height: int, width: int, _images: int) -> Item:
    """Return an image of Gemma 4, pooled by squares of patches.

    The encoder reads patches padded to the most (``gemma4/image_processing_gemma4.py``); two
    special tokens stand around them (``processing_gemma4.py``, ``replace_image_token``).
    """
    return _count_pooled(settings, settings.read_integer("max_soft_tokens"), height, width, 1)


def count_gemma4_video(settings: Settings, frames: int, height: int, width: int) -> Item:
    """Return a video of Gemma 4: images of fewer tokens.

    (``gemma4/video_processing_gemma4.py``; the times between frames are text of the prompt.)
    """
    limit = settings.read_integer("max_soft_tokens")
    return _count_pooled(settings, limit, height, width, frames)


def _count_pooled(settings: Settings, tokens: int, height: int, width: int, frames: int) -> Item:
    patch, pooling = (
        settings.read_integer("patch_size"),
        settings.read_integer("pooling_kernel_size"),
    )
    limit = tokens * pooling**2
    tall, wide = fill_patches(height, width, patch=patch, pooling=pooling, limit=limit)
    features = (tall // patch) * (wide // patch) // pooling**2
    crop = Crop(count=frames, height=tall, width=wide, positions=limit)
    return Item(features=features * frames, markers=2 * frames, crops=(crop,))


def _count_resized_frames(
    settings: Settings, frames: int, height: int, width: int, groups: int, limit: int | None = None
) -> Item:
    patch, merge = settings.read_integer("patch_size"), settings.read_integer("merge_size")
    fewest, longest = settings.read_edges()
    tall, wide = resize_frames_smartly(
        frames,
        height,
        width,
        temporal_factor=settings.read_integer("temporal_patch_size"),
        factor=patch * merge,
        min_pixels=fewest,
        max_pixels=longest if limit is None else limit,
    )
    return _build_patch_grid(tall, wide, patch=patch, merge=merge, frames=groups)


def _build_patch_grid(height: int, width: int, *, patch: int, merge: int, frames: int) -> Item:
    """Return patches whose attention runs frame by frame."""
    positions = (height // patch) * (width // patch)
    crop = Crop(count=frames, height=height, width=width, positions=positions)
    return Item(features=frames * positions // merge**2, crops=(crop,))
