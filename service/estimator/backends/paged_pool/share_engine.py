"""Engines whose pool is a share of a GPU or its rest."""

from dataclasses import dataclass

from service.estimator.backends.paged_pool.blocks import Paging, build_pool
from service.estimator.backends.paged_pool.engine_memory import (
    ANY_ROOM,
    FilledPool,
    PoolLimits,
    RankMemory,
    build_rank_memories,
)
from service.estimator.backends.paged_pool.memory_parts import (
    MemoryLedger,
    MemoryPart,
    make_exact_part,
)
from service.estimator.backends.paged_pool.rank_memory import Rank, build_ranks
from service.estimator.backends.paged_pool.replicas import answer_replica, make_library_parts
from service.estimator.backends.pass_cache import PassCache
from service.estimator.memory.overheads.gpu_properties import get_gpu_properties
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.quantization.loading import adapt_to_engine
from service.estimator.model.quantization.weights import select_scheme
from service.estimator.rules.grammar.rule import RuleTable
from service.estimator.rules.tables.serving.own_engines import ENGINE_LENGTHS
from service.estimator.values.engine_versions import Version, resolve_version
from service.estimator.values.result import Basis, Estimate
from service.estimator.values.workload import ServeWorkload

_LIBRARIES = "start-up logs of vLLM, whose process holds the same libraries"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareEngine:
    """An engine's rule: the share that its pool takes, and its step.

    ``of_free`` engines take ``share`` of what is free once the weights are loaded, and work in the
    remainder; the others take it of the GPU, less what a full step has left there.
    """

    name: str
    releases: tuple[Version, Version]
    rules: RuleTable
    share: float
    of_free: bool
    block_tokens: int
    step_tokens: int
    source: str
    adapts_from: Version | None = None
    """Release from which the pool's size is the longest request where none is said; None of an
    engine that starts with any room, whatever is said."""


def answer_share(engine: ShareEngine, question: ServeQuestion, cache: PassCache) -> Estimate:
    """Return the estimate of one replica of such an engine."""
    return answer_replica(engine.name, question, cache, lambda: _fill_pool(engine, question, cache))


def _fill_pool(engine: ShareEngine, question: ServeQuestion, cache: PassCache) -> FilledPool:
    model, workload, layout = question.model, question.workload, question.layout
    cache.get_checks(engine.rules, model).check(workload, layout)
    oldest, newest = engine.releases
    version = resolve_version(
        workload.engine_version, engine=engine.name, oldest=oldest, newest=newest
    )
    cache.get_checks(ENGINE_LENGTHS, model).check_sizes(workload, layout)
    scheme = adapt_to_engine(select_scheme(workload.quantization, model))
    ranks = build_ranks(model, layout, scheme=scheme, dtype=workload.weight_dtype)
    memories = build_rank_memories(ranks, lambda rank: _build_rank_memory(engine, rank, question))
    limits = PoolLimits(
        source=engine.source,
        budget_bytes=min(_get_budget(engine, memory.fixed_bytes, question) for memory in memories),
        usable_bytes=question.device.usable_bytes,
        max_model_len=workload.resolve_max_model_len(model.spec.max_position_embeddings),
        start_tokens=_get_start_tokens(engine, version, workload),
    )
    return FilledPool(
        memories,
        limits,
        layout=layout,
        kv_width=workload.kv_cache_dtype.bytes_per_element,
    )


def _get_start_tokens(engine: ShareEngine, version: Version, workload: ServeWorkload) -> int | None:
    """Return the tokens that need room; None for the longest request's."""
    if engine.adapts_from is None:
        return ANY_ROOM
    adapts = workload.max_model_len is None and version >= engine.adapts_from
    return ANY_ROOM if adapts else None


def _get_budget(engine: ShareEngine, fixed_bytes: int, question: ServeQuestion) -> int:
    """Return the bytes of a GPU for fixed parts and pool."""
    usable, fraction = question.device.usable_bytes, question.workload.gpu_memory_fraction
    if engine.of_free:
        share = engine.share if fraction is None else fraction
        return fixed_bytes + int(max(0, usable - fixed_bytes) * share)
    return int(usable * engine.share * (1.0 if fraction is None else fraction))


def _build_rank_memory(engine: ShareEngine, rank: Rank, question: ServeQuestion) -> RankMemory:
    workload, layout = question.workload, question.layout
    tokens = workload.max_num_batched_tokens or engine.step_tokens
    parts = (
        make_exact_part("weights", rank.weight_bytes, _describe_weights(rank), engine.source),
        _make_step_part(engine, rank, question, tokens),
        *make_library_parts(
            layout,
            context="context and libraries",
            communicators="communicators",
            source=_LIBRARIES,
        ),
    )
    fixed = sum(part.bytes for part in parts if part.budgeted)
    budget = _get_budget(engine, fixed, question)
    paging = Paging(block_tokens=engine.block_tokens, batched_tokens=tokens, hybrid=False)
    pool = build_pool(
        rank.caches, workload.kv_cache_dtype.bytes_per_element, budget - fixed, paging
    )
    return RankMemory(rank=rank, fixed_bytes=fixed, parts=parts, pool=pool)


def _make_step_part(
    engine: ShareEngine, rank: Rank, question: ServeQuestion, tokens: int
) -> MemoryPart:
    """Return what a step needs.

    It is its widest point, or its logits.
    """
    workload, gpu = question.workload, get_gpu_properties(question.device)
    width = workload.weight_dtype.bytes_per_element
    logits = workload.num_sequences * rank.model.vocab_size * (width + 4) if rank.is_last else 0
    layer = tokens * width * rank.get_peak_elements(flash=gpu.supports_flash)
    size = max(layer, logits) + gpu.workspace_bytes
    return MemoryPart(
        name="activations",
        bytes=size,
        low=size,
        high=size * 3 // 2,
        ledger=MemoryLedger.ALLOCATED,
        basis=Basis.FORMULA,
        formula=f"widest layer of a step of {tokens} tokens",
        source=engine.source,
        budgeted=not engine.of_free,
    )


def _describe_weights(rank: Rank) -> str:
    return f"{rank.model.parameter_counts().total:,} parameters of a rank's share"
