"""Configs that a recorder is started for, and their names; pure.

The bounds hold before a process is started; the process has its own of memory and time.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from json import dumps
from typing import Any

from service.estimator.model.families.registry import check_depth
from service.estimator.values.errors import InvalidConfigError

Config = Mapping[str, Any]
MAX_NESTING = 8
"""Configs in configs; transformers' own nest three deep (qwen3_omni_moe)."""
MAX_FIELDS = 16384
"""Values of a config, lists counted by their members; a list for each of 512 layers has 512."""
MAX_NUMBER = 2**40
"""Largest integer: no width, no length and no vocabulary comes near it."""
CONFIG = "config"
"""Field of a document with the config.json that was recorded."""
_WITHOUT_EFFECT = frozenset(
    {"_name_or_path", "auto_map", "dtype", "torch_dtype", "transformers_version"}
)
"""Fields by which the same model's configs differ."""


def check_recordable(config: Config) -> None:
    """Raise InvalidConfigError for what no recorder is started for."""
    if not isinstance(config.get("model_type"), str):
        message = "config lacks 'model_type', which says which code of transformers runs"
        raise InvalidConfigError(message, field="model_type")
    for num_fields, (path, value) in enumerate(_iter_values(config, "", 0)):
        if num_fields > MAX_FIELDS:
            message = f"config has more than {MAX_FIELDS:,} values"
            raise InvalidConfigError(message, field=path)
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            message = f"{path} is {value}; at most {MAX_NUMBER:,} is recorded"
            raise InvalidConfigError(message, field=path)
    check_depth(config)
    if config.get("quantization_config") is not None:
        message = (
            "a model with a quantization_config is not recorded: leave it out, for the model in "
            "16 or 32 bits"
        )
        raise InvalidConfigError(message, field="quantization_config")


def compute_config_digest(config: Config) -> str:
    """Return the SHA-256 of what a config says of its model."""
    kept = {name: value for name, value in config.items() if name not in _WITHOUT_EFFECT}
    return sha256(dumps(kept, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _iter_values(value: object, path: str, nesting: int) -> Iterator[tuple[str, object]]:
    """Yield every value of a config with its path."""
    if nesting > MAX_NESTING:
        message = f"{path} is nested more than {MAX_NESTING} deep"
        raise InvalidConfigError(message, field=path)
    yield path, value
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _iter_values(part, f"{path}.{name}" if path else str(name), nesting + 1)
    elif isinstance(value, list):
        for part in value:
            yield from _iter_values(part, path, nesting + 1)


def get_recorded_config(document: Config) -> Mapping[str, object] | None:
    """Return the config.json that a document was recorded from, if it says."""
    config = document.get(CONFIG)
    return config if isinstance(config, Mapping) else None
