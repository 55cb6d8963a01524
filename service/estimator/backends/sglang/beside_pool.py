"""Table of requests, workspaces and graphs, beside a server's fraction.

All of it is allocated once weights and pool are there, out of what ``mem_fraction_static`` leaves.
"""

from service.estimator.backends.paged_pool.engine_memory import Pool
from service.estimator.backends.paged_pool.memory_parts import MemoryLedger, MemoryPart
from service.estimator.backends.paged_pool.split_pool import SplitPool, count_running_requests
from service.estimator.memory.overheads.gpu_properties import GpuProperties
from service.estimator.model.families.speculative import count_draft_tokens
from service.estimator.values.result import Basis
from service.estimator.values.units import GIB, MIB
from service.estimator.values.workload import ServeWorkload

_LOGS = "start-up logs of SGLang on GPUs of 16, 24 and 80 GB"
_GRAPHS = 870 * MIB
"""Median of three logs: 0.11 GiB (4 sizes, 16 GB), 0.85 (4 ranks), 0.93 (13 sizes, 24 GB)."""
_WORKSPACE, _HOPPER_WORKSPACE = 645 * MIB, 100 * MIB
"""Between pool and capture: 0.63 and 0.64 GiB with FlashInfer, 0.10 with FlashAttention 3."""
_MORE_TOKENS, _INDEX_BYTES = 4, 4
"""Positions of a row beyond the context, and its 32-bit integers (``ReqToTokenPool``): with a
context of 10,485,760 it tried to allocate 80.04 GiB (sgl-project/sglang, number 5755)."""


def make_request_table(workload: ServeWorkload, pool: Pool, context_tokens: int) -> MemoryPart:
    """Return the table of where each token of each request is.

    It has a row for each request that may run, and one of padding.
    """
    rows = 1 + _count_running_requests(workload, pool, context_tokens)
    columns = context_tokens + _MORE_TOKENS + count_draft_tokens(workload.speculative)
    size = rows * columns * _INDEX_BYTES
    return MemoryPart(
        name="request_table",
        bytes=size,
        low=size,
        high=size,
        ledger=MemoryLedger.ALLOCATED,
        basis=Basis.EXACT,
        formula=f"{rows:,} requests x {columns:,} tokens x {_INDEX_BYTES} B",
        source="SGLang 0.4.6 and 0.5.23, srt/mem_cache/memory_pool.py, ReqToTokenPool",
        budgeted=False,
        persistent=True,
    )


def _count_running_requests(workload: ServeWorkload, pool: Pool, context_tokens: int) -> int:
    requests = workload.max_num_sequences or count_running_requests(pool.num_blocks, context_tokens)
    if isinstance(pool, SplitPool):
        return min(requests, pool.slots // pool.request_slots)
    return requests


def list_graph_parts(
    workload: ServeWorkload, gpu: GpuProperties, *, generates: bool
) -> tuple[MemoryPart, ...]:
    """Return the attention kernels' workspace, and graphs.

    Graphs are of decode steps, which a model that pools has not (``init_decode_cuda_graph``).
    """
    workspace = _HOPPER_WORKSPACE if gpu.is_hopper_or_later else _WORKSPACE
    graphs = 0 if workload.enforce_eager or not generates else _GRAPHS
    return (
        make_measured_part(
            "library_workspaces",
            workspace,
            "workspace of the attention kernels",
            MemoryLedger.RESERVED,
            budgeted=False,
        ),
        make_measured_part(
            "cuda_graphs", graphs, "decode batches captured", MemoryLedger.RESERVED, budgeted=False
        ),
    )


def make_measured_part(
    name: str, size: int, formula: str, ledger: MemoryLedger, *, budgeted: bool
) -> MemoryPart:
    """Return a part whose size logs tell."""
    return MemoryPart(
        name=name,
        bytes=size,
        low=size // 2,
        high=size + min(size, GIB),
        ledger=ledger,
        basis=Basis.MEASURED,
        formula=formula,
        source=_LOGS,
        budgeted=budgeted,
    )


def make_free_part(name: str, size: int, formula: str) -> MemoryPart:
    """Return tensors that live in what the fraction leaves free."""
    return MemoryPart(
        name=name,
        bytes=size,
        low=size,
        high=size * 3 // 2,
        ledger=MemoryLedger.ALLOCATED,
        basis=Basis.FORMULA,
        formula=formula,
        source="SGLang 0.5.5, srt/managers/schedule_policy.py: chunks of chunked_prefill_size",
        budgeted=False,
    )
