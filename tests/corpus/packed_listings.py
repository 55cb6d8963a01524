"""Packed weights of listed models whose packing the total of their values proves.

llm-compressor writes weights of 8 bits with a scale for each row (its presets FP8_DYNAMIC and W8A8)
under the name of the model with that of the preset. Such an id is taken over where the weights of
the model that it names and these scales are as many values as the list counts in its files, with
the head in 16 bits and, where there are, towers of images and linear attention too.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from service.catalog.listed_models import find_listed
from service.catalog.models import (
    ModelEntry,
    find_model,
    list_all_models,
    load_architecture,
    load_config,
)
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.configs import read_quantization
from service.estimator.model.quantization.weights import iter_placements

_NAME = re.compile(r"(.+?)[-_.](fp8[-_.]dynamic|quantized\.w8a8)", re.IGNORECASE)
_FORMATS = {"fp8": ("float", "float-quantized"), "quantized": ("int", "int-quantized")}
"""Kind of the codes, and what a config.json calls their format."""
_HEAD = ("lm_head",)
_TOWERS = (*_HEAD, "re:.*visual.*", "re:.*vision.*")
_STATES = (*_TOWERS, "re:.*linear_attn.*")
_IGNORED = (_HEAD, _TOWERS, _STATES)
"""Modules in 16 bits: the head, with towers of images, with linear attention too."""


def list_packed(listed: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the ids that are taken over, by model and packing."""
    bases = _index_bases(listed)
    taken: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for model in listed:
        named = _NAME.fullmatch(model["name"].rpartition("/")[2])
        entries = bases.get(named[1].casefold(), set()) if named else set()
        if named is None or len(entries) != 1 or find_model(model["name"]) is not None:
            continue
        (entry,) = entries
        kind = re.split(r"[-_.]", named[2].casefold())[0]
        for ignored in _IGNORED:
            if count_values(entry, make_config(kind, ignored)) == model["parameters_raw"]:
                taken[entry, kind, ignored].append(model["name"])
                break
    return [
        {
            "entry": entry,
            "quantization_config": make_config(kind, ignored),
            "total": count_values(entry, make_config(kind, ignored)),
            "ids": sorted(ids),
        }
        for (entry, kind, ignored), ids in sorted(taken.items())
    ]


def make_config(kind: str, ignored: Sequence[str]) -> dict[str, Any]:
    """Return the ``quantization_config`` of a preset."""
    codes, layout = _FORMATS[kind]
    weights = {"num_bits": 8, "type": codes, "strategy": "channel", "dynamic": False}
    inputs = {"num_bits": 8, "type": codes, "strategy": "token", "dynamic": True}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {
        "quant_method": "compressed-tensors",
        "format": layout,
        "config_groups": {"group_0": group},
        "ignore": list(ignored),
    }


def count_values(name: str, quantization: Mapping[str, Any]) -> int:
    """Return the values of a model's files: weights, and a scale for each row of packed ones."""
    entry = find_model(name)
    assert entry is not None
    model = load_architecture(entry)
    return model.parameter_counts().total + _count_rows(model, quantization)


def _count_rows(model: Architecture, quantization: Mapping[str, Any]) -> int:
    scheme = read_quantization({"quantization_config": quantization})
    assert scheme is not None
    rows = 0
    for placed in iter_placements(replace(model, quantization=scheme), scheme):
        if placed.num_packed:
            num, height, _ = placed.matrix_shape
            rows += num * height * placed.num_packed
    return rows


def _index_bases(listed: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the models without packed weights by the last part of their ids."""
    index: dict[str, set[str]] = defaultdict(set)
    for entry in list_all_models():
        if not _is_packed(entry):
            for alias in entry.aliases:
                index[alias.rpartition("/")[2].casefold()].add(entry.name)
    for model in listed:
        known = find_listed(model["name"])
        if known is not None and known.entry_name is not None and known.fields is None:
            index[model["name"].rpartition("/")[2].casefold()].add(known.entry_name)
    return index


def _is_packed(entry: ModelEntry) -> bool:
    return "quantization_config" in load_config(entry)
