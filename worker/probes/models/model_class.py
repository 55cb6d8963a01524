"""Models of any class of transformers, from a config."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import chain
from typing import Any

import torch
import transformers
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    PreTrainedConfig,
    PreTrainedModel,
    initialization,
)
from transformers.models.auto import modeling_auto

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal

_IGNORED_FIELDS = frozenset(
    {"architectures", "torch_dtype", "dtype", "auto_map", "quantization_config", "model_type"}
)
_LAYER_DROPS = frozenset({"layerdrop", "encoder_layerdrop", "decoder_layerdrop"})
"""Chances that a step leaves a layer out, drawn for each layer and step."""
_MAPPINGS = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_CTC_MAPPING_NAMES",
    "MODEL_FOR_TEXT_TO_WAVEFORM_MAPPING_NAMES",
    "MODEL_FOR_TEXT_TO_SPECTROGRAM_MAPPING_NAMES",
    "MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES",
    "MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES",
    "MODEL_FOR_UNIVERSAL_SEGMENTATION_MAPPING_NAMES",
    "MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES",
    "MODEL_FOR_DEPTH_ESTIMATION_MAPPING_NAMES",
    "MODEL_FOR_VIDEO_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_KEYPOINT_DETECTION_MAPPING_NAMES",
    "MODEL_FOR_KEYPOINT_MATCHING_MAPPING_NAMES",
    "MODEL_FOR_TABLE_RECOGNITION_MAPPING_NAMES",
    "MODEL_FOR_TEXT_RECOGNITION_MAPPING_NAMES",
    "MODEL_FOR_TIME_SERIES_PREDICTION_MAPPING_NAMES",
    "MODEL_FOR_DECISION_MAPPING_NAMES",
    "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
    "MODEL_FOR_BACKBONE_MAPPING_NAMES",
)
"""Tables of classes by model type, the narrower task before the wider.

BART and BERT are also known as causal models, CLIP as a classifier of images.
"""
_FLOATS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}
"""Numbers that JSON has not, as transformers 5 writes them (``{"__float__": "Infinity"}``)."""


def build_config(config: Mapping[str, Any]) -> PreTrainedConfig:
    """Build transformers' config; nothing of it is code.

    No layer is dropped at random: a step that runs all of them takes the most. Raises Refusal for a
    type that this transformers does not know, or a field that it refuses.
    """
    fields = {
        name: _read_floats(value) for name, value in config.items() if name not in _IGNORED_FIELDS
    }
    try:
        built = AutoConfig.for_model(str(config["model_type"]), **fields)
    except Exception as error:
        message = f"transformers {transformers.__version__} refuses this config: {error}"
        raise Refusal(FailureKind.UNSUPPORTED, message) from error
    for name in _LAYER_DROPS & vars(built).keys():
        setattr(built, name, 0.0)
    return built


def settle_config(config: Mapping[str, Any]) -> PreTrainedConfig:
    """Build the config of a pass that caches nothing by itself.

    SpecAugment's masks of audio, a byte for a frame, are left out.
    """
    hf_config = build_config(config)
    hf_config.use_cache = hf_config.get_text_config().use_cache = False
    if hasattr(hf_config, "apply_spec_augment"):
        hf_config.apply_spec_augment = False
    return hf_config


def _read_floats(value: object) -> object:
    """Return a value with its infinities as numbers."""
    if isinstance(value, Mapping):
        if set(value) == {"__float__"}:
            return _FLOATS.get(str(value["__float__"]), value)
        return {name: _read_floats(part) for name, part in value.items()}
    return [_read_floats(part) for part in value] if isinstance(value, list) else value


def find_class(config: Mapping[str, Any]) -> type[PreTrainedModel]:
    """Return the class that ``architectures`` names, else the type's own."""
    for name in config.get("architectures") or ():
        model_class = getattr(transformers, str(name), None)
        if isinstance(model_class, type) and issubclass(model_class, PreTrainedModel):
            return model_class
    model_type = str(config["model_type"])
    mapped = list(_list_mapped(model_type))
    built = (candidate for candidate in mapped if _is_built_from(candidate, model_type))
    model_class = next(chain(built, _list_defined(model_type), mapped), None)
    if model_class is not None:
        return model_class
    message = f"transformers {transformers.__version__} has no model of {model_type!r}"
    raise Refusal(FailureKind.UNSUPPORTED, message)


def _list_mapped(model_type: str) -> Iterator[type[PreTrainedModel]]:
    """Yield the classes of a type by task."""
    for table in _MAPPINGS:
        names = getattr(modeling_auto, table, {}).get(model_type)
        for name in names if isinstance(names, list | tuple) else [names]:
            candidate = getattr(transformers, name or "", None)
            if candidate is not None:
                yield candidate


def _is_built_from(model_class: type[PreTrainedModel], model_type: str) -> bool:
    """Return whether a class takes the config of a type.

    Musicgen's causal model takes its decoder's. InternLM3 is run by Llama's, and has no other.
    """
    return issubclass(CONFIG_MAPPING[model_type], model_class.config_class or PreTrainedConfig)


def _list_defined(model_type: str) -> Iterator[type[PreTrainedModel]]:
    """Yield the classes of a type that is in no table."""
    if model_type not in CONFIG_MAPPING:
        return
    config_class = CONFIG_MAPPING[model_type]
    name = config_class.__module__.replace(".configuration_", ".modeling_")
    try:
        module = import_module(name)
    except ModuleNotFoundError:
        return
    for candidate in vars(module).values():
        if (
            isinstance(candidate, type)
            and issubclass(candidate, PreTrainedModel)
            and candidate.config_class is config_class
            and not candidate.__name__.endswith("PreTrainedModel")
        ):
            yield candidate


def build_any_model(
    config: Mapping[str, Any], hf_config: PreTrainedConfig, *, dtype: torch.dtype, attention: str
) -> PreTrainedModel:
    """Build the model in training mode, without weights."""
    model_class = find_class(config)
    if attention == "sdpa" and not model_class._supports_sdpa:  # noqa: SLF001 - the only word for it
        attention = "eager"
    build: Any = model_class._from_config  # noqa: SLF001 - what the auto classes call
    with initialization.no_init_weights():
        try:
            model: PreTrainedModel = build(hf_config, dtype=dtype, attn_implementation=attention)
        except ValueError as error:
            if attention != "sdpa" or "attention implementation" not in str(error):
                raise
            # A part of it has other kernels: each part takes its own then.
            model = build(hf_config, dtype=dtype, attn_implementation=None)
    model.tie_weights()
    model.train()
    return model
