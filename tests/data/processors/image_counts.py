"""Counts of images by transformers' own processors."""

import re
from collections.abc import Callable
from typing import Any

import torch
import transformers

from tests.data.processors.stubs import Counted, make_stub

_SPECIAL = re.compile(r"<\|[a-z_]*\|>")


def _make_image(width: int, height: int) -> torch.Tensor:
    return torch.zeros((3, height, width), dtype=torch.uint8)


def _run(processor: Any, images: list[torch.Tensor], **options: object) -> Any:
    return processor(images, return_tensors="pt", **options)


def _count_grid(name: str, **options: object) -> Callable[[int, int], Counted]:
    processor = getattr(transformers, name)(**options)

    def count(width: int, height: int) -> Counted:
        grid = _run(processor, [_make_image(width, height)])["image_grid_thw"][0]
        tokens = int(grid.prod()) // processor.merge_size**2
        return tokens, tokens, 1

    return count


def _count_tiles(
    processor_name: str, stub_name: str, options: dict[str, object], **attributes: object
) -> Callable[[int, int], Counted]:
    """Return a count of an image cut into tiles; an ``I`` is a feature."""
    processor = getattr(transformers, processor_name)(**options)
    stub = make_stub(stub_name, image_processor=processor, **attributes)

    def count(width: int, height: int) -> Counted:
        out = _run(processor, [_make_image(width, height)])
        text = stub.replace_image_token(out, 0)
        text = re.sub("TILE_?[0-9]*", "T", _SPECIAL.sub("M", text.replace("<|patch|>", "I")))
        pieces = out["num_patches"][0] if "num_patches" in out else len(out["pixel_values"])
        return text.count("I"), len(text), int(pieces)

    return count


def _count_anyres(
    processor_name: str, stub_name: str, side: int, **attributes: object
) -> Callable[[int, int], Counted]:
    size = {"height": side, "width": side}
    options = {"size": size, "crop_size": size} if stub_name == "LlavaNextProcessor" else {}
    processor = getattr(transformers, processor_name)(**options)
    stub = make_stub(stub_name, image_processor=processor, image_token="I", **attributes)

    def count(width: int, height: int) -> Counted:
        out = _run(processor, [_make_image(width, height)])
        tokens = len(stub.replace_image_token(out, 0))
        return tokens, tokens, out["pixel_values"].shape[1]

    return count


def _count_idefics3(name: str) -> Callable[[int, int], Counted]:
    processor = getattr(transformers, name)()
    stub = make_stub("Idefics3Processor", image_seq_len=169, image_token="I", fake_image_token="F")
    stub.global_image_tag = "G"

    def count(width: int, height: int) -> Counted:
        out = _run(processor, [_make_image(width, height)], return_row_col_info=True)
        text = re.sub("<row_[0-9]*_col_[0-9]*>", "R", stub.replace_image_token(out, 0))
        text = text.replace("\n\n", "N")
        return text.count("I"), len(text), out["pixel_values"].shape[1]

    return count


def _count_pixtral(longest: int, patch: int, merge: int) -> Callable[[int, int], Counted]:
    processor = transformers.PixtralImageProcessor(
        size={"longest_edge": longest}, patch_size=patch * merge
    )
    stub = make_stub(
        "PixtralProcessor",
        patch_size=patch,
        spatial_merge_size=merge,
        image_token="I",
        image_break_token="B",
        image_end_token="E",
    )

    def count(width: int, height: int) -> Counted:
        text = stub.replace_image_token(_run(processor, [_make_image(width, height)]), 0)
        return text.count("I"), len(text), 1

    return count


def count_gemma3(**options: object) -> Callable[[int, int], Counted]:
    """Return a count of Gemma 3's images."""
    processor = getattr(transformers, "Gemma3ImageProcessor")(  # noqa: B009 - its types are not ours
        size={"height": 896, "width": 896}, **options
    )

    def count(width: int, height: int) -> Counted:
        out = _run(processor, [_make_image(width, height)])
        pieces = 1 + int(out["num_crops"][0])
        assert len(out["pixel_values"]) == pieces
        return 256 * pieces, 260 * pieces, pieces

    return count


def _count_gemma4(width: int, height: int) -> Counted:
    out = _run(transformers.Gemma4ImageProcessor(), [_make_image(width, height)])
    tokens = int(out["num_soft_tokens_per_image"][0])
    return tokens, tokens + 2, 1


def _count_siglip2(width: int, height: int) -> Counted:
    out = _run(transformers.Siglip2ImageProcessor(), [_make_image(width, height)])
    tokens = int(out["pixel_attention_mask"].sum())
    return tokens, tokens, 1


def _count_mllama(width: int, height: int) -> Counted:
    processor = transformers.MllamaImageProcessor(size={"height": 560, "width": 560})
    out = _run(processor, [_make_image(width, height)])
    return 0, 1, out["pixel_values"].shape[2]


def _count_phi4(width: int, height: int) -> Counted:
    out = _run(transformers.Phi4MultimodalImageProcessor(), [_make_image(width, height)])
    tokens = int(out["num_img_tokens"][0])
    return tokens, tokens, out["image_pixel_values"].shape[1]


def _count_lfm2(width: int, height: int) -> Counted:
    processor = transformers.Lfm2VlImageProcessor()
    stub = make_stub(
        "Lfm2VlProcessor",
        image_processor=processor,
        image_token="I",
        image_start_token="S",
        image_end_token="E",
        image_thumbnail_token="T",
    )
    out = _run(processor, [_make_image(width, height)], return_row_col_info=True)
    text = stub.replace_image_token(out, 0, use_image_special_tokens=True)
    text = re.sub(r"<\|img_row_[0-9]*_col_[0-9]*\|>", "R", text)
    return text.count("I"), len(text), len(out["pixel_values"])


IMAGES: dict[str, tuple[dict[str, object], dict[str, object], Callable[[int, int], Counted]]] = {
    "qwen2_vl": (
        {},
        {},
        _count_grid(
            "Qwen2VLImageProcessor",
            size={"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 16384},
        ),
    ),
    "qwen2_5_vl": (
        {},
        {"min_pixels": 56 * 56, "max_pixels": 28 * 28 * 1280},
        _count_grid("Qwen2VLImageProcessor"),
    ),
    "qwen3_vl": (
        {},
        {},
        _count_grid(
            "Qwen2VLImageProcessor",
            patch_size=16,
            size={"shortest_edge": 65536, "longest_edge": 16777216},
        ),
    ),
    "glm4v": ({}, {}, _count_grid("Glm4vImageProcessor")),
    "internvl": (
        {},
        {},
        _count_tiles(
            "GotOcr2ImageProcessor",
            "InternVLProcessor",
            {"size": {"height": 448, "width": 448}, "crop_to_patches": True},
            image_seq_length=256,
            image_token="I",
            start_image_token="S",
            end_image_token="E",
        ),
    ),
    "aya_vision": (
        {},
        {},
        _count_tiles(
            "GotOcr2ImageProcessor",
            "AyaVisionProcessor",
            {"size": {"height": 364, "width": 364}, "crop_to_patches": True},
            img_size=364,
            patch_size=28,
            start_of_img_token="S",
            end_of_img_token="E",
            img_patch_token="I",
            tile_token="TILE",
            tile_global_token="TILE",
        ),
    ),
    "cohere2_vision": (
        {},
        {},
        _count_tiles(
            "Cohere2VisionImageProcessor",
            "Cohere2VisionProcessor",
            {},
            patch_size=16,
            boi_token="S",
            eoi_token="E",
            image_token="I",
            img_line_break_token="B",
        ),
    ),
    "llama4": (
        {},
        {},
        _count_tiles(
            "Llama4ImageProcessor", "Llama4Processor", {}, patch_size=14, downsample_ratio=4
        ),
    ),
    "llava_next": (
        {},
        {},
        _count_anyres(
            "LlavaNextImageProcessor",
            "LlavaNextProcessor",
            336,
            patch_size=14,
            num_additional_image_tokens=1,
            vision_feature_select_strategy="default",
        ),
    ),
    "llava_onevision": (
        {},
        {},
        _count_anyres(
            "LlavaOnevisionImageProcessor",
            "LlavaOnevisionProcessor",
            384,
            num_image_tokens=729,
            vision_feature_select_strategy="full",
            vision_aspect_ratio="anyres_max_9",
        ),
    ),
    "idefics3": ({}, {}, _count_idefics3("Idefics3ImageProcessor")),
    "smolvlm": ({}, {}, _count_idefics3("SmolVLMImageProcessor")),
    "pixtral": ({}, {}, _count_pixtral(1024, 16, 1)),
    "mistral3": ({}, {}, _count_pixtral(1540, 14, 2)),
    "gemma3": ({}, {}, count_gemma3()),
    "gemma4": ({}, {}, _count_gemma4),
    "siglip2": ({}, {}, _count_siglip2),
    "mllama": ({}, {}, _count_mllama),
    "phi4_multimodal": ({}, {}, _count_phi4),
    "lfm2_vl": ({}, {}, _count_lfm2),
}
"""By type: its config, the fields of a request, and the count."""
PAN_AND_SCAN: dict[str, object] = {
    "do_pan_and_scan": True,
    "pan_and_scan_min_crop_size": 256,
    "pan_and_scan_max_num_crops": 4,
    "pan_and_scan_min_ratio_to_activate": 1.2,
}
