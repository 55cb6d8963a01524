"""Estimate of framework ``torchtitan``.

Its own blocks on FSDP2, and the pools of FSDP2's streams.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from service.estimator.backends.torchtitan.model import build_torchtitan_model
from service.estimator.backends.transformers.training import explain_training, outline_training
from service.estimator.memory.answer.assemble import assemble
from service.estimator.memory.fsdp_buffers import resolve_gathering
from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.memory.phase_peaks import PhasePeakBytes, correct_phase_peaks
from service.estimator.memory.static import StaticMemory, build_static_memory
from service.estimator.memory.timeline import build_timeline, list_phase_peaks, select_peak
from service.estimator.memory.training_pass import (
    build_training_pass,
    get_fixed_fields,
    resolve_batch_shape,
)
from service.estimator.model.architecture import Architecture
from service.estimator.passes.losses import LossPass
from service.estimator.passes.recorder import PeakCandidates, record_training
from service.estimator.rules.checks import check, check_sizes
from service.estimator.rules.tables.training.torchtitan import (
    TORCHTITAN_MODELS,
    TRAIN_TORCHTITAN,
    is_loss_compiled,
)
from service.estimator.rules.tables.training.transformers import STEP_BY_OPERATION
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.workload import Framework, Loss, TrainWorkload

MAX_RECORDINGS = 1024
_PLAIN = LossPass(kind=Loss.FULL_LOGITS)


def answer(  # noqa: PLR0913 - the front door of a framework: what is asked, where, and how much of the answer
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    device: Device,
    *,
    corrections: Corrections | None = None,
    memory: dict[object, Any] | None = None,
    detail: Detail = Detail.FULL,
    level: float = LEVEL,
) -> Estimate:
    """Estimate the memory of a rank in the steady state.

    ``memory`` keeps what was recorded for other questions.
    """
    check(TRAIN_TORCHTITAN, model, workload, layout)
    context_ranks = layout.context_parallel
    memory = {} if memory is None else memory
    local, shared = _split_to_rank(workload, layout)
    static_memory = _get_static_memory(memory, model, local, shared, context_ranks)
    check_sizes(STEP_BY_OPERATION, model, local, shared)
    candidates = _get_candidates(
        memory, _build_model_key(model, workload, context_ranks), static_memory, local, shared
    )
    peaks = list_phase_peaks(static_memory, local, candidates)
    if detail is Detail.NUMBERS:
        tokens = local.micro_batch_size * local.sequence_length
        peak = select_peak(static_memory, local, correct_phase_peaks(peaks, corrections, tokens))
        partial_estimate = outline_training(static_memory, local, shared, peak)
    else:
        timeline = build_timeline(static_memory, local, candidates)
        partial_estimate = explain_training(
            static_memory.model, local, shared, timeline, corrections
        )
    stream_bytes = _stream_bytes(static_memory, local, shared, peaks)
    partial_estimate = replace(
        partial_estimate, gathers=False, kind="torchtitan", stream_bytes=stream_bytes
    )
    warnings = device.list_warnings(workload.precision.compute_dtype)
    return assemble(
        partial_estimate,
        corrections=corrections,
        device=device,
        warnings=warnings,
        detail=detail,
        level=level,
    )


def _split_to_rank(workload: TrainWorkload, layout: Layout) -> tuple[TrainWorkload, Layout]:
    """Return the workload and layout of one rank.

    It has its part of each sequence, with states over data and context ranks. For context ranks,
    sequences are split into twice as many parts as there are ranks, of which each takes an early
    and a late one; its tensor-parallel ranks share those between them.
    """
    num_parts = layout.context_parallel * layout.tensor_parallel
    if num_parts == 1:
        return workload, layout
    local = replace(workload, sequence_length=workload.sequence_length // num_parts)
    if layout.context_parallel == 1:
        return local, layout
    return local, replace(
        layout, context_parallel=1, data_parallel=layout.data_parallel * layout.context_parallel
    )


def _build_model_key(
    model: Architecture, workload: TrainWorkload, context_ranks: int
) -> tuple[object, ...]:
    """Return the values that decide torchtitan's form of a model."""
    return (
        model.spec,
        workload.compile,
        workload.activation_checkpointing,
        workload.selective_every,
        context_ranks,
    )


def _get_static_memory(
    memory: dict[object, Any],
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    context_ranks: int,
) -> StaticMemory:
    """Return the static memory of a step.

    It is checked and made once for every batch and sequence; raises what checks do.
    """
    key = _build_model_key(model, workload, context_ranks)

    def make() -> StaticMemory:
        plain = replace(
            workload,
            framework=Framework.TRANSFORMERS,
            compile=False,
            float8=False,
            framework_version=None,
        )
        unsplit = replace(layout, tensor_parallel=1, sequence_parallel=False)
        check(STEP_BY_OPERATION, model, plain, unsplit)
        check(TORCHTITAN_MODELS, model, workload, layout)
        tensor_ranks = layout.tensor_parallel
        local_model = _get_or_make(
            memory,
            (*key, tensor_ranks, "titan"),
            lambda: build_torchtitan_model(
                model, workload, context_ranks=context_ranks, tensor_ranks=tensor_ranks
            ),
        )
        return build_static_memory(local_model, workload, layout)

    static_memories: dict[object, Any] = memory.setdefault("footings", {})
    static_memory: StaticMemory = _get_or_make(
        static_memories, (model.quantization, *key, get_fixed_fields(workload), layout), make
    )
    return static_memory


def _get_candidates(
    memory: dict[object, Any],
    key: tuple[object, ...],
    static_memory: StaticMemory,
    workload: TrainWorkload,
    layout: Layout,
) -> PeakCandidates:
    """Return the peak candidates on which a question is evaluated."""

    def make() -> PeakCandidates:
        config = build_training_pass(
            static_memory.model, replace(workload, framework_version=None), layout
        )
        loss = LossPass(kind=workload.loss, compiled=is_loss_compiled(workload))
        config = replace(config, loss=None if loss == _PLAIN else loss)
        candidates: PeakCandidates = _get_or_make(
            memory, (*key, config), lambda: record_training(static_memory.model, config)
        )
        return candidates

    all_candidates: dict[object, Any] = memory.setdefault("highs", {})
    candidates: PeakCandidates = _get_or_make(
        all_candidates, (static_memory, resolve_batch_shape(static_memory.model, workload)), make
    )
    return candidates


def _get_or_make(memory: dict[object, Any], key: object, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - models and recordings
    value = memory.get(key)
    if value is None:
        if len(memory) >= MAX_RECORDINGS:
            memory.clear()
        value = memory[key] = make()
    return value


def _stream_bytes(
    static_memory: StaticMemory,
    workload: TrainWorkload,
    layout: Layout,
    peaks: tuple[PhasePeakBytes, ...],
) -> int:
    """Return the bytes in the memory pools of FSDP2's own streams.

    They come beside the highest point of the compute stream's pool. The caching allocator keeps a
    pool per stream: sharded gradients come out of the reduce-scatter stream, all-gather outputs out
    of the copy-in stream, where the root's is followed by a block's (torch 2.13
    ``_fully_shard/_fsdp_collectives.py``).
    """
    fsdp = resolve_gathering(workload.precision, layout)
    if fsdp is None or layout.shards == 1:
        return 0
    model = static_memory.model
    counts = model.parameter_counts()
    block = counts.largest_block * fsdp.gather_bytes
    head = model.head_unit_elements if fsdp.splits_root else 0
    gathered = max(counts.outside_blocks - head, head) * fsdp.gather_bytes + block
    peak = max(height.allocated_bytes for height in peaks)
    computing = max(
        height.allocated_bytes
        - height.gradients
        - (0 if height.name == "optimizer_step" else block)
        for height in peaks
    )
    return max(computing + static_memory.states.gradients + gathered - peak, 0)
