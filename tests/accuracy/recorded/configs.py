"""A config of every model_type of transformers, few layers deep.

Those that are read by hand have small ones already; the others are what their config class is by
itself, as wide as its authors made it: tensors without data are as quick at any width.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.models.auto import modeling_auto

from tests.tiny_models import TINY, tiny_config

LAYERS = 4
"""Layers of each stack, more than a recording runs where they are alike."""
_COUNTS = frozenset(
    {
        "num_hidden_layers",
        "n_layer",
        "n_layers",
        "num_layers",
        "encoder_layers",
        "decoder_layers",
        "num_decoder_layers",
        "num_encoder_layers",
        "encoder_num_hidden_layers",
        "decoder_num_hidden_layers",
        "depth",
    }
)
_MISSING = {
    "n_routed_experts": 8,
    "num_experts": 8,
    "num_local_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
}
"""Numbers that some config classes leave out, and no model of theirs can be built without."""
_TABLES = (
    ("seq2seq", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"),
    ("images", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES"),
    ("speech", "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES"),
    ("masked", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"),
    ("causal", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
)


def list_types() -> Iterator[tuple[str, str]]:
    """Yield every model_type with its task: written ones first, then by task."""
    tasks = {name: _find_task(name) for name in CONFIG_MAPPING}
    order = ["written", "causal", "masked", "seq2seq", "images", "speech", "other"]
    tasks |= dict.fromkeys(TINY, "written")
    yield from sorted(tasks.items(), key=lambda item: (order.index(item[1]), item[0]))


def _find_task(model_type: str) -> str:
    return next(
        (task for task, table in _TABLES if model_type in getattr(modeling_auto, table)), "other"
    )


def make_config(model_type: str) -> dict[str, Any]:
    """Return a config of the type, its stacks of ``LAYERS`` layers."""
    if model_type in TINY:
        return _set_depth(dict(tiny_config(model_type)), factor=2)
    fields = CONFIG_MAPPING[model_type]().to_dict()
    return _set_depth(fields | {"model_type": model_type}, factor=None)


def _set_depth(fields: Mapping[str, Any], *, factor: int | None) -> dict[str, Any]:
    """Return a config with as many layers, times ``factor`` or ``LAYERS`` at most."""
    counts = {name: fields[name] for name in _COUNTS & set(fields) if isinstance(fields[name], int)}
    changed: dict[str, Any] = dict(fields)
    for name, value in fields.items():
        if isinstance(value, Mapping):
            changed[name] = _set_depth(value, factor=factor)
        elif isinstance(value, PreTrainedConfig):
            changed[name] = _set_depth(value.to_dict(), factor=factor)
        elif value is None and name in _MISSING:
            changed[name] = _MISSING[name]
        elif name in counts:
            changed[name] = value * factor if factor else min(value, LAYERS)
        elif isinstance(value, list) and len(value) > 1 and len(value) in counts.values():
            changed[name] = value * factor if factor else value[:LAYERS]
    return changed
