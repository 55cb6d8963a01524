"""Defaults of processors: the checkpoints', else the classes' of transformers 5.23.

Each function takes a model's config.json and returns the fields that a rule reads. A number that
the model fixes (the size of a table of positions, the patches of its kernel) comes from the config;
a limit that only the processor knows is that of the published preprocessor_config.json of the type.
"""

from collections.abc import Mapping

Config = Mapping[str, object]
Fields = Mapping[str, object]

QWEN2_PIXELS = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 16384}
"""Of Qwen2-VL's and Qwen2.5-VL's checkpoints: 4 to 16384 tokens, as their cards say; the class
alone has 1280.
"""
QWEN3_PIXELS = {"shortest_edge": 256 * 256, "longest_edge": 4096 * 4096}
"""Of the checkpoints of Qwen3-VL and Qwen3.5 (preprocessor_config.json)."""
_NEXT_PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
_ONEVISION_SIDE = 384
_ONEVISION_PINPOINTS = [
    [_ONEVISION_SIDE * rows, _ONEVISION_SIDE * columns]
    for rows in range(1, 7)
    for columns in range(1, 7)
]


def get_integer(config: Config, path: str, default: int) -> int:
    """Return an integer under dotted names, else the default."""
    *sections, name = path.split(".")
    for section in sections:
        config = read_section(config, section)
    value = config.get(name)
    if isinstance(value, list | tuple) and value:
        value = value[0]
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def read_section(config: Config, name: str) -> Config:
    """Return a nested config; empty where there is none."""
    value = config.get(name)
    return value if isinstance(value, Mapping) else {}


def build_qwen_image(config: Config, *, patch: int, pixels: Fields) -> Fields:
    """Return the fields of a Qwen-VL's images."""
    vision = _find_vision(config)
    return {
        "patch_size": get_integer(vision, "patch_size", patch),
        "merge_size": get_integer(vision, "spatial_merge_size", 2),
        "temporal_patch_size": get_integer(vision, "temporal_patch_size", 2),
        "size": pixels,
    }


def build_qwen2_video(config: Config) -> Fields:
    """Return the fields of a Qwen2-VL's videos (``Qwen2VLVideoProcessor``)."""
    size = {"shortest_edge": 128 * 28 * 28, "longest_edge": 28 * 28 * 768}
    extra = {"cap_pixels_per_frame": False, "max_video_tokens": 128_000}
    return {**build_qwen_image(config, patch=14, pixels=size), **extra}


def build_qwen3_video(config: Config) -> Fields:
    """Return the fields of a Qwen3-VL's videos.

    The checkpoints have 4096 and 25165824 pixels (video_preprocessor_config.json).
    """
    size = {"shortest_edge": 4096, "longest_edge": 32 * 32 * 768 * 32}
    extra = {"cap_pixels_per_frame": False, "max_video_tokens": 768}
    return {**build_qwen_image(config, patch=16, pixels=size), **extra}


def build_glm_image(config: Config) -> Fields:
    """Return the fields of a GLM-4V's images (``Glm4vImageProcessor``)."""
    size = {"shortest_edge": 112 * 112, "longest_edge": 28 * 28 * 15000}
    return build_qwen_image(config, patch=14, pixels=size)


def build_glm_video(config: Config) -> Fields:
    """Return the fields of a GLM-4V's videos (``Glm4vVideoProcessor``)."""
    size = {"shortest_edge": 112 * 112, "longest_edge": 28 * 28 * 2 * 30000}
    return build_qwen_image(config, patch=14, pixels=size)


def build_pixtral_image(config: Config) -> Fields:
    """Return the fields of a Pixtral's images, the largest side the tower's."""
    return {
        "patch_size": get_integer(config, "vision_config.patch_size", 16),
        "spatial_merge_size": get_integer(config, "spatial_merge_size", 1),
        "size": {"longest_edge": get_integer(config, "vision_config.image_size", 1024)},
    }


def build_mistral3_image(config: Config) -> Fields:
    """Return the fields of a Mistral 3's images."""
    fields = dict(build_pixtral_image(config))
    fields["spatial_merge_size"] = get_integer(config, "spatial_merge_size", 2)
    if not read_section(config, "vision_config"):
        fields |= {"patch_size": 14, "size": {"longest_edge": 1540}}
    return fields


def build_siglip2_image(config: Config) -> Fields:
    """Return the fields of SigLIP 2's images (``Siglip2ImageProcessor``)."""
    vision = _find_vision(config)
    return {
        "patch_size": get_integer(vision, "patch_size", 16),
        "max_num_patches": get_integer(vision, "num_patches", 256),
    }


def build_gemma4_image(config: Config, *, tokens: int) -> Fields:
    """Return the fields of a Gemma 4's images or videos."""
    return {
        "patch_size": get_integer(config, "vision_config.patch_size", 16),
        "pooling_kernel_size": get_integer(config, "vision_config.pooling_kernel_size", 3),
        "max_soft_tokens": tokens,
    }


def build_square_image(
    config: Config, *, side: int, patch: int, extra: int = 0, counts_extra: bool = False
) -> Fields:
    """Return the fields of an encoder of one size.

    ``extra`` are its positions that are no patches; the features have them or not.
    """
    vision = _find_vision(config)
    side, patch = get_integer(vision, "image_size", side), get_integer(vision, "patch_size", patch)
    patches = (side // patch) ** 2
    return {
        "size": {"height": side, "width": side},
        "positions": patches + extra,
        "image_seq_length": patches + extra * counts_extra,
        "image_markers": 0,
    }


def build_dinov3_image(config: Config) -> Fields:
    """Return the fields of a DINOv3, which has register tokens."""
    extra = 1 + get_integer(config, "num_register_tokens", 0)
    return build_square_image(config, side=224, patch=16, extra=extra, counts_extra=True)


def build_llava_image(config: Config) -> Fields:
    """Return the fields of a LLaVA, with or without class token."""
    full = config.get("vision_feature_select_strategy", "default") == "full"
    return build_square_image(config, side=336, patch=14, extra=1, counts_extra=full)


def build_llava_next_image(config: Config) -> Fields:
    """Return the fields of a LLaVA-NeXT."""
    fields = build_llava_image(config)
    side, patch = (
        get_integer(config, "vision_config.image_size", 336),
        get_integer(config, "vision_config.patch_size", 14),
    )
    pinpoints = config.get("image_grid_pinpoints") or _NEXT_PINPOINTS
    return {**fields, "image_grid_pinpoints": pinpoints, "edge_features": side // patch}


def build_onevision_image(config: Config) -> Fields:
    """Return the fields of a LLaVA-OneVision."""
    dropped = config.get("vision_feature_select_strategy", "full") == "default"
    limit = str(config.get("vision_aspect_ratio", "anyres_max_9")).rpartition("_")[2]
    return {
        **build_square_image(config, side=_ONEVISION_SIDE, patch=14),
        "image_grid_pinpoints": config.get("image_grid_pinpoints") or _ONEVISION_PINPOINTS,
        "anyres_max": int(limit) if limit.isdecimal() else 9,
        "dropped_tokens": int(dropped),
    }


def build_gemma3_image(config: Config) -> Fields:
    """Return the fields of a Gemma 3, without pan and scan."""
    return {
        **build_square_image(config, side=896, patch=14),
        "image_seq_length": get_integer(config, "mm_tokens_per_image", 256),
        "do_pan_and_scan": False,
        "pan_and_scan_min_crop_size": 256,
        "pan_and_scan_max_num_crops": 4,
        "pan_and_scan_min_ratio_to_activate": 1.2,
    }


def build_gemma3n_image(config: Config) -> Fields:
    """Return the fields of a Gemma 3n's convolutional tower."""
    tokens = get_integer(config, "vision_soft_tokens_per_image", 256)
    return {
        "size": {"height": 768, "width": 768},
        "positions": tokens,
        "image_seq_length": tokens,
        "image_markers": 4,
    }


def _find_vision(config: Config) -> Config:
    """Return the tower's config, else the config itself."""
    thinker = read_section(config, "thinker_config")
    return read_section(thinker or config, "vision_config") or (thinker and {}) or config
