"""Defaults of an SGLang server by the GPU's memory and by release.

They are ``chunked_prefill_size``, the largest captured decode batch, and ``mem_fraction_static``:
0.4.0 to 0.4.10, 0.5.1 to 0.5.5, 0.5.9, 0.5.10, 0.5.13 to 0.5.17, ``srt/server_args.py``; 0.5.19 to
0.5.23, ``srt/arg_groups/memory_hook.py`` (``handle_gpu_memory_settings``).
"""

from service.estimator.model.architecture import Architecture
from service.estimator.model.spec import DecoderSpec
from service.estimator.values.engine_versions import Version
from service.estimator.values.layout import Layout
from service.estimator.values.speculative import Speculative
from service.estimator.values.units import MIB
from service.estimator.values.workload import ServeWorkload

_LESS_OF_LARGE, _SHARE_OF_LARGE = Version(0, 4, 5), Version(0, 4, 7)
_TIERS, _COMPUTED_FRACTION = Version(0, 4, 8), Version(0, 5, 3)
"""What is kept free goes by the GPU's tier (0.4.7.post1 to 0.5.2), then by what it computes at
once."""
_OLD_SMALL_MIB, _OLD_HUGE_MIB = 35 * 1024, 160 * 1024
_ANCIENT_SMALL_MIB, _BLACKWELL_MIB = 25_000, 180_000
_ATTENTION_RANKS = Version(0, 5, 9)
"""Ranks that attend for themselves pad their batches, more from 300 on."""
_MANY_BATCHES = 300
_PREFILL_GRAPHS = Version(0, 5, 10)
"""Prefill is captured too where the pipeline has one stage and ranks attend together."""
_WIDER_MIDDLE = Version(0, 5, 20)
"""GPUs of 20 to 35 GiB get the chunks of larger ones, and larger decode graphs."""
_SMALL_MIB, _MIDDLE_MIB, _LARGE_MIB, _HUGE_MIB = 20 * 1024, 35 * 1024, 60 * 1024, 160 * 1024
_FREE_GUESSES = Version(0, 5, 14)
"""Nothing more is kept free for who guesses tokens."""
_HEAD_MIB, _DRAFT_MIB = 2 * 1024, 6 * 1024
_FEW_RANKS = 4
_VIT_LAYERS, _VIT_WIDTH, _VIT_FACTOR = 24, 1024, 0.95
"""The tower that fractions are reduced for, and by how much (0.5.6 to 0.5.23)."""
_EMBEDDING_CACHE_MIB, _EMBEDDING_CACHE_RESERVED = 100, Version(0, 5, 20)
"""``SGLANG_VLM_CACHE_SIZE_MB``, and the release that takes it off the pool."""
_TEXT_ALONE = frozenset({"gemma3"})
"""Families whose images are off unless ``--enable-multimodal`` is said."""
_LATENT_PREFILL_MIB = 1536
_PREFILL_GRAPH_MIB = 8


def get_chunk_tokens(version: Version, memory_mib: int) -> int:
    """Return ``chunked_prefill_size``'s default."""
    if version < _COMPUTED_FRACTION:
        return _get_old_chunk_tokens(version, memory_mib)
    if memory_mib < (_SMALL_MIB if version >= _WIDER_MIDDLE else _MIDDLE_MIB):
        return 2048
    if memory_mib < _LARGE_MIB:
        return 4096
    return 8192 if memory_mib < _HUGE_MIB else 16384


def get_memory_fraction(
    version: Version,
    memory_mib: int,
    chunk_tokens: int,
    layout: Layout,
    *,
    latent: bool,
    speculative: Speculative | None = None,
) -> float:
    """Return ``mem_fraction_static``'s default."""
    if version < _TIERS:
        return _get_tabled_fraction(version, memory_mib, layout)
    if version < _COMPUTED_FRACTION:
        return _get_tiered_fraction(memory_mib, layout, speculative)
    return _compute_fraction(
        version, memory_mib, chunk_tokens, layout, latent=latent, speculative=speculative
    )


def reads_images(model: Architecture, workload: ServeWorkload) -> bool:
    """Return whether a server runs a model's vision tower."""
    has_images = workload.num_images is not None or workload.inputs is not None
    return model.images is not None and (has_images or model.family not in _TEXT_ALONE)


def get_embedding_cache_bytes(version: Version) -> int:
    """Return what is kept of the pool for the features of images."""
    return _EMBEDDING_CACHE_MIB * MIB if version >= _EMBEDDING_CACHE_RESERVED else 0


def adjust_for_images(fraction: float, spec: DecoderSpec) -> float:
    """Return a default fraction beside a vision tower (``adjust_mem_fraction_for_vlm``).

    The larger the tower by the fields ``num_hidden_layers`` and ``hidden_size`` of its config, the
    less: Qwen-VL's has no such depth, and of Qwen2-VL the width is that of what it hands out.
    """
    layers = getattr(spec, "vision_layers", _VIT_LAYERS)
    width = getattr(spec, "vision_output_size", 0) if spec.family == "qwen2_vl" else 0
    width = width or getattr(spec, "vision_hidden_size", _VIT_WIDTH)
    score = layers * width**2 / (_VIT_LAYERS * _VIT_WIDTH**2)
    return fraction * _VIT_FACTOR * max(0.8, min(1.05, 1.0 - 0.1 * (score - 1.0)))


def _get_old_chunk_tokens(version: Version, memory_mib: int) -> int:
    small_mib = _OLD_SMALL_MIB if version >= _TIERS else _ANCIENT_SMALL_MIB
    if memory_mib < small_mib:
        return 2048
    return 16384 if version >= _SHARE_OF_LARGE and memory_mib >= _OLD_HUGE_MIB else 8192


def _get_tabled_fraction(version: Version, memory_mib: int, layout: Layout) -> float:
    """Return the default until 0.4.7.

    It goes by the number of ranks; of GPUs beyond 80 GiB all but 13 GiB since 0.4.5, and since
    0.4.7 by a share that is larger the more they have.
    """
    steps = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87), (1, 0.88))
    ranks = layout.tensor_parallel * layout.pipeline_parallel
    tabled = next(fraction for least, fraction in steps if ranks >= least)
    if version < _LESS_OF_LARGE or memory_mib <= 80 * 1024:
        return tabled
    if version < _SHARE_OF_LARGE:
        return (memory_mib - 13 * 1024) / memory_mib
    if memory_mib > _BLACKWELL_MIB:
        return 0.79
    if memory_mib <= 96 * 1024:
        return 0.88
    return min(0.88 + 48 * 1024 * 0.12 / memory_mib, (memory_mib - 18 * 1024) / memory_mib)


def _get_tiered_fraction(memory_mib: int, layout: Layout, speculative: Speculative | None) -> float:
    """Return the default of 0.4.8 to 0.5.2."""
    ranks = layout.tensor_parallel * layout.pipeline_parallel
    if memory_mib < _OLD_SMALL_MIB:
        reserved = 2.8 + ranks / 10
    elif memory_mib < 90 * 1024:
        reserved = 9.5 + ranks / 2
    elif memory_mib < _OLD_HUGE_MIB:
        reserved = 12 + ranks / 2
    else:
        reserved = 32.0
    reserved_mib = reserved * 1024 + _get_guessing_mib(speculative)
    if layout.expert_parallel > 1 and layout.data_parallel > 1:
        reserved_mib += 4 * 1024
    return max(0.0, round((memory_mib - reserved_mib) / memory_mib, 3))


def _compute_fraction(
    version: Version,
    memory_mib: int,
    chunk_tokens: int,
    layout: Layout,
    *,
    latent: bool,
    speculative: Speculative | None,
) -> float:
    """Return the default since 0.5.3.

    What activations and graphs are estimated at is left out.
    """
    batches = _get_graph_batches(version, memory_mib, layout)
    reserved = 512 + max(chunk_tokens, 2048) * 1.5 + batches * 2
    reserved += layout.tensor_parallel * layout.pipeline_parallel / 8 * 1024
    if version >= _ATTENTION_RANKS and layout.expert_parallel > 1 and layout.data_parallel > 1:
        reserved += batches * layout.data_parallel * (4.5 if batches > _MANY_BATCHES else 3)
    elif version >= _PREFILL_GRAPHS and layout.pipeline_parallel == 1:
        reserved += (
            _LATENT_PREFILL_MIB
            if latent
            else _PREFILL_GRAPH_MIB * _count_prefill_sizes(chunk_tokens)
        )
    if memory_mib > _LARGE_MIB:
        reserved = max(reserved, 10 * 1024)
    if version < _FREE_GUESSES:
        reserved += _get_guessing_mib(speculative)
    return max(0.0, round((memory_mib - reserved) / memory_mib, 3))


def _get_guessing_mib(speculative: Speculative | None) -> int:
    """Return what is kept free for heads, drafts and their graphs."""
    if speculative is None:
        return 0
    if speculative.head is not None:
        return _HEAD_MIB
    return _DRAFT_MIB if speculative.has_draft else 0


def _count_prefill_sizes(chunk_tokens: int) -> int:
    """Return the number of token counts that prefill is captured for."""
    sizes = (
        *(*range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64)),
        *(*range(1280, 4097, 256), *range(4608, chunk_tokens + 1, 512)),
    )
    return sum(size <= chunk_tokens for size in sizes)


def _get_graph_batches(version: Version, memory_mib: int, layout: Layout) -> int:
    """Return the default of the largest captured decode batch."""
    few = layout.tensor_parallel < _FEW_RANKS
    if memory_mib < _SMALL_MIB:
        return 8
    if memory_mib < _MIDDLE_MIB:
        middle = (48, 160) if version >= _WIDER_MIDDLE else (24, 80)
        return middle[not few]
    if memory_mib < _LARGE_MIB:
        return 32 if few else 160
    return 256 if few and memory_mib < _HUGE_MIB else 512
