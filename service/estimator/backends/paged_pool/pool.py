"""Estimate of an engine that fills a memory budget.

It has fixed parts, and a pool of keys and values that takes the remainder.
"""

from dataclasses import dataclass

from service.estimator.backends.paged_pool.memory_parts import (
    MemoryLedger,
    MemoryPart,
    merge_components,
    sum_allocated_parts,
)
from service.estimator.memory.question import ServeQuestion
from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.result import (
    Estimate,
    Instant,
    Interval,
    Serving,
    Stage,
)

NO_START = "the engine does not start"
"""What a warning begins with about a pool that has no room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMemory:
    """Memory of a rank that an engine has filled.

    It is independent of the requests. It has the rank's parts with the pool among them, and what
    the pool holds. ``max_concurrency`` counts sequences of ``max_model_len`` tokens, as engines
    print it, ``smallest_bytes`` is what the budget must be for one of ``start_tokens`` to have
    room, without which the engine does not start.
    """

    num_gpus: int
    parts: tuple[MemoryPart, ...]
    pool_bytes: int
    pool_tokens: int
    token_bytes: int
    max_concurrency: float
    smallest_bytes: int
    budget_bytes: int
    usable_bytes: int
    max_model_len: int
    start_tokens: int
    stages: tuple[Stage, ...]
    worst_stage: int
    rank_weight_bytes: int
    host_bytes: int = 0
    """Bytes of weights that the host holds, of all ranks of a node."""
    approximate: bool = False
    has_pool: bool = True
    """Whether anything is kept for a request from one step to the next."""
    pool_field: str | None = None
    """Field that gives the pool a size of its own, whatever the other parts leave."""
    roomy_tokens: int = 0
    """Largest ``max_model_len`` that has room where this one has none, 0 where none has."""
    warnings: tuple[str, ...] = ()


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDemand:
    """Demand of a question's sequences on a pool.

    ``requested_bytes`` is the cache of all of them, ``state_bytes`` their hidden states, ``limits``
    what keeps them waiting beside memory.
    """

    requested_bytes: int
    required_bytes: int
    """Bytes of the budget that the neediest stage needs; the next are the upper end of these."""
    required_high_bytes: int
    max_num_sequences: int
    state_bytes: int
    limits: tuple[str, ...] = ()


class PoolTotals:
    """Sums, intervals and components of an engine's memory, which no batch changes."""

    __slots__ = (
        "allocated",
        "allocated_bytes",
        "components",
        "device",
        "device_bytes",
        "instants",
        "memory",
        "persistent",
        "reserved",
        "reserved_bytes",
        "weights",
    )

    def __init__(self, memory: EngineMemory) -> None:
        """Add up the parts of a rank."""
        allocated = {MemoryLedger.ALLOCATED}
        reserved = {MemoryLedger.ALLOCATED, MemoryLedger.RESERVED}
        self.memory = memory
        self.weights = sum(part.bytes for part in memory.parts if part.name == "weights")
        self.persistent = sum_allocated_parts([part for part in memory.parts if part.persistent])
        self.allocated_bytes = _sum_parts(memory, allocated)
        self.reserved_bytes = _sum_parts(memory, reserved)
        self.device_bytes = _sum_parts(memory, set(MemoryLedger))
        self.allocated = _compute_interval(memory, allocated)
        self.reserved = _compute_interval(memory, reserved)
        self.device = _compute_device_interval(memory)
        self.components = merge_components(memory.parts)
        prefill = sum_allocated_parts(memory.parts)
        self.instants = (
            Instant("load", self.weights, {"weights": self.weights}),
            Instant("prefill", sum(prefill.values()), prefill),
        )


def build_pool_estimate(
    totals: PoolTotals, demand: PoolDemand, question: ServeQuestion
) -> Estimate:
    """Return the estimate of an engine that fills a pool.

    The pool fills the budget, so that the three quantities hardly depend on the workload.
    """
    memory = totals.memory
    return Estimate(
        num_gpus=memory.num_gpus,
        allocated_bytes=totals.allocated_bytes,
        reserved_bytes=totals.reserved_bytes,
        device_bytes=totals.device_bytes,
        steady_bytes=totals.weights + memory.pool_bytes + sum(totals.persistent.values()),
        allocated_interval=totals.allocated,
        reserved_interval=totals.reserved,
        device_interval=totals.device,
        peak_instant="prefill",
        interval_kind="engine",
        components=totals.components if question.detail.is_explained else (),
        instants=(*totals.instants, _build_decode(totals, demand.state_bytes)),
        stages=memory.stages,
        host_bytes_per_node=memory.host_bytes,
        worst_pipeline_stage=memory.worst_stage,
        serving=Serving(
            kv_bytes_per_token=memory.token_bytes,
            kv_cache_bytes=demand.requested_bytes,
            required_bytes=demand.required_bytes,
            budget_bytes=memory.budget_bytes,
            kv_pool_bytes=memory.pool_bytes,
            kv_pool_tokens=memory.pool_tokens,
            max_num_sequences=demand.max_num_sequences,
            max_concurrency=memory.max_concurrency,
            smallest_bytes=memory.smallest_bytes,
            required_high_bytes=demand.required_high_bytes,
            engine_version=question.release,
        ),
        warnings=(
            *memory.warnings,
            *_find_shortfalls(totals, demand),
            *question.list_warnings(question.workload.weight_dtype),
        ),
    )


def _build_decode(totals: PoolTotals, state_bytes: int) -> Instant:
    """Return the instant of decoding.

    It holds weights, pool, what persists and the hidden states of a step; loading holds the weights
    alone, and prefill the profiled peak.
    """
    weights, pool = totals.weights, totals.memory.pool_bytes
    persistent = pool + sum(totals.persistent.values())
    decode_bytes = totals.memory.rank_weight_bytes + persistent + state_bytes
    activations = decode_bytes - weights - persistent
    parts = {"weights": weights, "kv_cache": pool, **totals.persistent, "activations": activations}
    return Instant("decode", decode_bytes, parts)


def _find_shortfalls(totals: PoolTotals, demand: PoolDemand) -> tuple[str, ...]:
    """Return messages about what has no room.

    In the pool it is the longest sequence or those that are requested, else what stands beside the
    pool.
    """
    memory, messages = totals.memory, list[str]()
    if not memory.has_pool:
        missing = totals.device_bytes - memory.usable_bytes
        text = f"what is asked needs {missing:,} B more than the GPU's {memory.usable_bytes:,} B"
        return (text,) if missing > 0 else ()
    if (missing := memory.smallest_bytes - memory.budget_bytes) > 0:
        messages.append(_explain_no_start(memory, missing))
    elif (missing := demand.required_bytes - memory.budget_bytes) > 0:
        budget = f"the engine's budget of {memory.budget_bytes:,} B"
        messages.append(f"what is asked needs {missing:,} B more than {budget}")
    else:
        messages.extend(demand.limits)
        if max(memory.start_tokens, memory.pool_tokens) < memory.max_model_len:
            messages.append(
                f"the pool holds {memory.pool_tokens:,} tokens: longer requests are refused, "
                f"though max_model_len is {memory.max_model_len:,}"
            )
    lever = memory.pool_field or "gpu_memory_fraction"
    if (missing := totals.device_bytes - memory.usable_bytes) > 0:
        messages.append(
            f"the engine's budget of {memory.budget_bytes:,} B leaves {missing:,} B too little for "
            f"what it holds outside: a lower {lever} leaves more",
        )
    return tuple(messages)


def _explain_no_start(memory: EngineMemory, missing: int) -> str:
    """Return why an engine does not start."""
    if memory.start_tokens < memory.max_model_len:
        return (
            f"{NO_START}: its pool has no room for a token, for which its budget "
            f"lacks {missing:,} B"
        )
    lower = f"; with max_model_len {memory.roomy_tokens:,} it has" if memory.roomy_tokens else ""
    return (
        f"{NO_START}: its pool has no room for one sequence of max_model_len "
        f"{memory.max_model_len:,} tokens, for which its budget lacks {missing:,} B{lower}"
    )


def _sum_parts(memory: EngineMemory, ledgers: set[MemoryLedger]) -> int:
    return sum(part.bytes for part in memory.parts if part.ledger in ledgers)


def _compute_device_interval(memory: EngineMemory) -> Interval:
    """Return the interval of all device memory.

    A budget that is a share of what its parts leave never takes more than there is.
    """
    interval = _compute_interval(memory, set(MemoryLedger))
    if not all(part.budgeted for part in memory.parts):
        return interval
    return Interval(
        interval.low,
        max(min(interval.high, memory.usable_bytes), _sum_parts(memory, set(MemoryLedger))),
    )


def _compute_interval(memory: EngineMemory, ledgers: set[MemoryLedger]) -> Interval:
    """Return the interval of parts in a budget.

    What one of them takes more, the pool has less, unless it has bytes of its own.
    """
    selected = [part for part in memory.parts if part.ledger in ledgers]
    point = sum(part.bytes for part in selected)
    outside = [part for part in selected if memory.pool_field or not part.budgeted]
    variable = outside or [part for part in selected if part.name != "kv_cache"]
    return Interval(
        point + sum(part.low - part.bytes for part in variable),
        point + sum(part.high - part.bytes for part in variable),
    )
