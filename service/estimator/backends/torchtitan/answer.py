"""The answer of framework ``torchtitan``: its own blocks on FSDP2, and the pools of FSDP2's streams."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from service.estimator.backends.torchtitan.model import in_torchtitan
from service.estimator.backends.torchtitan.support import check_torchtitan, compiles_loss, local_tokens
from service.estimator.backends.transformers.training import explain_training, outline_training
from service.estimator.memory.answer.assemble import assemble
from service.estimator.memory.fsdp_buffers import gathering
from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.memory.phase_peaks import Height, all_corrected
from service.estimator.memory.static import Footing, footing_of
from service.estimator.memory.timeline import heights_on, peak_of, timeline_on
from service.estimator.memory.training_pass import fixed_words, shape_of, training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.passes.losses import LossPass
from service.estimator.passes.recorder import Highs, record_training
from service.estimator.rules.training import check_shape, check_training
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
    """Return the memory of a rank in the steady state; ``memory`` keeps what was recorded for other questions."""
    check_torchtitan(workload, layout)
    ranks = layout.context_parallel
    memory = {} if memory is None else memory
    local, shared = local_tokens(workload, layout)
    footing = _footing(memory, model, local, shared, ranks)
    check_shape(model, local)
    highs = _highs(memory, _recorded(model, workload, ranks), footing, local, shared)
    heights = heights_on(footing, local, highs)
    if detail is Detail.NUMBERS:
        tokens = local.micro_batch_size * local.sequence_length
        peak = peak_of(footing, local, all_corrected(heights, corrections, tokens))
        draft = outline_training(footing, local, shared, peak)
    else:
        timeline = timeline_on(footing, local, highs)
        draft = explain_training(footing.model, local, shared, timeline, corrections)
    streams = _stream_bytes(footing, local, shared, heights)
    draft = replace(draft, gathers=False, kind="torchtitan", stream_bytes=streams)
    warnings = device.warnings_for(workload.precision.compute_dtype)
    return assemble(draft, corrections=corrections, device=device, warnings=warnings, detail=detail, level=level)


def _recorded(model: Architecture, workload: TrainWorkload, ranks: int) -> tuple[object, ...]:
    """Return what decides torchtitan's own form of a model."""
    return model.spec, workload.compile, workload.activation_checkpointing, workload.selective_every, ranks


def _footing(memory: dict[object, Any], model: Architecture, workload: TrainWorkload, layout: Layout, ranks: int) -> Footing:
    """Return what a step stands on, checked and made once for every batch and sequence; raises what checks do."""
    key = _recorded(model, workload, ranks)

    def make() -> Footing:
        plain = replace(workload, framework=Framework.TRANSFORMERS, compile=False, float8=False, framework_version=None)
        check_training(model, plain, replace(layout, tensor_parallel=1, sequence_parallel=False), per_operation=True)
        shares = layout.tensor_parallel
        titan = _remembered(memory, (*key, shares, "titan"), lambda: in_torchtitan(model, workload, ranks=ranks, shares=shares))
        return footing_of(titan, workload, layout)

    kept: dict[object, Any] = memory.setdefault("footings", {})
    found: Footing = _remembered(kept, (model.quantization, *key, fixed_words(workload), layout), make)
    return found


def _highs(
    memory: dict[object, Any], key: tuple[object, ...], footing: Footing, workload: TrainWorkload, layout: Layout
) -> Highs:
    """Return the recording that a question is priced on."""

    def make() -> Highs:
        how = training_pass(footing.model, replace(workload, framework_version=None), layout)
        loss = LossPass(kind=workload.loss, compiled=compiles_loss(workload))
        how = replace(how, loss=None if loss == _PLAIN else loss)
        highs: Highs = _remembered(memory, (*key, how), lambda: record_training(footing.model, how))
        return highs

    kept: dict[object, Any] = memory.setdefault("highs", {})
    found: Highs = _remembered(kept, (footing, shape_of(footing.model, workload)), make)
    return found


def _remembered(memory: dict[object, Any], key: object, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - models and recordings
    found = memory.get(key)
    if found is None:
        if len(memory) >= MAX_RECORDINGS:
            memory.clear()
        found = memory[key] = make()
    return found


def _stream_bytes(footing: Footing, workload: TrainWorkload, layout: Layout, heights: tuple[Height, ...]) -> int:
    """Return what the pools of FSDP2's own streams hold beside the highest moment of the compute stream's pool.

    The caching allocator keeps a pool per stream: sharded gradients come out of the reduce-scatter stream, all-gather outputs
    out of the copy-in stream, where the root's is followed by a block's (torch 2.13 ``_fully_shard/_fsdp_collectives.py``).
    """
    how = gathering(workload.precision, layout)
    if how is None or layout.shards == 1:
        return 0
    model = footing.model
    counts = model.parameter_counts()
    block = counts.largest_block * how.gather_bytes
    head = model.head_unit_elements if how.separate else 0
    gathered = max(counts.outside_blocks - head, head) * how.gather_bytes + block
    peak = max(height.allocated_bytes for height in heights)
    computing = max(
        height.allocated_bytes - height.gradients - (0 if height.name == "optimizer_step" else block) for height in heights
    )
    return max(computing + footing.states.gradients + gathered - peak, 0)
