"""Types of models by the processors that they have.

A type has a rule, and defaults of its fields, for each kind of input that it reads. The classes are
those of transformers 5.23 (``models/auto/image_processing_auto.py`` and its like).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from service.estimator.processors import audio_defaults, defaults, tile_defaults
from service.estimator.processors.defaults import QWEN2_PIXELS, QWEN3_PIXELS, Config, Fields
from service.estimator.processors.rules import audio, patches, resolutions, squares, tiles
from service.estimator.processors.rules.items import Item
from service.estimator.processors.rules.settings import Settings

ImageRule = Callable[[Settings, int, int, int], Item]
VideoRule = Callable[[Settings, int, int, int], Item]
AudioRule = Callable[[Settings, int], Item]
BuildFields = Callable[[Config], Fields]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorType:
    """Rules of a type's inputs, None for what it does not read."""

    image: tuple[ImageRule, BuildFields] | None = None
    video: tuple[VideoRule, BuildFields] | None = None
    audio: tuple[AudioRule, BuildFields] | None = None


def _build_square(rule_side: int, patch: int, *, extra: int = 0) -> ProcessorType:
    """Return a type of one square, each position a feature."""
    build = partial(
        defaults.build_square_image, side=rule_side, patch=patch, extra=extra, counts_extra=True
    )
    return ProcessorType(image=(squares.count_square_image, build))


_QWEN2 = ProcessorType(
    image=(
        patches.count_qwen_image,
        partial(defaults.build_qwen_image, patch=14, pixels=QWEN2_PIXELS),
    ),
    video=(patches.count_qwen2_video, defaults.build_qwen2_video),
)
_QWEN3 = ProcessorType(
    image=(
        patches.count_qwen_image,
        partial(defaults.build_qwen_image, patch=16, pixels=QWEN3_PIXELS),
    ),
    video=(patches.count_qwen3_video, defaults.build_qwen3_video),
)
_GLM = ProcessorType(
    image=(patches.count_glm_image, defaults.build_glm_image),
    video=(patches.count_glm_video, defaults.build_glm_video),
)
_INTERNVL = ProcessorType(
    image=(tiles.count_internvl_image, tile_defaults.build_internvl_image),
    video=(squares.count_square_video, tile_defaults.build_internvl_image),
)
_IDEFICS3 = (tiles.count_idefics3_image, tile_defaults.build_idefics3_image)
_WAV2VEC2 = ProcessorType(audio=(audio.count_wav2vec2_audio, audio_defaults.build_wav2vec2_audio))
_GEMMA4_IMAGE = partial(defaults.build_gemma4_image, tokens=280)
_GEMMA4_VIDEO = partial(defaults.build_gemma4_image, tokens=70)

TYPES: Mapping[str, ProcessorType] = {
    "aya_vision": ProcessorType(image=(tiles.count_aya_image, tile_defaults.build_aya_image)),
    "clip": _build_square(224, 32, extra=1),
    "clip_vision_model": _build_square(224, 32, extra=1),
    "cohere2_vision": ProcessorType(
        image=(tiles.count_cohere_image, tile_defaults.build_cohere_image)
    ),
    "dinov2": _build_square(224, 14, extra=1),
    "dinov3_vit": ProcessorType(image=(squares.count_square_image, defaults.build_dinov3_image)),
    "gemma3": ProcessorType(image=(squares.count_gemma3_image, defaults.build_gemma3_image)),
    "gemma3n": ProcessorType(
        image=(squares.count_square_image, defaults.build_gemma3n_image),
        audio=(audio.count_fixed_audio, audio_defaults.build_gemma3n_audio),
    ),
    "gemma4": ProcessorType(
        image=(patches.count_gemma4_image, _GEMMA4_IMAGE),
        video=(patches.count_gemma4_video, _GEMMA4_VIDEO),
        audio=(audio.count_gemma4_audio, audio_defaults.build_gemma4_audio),
    ),
    "glm46v": _GLM,
    "glm4v": _GLM,
    "glm4v_moe": _GLM,
    "hubert": _WAV2VEC2,
    "idefics3": ProcessorType(image=_IDEFICS3),
    "internvl": _INTERNVL,
    "lfm2_vl": ProcessorType(image=(tiles.count_lfm2_image, tile_defaults.build_lfm2_image)),
    "llama4": ProcessorType(image=(tiles.count_llama4_image, tile_defaults.build_llama4_image)),
    "llava": ProcessorType(image=(squares.count_square_image, defaults.build_llava_image)),
    "llava_next": ProcessorType(
        image=(resolutions.count_llava_next_image, defaults.build_llava_next_image)
    ),
    "llava_onevision": ProcessorType(
        image=(resolutions.count_llava_onevision_image, defaults.build_onevision_image),
        video=(resolutions.count_llava_onevision_video, defaults.build_onevision_image),
    ),
    "mistral3": ProcessorType(image=(patches.count_pixtral_image, defaults.build_mistral3_image)),
    "mllama": ProcessorType(image=(tiles.count_mllama_image, tile_defaults.build_mllama_image)),
    "paligemma": _build_square(224, 14),
    "phi4_multimodal": ProcessorType(
        image=(tiles.count_phi4_image, tile_defaults.build_phi4_image),
        audio=(audio.count_phi4_audio, audio_defaults.build_phi4_audio),
    ),
    "pixtral": ProcessorType(image=(patches.count_pixtral_image, defaults.build_pixtral_image)),
    "qwen2_5_omni": ProcessorType(
        image=_QWEN2.image,
        video=_QWEN2.video,
        audio=(audio.count_qwen2_audio, audio_defaults.build_omni_audio),
    ),
    "qwen2_5_vl": _QWEN2,
    "qwen2_audio": ProcessorType(
        audio=(audio.count_qwen2_audio, audio_defaults.build_whisper_audio)
    ),
    "qwen2_vl": _QWEN2,
    "qwen3_5": _QWEN3,
    "qwen3_5_moe": _QWEN3,
    "qwen3_omni_moe": ProcessorType(
        image=_QWEN3.image,
        video=_QWEN3.video,
        audio=(audio.count_qwen3_audio, audio_defaults.build_omni_audio),
    ),
    "qwen3_vl": _QWEN3,
    "qwen3_vl_moe": _QWEN3,
    "siglip": _build_square(224, 16),
    "siglip2": ProcessorType(image=(patches.count_siglip2_image, defaults.build_siglip2_image)),
    "siglip_vision_model": _build_square(224, 16),
    "smolvlm": ProcessorType(
        image=_IDEFICS3, video=(squares.count_square_video, tile_defaults.build_idefics3_video)
    ),
    "vit": _build_square(224, 16, extra=1),
    "voxtral": ProcessorType(audio=(audio.count_voxtral_audio, audio_defaults.build_voxtral_audio)),
    "wav2vec2": _WAV2VEC2,
    "wavlm": _WAV2VEC2,
    "whisper": ProcessorType(audio=(audio.count_whisper_audio, audio_defaults.build_whisper_audio)),
}
"""Rules by ``model_type``."""
