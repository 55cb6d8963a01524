"""Vision towers in the profiling run of vLLM.

0.33.0, ``multimodal/encoder_budget.py`` and ``v1/core/encoder_cache_manager.py``: as many of the
largest items as a step has room for, one at least, and no more of a prompt than
``limit_mm_per_prompt`` says; what may have none is not profiled. Per
patch, ``models/siglip.py``, ``clip.py`` and ``pixtral.py`` have three rows and the feed-forward's
own at the widest point; ``qwen2_vl.py`` and ``qwen2_5_vl.py`` have it in attention, with what is
turned beside what is projected.
"""

from dataclasses import dataclass, replace

from service.estimator.backends.vllm.profile import ProfilingBatch, TowerRun
from service.estimator.model.architecture import Architecture
from service.estimator.model.images import ImageInput
from service.estimator.model.spec import DecoderSpec
from service.estimator.processors.defaults import QWEN2_PIXELS
from service.estimator.values.workload import ServeWorkload

_ANY_SIZE = frozenset({"qwen2_5_vl", "qwen2_vl"})
_IMAGES = "images"
_WITH_CLASS_TOKEN, _GATED = "llava", "mistral3"
_MOST_FRAMES, _FRAMES_PER_GRID = 14, 2
"""``_MAX_FRAMES_PER_VIDEO``, and the frames that are patches together."""
_ROWS = 3
"""The layer's input, the sum after attention, and the norm of it."""
_ATTENTION_COPIES = 8
"""Query, key and value; query and key one after the other, and turned; what attention makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTower:
    """A tower's work for the largest item, in elements."""

    item: str
    item_tokens: int
    item_patches: int
    item_pixels: int
    peak_elements: int
    hidden_size: int
    """Of the language model, for which an item becomes tokens."""
    most_per_prompt: int | None = None
    """Items that a prompt may have; None as many as it has room for."""

    def count_items(self, batch: ProfilingBatch, max_model_len: int) -> int:
        """Return the items of the profiling run (``_get_max_items``)."""
        by_budget = max(batch.num_tokens, self.item_tokens) // self.item_tokens
        per_prompt = max_model_len // self.item_tokens
        if self.most_per_prompt is not None:
            per_prompt = min(per_prompt, self.most_per_prompt)
        per_prompt = max(1, per_prompt)
        return max(1, min(by_budget, batch.num_sequences * per_prompt))

    def list_warnings(self) -> tuple[str, ...]:
        """Return how a smaller item could be profiled."""
        if self.item == _IMAGES:
            return ()
        text = (
            f"vLLM profiles the vision tower with {self.item}, {self.item_tokens:,} tokens by "
            "max_model_len: max_videos_per_prompt 0 (--limit-mm-per-prompt without videos), or a "
            "lower max_model_len, needs less"
        )
        return (text,)


@dataclass(frozen=True, slots=True)
class ItemLimits:
    """Most images and videos of a prompt.

    None is as many as it has room for.
    """

    images: int | None = None
    videos: int | None = None


def find_tower(
    spec: DecoderSpec,
    images: ImageInput | None,
    *,
    max_model_len: int,
    ranks: int,
    limits: ItemLimits,
) -> ImageTower | None:
    """Return the tower that is profiled, if there is one.

    None of a model that reads no images, and where a prompt may have no item that it reads.
    """
    hidden = getattr(spec, "vision_hidden_size", 0)
    if images is None or not hidden:
        return None
    if spec.family in _ANY_SIZE and limits.videos != 0:
        return _build_qwen_tower(
            spec, hidden, max_model_len=max_model_len, ranks=ranks, most_videos=limits.videos
        )
    if limits.images == 0:
        return None
    if spec.family in _ANY_SIZE:
        image = _build_qwen_tower(spec, hidden, max_model_len=1, ranks=ranks, most_videos=None)
        return replace(image, item=_IMAGES, most_per_prompt=limits.images)
    patch_pixels = getattr(spec, "vision_channels", 3) * getattr(spec, "vision_patch_size", 14) ** 2
    inner = getattr(spec, "vision_intermediate_size", 0)
    factors = 3 if spec.family == _GATED else 2
    return ImageTower(
        item=_IMAGES,
        item_tokens=images.tokens or images.most_tokens,
        item_patches=images.pixels // patch_pixels + (spec.family == _WITH_CLASS_TOKEN),
        item_pixels=images.pixels,
        peak_elements=_ROWS * hidden + factors * inner // ranks,
        hidden_size=spec.hidden_size,
        most_per_prompt=limits.images,
    )


def _build_qwen_tower(
    spec: DecoderSpec, hidden: int, *, max_model_len: int, ranks: int, most_videos: int | None
) -> ImageTower:
    """Return the tower of a Qwen-VL, whose largest item is a video.

    One of a frame, which the processor doubles, is the largest image.
    """
    patch, merge = getattr(spec, "vision_patch_size", 14), getattr(spec, "vision_merge_size", 2)
    frame_tokens = QWEN2_PIXELS["longest_edge"] // (patch * merge) ** 2
    grids = max(1, min(_MOST_FRAMES // _FRAMES_PER_GRID, max_model_len // frame_tokens))
    patches = grids * frame_tokens * merge**2
    channels = getattr(spec, "vision_channels", 3)
    return ImageTower(
        item=f"videos of {grids * _FRAMES_PER_GRID} frames",
        item_tokens=grids * frame_tokens,
        item_patches=patches,
        item_pixels=patches * channels * _FRAMES_PER_GRID * patch**2,
        peak_elements=_ROWS * hidden + _ATTENTION_COPIES * hidden // ranks,
        hidden_size=spec.hidden_size,
        most_per_prompt=most_videos,
    )


def list_idle_limits(model: Architecture, workload: ServeWorkload) -> tuple[str, ...]:
    """Return the limits of items that have no effect."""
    limits = (workload.max_images_per_prompt, workload.max_videos_per_prompt)
    if limits == (None, None):
        return ()
    if getattr(model.spec, "vision_hidden_size", 0):
        text = (
            f"a prompt may have no images: the tower of {model.family} is not profiled, and its "
            "weights are counted, which vLLM leaves out then"
        )
    else:
        text = (
            f"max_images_per_prompt and max_videos_per_prompt have no effect: no tower of "
            f"{model.family} is profiled here"
        )
    return (text,)


def run_tower(
    tower: ImageTower, batch: ProfilingBatch, *, max_model_len: int, keeps_pixels: bool
) -> TowerRun:
    """Return a tower's part of the profiling run.

    The first runner keeps the pixels until all is over, the second one what the tower made alone.
    """
    items, width = tower.count_items(batch, max_model_len), batch.bytes_per_element
    pixels = items * tower.item_pixels
    features = items * tower.item_tokens * tower.hidden_size
    work = items * tower.item_patches * tower.peak_elements
    return TowerRun(
        peak_bytes=(work + pixels) * width,
        output_bytes=(features + (pixels if keeps_pixels else 0)) * width,
        formula=f"the tower over {items} {tower.item}",
    )
