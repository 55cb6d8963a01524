"""The default config of every model_type, as a config.json that says all of it."""

import json
from collections.abc import Mapping
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

from tests.accuracy.types.needed import NEEDED

_NOISE = frozenset({"_name_or_path", "dtype", "torch_dtype", "transformers_version"})
_PLAIN: dict[str, Any] = json.loads(PreTrainedConfig().to_json_string(use_diff=False))
"""Fields that every config has."""


def make_default_config(model_type: str) -> dict[str, Any]:
    """Return the config of a type whose class is given nothing but what it needs."""
    config_class = CONFIG_MAPPING[model_type]
    text = config_class(**NEEDED.get(model_type, {})).to_json_string(use_diff=False)
    return _leave_plain_out(json.loads(text)) | {"model_type": model_type}


def _leave_plain_out(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a config's own class, those of its parts alike."""
    return {
        name: _leave_plain_out(value)
        if isinstance(value, Mapping) and "model_type" in value
        else value
        for name, value in fields.items()
        if name not in _NOISE and (name == "model_type" or _PLAIN.get(name, fields) != value)
    }
