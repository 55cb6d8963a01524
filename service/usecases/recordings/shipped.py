"""Recordings that a release ships, found by a config."""

import re
from collections.abc import Mapping

from service.catalog.models import ModelEntry, list_recorded_models, load_config
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
_SCORING = re.compile("Classification|Segmentation")
"""Classes whose head has a score for each label."""
_LABELS = 2
"""Labels of a config that names none."""
_ROTARY = ("rope_theta", "rope_scaling", "rope_parameters")


def find_shipped_recording(config: Config) -> ModelEntry | None:
    """Return the shipped recording that answers for a config.

    None where none does.

    The recorded configs say every field of their class, so that what a config leaves out has the
    same default in both, but for the fields that a published one has to say. A field that is not
    known here, or has another value, is another model.
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
    config: Mapping[str, object], recorded: Mapping[str, object], *, in_whole: bool
) -> bool:
    """Return whether all that a config says is in the recorded one.

    ``in_whole`` asks that parts say all of it.
    """
    return _has_labels(config, recorded) and all(
        _is_equal(name, value, recorded, in_whole=in_whole)
        for name, value in config.items()
        if name not in _WITHOUT_EFFECT
    )


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
        return _get_rotation(value) == _get_rotation(recorded.get("rope_parameters"))
    if name not in recorded:
        return value is None or (name in _PLAIN and value == _PLAIN[name])
    other = recorded[name]
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        # A part of a config has defaults of its own, which need not be those of the whole.
        missing = other.keys() - value.keys() if in_whole else set()
        return _says_no_more(value, other, in_whole=in_whole) and missing <= _WITHOUT_EFFECT
    return type(value) is type(other) and value == other


def _get_rotation(value: object) -> object:
    """Return the kind of rotary positions; their base is no size."""
    if not isinstance(value, Mapping):
        return "default"
    kind = value.get("rope_type", value.get("type", "default"))
    return kind if kind == "default" else dict(value)
