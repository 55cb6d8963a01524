"""Models that a package lists: ``python -m tests.corpus.listed_models llmfit-1.1.17.whl``.

The package llmfit holds, of some 17,000 ids of the hub, what their config.json and their weights
say: type, shape, longest context, total of parameters. An id is taken over where our count from
that shape is its total to the parameter, and nothing that the list does not say changes memory:

- it is what a model of the catalogue is (type, shape, context and total are equal; of a config that
  nobody may read without a token type and total, where all that have them have one context), or
- everything listed of it is listed of an id that is one of the catalogue's (buffers and layers that
  predict further tokens, which transformers leaves out, are in both totals then), or
- its type is one whose class leaves nothing open beside its shape.

Packed weights are taken over where their number proves how they are packed (``packed_listings``),
and no others, nor what is hardly downloaded. Fine-tunes with another head stand in
``fine_tunes.json``, each with the file that was read. Written to
``service/catalog/listed_models.json.gz``.
"""

import argparse
import gzip
import json
import re
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from service.catalog.listed_models import LISTED
from service.catalog.models import (
    ModelEntry,
    find_model,
    list_all_models,
    load_architecture,
    load_config,
)
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import EstimatorError
from tests.corpus.packed_listings import list_packed

Listed = Mapping[str, Any]
_PACKED = re.compile(
    r"awq|gptq|fp8|fp4|int4|int8|w4a|w8a|bnb|bit|gguf|mlx|exl|quant|onnx|openvino|-ov$|autoround"
    r"|hqq|aqlm|marlin|torchao|qat|nf4|[-_]q[2-8]|ternary|eagle|dflash|dspark|draft|mtp|lora"
    r"|adapter|imatrix|compressed|sparse|pruned|reap|-dq",
    re.IGNORECASE,
)
"""Names of weights that are packed, left out, or stand beside a model."""
_UNFIT = re.compile(r"nsfw|porn|sex|erotic", re.IGNORECASE)
"""Names that no catalogue prints."""
_FINE_TUNES = Path(__file__).with_name("fine_tunes.json")
_DOWNLOADS = 100
"""Downloads in a month of what the package found by itself; what its authors chose is taken."""
_ACTIVE = re.compile(r"a(\d+(?:\.\d+)?)b", re.IGNORECASE)
"""What a name says of the parameters that a token takes, which a total does not say."""
_PLAIN = frozenset({"gemma", "gemma2", "granite", "llama", "olmo2", "qwen2", "qwen3"})
"""Types whose classes' defaults are what all of their checkpoints have, but for the shape."""
_HEADS = frozenset({"bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta"})
"""Types of which one total may have several heads: an embedding model is no masked one."""
_EMBEDDING = frozenset({"feature-extraction", "sentence-similarity", "text-ranking"})
"""What the hub says of models that have no head, or another one."""
_WINDOWLESS_VOCABULARY = 32_768
"""Mistral's first tokenizer, which came with a window of attention, has fewer tokens."""
_FIELDS = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "num_key_value_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "vocab_size": "vocab_size",
    "moe_intermediate_size": "intermediate_size",
    "context_length": "max_position_embeddings",
}
"""Fields of the list, and those of a config.json; it has one width for both kinds of layer."""


def main(arguments: list[str]) -> int:
    """Write what is taken over, and print how much."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.listed_models")
    parser.add_argument("package", type=Path, help="the wheel of llmfit")
    package = parser.parse_args(arguments).package
    listed = read_package(package)
    catalogue = _index_catalogue()
    twins = _index_twins(listed)
    same: dict[str, list[str]] = defaultdict(list)
    shapes: dict[str, list[str]] = defaultdict(list)
    for model in listed:
        name = model["name"]
        if not _is_wanted(model) or find_model(name) is not None:
            continue
        if (entry := _find_same(model, catalogue)) is not None:
            same[entry.name].append(name)
        elif (config := _derive_config(model)) is not None:
            shapes[json.dumps([config, model["parameters_raw"]])].append(name)
        elif (entry := _find_twin(model, twins)) is not None:
            same[entry.name].append(name)
    document = {
        "package": package.name.split("-py3")[0].replace("-", " "),
        "same": {name: sorted(same[name]) for name in sorted(same)},
        "shapes": [
            dict(zip(("config", "total", "ids"), (*json.loads(shape), sorted(ids)), strict=True))
            for shape, ids in shapes.items()
        ],
        "heads": json.loads(_FINE_TUNES.read_bytes()),
        "packed": list_packed(listed),
    }
    text = json.dumps(document, separators=(",", ":"))
    LISTED.write_bytes(gzip.compress(text.encode(), mtime=0))
    sys.stdout.write(
        f"{len(listed):,} listed: {sum(map(len, same.values())):,} are like {len(same)} of the "
        f"catalogue, {sum(map(len, shapes.values())):,} have {len(shapes)} shapes of their own\n"
    )
    return 0


def _is_wanted(model: Listed) -> bool:
    name = model["name"].rpartition("/")[2]
    is_chosen = not model.get("_discovered") or model["hf_downloads"] >= _DOWNLOADS
    return is_chosen and not _PACKED.search(name) and not _UNFIT.search(name)


def read_package(wheel: Path) -> list[Listed]:
    """Return the list that the package's program holds."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("scripts/llmfit"))
        program = archive.read(name)
    start = program.rfind(b"[\n", 0, program.index(b'"parameters_raw"'))
    models, _ = json.JSONDecoder().raw_decode(program[start:].decode(errors="replace"))
    return list(models)


def _index_catalogue() -> dict[tuple[str, int], list[tuple[ModelEntry, Mapping[str, Any]]]]:
    """Return the models without packed weights, with their configs, by type and total."""
    index = defaultdict(list)
    for entry in list_all_models():
        config = load_config(entry)
        if "quantization_config" in config or _may_have_window(entry, config):
            continue
        try:
            total = load_architecture(entry).parameter_counts().total
        except EstimatorError:
            continue
        text: Any = config.get("text_config") or config.get("llm_config") or config
        index[entry.model_type, total].append((entry, {**config, **text}))
    return dict(index)


def _index_twins(listed: list[Listed]) -> dict[tuple[object, ...], dict[str, ModelEntry]]:
    """Return the models that listed ids are, by all that is listed of these."""
    index: dict[tuple[object, ...], dict[str, ModelEntry]] = defaultdict(dict)
    for model in listed:
        if (entry := find_model(model["name"])) is not None:
            index[_describe(model)][entry.name] = entry
    return dict(index)


def _find_twin(
    model: Listed, twins: Mapping[tuple[object, ...], Mapping[str, ModelEntry]]
) -> ModelEntry | None:
    """Return the one model of the catalogue with an id of which the same is listed, if any."""
    like = list(twins.get(_describe(model), {}).values())
    if len(like) != 1 or _has_no_shape(model) or model["architecture"] in _HEADS:
        return None
    config, active = load_config(like[0]), _find_active(model["name"])
    names = (like[0].name, *like[0].aliases)
    is_other = active not in {None, *map(_find_active, names)}
    is_plain = "quantization_config" not in config and not _may_have_window(like[0], config)
    return like[0] if is_plain and not is_other else None


def _describe(model: Listed) -> tuple[object, ...]:
    """Return all that is listed of a model, and whether it makes embeddings."""
    kind, is_embedding = model["architecture"], model["pipeline_tag"] in _EMBEDDING
    shape = tuple(model.get(name) for name in (*_FIELDS, "shared_expert_intermediate_size"))
    return (kind, is_embedding, model["parameters_raw"], *shape)


def _may_have_window(entry: ModelEntry, config: Mapping[str, Any]) -> bool:
    """Return whether Mistral models of one shape have a window or none: 0.1 and 0.2."""
    return entry.model_type == "mistral" and config.get("vocab_size", 0) < _WINDOWLESS_VOCABULARY


def _find_same(
    model: Listed,
    catalogue: Mapping[tuple[str, int], list[tuple[ModelEntry, Mapping[str, Any]]]],
) -> ModelEntry | None:
    """Return the model of the catalogue that has all that is listed, if any."""
    like = catalogue.get((model.get("architecture") or "", model["parameters_raw"]), [])
    active = _find_active(model["name"])
    if _has_no_shape(model) and len({_get_context(config) for _, config in like}) > 1:
        return None
    for entry, config in like:
        read = dict(_iter_listed(model))
        if "num_experts" in config or "num_local_experts" in config:
            read.pop("intermediate_size", None)
            if active not in {None, *map(_find_active, (entry.name, *entry.aliases))}:
                continue
        if all(config.get(field, value) == value for field, value in read.items()):
            return entry
    return None


def _has_no_shape(model: Listed) -> bool:
    """Return whether a config was not to be had: its context is a default then."""
    return model.get("hidden_size") is None and model.get("num_hidden_layers") is None


def _get_context(config: Mapping[str, Any]) -> object:
    return config.get("max_position_embeddings")


def _find_active(name: str) -> str | None:
    match = _ACTIVE.search(name.rpartition("/")[2])
    return None if match is None else match[1]


def _iter_listed(model: Listed) -> Iterator[tuple[str, int]]:
    for name, field in _FIELDS.items():
        is_default = name == "context_length" and _has_no_shape(model)
        if (value := model.get(name)) is not None and not is_default:
            yield field, value


def _derive_config(model: Listed) -> dict[str, Any] | None:
    """Return a config of the listed shape whose parameters are the total, if one has."""
    kind, shape = model.get("architecture"), dict(_iter_listed(model))
    is_windowless = kind == "mistral" and shape.get("vocab_size", 0) >= _WINDOWLESS_VOCABULARY
    if len(shape) < len(_FIELDS) or not (kind in _PLAIN or is_windowless):
        return None
    window = {"sliding_window": None} if is_windowless else {}
    for is_tied in (False, True):
        config = {"model_type": kind, **shape, **window, "tie_word_embeddings": is_tied}
        try:
            total = architecture_from_config(config).parameter_counts().total
        except EstimatorError:
            return None
        if total == model["parameters_raw"]:
            return config
    return None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
