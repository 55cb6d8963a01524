"""What transformers' cache objects hold: all tokens, a window of them, or their full length from the start."""

from collections.abc import Callable

from service.estimator.model.architecture import Architecture
from service.estimator.model.block_module import BlockModule
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Cache, ServeWorkload

COUNTER_BYTES = 8
"""A window's dynamic layer, and every static layer, keep one 64-bit integer on the device (cache_utils.py)."""


def kv_bytes_per_token(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes that all layers keep for one token: two tensors of the key/value heads each."""
    elements = sum(block.cache_elements_per_token * count for block, count in model.blocks)
    return elements * workload.kv_cache_dtype.bytes_per_element


def held_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes that the cache holds at the end: a window's layer keeps one token less than the window."""
    if workload.cache is Cache.STATIC:
        return _static_bytes(model, workload)
    tokens = workload.prompt_tokens + workload.output_tokens
    return _bytes(model, workload, tokens, in_window=lambda window: min(tokens, window - 1))


def prefilled_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes after prefill: a window's layer keeps a view of the whole prompt."""
    if workload.cache is Cache.STATIC:
        return _static_bytes(model, workload)
    return _bytes(model, workload, workload.prompt_tokens, in_window=lambda _: workload.prompt_tokens)


def decoding_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes before the last decode step: a window's layer keeps a view of a window of tokens."""
    if workload.cache is Cache.STATIC:
        return _static_bytes(model, workload)
    tokens = workload.prompt_tokens + workload.output_tokens - 1
    return _bytes(model, workload, tokens, in_window=lambda window: min(tokens, window))


def engine_elements(block: BlockModule) -> int:
    """Return the elements that a serving engine caches for one token: heads as they are projected, never copies of them."""
    projected: int | None = getattr(block, "projected_elements_per_token", None)
    return block.cache_elements_per_token if projected is None else projected


def window_of(block: BlockModule) -> int | None:
    """Return the tokens that a layer's cache keeps at most; None is all of them."""
    window: int | None = getattr(block, "cache_window", None)
    return window


def counter_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes of the layers' own counters."""
    static = workload.cache is Cache.STATIC
    blocks = [(block, count) for block, count in model.blocks if block.cache_elements_per_token]
    return COUNTER_BYTES * sum(count for block, count in blocks if static or window_of(block) is not None)


def recurrent_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes of the states that layers without a cache of tokens keep for each sequence."""
    each = sum(_state_bytes(block, workload.weight_dtype) * count for block, count in model.blocks)
    return each * workload.num_sequences


def _state_bytes(block: BlockModule, dtype: DType) -> int:
    mixer = getattr(block, "mixer", None) or getattr(block, "attention", None)
    state_bytes: Callable[[DType], int] | None = getattr(mixer, "state_bytes", None)
    return state_bytes(dtype) if state_bytes is not None else 0


def static_tokens(workload: ServeWorkload) -> int:
    """Return the tokens that a static cache is made for."""
    return max(workload.prompt_tokens + workload.output_tokens, workload.max_model_len or 0)


def _static_bytes(model: Architecture, workload: ServeWorkload) -> int:
    length = static_tokens(workload)
    return _bytes(model, workload, length, in_window=lambda window: min(length, window))


def _bytes(model: Architecture, workload: ServeWorkload, tokens: int, *, in_window: Callable[[int], int]) -> int:
    elements = 0
    for block, count in model.blocks:
        window = window_of(block)
        elements += block.cache_elements_per_token * count * (tokens if window is None else in_window(window))
    stored = elements * workload.num_sequences * workload.kv_cache_dtype.bytes_per_element
    return stored + counter_bytes(model, workload)
