"""TensorRT-LLM: the pool takes a fraction of **free** memory.

It is what is free once weights and activations are there. 1.0, PyTorch backend:
``_torch/pyexecutor/_util.py`` (``KvCacheCreator``), ``llmapi/llm_args.py`` (``KvCacheConfig``); 1.2
has the same defaults.
"""

from service.estimator.backends.paged_pool.activation_part import make_activation_part
from service.estimator.backends.paged_pool.blocks import Paging, build_pool
from service.estimator.backends.paged_pool.draft_heads import add_draft
from service.estimator.backends.paged_pool.engine_memory import (
    ANY_ROOM,
    FilledPool,
    PoolLimits,
    RankMemory,
    build_rank_memories,
    limit_tokens,
)
from service.estimator.backends.paged_pool.memory_parts import make_exact_part
from service.estimator.backends.paged_pool.rank_memory import Rank, build_ranks
from service.estimator.backends.paged_pool.replicas import answer_replica, make_library_parts
from service.estimator.backends.pass_cache import PassCache
from service.estimator.backends.tensorrt_llm.backend import NEWEST, OLDEST
from service.estimator.backends.vllm.answer import format_weights_formula
from service.estimator.memory.overheads.gpu_properties import GpuProperties, get_gpu_properties
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.families.speculative import get_draft_model
from service.estimator.model.positions import count_served_positions
from service.estimator.model.quantization.loading import adapt_to_engine
from service.estimator.model.quantization.weights import select_scheme
from service.estimator.rules.tables.serving.own_engines import (
    ENGINE_LENGTHS,
    SERVE_TENSORRT_LLM,
    TENSORRT_LLM_RANKS,
)
from service.estimator.values.device import Device
from service.estimator.values.engine_versions import resolve_version
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import ServeWorkload

FRACTION_OF_FREE = 0.9
"""``free_gpu_memory_fraction``'s default."""
BLOCK_TOKENS = 32
"""``tokens_per_block``'s default."""
MAX_NUM_TOKENS, MAX_BATCH_SIZE = 8192, 2048
"""Defaults of a step's tokens and sequences, which the profiling run has."""
_FP32 = 4
_SOURCE = "TensorRT-LLM 1.0, _torch/pyexecutor/_util.py, KvCacheCreator"
_LIBRARIES = (
    "start-up logs of vLLM, whose process holds the same libraries; no log of TensorRT-LLM was read"
)


def answer(question: ServeQuestion, cache: PassCache) -> Estimate:
    """Return the estimate of one TensorRT-LLM replica."""
    return answer_replica("tensorrt_llm", question, cache, lambda: _fill_pool(question, cache))


def _fill_pool(question: ServeQuestion, cache: PassCache) -> FilledPool:
    model, workload = question.model, question.workload
    layout, device = question.layout, question.device
    cache.get_checks(SERVE_TENSORRT_LLM, model).check(workload, layout)
    resolve_version(workload.engine_version, engine="tensorrt_llm", oldest=OLDEST, newest=NEWEST)
    cache.get_checks(TENSORRT_LLM_RANKS, model).check(workload, layout)
    scheme = adapt_to_engine(select_scheme(workload.quantization, model))
    target_ranks = build_ranks(model, layout, scheme=scheme, dtype=workload.weight_dtype)
    ranks = add_draft(
        target_ranks, get_draft_model(workload.speculative), layout, workload.weight_dtype
    )
    memories = build_rank_memories(
        ranks, lambda rank: _build_rank_memory(rank, workload, layout, device)
    )
    fraction = (
        FRACTION_OF_FREE if workload.gpu_memory_fraction is None else workload.gpu_memory_fraction
    )
    fixed = max(holder.fixed_bytes for holder in memories)
    budget = fixed + int((device.usable_bytes - fixed) * fraction)
    cache.get_checks(ENGINE_LENGTHS, model).check_sizes(workload, layout)
    limits = PoolLimits(
        source=_SOURCE,
        budget_bytes=budget,
        usable_bytes=device.usable_bytes,
        max_model_len=workload.resolve_max_model_len(
            count_served_positions(model.spec, workload.engine)
        ),
        start_tokens=ANY_ROOM,
    )
    # ``calculate_max_num_blocks`` of _torch/pyexecutor/resource_manager.py
    tokens = workload.kv_pool_tokens
    blocks = None if tokens is None else ceil_div(tokens, BLOCK_TOKENS)
    memories, limits = limit_tokens(memories, limits, blocks)
    return FilledPool(
        memories,
        limits,
        layout=layout,
        kv_width=workload.kv_cache_dtype.bytes_per_element,
    )


def _build_rank_memory(
    rank: Rank, workload: ServeWorkload, layout: Layout, device: Device
) -> RankMemory:
    peak = _compute_peak_bytes(rank, workload, get_gpu_properties(device))
    tokens = workload.max_num_batched_tokens or MAX_NUM_TOKENS
    fixed = (
        make_exact_part(
            "weights", rank.weight_bytes, format_weights_formula(rank, workload), _SOURCE
        ),
        make_activation_part(rank, peak, f"profiling run of {tokens} tokens", _SOURCE),
        *make_library_parts(
            layout,
            context="context, TensorRT and cuBLAS libraries, workspaces",
            communicators="communicators and all-reduce workspaces",
            source=_LIBRARIES,
        ),
    )
    fraction = (
        FRACTION_OF_FREE if workload.gpu_memory_fraction is None else workload.gpu_memory_fraction
    )
    fixed_bytes = sum(part.bytes for part in fixed)
    return RankMemory(
        rank=rank,
        fixed_bytes=fixed_bytes,
        parts=fixed,
        pool=build_pool(
            rank.caches,
            workload.kv_cache_dtype.bytes_per_element,
            int((device.usable_bytes - fixed_bytes) * fraction),
            Paging(block_tokens=BLOCK_TOKENS, batched_tokens=tokens, hybrid=False),
        ),
    )


def _compute_peak_bytes(rank: Rank, workload: ServeWorkload, gpu: GpuProperties) -> int:
    """Return the bytes of a step's peak.

    It is the widest layer of a step's tokens, or the fp32 logits of all its sequences.
    """
    bytes_per_element, tokens = (
        workload.weight_dtype.bytes_per_element,
        workload.max_num_batched_tokens or MAX_NUM_TOKENS,
    )
    sequences = min(
        tokens, max(workload.max_num_sequences or MAX_BATCH_SIZE, workload.num_sequences)
    )
    logits = sequences * rank.model.vocab_size * (bytes_per_element + _FP32) if rank.is_last else 0
    hidden = tokens * rank.model.spec.hidden_size * bytes_per_element
    return (
        max(
            tokens * bytes_per_element * rank.get_peak_elements(flash=gpu.supports_flash),
            logits + hidden,
        )
        + gpu.workspace_bytes
    )
