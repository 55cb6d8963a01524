"""Models of any class of transformers, from a config."""

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel, initialization
from transformers.models.auto import modeling_auto

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal

_IGNORED_FIELDS = frozenset(
    {"architectures", "torch_dtype", "dtype", "auto_map", "quantization_config", "model_type"}
)
_MAPPINGS = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_CTC_MAPPING_NAMES",
    "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
)
"""Tables of classes by model type, the narrower task before the wider.

BART and BERT are also known as causal models.
"""


def build_config(config: Mapping[str, Any]) -> PreTrainedConfig:
    """Build transformers' config; nothing of it is code.

    Raises Refusal for a type that this transformers does not know, or a field that it refuses.
    """
    fields = {name: value for name, value in config.items() if name not in _IGNORED_FIELDS}
    try:
        return AutoConfig.for_model(str(config["model_type"]), **fields)
    except Exception as error:
        message = f"transformers {transformers.__version__} refuses this config: {error}"
        raise Refusal(FailureKind.UNSUPPORTED, message) from error


def find_class(config: Mapping[str, Any]) -> type[PreTrainedModel]:
    """Return the class that ``architectures`` names, else the type's own."""
    for name in config.get("architectures") or ():
        model_class = getattr(transformers, str(name), None)
        if isinstance(model_class, type) and issubclass(model_class, PreTrainedModel):
            return model_class
    for table in _MAPPINGS:
        name = getattr(modeling_auto, table, {}).get(str(config["model_type"]))
        for candidate in name if isinstance(name, list | tuple) else [name]:
            if candidate is not None:
                found_class: type[PreTrainedModel] = getattr(transformers, candidate)
                return found_class
    message = f"transformers {transformers.__version__} has no model of {config['model_type']!r}"
    raise Refusal(FailureKind.UNSUPPORTED, message)


def build_any_model(
    config: Mapping[str, Any], hf_config: PreTrainedConfig, *, dtype: torch.dtype, attention: str
) -> PreTrainedModel:
    """Build the model in training mode, without weights."""
    model_class = find_class(config)
    if attention == "sdpa" and not model_class._supports_sdpa:  # noqa: SLF001 - the only word for it
        attention = "eager"
    with initialization.no_init_weights():
        build: Any = model_class._from_config  # noqa: SLF001 - what the auto classes call
        model: PreTrainedModel = build(hf_config, dtype=dtype, attn_implementation=attention)
    model.tie_weights()
    model.train()
    return model
