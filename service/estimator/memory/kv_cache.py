"""Bytes of transformers' cache objects.

They hold all tokens, a window of them, or their full length from the start.
"""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.model.block_module import BlockModule
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Cache, ServeWorkload

COUNTER_BYTES = 8
"""A window's dynamic layer, and every static layer, keep one 64-bit integer on the device
(cache_utils.py).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheBytes:
    """Bytes of a replica's caches at every instant."""

    per_token: int
    counters: int
    """Bytes of the layers' own counters, which are part of the others."""
    prefill: int
    decode: int
    """Bytes before the last decode step."""
    final: int
    recurrent: int
    """Bytes of states that no cache of tokens holds."""


def count_cache_bytes(model: Architecture, workload: ServeWorkload) -> CacheBytes:
    """Return the bytes of the caches of a replica."""
    return CacheBytes(
        per_token=kv_bytes_per_token(model, workload),
        counters=counter_bytes(model, workload),
        prefill=prefill_cache_bytes(model, workload),
        decode=decode_cache_bytes(model, workload),
        final=final_cache_bytes(model, workload),
        recurrent=recurrent_state_bytes(model, workload),
    )


def kv_bytes_per_token(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes that all layers cache for one token.

    Each layer has two tensors of the key/value heads.
    """
    elements = sum(block.cache_elements_per_token * count for block, count in model.blocks)
    return elements * workload.kv_cache_dtype.bytes_per_element


def final_cache_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes of the cache at the end.

    A window's layer keeps one token less than the window.
    """
    if workload.cache is Cache.STATIC:
        return _static_cache_bytes(model, workload)
    tokens = workload.prompt_tokens + workload.output_tokens
    return _sum_cache_bytes(
        model, workload, tokens, count_in_window=lambda window: min(tokens, window - 1)
    )


def prefill_cache_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes of the cache after prefill.

    A window's layer keeps a view of the whole prompt.
    """
    if workload.cache is Cache.STATIC:
        return _static_cache_bytes(model, workload)
    return _sum_cache_bytes(
        model, workload, workload.prompt_tokens, count_in_window=lambda _: workload.prompt_tokens
    )


def decode_cache_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes of the cache before the last decode step.

    A window's layer keeps a view of a window of tokens.
    """
    if workload.cache is Cache.STATIC:
        return _static_cache_bytes(model, workload)
    tokens = workload.prompt_tokens + workload.output_tokens - 1
    return _sum_cache_bytes(
        model, workload, tokens, count_in_window=lambda window: min(tokens, window)
    )


def count_engine_cache_elements(block: BlockModule) -> int:
    """Return the elements that a serving engine caches for one token.

    Heads are cached as they are projected, never copies of them.
    """
    projected: int | None = getattr(block, "projected_elements_per_token", None)
    return block.cache_elements_per_token if projected is None else projected


def get_cache_window(block: BlockModule) -> int | None:
    """Return the most tokens that a layer's cache keeps; None is all."""
    window: int | None = getattr(block, "cache_window", None)
    return window


def counter_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes of the layers' own counters."""
    static = workload.cache is Cache.STATIC
    blocks = [(block, count) for block, count in model.blocks if block.cache_elements_per_token]
    return COUNTER_BYTES * sum(
        count for block, count in blocks if static or get_cache_window(block) is not None
    )


def recurrent_state_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes of recurrent states of all sequences.

    They belong to layers without a cache of tokens.
    """
    bytes_per_sequence = sum(
        _state_bytes(block, workload.weight_dtype) * count for block, count in model.blocks
    )
    return bytes_per_sequence * workload.num_sequences


def _state_bytes(block: BlockModule, dtype: DType) -> int:
    mixer = getattr(block, "mixer", None) or getattr(block, "attention", None)
    state_bytes: Callable[[DType], int] | None = getattr(mixer, "state_bytes", None)
    return state_bytes(dtype) if state_bytes is not None else 0


def count_static_tokens(workload: ServeWorkload) -> int:
    """Return the tokens that a static cache is made for."""
    return max(workload.prompt_tokens + workload.output_tokens, workload.max_model_len or 0)


def _static_cache_bytes(model: Architecture, workload: ServeWorkload) -> int:
    length = count_static_tokens(workload)
    return _sum_cache_bytes(
        model, workload, length, count_in_window=lambda window: min(length, window)
    )


def _sum_cache_bytes(
    model: Architecture,
    workload: ServeWorkload,
    tokens: int,
    *,
    count_in_window: Callable[[int], int],
) -> int:
    elements = 0
    for block, count in model.blocks:
        window = get_cache_window(block)
        elements += (
            block.cache_elements_per_token
            * count
            * (tokens if window is None else count_in_window(window))
        )
    cache_bytes = elements * workload.num_sequences * workload.kv_cache_dtype.bytes_per_element
    return cache_bytes + counter_bytes(model, workload)
