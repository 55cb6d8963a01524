"""Caches of models whose indexer chooses the keys that are read.

A cache in 8 bits has scales of its own where FlashMLA's kernels read it, and its rotated part stays
in 16 bits: 656 bytes of a token for 576 elements (vLLM 0.33.0, ``mla_attention.py``,
``get_kv_cache_spec``; SGLang 0.5.23, ``mem_cache/kv_cache_configurator.py``,
``calculate_mla_kv_cache_dim``). Those of Blackwell read plain fp8.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.estimator.backends.paged_pool.layer_caches import LayerCache
from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.model.architecture import Architecture
from service.estimator.model.modules.attention.sparse_latent import SparseLatentAttention
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError

BLOCK_TOKENS = 64
"""Tokens of a block that the indexer's kernels take (``DeepseekV32IndexerBackend``)."""
_SCALED, _SCALE_BYTES = 128, 4
_AUTOMATIC = (
    "the engine keeps an fp8 cache of {family} on this GPU unless --kv-cache-dtype says otherwise: "
    "say kv_cache_dtype fp8 for it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseWork:
    """Bytes of positions, of the shared workspace, and of one layer's logits."""

    positions: int
    workspace: int
    logits: int


NO_WORK = SparseWork(positions=0, workspace=0, logits=0)


def find_sparse(model: Architecture) -> SparseLatentAttention | None:
    """Return the attention of a layer with an indexer, if any."""
    for block, _ in model.blocks:
        attention = getattr(block, "attention", None)
        if isinstance(attention, SparseLatentAttention) and attention.indexer is not None:
            return attention
    return None


def check_kernels(model: Architecture, device: Device) -> None:
    """Refuse a GPU whose sparse kernels were not read.

    vLLM 0.33.0, ``platforms/cuda.py``, ``_get_backend_priorities``: compute capability 9 and 10,
    and 12 by a kernel with a layout of its own.
    """
    if find_sparse(model) is not None and not (device.is_hopper or device.is_blackwell):
        raise NotModelledError(
            f"{model.family} on {device.name}, of compute capability "
            f"{device.compute_capability or 'unknown'}: its kernels of sparse attention",
            field="cluster.gpu",
            modelled=["compute capability 9.0 (H100, H200), 10.0 and 10.3 (B200, B300)"],
        )


def keep_scales(
    ranks: Sequence[Rank], model: Architecture, cache_dtype: DType, device: Device
) -> tuple[Rank, ...]:
    """Return ranks whose fp8 latents have scales, where the kernels read these."""
    attention = find_sparse(model)
    plain = attention is None or cache_dtype is not DType.FP8
    if attention is None or plain or device.is_blackwell:
        return tuple(ranks)
    extra = attention.latent_size // _SCALED * _SCALE_BYTES
    extra += attention.rope_dim * (DType.BF16.bytes_per_element - 1)
    packed = {id(rank): replace(rank, caches=_widen(rank.caches, extra)) for rank in ranks}
    return tuple(packed[id(rank)] for rank in ranks)


def _widen(caches: Sequence[LayerCache], extra_bytes: int) -> tuple[LayerCache, ...]:
    return tuple(replace(cache, side_bytes=cache.side_bytes + extra_bytes) for cache in caches)


def warn_of_format(
    model: Architecture, cache_dtype: DType, device: Device, *, families: frozenset[str]
) -> tuple[str, ...]:
    """Return what an engine does to a cache without a format.

    ``families`` are those whose cache it keeps in fp8 on Blackwell.
    """
    is_automatic = model.family in families and device.is_blackwell and cache_dtype is not DType.FP8
    text = _AUTOMATIC.format(family=model.family)
    return (text,) if is_automatic else ()
