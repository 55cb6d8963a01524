"""Positions of a model, as engines scale them."""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from service.estimator.model.config_reader import Config
from service.estimator.model.spec import DecoderSpec
from service.estimator.values.errors import InvalidConfigError
from service.estimator.values.workload import Engine

_YARN, _MAX_FACTOR = "yarn", 1024
_SCALED = frozenset({"linear", "dynamic", "ntk", _YARN})
"""Types of which engines multiply; longrope's and llama3's positions are scaled in the config
(vLLM 0.33.0, ``config/model.py``, ``_get_and_verify_max_len``), and so are Gemma 3's.
"""
_SCALED_IN_CONFIG = "gemma3"


def add_scaling(spec: DecoderSpec, config: Config) -> DecoderSpec:
    """Return numbers of a model with the scaling of its positions.

    Raises InvalidConfigError for one that no engine reads.
    """
    scaling = _find_scaling(config)
    kind = str(scaling.get("rope_type", scaling.get("type")))
    if not spec.rotary or kind not in _SCALED or spec.family.startswith(_SCALED_IN_CONFIG):
        return spec
    factor, original = scaling.get("factor", 1.0), 0
    if isinstance(factor, bool) or not isinstance(factor, int | float):
        factor = -1
    if not 1 <= factor <= _MAX_FACTOR:
        message = (
            f"positions are scaled by {scaling.get('factor')!r}; the factor is a number from 1 to "
            f"{_MAX_FACTOR:,}"
        )
        raise InvalidConfigError(message, field="rope_scaling")
    if kind == _YARN:
        original = _read_original(scaling)
    if int((original or spec.max_position_embeddings) * factor) == spec.max_position_embeddings:
        return spec
    return replace(
        spec, position_factor=float(factor), original_positions=original, position_scaling=kind
    )


def _read_original(scaling: Mapping[str, object]) -> int:
    """Return the positions that a scaling starts at, else 0."""
    original = scaling.get("original_max_position_embeddings")
    if original is None:
        return 0
    if isinstance(original, bool) or not isinstance(original, int) or original < 1:
        message = (
            f"original_max_position_embeddings is {original!r}; expected the positions that the "
            "model was made for, a whole number of at least 1"
        )
        raise InvalidConfigError(message, field="rope_scaling")
    return original


def _find_scaling(config: Config) -> Mapping[str, object]:
    """Return the scaling of a config's language model."""
    text = config.get("text_config")
    for section in (text if isinstance(text, Mapping) else {}, config):
        for name in ("rope_scaling", "rope_parameters"):
            if isinstance(scaling := section.get(name), Mapping):
                return scaling
    return {}


def count_scaled_positions(spec: DecoderSpec) -> int:
    """Return the positions that a model has as its config scales them."""
    if spec.position_factor == 1:
        return spec.max_position_embeddings
    return int((spec.original_positions or spec.max_position_embeddings) * spec.position_factor)


def count_served_positions(spec: DecoderSpec, engine: Engine) -> int:
    """Return the longest sequence that an engine takes of itself.

    vLLM multiplies what the scaling starts at. SGLang multiplies ``max_position_embeddings``, and
    only where the scaling does not name another start (0.5.23,
    ``srt/utils/hf_transformers/common.py``, ``get_context_length``), TensorRT-LLM but for yarn
    (``_torch/models/modeling_utils.py``, ``infer_max_seq_len``). TGI (3.3.5,
    ``launcher/src/main.rs``), LMDeploy (0.16.0, ``lmdeploy/utils.py``) and transformers take
    ``max_position_embeddings``.
    """
    if engine is Engine.TENSORRT_LLM and spec.position_scaling != _YARN:
        return ceil(spec.max_position_embeddings * spec.position_factor)
    if engine is Engine.VLLM or (engine is Engine.SGLANG and not spec.original_positions):
        return count_scaled_positions(spec)
    return spec.max_position_embeddings
