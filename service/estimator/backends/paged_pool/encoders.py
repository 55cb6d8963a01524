"""Encoders that pool, as vLLM and SGLang load them.

vLLM 0.33.0, ``model_executor/models/bert.py``, ``roberta.py``, ``modernbert.py``; SGLang 0.5.23,
``srt/models/bert.py``, ``roberta.py``. Tables of positions and of token types are padded as that of
words is; embeddings are pooled without the model's own pooler; vLLM has heads in fp32.
"""

from dataclasses import dataclass

from service.estimator.backends.paged_pool.layer_caches import LayerCache
from service.estimator.backends.paged_pool.rank_memory import VOCABULARY_MULTIPLE
from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.heads import Head
from service.estimator.values.units import ceil_div

ENCODERS = frozenset({"bert", "modernbert", "roberta", "xlm-roberta"})
"""Families of which vLLM has models."""
_OFFSET_POSITIONS = frozenset({"roberta", "xlm-roberta"})
"""Families that count positions from behind the id of padding."""
_OFFSET = 2
_POOLER, _HEADS = "pooler.", ("pooler.", "classifier", "head.")
_TYPES = "token_type_embeddings.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderRules:
    """An engine's way to hold an encoder.

    ``padded`` families have tables in whole rows of 64; ``index_dtype`` is that of the buffer of
    positions, None that of the weights.
    """

    padded: frozenset[str]
    head_dtype: DType | None
    index_bytes: int | None


VLLM_ENCODERS = EncoderRules(padded=ENCODERS, head_dtype=DType.FP32, index_bytes=8)
SGLANG_ENCODERS = EncoderRules(padded=frozenset({"bert"}), head_dtype=None, index_bytes=None)


def is_encoder(model: Architecture) -> bool:
    """Return whether a model is an encoder whose hidden states are pooled."""
    return model.family in ENCODERS


def count_positions(model: Architecture) -> int:
    """Return the tokens that an encoder can read."""
    offset = _OFFSET if model.family in _OFFSET_POSITIONS else 0
    return model.spec.max_position_embeddings - offset


def count_difference(model: Architecture, rules: EncoderRules, dtype: DType) -> int:
    """Return the bytes beyond those of the parameters in ``dtype``."""
    width = dtype.bytes_per_element
    tables = [weight for weight in (model.position_embedding, *model.stem) if _is_table(weight)]
    rows = sum(_count_padding(table) for table in tables if model.family in rules.padded)
    index = 0
    if model.position_embedding is not None:
        index = model.spec.max_position_embeddings * (rules.index_bytes or width)
    return (
        rows * model.spec.hidden_size * width + index + _count_head_difference(model, rules, width)
    )


def _count_head_difference(model: Architecture, rules: EncoderRules, width: int) -> int:
    task = model.task
    if task is not None and task.kind is Head.NONE:
        pooler = (weight.numel for weight in model.stem if weight.name.startswith(_POOLER))
        return -sum(pooler) * width
    steps = sum(weight.numel for weight in model.stem if weight.name.startswith(_HEADS))
    output = sum(weight.numel for weight in model.list_head_weights())
    head_width = width if rules.head_dtype is None else rules.head_dtype.bytes_per_element
    return (steps + output) * (head_width - width)


def _is_table(weight: Weight | None) -> bool:
    return weight is not None and (weight.kind == "embedding" or weight.name == _TYPES)


def _count_padding(table: Weight | None) -> int:
    if table is None:
        return 0
    return ceil_div(table.shape[0], VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE - table.shape[0]


def list_encoder_caches(model: Architecture) -> tuple[LayerCache, ...]:
    """Return the keys and values that SGLang has room for.

    Nobody reads them again.
    """
    elements = 2 * model.spec.num_key_value_heads * model.spec.head_dim
    return (LayerCache(elements, None, model.num_hidden_layers),)
