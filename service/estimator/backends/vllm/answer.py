"""vLLM: a fraction of GPU memory, less fixed parts, is the pool.

The fraction is of the total; weights, the profiled peak, what lies outside of PyTorch and, since
0.20.0, CUDA graphs are taken off. 0.33.0, ``v1/worker/gpu_worker.py``
(``determine_available_memory``); 0.7.3, ``worker/worker.py``.
"""

from service.estimator.backends.paged_pool.activation_part import make_activation_part
from service.estimator.backends.paged_pool.blocks import build_pool
from service.estimator.backends.paged_pool.encoders import is_encoder
from service.estimator.backends.paged_pool.engine_memory import (
    FilledPool,
    Pool,
    PoolLimits,
    RankMemory,
    build_rank_memories,
    limit_blocks,
)
from service.estimator.backends.paged_pool.memory_parts import MemoryPart, make_exact_part
from service.estimator.backends.paged_pool.pool import build_pool_estimate
from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.backends.pass_cache import PassCache
from service.estimator.backends.vllm.adapter_slots import count_adapter_slots
from service.estimator.backends.vllm.encoders import (
    FRACTION_NOTE,
    build_step_pool,
    check_encoder_release,
)
from service.estimator.backends.vllm.overheads import (
    communicator_bytes,
    estimate_attention_workspace,
    estimate_context,
    estimate_cuda_graphs,
    estimate_non_torch,
)
from service.estimator.backends.vllm.profile import ProfilingBatch, TowerRun, profile_rank
from service.estimator.backends.vllm.ranks import build_engine_ranks
from service.estimator.backends.vllm.release import VllmRelease, resolve_release
from service.estimator.backends.vllm.runners import (
    check_pooling,
    count_sampler_bytes,
    runs_second_runner,
)
from service.estimator.backends.vllm.settings import (
    VllmSettings,
    name_pool_field,
    resolve_max_model_len,
    resolve_settings,
)
from service.estimator.backends.vllm.sparse_attention import count_sparse_work, warn_of_cache
from service.estimator.backends.vllm.speech import (
    build_speech_pool,
    check_speech_release,
    is_speech,
    run_encoder,
)
from service.estimator.backends.vllm.towers import list_idle_limits, run_tower
from service.estimator.memory.overheads.gpu_properties import get_gpu_properties
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.families.speculative import describe_draft
from service.estimator.rules.tables.serving.own_engines import ENGINE_LENGTHS, SERVE_VLLM
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.memo import Memo
from service.estimator.values.result import Estimate
from service.estimator.values.units import format_bytes, format_count
from service.estimator.values.workload import ServeWorkload

_SOURCE = "vLLM 0.33.0, v1/worker/gpu_worker.py, determine_available_memory"


def answer(question: ServeQuestion, cache: PassCache) -> Estimate:
    """Return the estimate of one vLLM replica.

    The rank whose pool is smallest decides for all.
    """
    model, workload, device = question.model, question.workload, question.device
    releases: Memo[VllmRelease] = cache.get_memo("vllm releases")
    key = (cache.get_model_key(model), question.replica_key)
    release = releases.get(key)
    if release is None:
        cache.get_checks(SERVE_VLLM, model).check(workload, question.layout)
        release = releases.store(
            key,
            resolve_release(
                workload.engine_version,
                get_gpu_properties(device),
                runs_second=lambda version: runs_second_runner(model, workload, version),
            ),
        )
        if not model.generates and not is_speech(model):
            check_pooling(release.version)
        if is_speech(model):
            check_speech_release(release.version)
        if is_encoder(model):
            check_encoder_release(release.version)
    cache.get_checks(ENGINE_LENGTHS, model).check_sizes(workload, question.layout)
    max_model_len = resolve_max_model_len(model, workload)
    # Asked sequences run at once only if the engine may schedule so many.
    scheduled = max(release.get_max_num_sequences(device), workload.num_sequences)
    pools: Memo[FilledPool] = cache.get_memo("vllm pools")
    pool = pools.get((key, max_model_len, scheduled))
    if pool is None:
        settings = resolve_settings(question, release, max_model_len, scheduled)
        pool = pools.store((key, max_model_len, scheduled), _fill_pool(question, settings))
    return build_pool_estimate(pool.totals, pool.count_demand(workload), question)


def _fill_pool(question: ServeQuestion, settings: VllmSettings) -> FilledPool:
    workload, layout = question.workload, question.layout
    ranks = build_engine_ranks(question)
    memories = build_rank_memories(
        ranks, lambda rank: _build_rank_memory(rank, workload, layout, settings, question.device)
    )
    if workload.kv_pool_blocks is not None:
        memories = limit_blocks(memories, workload.kv_pool_blocks)
    limits = PoolLimits(
        source="vLLM, v1/core/kv_cache_utils.py",
        budget_bytes=_get_budget(question, memories, settings),
        usable_bytes=question.device.usable_bytes,
        max_model_len=settings.max_model_len,
        pool_field=name_pool_field(workload),
        warnings=_list_warnings(question, settings),
        profiles_tower=settings.tower is not None,
    )
    return FilledPool(
        memories,
        limits,
        layout=layout,
        kv_width=workload.kv_cache_dtype.bytes_per_element,
    )


def _list_warnings(question: ServeQuestion, settings: VllmSettings) -> tuple[str, ...]:
    """Return what an engine's fraction and its profiling run rest on."""
    model, workload = question.model, question.workload
    if is_encoder(model):
        return (FRACTION_NOTE,)
    if settings.tower is not None:
        return settings.tower.list_warnings()
    formats = warn_of_cache(model, workload.kv_cache_dtype, question.device)
    return (*formats, *list_idle_limits(model, workload))


def _get_budget(
    question: ServeQuestion, memories: tuple[RankMemory, ...], settings: VllmSettings
) -> int:
    """Return the budget of a rank.

    Without a pool it is all of the GPU but what is outside of it; with one of a size of its own it
    is that beside the rank's other parts.
    """
    if question.workload.kv_pool_blocks is not None:
        return max(memory.fixed_bytes + memory.pool.bytes for memory in memories)
    pool = question.workload.kv_pool_bytes
    if pool is not None:
        return pool + max(memory.fixed_bytes for memory in memories)
    if not is_encoder(question.model):
        return settings.budget_bytes
    parts = memories[0].parts
    return question.device.usable_bytes - sum(part.bytes for part in parts if not part.budgeted)


def _build_rank_memory(
    rank: Rank, workload: ServeWorkload, layout: Layout, settings: VllmSettings, device: Device
) -> RankMemory:
    """Return the memory of one rank of one pipeline stage.

    It has the rank's fixed parts and the pool that it could have.
    """
    gpu, release = get_gpu_properties(device), settings.release
    communicators = communicator_bytes(gpu, layout, device) if release.compiles else 0
    sequences = None if workload.enforce_eager else settings.max_num_sequences
    parts = (
        make_exact_part(
            "weights", rank.weight_bytes, format_weights_formula(rank, workload), _SOURCE
        ),
        _profile(rank, workload, settings, device),
        count_adapter_slots(rank, workload),
        _count_sampler_state(rank, workload, settings),
        estimate_cuda_graphs(
            release,
            rank,
            layout,
            device,
            sequences=sequences,
            has_adapters=workload.max_loras is not None,
        ),
        estimate_non_torch(release, gpu, layout, device),
        estimate_context(release, gpu, communicators),
        *([] if is_encoder(rank.model) else [estimate_attention_workspace(release, device)]),
    )
    fixed = sum(part.bytes for part in parts if part.budgeted)
    pool = _build_pool(rank, workload, settings, fixed)
    return RankMemory(rank=rank, fixed_bytes=fixed, parts=parts, pool=pool)


def _build_pool(
    rank: Rank, workload: ServeWorkload, settings: VllmSettings, fixed_bytes: int
) -> Pool:
    if is_encoder(rank.model):
        return build_step_pool(settings.batched_tokens, settings.max_num_sequences)
    width, available = workload.kv_cache_dtype.bytes_per_element, workload.kv_pool_bytes
    if available is None:
        available = settings.budget_bytes - fixed_bytes
    if settings.speech is not None:
        return build_speech_pool(rank, settings.speech, width, available, settings.paging)
    return build_pool(rank.caches, width, available, settings.paging, rank.states)


def _profile(
    rank: Rank, workload: ServeWorkload, settings: VllmSettings, device: Device
) -> MemoryPart:
    """Return the peak of the profiling run."""
    batch = ProfilingBatch(
        num_tokens=settings.batched_tokens,
        num_sequences=settings.max_num_sequences,
        bytes_per_element=workload.weight_dtype.bytes_per_element,
        samples=rank.model.generates
        and settings.release.is_sampling_profiled(settings.max_model_len),
        sparse=count_sparse_work(rank, device, settings, workload.kv_cache_dtype),
    )
    profiling = profile_rank(
        rank,
        batch,
        settings.release,
        get_gpu_properties(device),
        eager=workload.enforce_eager,
        tower=_run_tower(rank, batch, settings, device),
    )
    return make_activation_part(
        rank,
        profiling.peak_bytes,
        f"{profiling.formula}: {settings.batched_tokens} tokens, {settings.max_num_sequences} "
        "sequences",
        "vLLM, v1/worker/gpu_worker.py, compile_or_warm_up_model"
        if is_encoder(rank.model)
        else "vLLM, v1/worker/gpu_model_runner.py, profile_run",
    )


def _run_tower(
    rank: Rank, batch: ProfilingBatch, settings: VllmSettings, device: Device
) -> TowerRun | None:
    """Return the run of what is profiled before the language model."""
    if settings.speech is not None:
        return run_encoder(
            settings.speech, batch, workspace_bytes=get_gpu_properties(device).workspace_bytes
        )
    if settings.tower is None or not (rank.is_first and settings.release.compiles):
        return None
    return run_tower(
        settings.tower,
        batch,
        max_model_len=settings.max_model_len,
        keeps_pixels=not settings.release.second_runner,
    )


def _count_sampler_state(rank: Rank, workload: ServeWorkload, settings: VllmSettings) -> MemoryPart:
    """Return what the second runner's sampler keeps for every sequence.

    A draft head has the model's hidden states of every token beside it.
    """
    sequences = settings.max_num_sequences
    samples = settings.release.second_runner and rank.is_last and rank.model.generates
    state = count_sampler_bytes(rank.model.vocab_size, sequences) if samples else 0
    formula = f"{sequences} sequences: counts and masks of the vocabulary"
    if workload.speculative is not None and workload.speculative.head is not None:
        width = rank.model.spec.hidden_size * workload.weight_dtype.bytes_per_element
        state += settings.batched_tokens * width
        formula += f"; hidden states of {settings.batched_tokens} tokens for the draft head"
    return make_exact_part(
        "sampler_state",
        state,
        formula,
        "vLLM 0.33.0, v1/worker/gpu/sample/penalties.py, logit_bias.py, bad_words.py",
        persistent=True,
    )


def format_weights_formula(rank: Rank, workload: ServeWorkload) -> str:
    """Return the formula of a rank's weights, in numbers."""
    quantization = workload.quantization.value
    tables, total = (
        format_bytes(rank.table_bytes),
        format_count(rank.model.parameter_counts().total),
    )
    draft = describe_draft(workload.speculative)
    scheme = rank.model.quantization
    weight_format = (
        quantization
        if quantization != "none"
        else workload.weight_dtype.value
        if scheme is None
        else scheme.packing.value
    )
    return (
        f"{total} params of a rank's share, {weight_format}, and {tables} of rotary tables{draft}"
    )
