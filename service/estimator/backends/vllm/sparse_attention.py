"""Bytes of vLLM's sparse attention beside its cache.

vLLM 0.33.0: ``models/deepseek_v32/nvidia/model.py`` (the chosen positions of a step),
``layers/sparse_attn_indexer.py`` (keys and logits of the profiling run),
``v1/attention/backends/mla/flashmla_sparse.py`` (queries, keys and outputs).
"""

from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.backends.paged_pool.sparse_latents import (
    NO_WORK,
    SparseWork,
    find_sparse,
    warn_of_format,
)
from service.estimator.backends.vllm.settings import VllmSettings
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.units import MIB, ceil_div

_POSITION_BYTES = 4
_LOGITS = 512 * MIB
"""``VLLM_SPARSE_INDEXER_MAX_LOGITS_MB``, which the profiling run makes."""
_LONG_CONTEXT, _FACTORS = 256 * 1024, (5, 2)
"""Contexts up to which prefill has room for five, and that of two beyond
(``sparse_mla_prefill_workspace_factor``)."""
_KEY_BYTES = 132
_TOP_K_WORKSPACE = 1 << 20
_KERNEL_HEADS = 64
"""Heads that FlashMLA's kernels of prefill take at least (``prefill_padding``)."""
_FEW_HEADS = 16
_FP8_FAMILIES = frozenset({"glm_moe_dsa"})
"""Families whose cache is in fp8 on Blackwell unless somebody says otherwise."""


def count_sparse_work(
    rank: Rank, device: Device, settings: VllmSettings, cache_dtype: DType
) -> SparseWork:
    """Return what a rank makes for sparse attention in its steps."""
    attention = find_sparse(rank.model)
    if attention is None:
        return NO_WORK
    num_tokens, max_model_len = settings.batched_tokens, settings.max_model_len
    context = max_model_len * _FACTORS[max_model_len > _LONG_CONTEXT]
    row = attention.latent_size + attention.rope_dim
    keys = context * (row * DType.BF16.bytes_per_element // _KEY_BYTES) * _KEY_BYTES
    return SparseWork(
        positions=num_tokens * attention.num_chosen * _POSITION_BYTES,
        workspace=max(
            keys + _TOP_K_WORKSPACE,
            _count_kernel_bytes(
                attention.num_heads,
                (row, attention.latent_size),
                device,
                num_tokens=num_tokens,
                context=context if cache_dtype is DType.FP8 else 0,
            ),
        ),
        logits=_LOGITS,
    )


def warn_of_cache(model: Architecture, cache_dtype: DType, device: Device) -> tuple[str, ...]:
    """Return what vLLM does to GLM-5's cache (``models/config.py``, ``GlmMoeDsaForCausalLM``)."""
    return warn_of_format(model, cache_dtype, device, families=_FP8_FAMILIES)


def _count_kernel_bytes(
    heads: int, widths: tuple[int, int], device: Device, *, num_tokens: int, context: int
) -> int:
    """Return what FlashMLA's kernels share, where they run.

    ``context`` 0 is a 16-bit cache.

    Hopper's kernel of 16 bits is FlashAttention's; Blackwell's are FlashInfer's of 8 bits, and of
    few heads others (``platforms/cuda.py``, ``_get_backend_priorities``).
    """
    row, latent = widths
    padded = ceil_div(heads, _KERNEL_HEADS) * _KERNEL_HEADS
    if device.is_blackwell:
        elements = num_tokens * padded * row if not context and heads > _FEW_HEADS else 0
    elif context:
        elements = num_tokens * heads * (row + latent) + context * row
        elements += num_tokens * padded * (row + latent)
    else:
        elements = 0
    return elements * DType.BF16.bytes_per_element
