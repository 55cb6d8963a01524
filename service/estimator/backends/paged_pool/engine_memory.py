"""Shared parts of engines with one pool per rank.

A rank has fixed bytes, each stage has a pool, and one pool decides.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from service.estimator.backends.paged_pool.blocks import KvBlockPool
from service.estimator.backends.paged_pool.memory_parts import MemoryLedger, MemoryPart
from service.estimator.backends.paged_pool.pool import (
    EngineMemory,
    PoolDemand,
    PoolTotals,
)
from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.backends.paged_pool.split_pool import SplitPool
from service.estimator.backends.paged_pool.step_pool import StepPool
from service.estimator.memory.offloading import count_ranks_per_node
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.speculative import count_draft_tokens
from service.estimator.values.layout import Layout
from service.estimator.values.result import Stage
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import ServeWorkload

_TOWER = ("the work of the model's vision tower on images is not counted",)

ANY_ROOM = 1
"""Tokens of an engine that starts wherever its pool has room at all, and refuses requests that are
longer: SGLang 0.4 to 0.5.23 (``MemoryPoolConfig``, ``max_req_len``), TensorRT-LLM (1.2,
``_validate_and_adjust_attention_windows``), LMDeploy, TGI from 3.0 where no length is said."""

Pool = KvBlockPool | SplitPool | StepPool


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """A rank and the pool that it could have.

    ``parts`` are all but the pool, ``fixed_bytes`` those inside of the budget.
    """

    rank: Rank
    fixed_bytes: int
    parts: tuple[MemoryPart, ...]
    pool: Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Limits of the pool.

    They are the engine's budget of a GPU, its usable bytes and the longest sequence that it
    accepts; ``source`` is where the pool is documented.
    """

    source: str
    budget_bytes: int
    usable_bytes: int
    max_model_len: int
    start_tokens: int | None = None
    """Tokens of a sequence without room for which the engine does not start; else those of
    ``max_model_len``."""
    pool_field: str | None = None
    """Field that gives the pool a size of its own, whatever the other parts leave."""
    warnings: tuple[str, ...] = ()
    profiles_tower: bool = False
    """Whether a vision tower's own work is counted."""


def build_rank_memories(
    ranks: Sequence[Rank], build: Callable[[Rank], RankMemory]
) -> tuple[RankMemory, ...]:
    """Return the memory of each rank.

    Stages that are alike are one object, as their ranks are.
    """
    memories = {id(rank): build(rank) for rank in {id(rank): rank for rank in ranks}.values()}
    return tuple(memories[id(rank)] for rank in ranks)


def limit_tokens(
    memories: tuple[RankMemory, ...], limits: PoolLimits, num_blocks: int | None
) -> tuple[tuple[RankMemory, ...], PoolLimits]:
    """Return ranks with no more blocks than asked, and their limits.

    ``num_blocks`` are those of ``kv_pool_tokens``. A limit that no rank's memory reaches is none.
    """
    if num_blocks is None or min(memory.pool.num_blocks for memory in memories) <= num_blocks:
        return memories, limits
    limited = limit_blocks(memories, num_blocks)
    budget = max(memory.fixed_bytes + memory.pool.bytes for memory in limited)
    return limited, replace(limits, budget_bytes=budget, pool_field="kv_pool_tokens")


def limit_blocks(memories: tuple[RankMemory, ...], num_blocks: int) -> tuple[RankMemory, ...]:
    """Return ranks with pools of so many blocks, whatever their memory leaves."""
    limited = {
        key: replace(memory, pool=memory.pool.limit_blocks(num_blocks))
        for key, memory in {id(memory): memory for memory in memories}.items()
    }
    return tuple(limited[id(memory)] for memory in memories)


class FilledPool:
    """Memory of the fullest stage and pools of all ranks."""

    __slots__ = ("_budgets", "_largest", "_smallest", "totals")

    def __init__(
        self, memories: Sequence[RankMemory], limits: PoolLimits, *, layout: Layout, kv_width: int
    ) -> None:
        """Fill the ranks of a replica, which caches elements of ``kv_width`` bytes.

        Every rank gets as many blocks as the pool that has the fewest. Stages that are alike have
        one memory.
        """
        by_id = {id(memory): memory for memory in memories}
        distinct = tuple(by_id.values())
        smallest = min(distinct, key=lambda memory: memory.pool.num_blocks).pool
        stage_bytes = {key: _compute_stage_bytes(memory, smallest) for key, memory in by_id.items()}
        stages = tuple(
            Stage(index, *stage_bytes[id(memory)]) for index, memory in enumerate(memories)
        )
        worst_stage = max(range(len(stages)), key=lambda index: stages[index].allocated_bytes)
        largest = memories[worst_stage]
        pool, model = largest.pool.limit_blocks(smallest.num_blocks), largest.rank.model
        start_tokens = limits.start_tokens or limits.max_model_len
        self._largest, self._smallest = largest, smallest
        self._budgets = tuple((memory, *_sum_budgeted(memory, limits)) for memory in distinct)
        self.totals = PoolTotals(
            EngineMemory(
                num_gpus=layout.num_gpus,
                parts=(*largest.parts, *pool.list_parts(limits.source)),
                pool_bytes=pool.bytes,
                pool_tokens=smallest.count_tokens(limits.max_model_len),
                token_bytes=count_token_bytes(largest.rank, kv_width),
                max_concurrency=smallest.count_concurrency(limits.max_model_len),
                smallest_bytes=max(
                    memory.fixed_bytes + memory.pool.count_start_bytes(start_tokens)
                    for memory in distinct
                ),
                budget_bytes=limits.budget_bytes,
                usable_bytes=limits.usable_bytes,
                max_model_len=limits.max_model_len,
                start_tokens=start_tokens,
                stages=stages,
                worst_stage=worst_stage,
                rank_weight_bytes=largest.rank.weight_bytes,
                host_bytes=_sum_host_bytes(memories, count_ranks_per_node(layout)),
                approximate=model.spec.approximate,
                warnings=(*limits.warnings, *_list_tower_warnings(model, limits)),
                has_pool=not isinstance(pool, StepPool),
                pool_field=limits.pool_field,
                roomy_tokens=_find_roomy_length(distinct, limits),
            )
        )

    def count_demand(self, workload: ServeWorkload) -> PoolDemand:
        """Return what the sequences of a workload take of the pool."""
        tokens = workload.prompt_tokens + workload.output_tokens
        tokens += count_draft_tokens(workload.speculative)
        num_sequences, model = workload.num_sequences, self._largest.rank.model
        if not model.generates:
            num_sequences = min(num_sequences, _count_read_at_once(self._largest.pool, tokens))
        required = []
        for memory, budgeted, budgeted_high in self._budgets:
            requested = memory.pool.count_required_bytes(num_sequences, tokens)
            required.append((requested + budgeted, requested + budgeted_high))
        required_bytes, required_high_bytes = max(required)
        width = workload.weight_dtype.bytes_per_element
        return PoolDemand(
            requested_bytes=self._largest.pool.count_bytes(num_sequences, tokens),
            required_bytes=required_bytes,
            required_high_bytes=required_high_bytes,
            max_num_sequences=int(self._smallest.count_sequences(tokens)),
            limits=self._smallest.list_limits(num_sequences, tokens),
            state_bytes=num_sequences * model.spec.hidden_size * width,
        )


def _find_roomy_length(memories: Sequence[RankMemory], limits: PoolLimits) -> int:
    """Return the largest ``max_model_len`` that has room.

    It is 0 where none has, where this one has, and where the engine starts with room for less.
    """

    def has_room(tokens: int) -> bool:
        return all(
            memory.fixed_bytes + memory.pool.count_start_bytes(tokens) <= limits.budget_bytes
            for memory in memories
        )

    starts_with_less = (limits.start_tokens or limits.max_model_len) < limits.max_model_len
    if starts_with_less or has_room(limits.max_model_len) or not has_room(1):
        return 0
    return bisect_left(range(1, limits.max_model_len), 1, key=lambda tokens: not has_room(tokens))


def _list_tower_warnings(model: Architecture, limits: PoolLimits) -> tuple[str, ...]:
    return () if model.images is None or limits.profiles_tower else _TOWER


def _sum_host_bytes(memories: Sequence[RankMemory], ranks_per_node: int) -> int:
    """Return the bytes of weights that the host of one node holds."""
    return sum(memory.rank.host_bytes for memory in memories) * ranks_per_node // len(memories)


def _count_read_at_once(pool: Pool, tokens: int) -> int:
    """Return the prompts that a step of pooling may hold.

    A step reads so many tokens; it may end one prompt that another began, and begin one that is not
    ended. A prompt that is read through leaves the pool, and all others wait.
    """
    return ceil_div(pool.batched_tokens, tokens) + 1


def _sum_budgeted(memory: RankMemory, limits: PoolLimits) -> tuple[int, int]:
    """Return a rank's budgeted bytes and their upper end.

    What they take more leaves a pool of its own size alone.
    """
    if limits.pool_field is not None:
        return memory.fixed_bytes, memory.fixed_bytes
    budgeted = [part for part in memory.parts if part.budgeted]
    return sum(part.bytes for part in budgeted), sum(part.high for part in budgeted)


def _compute_stage_bytes(memory: RankMemory, smallest: Pool) -> tuple[int, int]:
    """Return the peak of a stage, and its bytes between steps."""
    pool = memory.pool.limit_blocks(smallest.num_blocks)
    steady = pool.bytes + pool.state_bytes + memory.rank.weight_bytes
    allocated = [part for part in memory.parts if part.ledger is MemoryLedger.ALLOCATED]
    steady += sum(part.bytes for part in allocated if part.persistent)
    transient = sum(
        part.bytes for part in allocated if part.name != "weights" and not part.persistent
    )
    return steady + transient, steady


def count_token_bytes(rank: Rank, element_bytes: int) -> int:
    """Return the bytes that a rank caches for one token."""
    return sum(cache.count_token_bytes(element_bytes) for cache in rank.caches)
