"""Draft heads on a rank.

They are layers that guess from the hidden states of the model that they serve: vLLM 0.33.0,
``model_executor/models`` (``deepseek_mtp.py``, ``llama_eagle.py``, ``llama_eagle3.py``) and
``v1/worker/gpu/spec_decode/eagle/utils.py`` (``_should_share``); SGLang 0.5.23, ``srt/models``
(``deepseek_nextn.py``, ``llama_eagle3.py``). The table of tokens is the model's, and so is the
output layer of all but EAGLE-3's.
"""

import json
from dataclasses import replace

from service.estimator.backends.paged_pool.rank_memory import (
    VOCABULARY_MULTIPLE,
    Rank,
    build_deeper_rank,
    build_ranks,
)
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.speculative import FIELD, get_draft_model
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.scheme import Scheme
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.speculative import DraftHead, Speculative
from service.estimator.values.units import ceil_div

_PREDICTOR_NORMS, _EAGLE_STATES, _EAGLE3_STATES = 3, 2, 3
"""Norms of a predictor beside its layer's, and the hidden states that an EAGLE projection joins:
the token's and one of the model's, or three of the model's where its config counts none.
"""
_INDEX_BYTES = 8


def add_speculation(
    ranks: tuple[Rank, ...],
    model: Architecture,
    speculative: Speculative | None,
    layout: Layout,
    *,
    scheme: Scheme | None,
    dtype: DType,
) -> tuple[Rank, ...]:
    """Return the ranks with what guesses tokens beside the model.

    ``scheme`` is how the model's weights are stored.
    """
    if speculative is None or speculative.head is None:
        return add_draft(ranks, get_draft_model(speculative), layout, dtype)
    (rank,) = ranks
    width = dtype.bytes_per_element
    if speculative.head is DraftHead.MTP:
        return (_add_predictors(rank, model, layout, scheme, dtype),)
    draft = get_draft_model(speculative)
    assert draft is not None  # noqa: S101 - a head's value has its config
    _check_width(model, draft, speculative)
    (head,) = build_ranks(draft, layout, scheme=draft.quantization, dtype=dtype)
    if speculative.head is DraftHead.EAGLE:
        more = _EAGLE_STATES * draft.spec.hidden_size**2 * width
    else:
        config: dict[str, object] = json.loads(speculative.config or "{}")
        more = _count_eagle3_elements(model.spec, draft.spec, config, layout) * width
        more += _count_indices(model.spec, draft.spec, config)
    return (
        replace(
            rank,
            weight_bytes=rank.weight_bytes + head.layer_bytes + head.table_bytes + more,
            table_bytes=rank.table_bytes + head.table_bytes,
            caches=(*rank.caches, *head.caches),
        ),
    )


def add_draft(
    ranks: tuple[Rank, ...], draft: Architecture | None, layout: Layout, dtype: DType
) -> tuple[Rank, ...]:
    """Return the ranks with a draft model beside the target.

    They get its weights, split alike, and its layers' caches.
    """
    if draft is None:
        return ranks
    if layout.pipeline_parallel > 1:
        raise NotModelledError(
            "a draft model beside a pipeline", field="layout.pipeline_parallel", modelled=["1"]
        )
    (draft_rank,) = build_ranks(draft, layout, scheme=draft.quantization, dtype=dtype)
    (rank,) = ranks
    weights, tables = (
        rank.weight_bytes + draft_rank.weight_bytes,
        rank.table_bytes + draft_rank.table_bytes,
    )
    return (
        replace(
            rank,
            weight_bytes=weights,
            table_bytes=tables,
            caches=(*rank.caches, *draft_rank.caches),
        ),
    )


def _add_predictors(
    rank: Rank, model: Architecture, layout: Layout, scheme: Scheme | None, dtype: DType
) -> Rank:
    """Return the rank with the model's own predictors.

    Each is a layer like the last one, behind a projection of two hidden states that is whole on
    every rank.
    """
    count = model.spec.num_predictors
    deeper, alone = (
        build_deeper_rank(model, layout, scheme=scheme, dtype=dtype, deeper=tree)
        for tree in (_add_last_layers(model, count), model)
    )
    hidden = model.spec.hidden_size
    projected = count * hidden * (2 * hidden + _PREDICTOR_NORMS) * dtype.bytes_per_element
    added = deeper.weight_bytes - alone.weight_bytes + projected
    return replace(rank, weight_bytes=rank.weight_bytes + added, caches=deeper.caches)


def _add_last_layers(model: Architecture, count: int) -> Architecture:
    """Return the model with more layers.

    They are of the last one's kind, or of those that the model names for its predictors.
    """
    letters: str = getattr(model.spec, "predictor_kinds", "")
    if letters:
        kinds: str = getattr(model.spec, "layer_kinds", "")
        added = [model.order[kinds.index(letter)] for letter in letters] * count
    else:
        added = [model.order[-1] if model.order else len(model.blocks) - 1] * count
    blocks = tuple(
        (block, number + added.count(kind)) for kind, (block, number) in enumerate(model.blocks)
    )
    spec = replace(model.spec, num_hidden_layers=model.num_hidden_layers + len(added))
    order = (*model.order, *added) if model.order else ()
    return replace(model, spec=spec, blocks=blocks, order=order)


def _count_eagle3_elements(
    model: DecoderSpec, draft: DecoderSpec, config: dict[str, object], layout: Layout
) -> int:
    """Return a rank's elements of an EAGLE-3 head beside its layers."""
    hidden, ranks = draft.hidden_size, layout.tensor_parallel
    states = _count_states(config)
    projected = hidden * states * _read_size(config, "target_hidden_size", model.hidden_size)
    # The first layer's attention reads the token's embedding beside the hidden state.
    heads = draft.num_attention_heads + 2 * max(draft.num_key_value_heads, ranks)
    attended = ceil_div(heads, ranks) * draft.head_dim * hidden
    norms = hidden * (1 + draft.num_hidden_layers)
    rows = _read_size(config, "draft_vocab_size", draft.vocab_size)
    padded = ceil_div(rows, VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
    return projected + attended + norms + ceil_div(padded, ranks) * hidden


def _count_indices(model: DecoderSpec, draft: DecoderSpec, config: dict[str, object]) -> int:
    """Return the bytes of the table that names a shorter vocabulary's tokens."""
    rows = _read_size(config, "draft_vocab_size", draft.vocab_size)
    return _INDEX_BYTES * rows * (rows != model.vocab_size)


def _count_states(config: dict[str, object]) -> int:
    """Return the hidden states of the model that the projection joins."""
    eagle = config.get("eagle_config")
    layers = eagle.get("eagle_aux_hidden_state_layer_ids") if isinstance(eagle, dict) else None
    default = len(layers) if isinstance(layers, list) and layers else _EAGLE3_STATES
    return _read_size(config, "num_aux_hidden_states", default)


def _read_size(config: dict[str, object], name: str, default: int) -> int:
    value = config.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        message = f"{name} is {value!r}; it must be an integer of 1 or more"
        raise InvalidInputError(message, field=f"{FIELD}.{name}")
    return value


def _check_width(model: Architecture, draft: Architecture, speculative: Speculative) -> None:
    """Refuse an EAGLE head whose tokens are as wide as another model's."""
    if speculative.head is DraftHead.EAGLE3 or draft.spec.hidden_size == model.spec.hidden_size:
        return
    message = (
        f"an eagle head reads hidden states of {draft.spec.hidden_size} features, and the model's "
        f"have {model.spec.hidden_size}"
    )
    raise InvalidInputError(message, field=FIELD)
