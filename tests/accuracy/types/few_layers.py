"""Default configs of few layers, so that any type is recorded in seconds."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.accuracy.types.configs import make_default_config
from worker.probes.models.model_class import build_config

LAYERS = 4
"""Of each stack, unless its first layers show fewer kinds than all of them."""
_COUNTS = re.compile(
    r"^(num_hidden_layers|num_layers|n_layers?|depth"
    r"|(\w+_)?(encoder|decoder|text|vision|audio)_(num_)?(hidden_)?layers"
    r"|num_(encoder|decoder)_(hidden_)?layers|num_hidden_layers_\w+)$"
)
"""Names of fields that say how many layers a stack has."""


def make_shallow_config(model_type: str) -> dict[str, Any]:
    """Return the default config of a type with few layers, where transformers builds it."""
    config = make_default_config(model_type)
    shallow: dict[str, Any] = _cut(config)
    try:
        build_config(shallow)
    except Exception:  # noqa: BLE001 - any code of transformers runs here
        return config
    return shallow


def _cut(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a config, and of its parts, with few layers."""
    deep = {
        value
        for name, value in fields.items()
        if _COUNTS.search(name) and type(value) is int and value > LAYERS
    }
    kept = {full: _choose_places(fields, full) for full in deep}
    return {name: _cut_field(name, value, kept) for name, value in fields.items()}


def _cut_field(name: str, value: object, kept: Mapping[int, Sequence[int]]) -> object:
    if isinstance(value, Mapping):
        return _cut(value)
    if _COUNTS.search(name) and type(value) is int and value in kept:
        return len(kept[value])
    if isinstance(value, list) and len(value) in kept:
        return [value[place] for place in kept[len(value)]]
    return value


def _choose_places(fields: Mapping[str, Any], full: int) -> list[int]:
    """Return the layers that are kept of a stack: the first of every kind, at least few."""
    lists = [value for value in fields.values() if isinstance(value, list) and len(value) == full]
    kinds = [str([values[place] for values in lists]) for place in range(full)]
    first = {kinds.index(kind) for kind in kinds}
    chosen = sorted(first | set(range(LAYERS)))
    return chosen if len(chosen) <= 2 * LAYERS else list(range(LAYERS))
