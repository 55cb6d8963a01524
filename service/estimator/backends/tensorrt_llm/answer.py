"""TensorRT-LLM: the pool takes a fraction of what is **free** once weights and activations are there.

1.0, PyTorch backend: ``_torch/pyexecutor/_util.py`` (``KvCacheCreator``), ``llmapi/llm_args.py`` (``KvCacheConfig``).
"""

from service.estimator.backends.paged_pool.blocks import Paging, pool_of
from service.estimator.backends.paged_pool.engine_memory import Holder, Terms, filled, held_by
from service.estimator.backends.paged_pool.pool import Part, Place, exact, filled_estimate
from service.estimator.backends.paged_pool.rank_memory import Rank, drafted, ranks_of
from service.estimator.backends.vllm.answer import weights_formula
from service.estimator.memory.overheads.gpu_properties import Chip, chip_of
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.speculative import draft_of
from service.estimator.model.quantization.loading import in_engine
from service.estimator.model.quantization.weights import scheme_of
from service.estimator.rules.engines import check_engine, longest_sequence
from service.estimator.values.device import Device
from service.estimator.values.engine_versions import Version, version_of
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Basis, Detail, Estimate
from service.estimator.values.units import GIB, MIB
from service.estimator.values.workload import ServeWorkload

OLDEST, NEWEST = Version(0, 17), Version(1, 0)
FRACTION_OF_FREE = 0.9
"""``free_gpu_memory_fraction``'s default."""
BLOCK_TOKENS = 32
"""``tokens_per_block``'s default."""
MAX_NUM_TOKENS, MAX_BATCH_SIZE = 8192, 2048
"""Defaults of a step's tokens and sequences, which the profiling run has."""
_FP32 = 4
_SOURCE = "TensorRT-LLM 1.0, _torch/pyexecutor/_util.py, KvCacheCreator"
_CONTEXT, _COMMUNICATOR = 900 * MIB, 1200 * MIB


def answer(model: Architecture, workload: ServeWorkload, layout: Layout, device: Device, *, detail: Detail) -> Estimate:
    """Return the answer of one TensorRT-LLM replica."""
    check_engine(model, workload, layout)
    version_of(workload.engine_version, engine="tensorrt_llm", oldest=OLDEST, newest=NEWEST)
    _check_attention(layout)
    scheme = in_engine(scheme_of(workload.quantization, model))
    target = ranks_of(model, layout, scheme=scheme, dtype=workload.weight_dtype)
    ranks = drafted(target, draft_of(workload), layout, workload.weight_dtype)
    holders = held_by(ranks, lambda rank: _holder(rank, workload, layout, device))
    fraction = FRACTION_OF_FREE if workload.gpu_memory_fraction is None else workload.gpu_memory_fraction
    fixed = max(holder.fixed_bytes for holder in holders)
    budget = fixed + int((device.usable_bytes - fixed) * fraction)
    terms = Terms(
        source=_SOURCE,
        budget_bytes=budget,
        usable_bytes=device.usable_bytes,
        max_model_len=longest_sequence(model, workload),
    )
    return filled_estimate(
        filled(holders, workload, layout, terms),
        detail=detail,
        warnings=device.warnings_for(workload.weight_dtype),
    )


def _check_attention(layout: Layout) -> None:
    """Refuse attention over some of the ranks that share experts (``enable_attention_dp`` is of all of them)."""
    if layout.expert_parallel > 1 and layout.data_parallel > 1 and layout.tensor_parallel > 1:
        message = (
            "TensorRT-LLM splits attention over all ranks of a server or over none: with expert_parallel, "
            "tensor_parallel or data_parallel is 1"
        )
        raise InvalidInputError(message, field="layout.data_parallel")


def _holder(rank: Rank, workload: ServeWorkload, layout: Layout, device: Device) -> Holder:
    peak = _peak_bytes(rank, workload, chip_of(device))
    tokens = workload.max_num_batched_tokens or MAX_NUM_TOKENS
    linked = layout.tensor_parallel * layout.pipeline_parallel > 1
    fixed = (
        exact("weights", rank.weight_bytes, weights_formula(rank, workload), _SOURCE),
        exact("activations", peak, f"profiling run of {tokens} tokens", _SOURCE),
        _outside("device_context", _CONTEXT, "context, TensorRT and cuBLAS libraries, workspaces"),
        _outside("communication_buffers", _COMMUNICATOR if linked else 0, "communicators and all-reduce workspaces"),
    )
    fraction = FRACTION_OF_FREE if workload.gpu_memory_fraction is None else workload.gpu_memory_fraction
    fixed_bytes = sum(part.bytes for part in fixed)
    return Holder(
        rank=rank,
        fixed_bytes=fixed_bytes,
        parts=fixed,
        pool=pool_of(
            rank.caches,
            workload.kv_cache_dtype.bytes_per_element,
            int((device.usable_bytes - fixed_bytes) * fraction),
            Paging(block_tokens=BLOCK_TOKENS, batched_tokens=tokens, hybrid=False),
        ),
    )


def _peak_bytes(rank: Rank, workload: ServeWorkload, chip: Chip) -> int:
    """Return the widest layer of a step's tokens, or the fp32 logits of all its sequences."""
    width, tokens = workload.weight_dtype.bytes_per_element, workload.max_num_batched_tokens or MAX_NUM_TOKENS
    sequences = min(tokens, max(workload.max_num_sequences or MAX_BATCH_SIZE, workload.num_sequences))
    logits = sequences * rank.model.vocab_size * (width + _FP32) if rank.is_last else 0
    hidden = tokens * rank.model.spec.hidden_size * width
    return max(tokens * width * rank.widest(flash=chip.flash), logits + hidden) + chip.workspace_bytes


def _outside(name: str, size: int, formula: str) -> Part:
    return Part(
        name=name,
        bytes=size,
        low=size // 2,
        high=size + min(size, GIB),
        place=Place.DEVICE,
        basis=Basis.EXTRAPOLATED,
        formula=formula,
        source="start-up logs of vLLM, whose process holds the same libraries; no log of TensorRT-LLM was read",
    )
