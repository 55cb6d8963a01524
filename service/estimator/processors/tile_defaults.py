"""Defaults of processors that cut tiles: the checkpoints', else the classes'.

As in ``defaults``, what the model fixes comes from its config.
"""

from service.estimator.processors.defaults import (
    Config,
    Fields,
    build_square_image,
    get_integer,
    read_section,
)

_TILES = {"crop_to_patches": True, "min_patches": 1, "max_patches": 12}


def build_internvl_image(config: Config) -> Fields:
    """Return the fields of an InternVL, which cuts up to twelve tiles."""
    ratio = config.get("downsample_ratio", 0.5)
    tokens = get_integer(config, "image_seq_length", 256)
    fields = {**build_square_image(config, side=448, patch=14, extra=1), **_TILES}
    patches = fields["positions"]
    assert isinstance(patches, int)  # noqa: S101 - built above
    if "image_seq_length" not in config and isinstance(ratio, float):
        tokens = int((patches - 1) * ratio**2)
    return {**fields, "image_seq_length": tokens, "frame_seq_length": tokens, "frame_markers": 2}


def build_aya_image(config: Config) -> Fields:
    """Return the fields of an Aya Vision."""
    fields, down = (
        build_square_image(config, side=364, patch=14),
        get_integer(config, "downsample_factor", 2),
    )
    side = get_integer(config, "vision_config.image_size", 364)
    patch = get_integer(config, "vision_config.patch_size", 14)
    return {**fields, **_TILES, "image_seq_length": (side // (patch * down)) ** 2}


def build_cohere_image(config: Config) -> Fields:
    """Return the fields of a Command A Vision."""
    fields = build_square_image(config, side=512, patch=16)
    patches = fields["positions"]
    assert isinstance(patches, int)  # noqa: S101 - built above
    down = get_integer(config, "downsample_factor", 2)
    return {**fields, **_TILES, "image_seq_length": patches // down**2}


def build_idefics3_image(config: Config) -> Fields:
    """Return the fields of an Idefics3 or SmolVLM, four tiles long."""
    fields = build_square_image(config, side=364, patch=14)
    patches = fields["positions"]
    assert isinstance(patches, int)  # noqa: S101 - built above
    side = get_integer(config, "vision_config.image_size", 364)
    tokens = patches // get_integer(config, "scale_factor", 2) ** 2
    return {
        "positions": patches,
        "image_seq_length": tokens,
        "size": {"longest_edge": 4 * side},
        "max_image_size": {"longest_edge": side},
        "do_image_splitting": True,
    }


def build_idefics3_video(config: Config) -> Fields:
    """Return the fields of a SmolVLM's videos, a tile a frame."""
    fields, side = (
        build_idefics3_image(config),
        get_integer(config, "vision_config.image_size", 364),
    )
    return {
        "positions": fields["positions"],
        "size": {"height": side, "width": side},
        "frame_seq_length": fields["image_seq_length"],
        "frame_markers": 3,
    }


def build_llama4_image(config: Config) -> Fields:
    """Return the fields of a Llama 4, up to sixteen tiles."""
    ratio = read_section(config, "vision_config").get("pixel_shuffle_ratio", 0.5)
    fields = build_square_image(config, side=336, patch=14, extra=1)
    patches = fields["image_seq_length"]
    assert isinstance(patches, int)  # noqa: S101 - built above
    down = round(1 / ratio**2) if isinstance(ratio, float) and ratio > 0 else 4
    return {**fields, "image_seq_length": patches // down, "max_patches": 16}


def build_mllama_image(config: Config) -> Fields:
    """Return the fields of a Llama 3.2 Vision, with class tokens."""
    limit = get_integer(config, "vision_config.max_num_tiles", 4)
    return {**build_square_image(config, side=560, patch=14, extra=1), "max_image_tiles": limit}


def build_phi4_image(config: Config) -> Fields:
    """Return the fields of a Phi-4 multimodal."""
    return {
        **build_square_image(config, side=448, patch=14),
        "patch_size": get_integer(config, "vision_config.patch_size", 14),
        "dynamic_hd": 36,
    }


def build_lfm2_image(config: Config) -> Fields:
    """Return the fields of an LFM2-VL (``Lfm2VlImageProcessor``)."""
    return {
        "encoder_patch_size": get_integer(config, "vision_config.patch_size", 16),
        "downsample_factor": get_integer(config, "downsample_factor", 2),
        "do_image_splitting": True,
        "min_tiles": 2,
        "max_tiles": 10,
        "use_thumbnail": True,
        "min_image_tokens": 64,
        "max_image_tokens": 256,
        "tile_size": 512,
        "max_pixels_tolerance": 2.0,
    }
