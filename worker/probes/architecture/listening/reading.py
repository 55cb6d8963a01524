"""Pixels and audio that models read in place of tokens."""

import inspect
from collections.abc import Collection
from math import prod

from transformers import PreTrainedConfig, PreTrainedModel

from service.estimator.model.recorded.inputs import InputKind, RecordedInput
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal

_TOKENS = frozenset({"input_ids", "inputs_embeds", "decoder_input_ids"})
"""Arguments of models that read or write text."""
_SIDES = {
    "bit": 224,
    "convnext": 224,
    "cvt": 224,
    "dinov3_convnext": 224,
    "focalnet": 224,
    "hgnet_v2": 224,
    "levit": 224,
    "poolformer": 224,
    "pvt_v2": 224,
    "regnet": 224,
    "resnet": 224,
    "segformer": 512,
    "upernet": 512,
}
"""Pixels of a side where the config has none: those of the type's published checkpoints.

(Their preprocessor_config.json; ``crop_pct`` of ConvNeXT ends in a crop of 224.)
"""
_SAMPLES_PER_SECOND = 16_000
_HOP = 320
"""Samples of a position, 20 ms, where the config has no strides."""
_MEL_FRAMES_PER_SECOND = 100
"""Frames of spectrograms, one every 10 ms."""
_STACKED = 2
"""Frames that w2v-BERT's feature extractor joins (``stride`` of SeamlessM4TFeatureExtractor)."""


def find_reading(model: PreTrainedModel) -> RecordedInput | None:
    """Return the items that a model reads, None for tokens.

    Raises Refusal where its config does not say the size.
    """
    arguments = inspect.signature(model.forward).parameters
    if _TOKENS & set(arguments):
        return None
    return _read_pixels(model.config, arguments) or _read_audio(model.config, arguments)


def has_one_pass(model: PreTrainedModel) -> bool:
    """Return whether a model is served by one pass, without a cache."""
    return (
        find_reading(model) is not None
        or "past_key_values" not in inspect.signature(model.forward).parameters
    )


def _read_pixels(config: PreTrainedConfig, arguments: Collection[str]) -> RecordedInput | None:
    name = next((n for n in ("pixel_values", "pixel_values_videos") if n in arguments), None)
    if name is None:
        return None
    height, width = _find_size(config)
    channels = _find(config, "num_channels", "in_channels", "in_chans") or 3
    frames = _find(config, "num_frames", "frames_per_clip") or 0
    shape = (channels, height, width)
    return RecordedInput(
        name=name,
        kind=InputKind.VIDEO if frames else InputKind.IMAGE,
        shape=(frames, *shape) if frames else shape,
        height=height,
        width=width,
        frames=frames,
    )


def _find_size(config: PreTrainedConfig) -> tuple[int, int]:
    """Return the height and width of a config's images."""
    parts = (getattr(config, name, None) for name in ("vision_config", "backbone_config"))
    for part in (config, *parts):
        for name in ("image_size", "crop_size", "img_size"):
            size = getattr(part, name, None)
            if isinstance(size, int) and size:
                return size, size
            if isinstance(size, list | tuple) and size:
                return int(size[0]), int(size[-1])
    side = _SIDES.get(config.model_type)
    if side is not None:
        return side, side
    message = f"the config of {config.model_type} does not say how large its images are"
    raise Refusal(FailureKind.UNSUPPORTED, message)


def _read_audio(config: PreTrainedConfig, arguments: Collection[str]) -> RecordedInput | None:
    if "input_values" in arguments:
        mel_bins = _find(config, "num_mel_bins")
        if mel_bins and _find(config, "patch_size"):
            frames = _find(config, "max_length") or 0
            return RecordedInput(
                name="input_values",
                kind=InputKind.AUDIO,
                shape=(frames, mel_bins),
                per_second=_MEL_FRAMES_PER_SECOND,
            )
        step = prod(getattr(config, "conv_stride", None) or [_HOP])
        return RecordedInput(
            name="input_values",
            kind=InputKind.AUDIO,
            shape=(0,),
            step=step,
            offset=step,
            per_second=_find(config, "sampling_rate") or _SAMPLES_PER_SECOND,
        )
    if "input_features" not in arguments:
        return None
    bins = _find(config, "feature_projection_input_dim", "input_feat_per_channel", "num_mel_bins")
    if not bins:
        return None
    stacked = _find(config, "feature_projection_input_dim") is not None
    return RecordedInput(
        name="input_features",
        kind=InputKind.AUDIO,
        shape=(0, bins),
        per_second=_MEL_FRAMES_PER_SECOND // (_STACKED if stacked else 1),
    )


def _find(config: PreTrainedConfig, *names: str) -> int | None:
    """Return the first of some fields that is a number."""
    values = (getattr(config, name, None) for name in names)
    return next((value for value in values if isinstance(value, int)), None)
