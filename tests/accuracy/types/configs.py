"""The default config of every model_type, as a config.json that says all of it."""

import json
from collections.abc import Mapping
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

from service.probing.refusal import Refusal
from tests.accuracy.types.needed import NEEDED
from worker.probes.models.model_class import build_config

_NOISE = frozenset({"_name_or_path", "dtype", "torch_dtype", "transformers_version"})
NO_SIZES = frozenset(
    {"architectures", "bos_token_id", "eos_token_id", "model_type", "pad_token_id", "rms_norm_eps"}
    | {"rope_parameters", "rope_scaling", "rope_theta"}
)
"""Fields that no recording depends on, or that have no default of their own."""
_PLAIN: dict[str, Any] = json.loads(PreTrainedConfig().to_json_string(use_diff=False))
"""Fields that every config has."""


def make_default_config(model_type: str) -> dict[str, Any]:
    """Return the config of a type whose class is given nothing but what it needs."""
    built = CONFIG_MAPPING[model_type](**NEEDED.get(model_type, {}))
    return _say_all(built) | {"model_type": model_type}


def complete_config(published: Mapping[str, Any]) -> dict[str, Any]:
    """Return a published config.json that says its class's defaults too."""
    return _add_missing(published, _say_all(build_config(published)))


def list_required(published: Mapping[str, Any]) -> list[str]:
    """Return the fields, as paths, without which a config would be another one."""
    whole = _say_known(build_config(published))
    parts = {name: part for name, part in published.items() if isinstance(part, Mapping)}
    cut = {
        name: {field: value for field, value in published.items() if field != name}
        for name in published.keys() - NO_SIZES - _NOISE - parts.keys()
    } | {
        f"{name}.{field}": {
            **published,
            name: {other: value for other, value in part.items() if other != field},
        }
        for name, part in parts.items()
        for field in part.keys() - NO_SIZES - _NOISE
    }
    return sorted(path for path, config in cut.items() if not _builds(config, whole))


def _builds(config: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    """Return whether transformers builds the same of a config that says less."""
    try:
        return _say_known(build_config(config)) == whole
    except Refusal:
        return False


def _say_known(config: PreTrainedConfig) -> dict[str, Any]:
    """Return the fields that a config's classes have, and those of single layers."""
    fields: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    names = json.loads(type(config)().to_json_string(use_diff=False)).keys() | {"per_layer_config"}
    parts = {
        name: part for name, part in vars(config).items() if isinstance(part, PreTrainedConfig)
    }
    return {name: fields[name] for name in fields.keys() & names - parts.keys()} | {
        name: _say_known(part) for name, part in parts.items()
    }


def _say_all(config: PreTrainedConfig) -> dict[str, Any]:
    return _leave_plain_out(json.loads(config.to_json_string(use_diff=False)))


def _add_missing(fields: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return all fields, of both where only one has them; parts of a config alike."""
    return dict(others) | {
        name: _add_missing(value, others[name])
        if isinstance(value, Mapping) and "model_type" in value and name in others
        else value
        for name, value in fields.items()
        if name not in _NOISE
    }


def _leave_plain_out(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a config's own class, those of its parts alike."""
    return {
        name: _leave_plain_out(value)
        if isinstance(value, Mapping) and "model_type" in value
        else value
        for name, value in fields.items()
        if name not in _NOISE and (name == "model_type" or _PLAIN.get(name, fields) != value)
    }
