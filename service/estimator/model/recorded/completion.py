"""Recordings with kinds by name, and caches that were not heard."""

from dataclasses import replace

from service.estimator.model.recorded.kinds import (
    EXPERTS,
    STACK_DIMENSIONS,
    count_experts,
    name_kinds,
)
from service.estimator.model.recorded.recorded_model import (
    CachedHeads,
    CacheParts,
    RecordedLayer,
    RecordedModel,
    RecordedSpec,
)
from service.estimator.model.weights.tensors import Weight


def complete_recording(recorded: RecordedModel) -> RecordedModel:
    """Return a recording whose layers have kinds and known caches."""
    spec = recorded.spec
    layers = tuple(_complete_layer(layer, spec) for layer in recorded.layers)
    experts = max((count_experts(layer.weights) for layer in layers), default=0)
    return replace(recorded, layers=layers, spec=replace(spec, num_experts=experts))


def _complete_layer(layer: RecordedLayer, spec: RecordedSpec) -> RecordedLayer:
    named = name_kinds(replace(layer, cache=layer.cache or _derive_cache(layer, spec)))
    return replace(
        named,
        weights=tuple(
            replace(weight, transposed=_is_transposed(weight, spec.hidden_size))
            for weight in named.weights
        ),
    )


def _is_transposed(weight: Weight, hidden: int) -> bool:
    """Return whether a stack of experts has its inputs before its outputs."""
    if weight.kind != EXPERTS or len(weight.shape) != STACK_DIMENSIONS:
        return False
    _, first, second = weight.shape
    leads_back = "down" in weight.name or "output" in weight.name
    return second == hidden != first if leads_back else first == hidden != second


def _derive_cache(layer: RecordedLayer, spec: RecordedSpec) -> CacheParts | None:
    """Return the cache of a layer whose recording has only its size.

    Its heads are the config's; None where they do not make up the size.
    """
    heads = spec.num_key_value_heads
    if not layer.cache_elements or not heads or layer.cache_elements != 2 * heads * spec.head_dim:
        return None
    cached = CachedHeads(num_heads=heads, key_size=spec.head_dim, value_size=spec.head_dim)
    return CacheParts(caches=(cached,), window=layer.cache_window)
