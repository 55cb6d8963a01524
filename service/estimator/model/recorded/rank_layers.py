"""Recorded layers as one rank of a serving engine holds them.

Engines have models of their own, whose layers they split as Megatron-LM does (arXiv:1909.08053,
section 3): by columns into heads and inner features, by rows out of them; what makes latents,
routers and norms stand on every rank. vLLM's and SGLang's Transformers backends split what
transformers' own plan names, and nothing else (vLLM 0.33.0,
``model_executor/models/transformers/base.py``, ``recursive_replace``).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.estimator.model.recorded.kinds import EXPERTS, STACK_DIMENSIONS
from service.estimator.model.recorded.recorded_model import CacheParts, RecordedLayer
from service.estimator.model.weights.tensors import Linear, Split, Weight
from service.estimator.values.errors import InvalidInputError

_FIELD = "layout.tensor_parallel"
_OUTPUTS = frozenset(
    (
        *("o_proj", "out_proj", "out_lin", "dense", "c_proj", "wo", "w2", "fc2", "down_proj"),
        *("output_linear", "dense_4h_to_h", "output"),
    )
)
"""Names of layers that lead back to the hidden states, where their sizes do not tell."""
_KEYS_AND_VALUES = re.compile(r"(k|v|key|value)(_proj|_lin)?$")
_FUSED = frozenset({"qkv_proj", "query_key_value", "c_attn", "Wqkv", "qkv", "qkv_lin"})
_COLUMNS = frozenset({"colwise", "colwise_gather_output", "packed_colwise"})
_ROWS = frozenset({"rowwise", "rowwise_split_input", "packed_rowwise"})
_STATES = "ssm"
_WHOLE = frozenset({"router", "norm", "embedding", "other", "head"})
"""Kinds of modules that stand on every rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSplit:
    """Ranks that share a layer, and whose rule splits it.

    ``expert_ranks`` split one expert; ``by_plan`` is transformers' plan, not the engine's own.
    """

    hidden_size: int
    num_heads: int
    ranks: int
    expert_ranks: int
    by_plan: bool = False


def split_layer(layer: RecordedLayer, split: LayerSplit) -> RecordedLayer:
    """Return a layer as one rank holds it.

    Raises InvalidInputError for ranks that do not divide what they share.
    """
    splits = {linear.name: find_split(layer, linear, split) for linear in layer.linears}
    linears = tuple(_split_linear(layer, part, splits[part.name], split) for part in layer.linears)
    by_name = {
        weight.name: weight
        for linear in linears
        for weight in linear.weights()
        if splits[linear.name] is not Split.NONE
    }
    return replace(
        layer,
        linears=linears,
        weights=tuple(
            replace(weight, shape=by_name[weight.name].shape, split=True)
            if weight.name in by_name
            else _split_weight(layer, weight, split)
            for weight in layer.weights
        ),
        cache=layer.cache and _split_cache(layer.cache, split.ranks),
        cache_elements=layer.cache_elements,
    )


def find_split(layer: RecordedLayer, linear: Linear, split: LayerSplit) -> Split:
    """Return how ranks share a linear layer."""
    ranks = split.expert_ranks if linear.kind == EXPERTS else split.ranks
    if ranks == 1 or linear.kind in _WHOLE or linear.out_features == 1:
        return Split.NONE
    if split.by_plan and linear.kind != EXPERTS:
        style = dict(layer.plan).get(linear.name, "")
        return Split.COLUMNS if style in _COLUMNS else Split.ROWS if style in _ROWS else Split.NONE
    hidden = split.hidden_size
    leads_back = linear.out_features == hidden and (
        linear.in_features != hidden or linear.target in _OUTPUTS
    )
    if leads_back:
        return Split.ROWS
    return Split.NONE if _makes_latent(layer, linear, hidden) else Split.COLUMNS


def _makes_latent(layer: RecordedLayer, linear: Linear, hidden: int) -> bool:
    """Return whether a layer makes a latent, which all heads read."""
    if linear.kind != "attention" or linear.in_features != hidden:
        return False
    readers = {
        other.in_features
        for other in layer.linears
        if other.kind == "attention" and hidden not in {other.in_features, other.out_features}
    }
    cached = {part.elements for part in layer.cache.caches} if layer.cache is not None else set()
    return bool(readers) and linear.out_features in readers | cached


def _split_linear(layer: RecordedLayer, linear: Linear, kind: Split, split: LayerSplit) -> Linear:
    ranks = split.expert_ranks if linear.kind == EXPERTS else split.ranks
    if kind is Split.ROWS:
        inner = _divide(linear.in_features, ranks, f"inputs of {linear.target}")
        return replace(linear, in_features=inner, split=kind, ranks=ranks)
    if kind is Split.NONE:
        return linear
    columns = _count_columns(layer, linear, ranks)
    return replace(linear, out_features=columns, split=kind, ranks=ranks)


def _count_columns(layer: RecordedLayer, linear: Linear, ranks: int) -> int:
    """Return a rank's outputs.

    With more ranks than key and value heads, a rank holds a full head of each.
    """
    outputs, cache = linear.out_features, layer.cache
    heads = min((part.num_heads for part in cache.caches), default=ranks) if cache else ranks
    if linear.kind != "attention" or heads >= ranks or cache is None:
        return _divide(outputs, ranks, f"outputs of {linear.target}")
    part = cache.caches[0]
    if _KEYS_AND_VALUES.search(linear.target):
        return outputs // part.num_heads
    if linear.target in _FUSED and outputs > part.elements:
        queries = _divide(outputs - part.elements, ranks, f"outputs of {linear.target}")
        return queries + part.key_size + part.value_size
    return _divide(outputs, ranks, f"outputs of {linear.target}")


def _split_weight(layer: RecordedLayer, weight: Weight, split: LayerSplit) -> Weight:
    """Return a rank's part of a weight that no linear layer has."""
    shape = weight.shape
    if weight.kind == EXPERTS:
        return _split_experts(weight, split)
    if weight.kind == _STATES and shape[0] in _list_state_sizes(layer):
        # A convolution's channels, and what a recurrence has for each head.
        return replace(weight, shape=(_divide(shape[0], split.ranks, "channels"), *shape[1:]))
    is_per_head = split.ranks > 1 and shape[:1] == (split.num_heads,)
    if is_per_head and (
        (weight.kind == "norm" and len(shape) > 1)
        or (weight.kind == "attention" and "sink" in weight.name)
    ):
        return replace(weight, shape=(_divide(shape[0], split.ranks, "heads"), *shape[1:]))
    return weight


def _split_experts(weight: Weight, split: LayerSplit) -> Weight:
    """Return a rank's part of stacked experts or of their biases.

    Biases of outputs stand on every rank.
    """
    is_stack = len(weight.shape) == STACK_DIMENSIONS
    axes = [
        axis for axis, size in enumerate(weight.shape) if axis > 0 and size != split.hidden_size
    ]
    if split.expert_ranks == 1 or not (axes or is_stack):
        return weight
    axis = axes[-1] if axes else 1
    parts = _divide(weight.shape[axis], split.expert_ranks, "inner features of an expert")
    shape = (*weight.shape[:axis], parts, *weight.shape[axis + 1 :])
    return replace(weight, shape=shape, split=is_stack)


def _split_cache(cache: CacheParts, ranks: int) -> CacheParts:
    """Return what a rank caches: heads, one at least, and states."""
    return replace(
        cache,
        states=tuple(
            replace(
                state,
                convolution=_split_first(state.convolution, ranks),
                recurrent=_split_first(state.recurrent, ranks),
            )
            for state in cache.states
        ),
        caches=tuple(
            replace(part, num_heads=max(1, part.num_heads // ranks)) for part in cache.caches
        ),
    )


def _split_first(shape: tuple[int, ...], ranks: int) -> tuple[int, ...]:
    return (_divide(shape[0], ranks, "channels of a state"), *shape[1:]) if shape else ()


def _list_state_sizes(layer: RecordedLayer) -> frozenset[int]:
    """Return the channels and heads of a layer's states."""
    states = layer.cache.states if layer.cache is not None else ()
    return frozenset(
        size for state in states for size in (*state.convolution[:1], *state.recurrent[:1])
    )


def shares_delta_states(layer: RecordedLayer, ranks: int) -> bool:
    """Return whether ranks share the heads of a gated delta rule.

    Its values have heads of their own, and keys and queries, which are convolved with them, too
    (vLLM 0.33.0, ``layers/mamba/gdn/qwen_gdn_linear_attn.py``; SGLang 0.5.23,
    ``srt/models/qwen3_next.py``).
    """
    for state in layer.cache.states if layer.cache is not None else ():
        channels, (num_values, key_size, value_size) = state.convolution[0], state.recurrent
        num_keys = (channels - num_values * value_size) // (2 * key_size)
        if num_values % ranks or num_keys % ranks:
            return False
    return True


def _divide(count: int, ranks: int, parts: str) -> int:
    if count % ranks:
        possible = ", ".join(str(n) for n in range(1, min(count, 128) + 1) if count % n == 0)
        message = f"tensor_parallel {ranks} does not divide {count} {parts}; possible: {possible}"
        raise InvalidInputError(message, field=_FIELD)
    return count // ranks


def find_undivided(layers: Sequence[RecordedLayer], split: LayerSplit) -> str | None:
    """Return what ranks cannot share, in words; None where they share all."""
    try:
        for layer in layers:
            split_layer(layer, split)
    except InvalidInputError as error:
        return error.message
    return None
