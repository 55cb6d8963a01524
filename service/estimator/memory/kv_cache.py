"""Bytes of transformers' cache objects.

They hold all tokens, a window of them, or their full length from the start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from service.estimator.model.architecture import Architecture
from service.estimator.model.block_module import BlockModule
from service.estimator.model.layer_tables import get_cache_window
from service.estimator.values.dtypes import DType
from service.estimator.values.engine_versions import Version, parse_version
from service.estimator.values.generation import Client
from service.estimator.values.workload import Cache, Engine, Quantization, ServeWorkload

_COMPILES_SINCE = Version(4, 47)
"""The first release whose ``generate`` compiles its steps (transformers pull request 34247)."""
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
    """Return the bytes of the caches of a replica.

    A window's layer has a view of the whole prompt after prefill and of a window of tokens before
    a decode step, and keeps one token less than the window.
    """
    layers = [
        _LayerCache(block.cache_elements_per_token * count, get_cache_window(block), count)
        for block, count in model.blocks
        if block.cache_elements_per_token
    ]
    static, prompt = workload.cache is Cache.STATIC, workload.prompt_tokens
    total = count_cached_tokens(workload)
    width = workload.num_sequences * workload.kv_cache_dtype.bytes_per_element
    counters = COUNTER_BYTES * sum(
        [layer.num_layers for layer in layers if static or layer.window is not None]
    )
    if static:
        length = count_static_tokens(workload)
        prefill = decode = final = _count_elements(layers, length, length, 0)
    else:
        prefill = _count_elements(layers, prompt, None, 0)
        decode = _count_elements(layers, total - 1, total - 1, 0)
        final = _count_elements(layers, total, total, 1)
    return CacheBytes(
        per_token=sum([layer.elements for layer in layers])
        * workload.kv_cache_dtype.bytes_per_element,
        counters=counters,
        prefill=prefill * width + counters,
        decode=decode * width + counters,
        final=final * width + counters,
        recurrent=recurrent_state_bytes(model, workload),
    )


class _LayerCache(NamedTuple):
    """Elements per token and window of layers of a kind."""

    elements: int
    window: int | None
    num_layers: int


def _count_elements(
    layers: Sequence[_LayerCache], tokens: int, longest: int | None, dropped: int
) -> int:
    """Return the elements that layers cache for some tokens.

    A window keeps its own tokens less the dropped. Without a ``longest`` a window keeps all of
    them.
    """
    elements = 0
    for layer in layers:
        num_tokens = tokens
        if layer.window is not None and longest is not None:
            num_tokens = min(longest, layer.window - dropped)
        elements += layer.elements * num_tokens
    return elements


def count_engine_cache_elements(block: BlockModule) -> int:
    """Return the elements that a serving engine caches for one token.

    Heads are cached as they are projected, never copies of them.
    """
    projected: int | None = getattr(block, "projected_elements_per_token", None)
    return block.cache_elements_per_token if projected is None else projected


def is_latent(model: Architecture) -> bool:
    """Return whether a model caches one latent vector for all heads (arXiv:2405.04434)."""
    return any(
        getattr(block, "is_latent", False)
        or hasattr(getattr(block, "attention", None), "latent_size")
        for block, _ in model.blocks
    )


def keeps_states(model: Architecture) -> bool:
    """Return whether layers keep a state of each sequence."""
    return model.recurrent or any(getattr(block, "states", ()) for block, _ in model.blocks)


def recurrent_state_bytes(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes of recurrent states of all sequences.

    They belong to layers without a cache of tokens.
    """
    bytes_per_sequence = sum(
        _state_bytes(block, workload.weight_dtype) * count for block, count in model.blocks
    )
    return bytes_per_sequence * workload.num_sequences


class StateMixer(Protocol):
    """Mixer that keeps a state of each sequence."""

    def state_bytes(self, dtype: DType) -> int:
        """Return the bytes that one sequence keeps."""
        ...

    def splits_over(self, ranks: int) -> bool:
        """Return whether so many ranks share the state evenly."""
        ...


def find_state_mixer(block: BlockModule) -> StateMixer | None:
    """Return the mixer of a layer that keeps a state."""
    mixer: StateMixer | None = getattr(block, "mixer", None) or getattr(block, "attention", None)
    return mixer if hasattr(mixer, "state_bytes") else None


def _state_bytes(block: BlockModule, dtype: DType) -> int:
    mixer = find_state_mixer(block)
    if mixer is not None:
        return mixer.state_bytes(dtype)
    # A recorded layer has no mixer of its own kind.
    count_bytes: Callable[[DType], int] | None = getattr(block, "state_bytes", None)
    return 0 if count_bytes is None else count_bytes(dtype)


def count_cached_tokens(workload: ServeWorkload) -> int:
    """Return the tokens of a sequence that are cached at the end.

    ``generate`` chooses its last token and never passes it through the model.
    """
    unread = workload.client is Client.GENERATE and workload.output_tokens > 0
    return workload.prompt_tokens + workload.output_tokens - unread


def count_static_tokens(workload: ServeWorkload) -> int:
    """Return the tokens that a static cache is made for."""
    return max(count_cached_tokens(workload), workload.max_model_len or 0)


def compiles_decode(model: Architecture, workload: ServeWorkload) -> bool:
    """Return whether ``generate`` compiles its steps over the cache.

    It does over a static one of plain weights, without beams, and replays them as CUDA graphs
    (transformers 5.23 ``generation/utils.py``, ``_valid_auto_compile_criteria`` and ``_sample``;
    ``CompileConfig``'s mode is ``reduce-overhead``). Releases before 4.47 run them eagerly.
    """
    version = workload.engine_version
    return (
        workload.engine is Engine.TRANSFORMERS
        and workload.client is Client.GENERATE
        and workload.cache is Cache.STATIC
        and workload.num_beams == 1
        and workload.quantization is Quantization.NONE
        and model.quantization is None
        and (version is None or parse_version(version) >= _COMPILES_SINCE)
    )
