"""Shipped pipelines that a checkpoint's own configs describe."""

from collections.abc import Mapping
from typing import Any

from service.catalog.pipelines.shipped import list_pipeline_names, load_pipeline
from service.estimator.pipelines.recording import RecordedComponent, RecordedPipeline
from service.estimator.values.errors import InvalidInputError, NotModelledError

_FIELD = "pipeline"
_WITHOUT_SHAPE = frozenset(
    {
        "architectures", "attention_dropout", "bos_token_id", "classifier_dropout",
        "decoder_start_token_id", "dropout", "dropout_rate", "dtype", "eos_token_id",
        "force_upcast", "gradient_checkpointing", "hidden_act", "initializer_factor",
        "initializer_range", "is_encoder_decoder", "latents_mean", "latents_std",
        "layer_norm_eps", "max_position_embeddings", "model_type", "n_positions", "output_past",
        "pad_token_id", "projection_dim", "rms_norm_eps", "rope_parameters", "rope_scaling",
        "rope_theta", "scaling_factor", "shift_factor", "tie_word_embeddings",
        "tokenizer_class", "torch_dtype", "transformers_version", "use_cache",
    }
)  # fmt: skip
"""Fields of configs that change no tensor's size in a call, or that files leave out."""


def match_pipeline(
    index: Mapping[str, Any], configs: Mapping[str, Mapping[str, Any]]
) -> RecordedPipeline:
    """Return the shipped pipeline whose components have these configs.

    ``index`` is a ``model_index.json``. Raises InvalidInputError where a component has no config
    and NotModelledError where no recording is of these sizes, with the nearest's difference.
    """
    class_name = index.get("_class_name")
    if not isinstance(class_name, str):
        message = "a model_index.json says _class_name"
        raise InvalidInputError(message, field=f"{_FIELD}.model_index")
    alike = [
        pipeline
        for pipeline in map(load_pipeline, list_pipeline_names())
        if pipeline.class_name == class_name
    ]
    differences: list[str] = []
    for pipeline in alike:
        difference = _find_difference(pipeline, configs)
        if difference is None:
            return pipeline
        differences.append(f"{pipeline.name} differs in {difference}")
    message = f"a {class_name} of these configs" + "".join(f"; {line}" for line in differences)
    raise NotModelledError(
        f"{message}; `headroom pipelines record` records it",
        field=_FIELD,
        modelled=list_pipeline_names(),
    )


def _find_difference(
    pipeline: RecordedPipeline, configs: Mapping[str, Mapping[str, Any]]
) -> str | None:
    """Return the first field that differs, in words; None where none does."""
    for name, component in pipeline.components.items():
        if name not in configs:
            message = f"{name} of the pipeline has no config among them"
            raise InvalidInputError(message, field=f"{_FIELD}.configs")
        field = _find_field(component, configs[name])
        if field is not None:
            value, recorded = configs[name].get(field), component.config.get(field)
            return f"{name}'s {field} ({recorded!r}, not {value!r})"
    return None


def _find_field(component: RecordedComponent, config: Mapping[str, Any]) -> str | None:
    """Return the first field that differs from the recorded component's."""
    for field, value in config.items():
        if field.startswith("_") or field in _WITHOUT_SHAPE or field not in component.config:
            continue
        if _normalize(component.config[field]) != _normalize(value):
            return field
    return None


def _normalize(value: object) -> object:
    if isinstance(value, list | tuple):
        return tuple(map(_normalize, value))
    if isinstance(value, dict):
        return tuple(sorted((key, _normalize(part)) for key, part in value.items()))
    return value
