"""SGLang: weights and token pool take a fraction of free memory.

Both together take a fraction of what is free before the weights are loaded. 0.4.6 and 0.5.5,
``srt/model_executor/model_runner.py`` (``profile_max_num_token``), 0.5.23,
``srt/mem_cache/kv_cache_configurator.py`` (``_profile_available_bytes``); start-up logs.
"""

from dataclasses import dataclass, replace

from service.estimator.backends.paged_pool.blocks import Paging, build_pool
from service.estimator.backends.paged_pool.draft_heads import add_speculation
from service.estimator.backends.paged_pool.encoders import (
    SGLANG_ENCODERS,
    count_difference,
    count_positions,
    is_encoder,
    list_encoder_caches,
)
from service.estimator.backends.paged_pool.engine_memory import (
    ANY_ROOM,
    FilledPool,
    Pool,
    PoolLimits,
    RankMemory,
    build_rank_memories,
    count_token_bytes,
    limit_tokens,
)
from service.estimator.backends.paged_pool.host_weights import offload_weights
from service.estimator.backends.paged_pool.layer_caches import count_slot_bytes
from service.estimator.backends.paged_pool.memory_parts import (
    MemoryLedger,
    MemoryPart,
    make_exact_part,
)
from service.estimator.backends.paged_pool.rank_memory import Rank, build_ranks
from service.estimator.backends.paged_pool.replicas import answer_replica
from service.estimator.backends.paged_pool.sparse_latents import (
    check_kernels,
    keep_scales,
    warn_of_format,
)
from service.estimator.backends.paged_pool.split_pool import SplitPool
from service.estimator.backends.pass_cache import PassCache
from service.estimator.backends.sglang.backend import NEWEST, OLDEST
from service.estimator.backends.sglang.before_pool import (
    get_communicator_bytes,
    get_context_bytes,
)
from service.estimator.backends.sglang.beside_pool import (
    list_graph_parts,
    make_free_part,
    make_measured_part,
    make_request_table,
)
from service.estimator.backends.sglang.defaults import (
    adjust_for_images,
    get_chunk_tokens,
    get_embedding_cache_bytes,
    get_memory_fraction,
    reads_images,
)
from service.estimator.backends.sglang.states import (
    CONTEXT_TOKENS,
    CONVOLUTION,
    check_release,
    count_request_slots,
    get_recurrence_dtype,
)
from service.estimator.backends.vllm.answer import format_weights_formula
from service.estimator.memory.kv_cache import is_latent, keeps_states
from service.estimator.memory.overheads.gpu_properties import get_gpu_properties
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.architecture import Architecture
from service.estimator.model.positions import count_served_positions
from service.estimator.model.quantization.loading import adapt_to_engine
from service.estimator.model.quantization.weights import select_scheme
from service.estimator.model.recorded.engine_models import runs_transformers_code
from service.estimator.rules.tables.serving.own_engines import ENGINE_LENGTHS, SERVE_SGLANG
from service.estimator.values.device import Device
from service.estimator.values.engine_versions import resolve_version
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import MIB
from service.estimator.values.workload import ServeWorkload

_SOURCE = "SGLang 0.5.23, srt/mem_cache/kv_cache_configurator.py, _profile_available_bytes"
_UNLIMITED = (
    "kv_pool_tokens is left out beside a pool of states: the pool is counted with all that is left"
)
_FP8_FAMILIES = frozenset({"deepseek_v32", "glm_moe_dsa"})
"""Families whose cache is fp8 on Blackwell (``arg_groups``, ``_dsa_kv_cache_dtype_default``)."""
_LOADED = 120 * MIB
"""Libraries that loading brings: 15.11 GiB less for weights of 14.99 (0.4.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangSettings:
    """The server's arguments, requested or defaulted."""

    fraction: float
    chunk_tokens: int
    max_model_len: int
    free_bytes: int
    image_bytes: int = 0
    """Of the pool's, what features of images get."""


def answer(question: ServeQuestion, cache: PassCache) -> Estimate:
    """Return the estimate of one SGLang replica."""
    return answer_replica("sglang", question, cache, lambda: _fill_pool(question, cache))


def _fill_pool(question: ServeQuestion, cache: PassCache) -> FilledPool:
    model, workload = question.model, question.workload
    layout, device, dtype = question.layout, question.device, question.workload.weight_dtype
    cache.get_checks(SERVE_SGLANG, model).check(workload, layout)
    check_kernels(model, device)
    settings = _resolve_settings(model, workload, layout, device)
    cache.get_checks(ENGINE_LENGTHS, model).check_sizes(workload, layout)
    scheme = adapt_to_engine(select_scheme(workload.quantization, model))
    target_ranks = build_ranks(
        model,
        layout,
        scheme=scheme,
        dtype=workload.weight_dtype,
        by_plan=runs_transformers_code(model, workload.engine),
    )
    ranks = add_speculation(
        target_ranks, model, workload.speculative, layout, scheme=scheme, dtype=dtype
    )
    ranks = offload_weights(
        keep_scales(ranks, model, workload.kv_cache_dtype, device), workload.cpu_offload_gb
    )
    if is_encoder(model):
        ranks = tuple(_adapt_encoder(rank, workload) for rank in ranks)
    memories = build_rank_memories(
        ranks, lambda rank: _build_rank_memory(rank, workload, settings, device)
    )
    limits = PoolLimits(
        source=_SOURCE,
        budget_bytes=int(settings.free_bytes * settings.fraction),
        usable_bytes=device.usable_bytes,
        max_model_len=settings.max_model_len,
        start_tokens=ANY_ROOM,
        warnings=warn_of_format(model, workload.kv_cache_dtype, device, families=_FP8_FAMILIES),
    )
    if keeps_states(model) and workload.kv_pool_tokens is not None:
        limits = replace(limits, warnings=(*limits.warnings, _UNLIMITED))
    else:
        # A page has one token (``_apply_token_constraints``).
        memories, limits = limit_tokens(memories, limits, workload.kv_pool_tokens)
    return FilledPool(
        memories,
        limits,
        layout=layout,
        kv_width=workload.kv_cache_dtype.bytes_per_element,
    )


def _adapt_encoder(rank: Rank, workload: ServeWorkload) -> Rank:
    """Return an encoder's rank with its own weights and caches."""
    more = count_difference(rank.model, SGLANG_ENCODERS, workload.weight_dtype)
    caches = list_encoder_caches(rank.model)
    return replace(rank, weight_bytes=rank.weight_bytes + more, caches=caches)


def _resolve_settings(
    model: Architecture, workload: ServeWorkload, layout: Layout, device: Device
) -> SglangSettings:
    version = resolve_version(
        workload.engine_version, engine="sglang", oldest=OLDEST, newest=NEWEST
    )
    if keeps_states(model):
        check_release(version)
    memory_mib = max(1, device.capacity_bytes // MIB)
    chunk = workload.max_num_batched_tokens or get_chunk_tokens(version, memory_mib)
    fraction = workload.gpu_memory_fraction
    if fraction is None:
        fraction = get_memory_fraction(
            version,
            memory_mib,
            chunk,
            layout,
            latent=is_latent(model),
            speculative=workload.speculative,
        )
        if reads_images(model, workload):
            fraction = adjust_for_images(fraction, model.spec)
    return SglangSettings(
        fraction=fraction,
        # Ranks that attend for themselves read a share of a chunk each (0.5,
        # ``_handle_data_parallelism``).
        chunk_tokens=chunk // layout.data_parallel if layout.expert_parallel > 1 else chunk,
        max_model_len=_resolve_max_model_len(model, workload),
        free_bytes=device.usable_bytes
        - get_context_bytes(device)
        - get_communicator_bytes(layout, device),
        image_bytes=get_embedding_cache_bytes(version) if reads_images(model, workload) else 0,
    )


def _resolve_max_model_len(model: Architecture, workload: ServeWorkload) -> int:
    if is_encoder(model):
        return workload.resolve_max_model_len(count_positions(model))
    positions = count_served_positions(model.spec, workload.engine)
    length = workload.resolve_max_model_len(positions)
    given = workload.max_model_len or positions
    return length if given else max(length, CONTEXT_TOKENS)


def _build_rank_memory(
    rank: Rank, workload: ServeWorkload, settings: SglangSettings, device: Device
) -> RankMemory:
    bytes_per_element, gpu = workload.weight_dtype.bytes_per_element, get_gpu_properties(device)
    tokens = settings.chunk_tokens
    logits = (
        workload.num_sequences * rank.model.vocab_size * (bytes_per_element + 4)
        if rank.is_last and rank.model.generates
        else 0
    )
    peak = (
        max(tokens * bytes_per_element * rank.get_peak_elements(flash=gpu.supports_flash), logits)
        + gpu.workspace_bytes
    )
    fixed = rank.weight_bytes + _LOADED + settings.image_bytes
    pool = _build_pool(rank, workload, settings, fixed)
    return RankMemory(
        rank=rank,
        fixed_bytes=fixed,
        parts=(
            make_exact_part(
                "weights", rank.weight_bytes, format_weights_formula(rank, workload), _SOURCE
            ),
            make_measured_part(
                "device_context",
                _LOADED,
                "libraries that loading brings",
                MemoryLedger.DEVICE,
                budgeted=True,
            ),
            make_exact_part(
                "activations",
                settings.image_bytes,
                "SGLANG_VLM_CACHE_SIZE_MB of image features",
                _SOURCE,
                persistent=True,
            ),
            make_free_part("activations", peak, f"widest layer of a chunk of {tokens} tokens"),
            *list_graph_parts(workload, gpu, generates=rank.model.generates),
            make_request_table(workload, pool, settings.max_model_len),
            make_measured_part(
                "device_context",
                get_context_bytes(device),
                "one context per process",
                MemoryLedger.DEVICE,
                budgeted=False,
            ),
            _make_communicator_part(device, settings),
        ),
        pool=pool,
    )


def _build_pool(
    rank: Rank, workload: ServeWorkload, settings: SglangSettings, fixed_bytes: int
) -> Pool:
    """Return the pool of tokens, and that of states."""
    width = workload.kv_cache_dtype.bytes_per_element
    available_bytes = int(settings.free_bytes * settings.fraction) - fixed_bytes
    if not rank.states:
        paging = Paging(block_tokens=1, batched_tokens=settings.chunk_tokens, hybrid=False)
        return build_pool(rank.caches, width, available_bytes, paging)
    return SplitPool(
        available_bytes=available_bytes,
        token_bytes=count_token_bytes(rank, width),
        slot_bytes=count_slot_bytes(
            rank.model,
            convolution=CONVOLUTION,
            recurrence=workload.state_dtype or get_recurrence_dtype(rank.model),
        ),
        request_slots=count_request_slots(rank.model),
        context_tokens=settings.max_model_len,
        batched_tokens=settings.chunk_tokens,
    )


def _make_communicator_part(device: Device, settings: SglangSettings) -> MemoryPart:
    size = device.usable_bytes - get_context_bytes(device) - settings.free_bytes
    return make_measured_part(
        "communication_buffers", size, "one communicator", MemoryLedger.DEVICE, budgeted=False
    )
