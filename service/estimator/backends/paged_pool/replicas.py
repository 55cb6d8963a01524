"""Replicas that engines keep, and the memory of their libraries."""

from collections.abc import Callable

from service.estimator.backends.paged_pool.engine_memory import FilledPool
from service.estimator.backends.paged_pool.memory_parts import MemoryLedger, MemoryPart
from service.estimator.backends.paged_pool.pool import (
    build_pool_estimate,
)
from service.estimator.backends.pass_cache import PassCache
from service.estimator.memory.question import ServeQuestion
from service.estimator.values.layout import Layout
from service.estimator.values.memo import Memo
from service.estimator.values.result import Basis, Estimate
from service.estimator.values.units import GIB, MIB

_CONTEXT, _COMMUNICATOR = 900 * MIB, 1200 * MIB


def answer_replica(
    engine: str, question: ServeQuestion, cache: PassCache, fill_pool: Callable[[], FilledPool]
) -> Estimate:
    """Return the estimate of a replica whose pool is filled once."""
    workload = question.workload
    pools: Memo[FilledPool] = cache.get_memo(f"{engine} pools")
    replica = (cache.get_model_key(question.model), question.replica_key)
    key = (replica, workload.num_sequences, question.accepted_tokens)
    pool = pools.get_or_make(key, fill_pool)
    return build_pool_estimate(pool.totals, pool.count_demand(workload), question)


def make_library_parts(
    layout: Layout, *, context: str, communicators: str, source: str
) -> tuple[MemoryPart, MemoryPart]:
    """Return the context and the communicators where no log says them."""
    linked = layout.tensor_parallel * layout.pipeline_parallel > 1
    return (
        _make_library_part("device_context", _CONTEXT, context, source),
        _make_library_part(
            "communication_buffers", _COMMUNICATOR if linked else 0, communicators, source
        ),
    )


def _make_library_part(name: str, size: int, formula: str, source: str) -> MemoryPart:
    return MemoryPart(
        name=name,
        bytes=size,
        low=size // 2,
        high=size + min(size, GIB),
        ledger=MemoryLedger.DEVICE,
        basis=Basis.EXTRAPOLATED,
        formula=formula,
        source=source,
    )
