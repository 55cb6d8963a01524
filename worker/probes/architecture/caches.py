"""Caches of transformers, layer by layer, from a prompt's pass."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import (
    DynamicIndexedLayer,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionLayer,
)

from service.estimator.model.recorded.recorded_model import CachedHeads, CacheParts, SequenceState
from service.estimator.values.workload import Attention
from worker.probes.architecture.listening.listen import Phase, Variant, make_fake_model
from worker.probes.attention.names import Kernel
from worker.probes.attention.trace_dispatch import make_trace_context

_BATCH, _LENGTH = 2, 16
_KNOWN = (
    DynamicLayer,
    DynamicSlidingWindowLayer,
    DynamicIndexedLayer,
    LinearAttentionLayer,
    LinearAttentionAndFullAttentionLayer,
)
_EMPTY = "DummyLayer"
"""Layer of a cache that keeps nothing (transformers 5.23, ``cache_utils.py``)."""
_FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, LookupError, AssertionError)


def hear_caches(
    config: Mapping[str, Any], hf_config: PreTrainedConfig, num_layers: int
) -> tuple[CacheParts | None, ...]:
    """Return what the cache keeps of each layer of a stack.

    None where the model has no cache that says it.
    """
    variant = Variant(dtype=torch.bfloat16, phase=Phase.PREFILL)
    unknown = (None,) * num_layers
    try:
        with make_fake_model(config, hf_config, variant) as fake:
            cache = _fill_cache(fake)
            if not isinstance(cache, DynamicCache) or not cache.layers:
                return unknown
            return group_layers([read_layer(layer) for layer in cache.layers], num_layers)
    except _FAILURES:
        return unknown


def _fill_cache(fake: PreTrainedModel) -> object:
    """Return the cache that a model makes for a prompt."""
    fake.train(mode=False)
    ids = torch.zeros((_BATCH, _LENGTH), dtype=torch.long, device=fake.device)
    with torch.no_grad(), make_trace_context(Attention.SDPA)(Kernel.FLASH):
        outputs = fake(input_ids=ids, use_cache=True)
    cache = getattr(outputs, "past_key_values", None)
    return getattr(outputs, "cache_params", None) if cache is None else cache


def group_layers(parts: Sequence[CacheParts], num_layers: int) -> tuple[CacheParts | None, ...]:
    """Return what each layer of a stack keeps.

    A layer may have several attentions, and the last ones may read what others keep.
    """
    if len(parts) <= num_layers:
        return (*parts, *(CacheParts() for _ in range(num_layers - len(parts))))
    width, rest = divmod(len(parts), num_layers)
    if rest:
        return (None,) * num_layers
    groups = [parts[start : start + width] for start in range(0, len(parts), width)]
    return tuple(_merge(group) for group in groups)


def _merge(group: Sequence[CacheParts]) -> CacheParts | None:
    if len({part.window for part in group}) > 1:
        return None
    return CacheParts(
        caches=tuple(cached for part in group for cached in part.caches),
        window=group[0].window,
        states=tuple(state for part in group for state in part.states),
        other=next((part.other for part in group if part.other), ""),
    )


def read_layer(layer: object) -> CacheParts:
    """Return what one layer of a cache keeps."""
    name = type(layer).__name__
    if name == _EMPTY:
        return CacheParts()
    caches, states = _read_caches(layer), _read_states(layer)
    if type(layer) not in _KNOWN or not (caches or states):
        return CacheParts(other=name)
    window = getattr(layer, "sliding_window", None)
    return CacheParts(
        caches=caches, window=window if isinstance(window, int) else None, states=states
    )


def _read_caches(layer: object) -> tuple[CachedHeads, ...]:
    keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
    if not (_is_cached(keys) and _is_cached(values)):
        return ()
    assert keys is not None  # noqa: S101 - four axes are those of a tensor
    assert values is not None  # noqa: S101 - as above
    index = getattr(layer, "indexer_keys", None)
    return (
        CachedHeads(
            num_heads=keys.shape[1],
            key_size=keys.shape[3],
            value_size=values.shape[3],
            index_size=index.shape[-1] if isinstance(index, torch.Tensor) else 0,
        ),
    )


def _is_cached(part: object) -> bool:
    """Return whether a part is of sequences, heads, tokens and elements."""
    return isinstance(part, torch.Tensor) and part.dim() == 4  # noqa: PLR2004 - the axes that are named


def _read_states(layer: object) -> tuple[SequenceState, ...]:
    convolved = getattr(layer, "conv_states", None) or {}
    recurrent = getattr(layer, "recurrent_states", None) or {}
    pairs = [(convolved.get(number), recurrent.get(number)) for number in convolved]
    return tuple(
        SequenceState(convolution=_read_shape(pair[0]), recurrent=_read_shape(pair[1]))
        for pair in pairs
        if pair != (None, None)
    )


def _read_shape(state: torch.Tensor | None) -> tuple[int, ...]:
    return () if state is None else tuple(state.shape[1:])
