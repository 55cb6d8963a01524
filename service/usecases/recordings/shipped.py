"""Recordings that a release ships, found by a config."""

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

from service.catalog.models import (
    ModelEntry,
    list_all_models,
    list_recorded_models,
    load_config,
)
from service.estimator.model.config_reader import put_known_model_type
from service.usecases.recordings.configs import Config

_WITHOUT_EFFECT = frozenset(
    {
        "_attn_implementation_autoset",
        "_name_or_path",
        "auto_map",
        "bos_token_id",
        "dtype",
        "eos_token_id",
        "finetuning_task",
        "id2label",
        "initializer_factor",
        "initializer_range",
        "label2id",
        "layer_norm_eps",
        "layer_norm_epsilon",
        "norm_eps",
        "pad_token_id",
        "rms_norm_eps",
        "task_specific_params",
        "tokenizer_class",
        "torch_dtype",
        "transformers_version",
        "unk_token_id",
        "use_cache",
    }
)
"""Fields that say nothing of what a step or a token allocates."""
_PLAIN: Mapping[str, object] = {
    "chunk_size_feed_forward": 0,
    "is_encoder_decoder": False,
    "num_labels": 2,
    "output_attentions": False,
    "output_hidden_states": False,
    "return_dict": True,
}
"""Fields of every config by their defaults, which a recorded config leaves out."""
_STRUCTURE = (
    "add_cross_attention",
    "cross_attention_hidden_size",
    "is_decoder",
    "pruned_heads",
    "quantization_config",
    "tie_encoder_decoder",
    "tie_word_embeddings",
)
"""Fields of any config that change its model."""
_SCORING = re.compile("Classification|Segmentation")
"""Classes whose head has a score for each label."""
_LABELS = 2
"""Labels of a config that names none."""
_ROTARY = ("rope_theta", "rope_scaling", "rope_parameters")


def find_shipped_recording(config: Config) -> ModelEntry | None:
    """Return the shipped recording that answers for a config.

    None where none does.

    The recorded configs say every field of their class, so that what a config leaves out has the
    same default in both, but for the fields that a published one has to say. A field that has
    another value is another model, and so is one that its class does not know and another's does;
    what no class knows, as newer releases write it, transformers does not read either.
    """
    config = put_known_model_type(config)
    return next(
        (
            entry
            for entry in list_recorded_models()
            if entry.model_type == config.get("model_type")
            and all(_has_field(config, path) for path in entry.required)
            and _says_no_more(config, load_config(entry), in_whole=not entry.required)
        ),
        None,
    )


def _has_field(config: object, path: str) -> bool:
    """Return whether a config says a field of a part."""
    for name in path.split("."):
        if not isinstance(config, Mapping) or name not in config:
            return False
        config = config[name]
    return True


def _says_no_more(
    config: Mapping[str, object],
    recorded: Mapping[str, object],
    *,
    in_whole: bool,
    part: str = "",
) -> bool:
    """Return whether a config says no more than the recorded one.

    ``part`` is the field that has it, where it is a part; ``in_whole`` asks that parts say all of
    the recorded ones.
    """
    return _has_labels(config, recorded) and all(
        _is_equal(name, value, recorded, in_whole=in_whole)
        if name in recorded or name in _ROTARY
        else _says_nothing(name, value, part)
        for name, value in config.items()
        if name not in _WITHOUT_EFFECT
    )


def _says_nothing(name: str, value: object, part: str) -> bool:
    """Return whether a field that a class lacks changes nothing."""
    if value is None or (name in _PLAIN and value == _PLAIN[name]):
        return True
    return name not in _STRUCTURE and (not value or name not in _list_known_fields()[part])


def _has_labels(config: Mapping[str, object], recorded: Mapping[str, object]) -> bool:
    """Return whether a head has as many labels as the recorded."""
    classes = recorded.get("architectures")
    is_scored = isinstance(classes, list) and any(_SCORING.search(str(name)) for name in classes)
    return not is_scored or _count_labels(config) == _count_labels(recorded)


def _count_labels(config: Mapping[str, object]) -> object:
    names = config.get("id2label")
    return len(names) if isinstance(names, Mapping) else config.get("num_labels", _LABELS)


def _is_equal(name: str, value: object, recorded: Mapping[str, object], *, in_whole: bool) -> bool:
    if name in _ROTARY:
        rotation = recorded.get("rope_parameters", recorded.get("rope_scaling"))
        return name == "rope_theta" or _get_rotation(value) == _get_rotation(rotation)
    other = recorded[name]
    if name == "model_type":
        # The class of a part follows from the whole: releases name its type by the whole or by it.
        return str(value).startswith(str(other)) or str(other).startswith(str(value))
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        # A part of a config has defaults of its own, which need not be those of the whole.
        missing = other.keys() - value.keys() if in_whole else set()
        is_alike = _says_no_more(value, other, in_whole=in_whole, part=name)
        return is_alike and missing <= _WITHOUT_EFFECT
    return type(value) is type(other) and value == other


@cache
def _list_known_fields() -> Mapping[str, frozenset[str]]:
    """Return the fields of the catalogue's configs, by part of a config."""
    fields: defaultdict[str, set[str]] = defaultdict(set)
    for entry in list_all_models():
        config = load_config(entry)
        fields[""] |= config.keys()
        for name, value in config.items():
            if isinstance(value, Mapping):
                fields[name] |= value.keys()
    return defaultdict(frozenset, {part: frozenset(names) for part, names in fields.items()})


def _get_rotation(value: object) -> object:
    """Return the kind of rotary positions; their base is no size."""
    if not isinstance(value, Mapping):
        return "default"
    kind = value.get("rope_type", value.get("type", "default"))
    sizes = {name: size for name, size in value.items() if name not in {"rope_theta", "type"}}
    return kind if kind == "default" else sizes | {"rope_type": kind}
