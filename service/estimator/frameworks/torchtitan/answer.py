"""The answer of framework ``torchtitan``: its own blocks on FSDP2, and the pools of FSDP2's streams."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from service.estimator.answer import assemble
from service.estimator.architecture import Architecture
from service.estimator.corrections import Corrections
from service.estimator.device import Device
from service.estimator.frameworks.torchtitan.model import in_torchtitan
from service.estimator.frameworks.torchtitan.support import check_torchtitan, compiles_loss, local_tokens
from service.estimator.gathering import gathering
from service.estimator.layout import Layout
from service.estimator.losses import LossPass
from service.estimator.passes import Highs, TrainingPass, record_training
from service.estimator.result import Detail, Estimate
from service.estimator.support.training import check_training
from service.estimator.timeline import Timeline, train_timeline
from service.estimator.train_answer import explain_training
from service.estimator.workload import Framework, Loss, TrainWorkload

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
) -> Estimate:
    """Return the memory of a rank in the steady state; ``memory`` keeps what was recorded for other questions."""
    check_torchtitan(workload, layout)
    ranks = layout.context_parallel
    if ranks > 1:
        workload, layout = local_tokens(workload, layout)
    plain = replace(workload, framework=Framework.TRANSFORMERS, compile=False, float8=False, framework_version=None)
    check_training(model, plain, layout, per_operation=True)
    memory = {} if memory is None else memory
    key = (model.spec, workload.compile, workload.activation_checkpointing, workload.selective_every, ranks)
    titan = _remembered(memory, (*key, "titan"), lambda: in_torchtitan(model, workload, ranks=ranks))
    loss = LossPass(kind=workload.loss, compiled=compiles_loss(workload))
    timeline = train_timeline(titan, replace(workload, framework_version=None), layout, partial(_record, memory, key, loss))
    draft = explain_training(titan, workload, layout, timeline, corrections)
    draft = replace(draft, gathers=False, kind="torchtitan", stream_bytes=_stream_bytes(model, workload, layout, timeline))
    warnings = device.warnings_for(workload.precision.compute_dtype)
    return assemble(draft, corrections=corrections, device=device, warnings=warnings, detail=detail)


def _record(
    memory: dict[object, Any], key: tuple[object, ...], loss: LossPass, model: Architecture, how: TrainingPass
) -> Highs:
    how = replace(how, loss=None if loss == _PLAIN else loss)
    highs: Highs = _remembered(memory, (*key, how), lambda: record_training(model, how))
    return highs


def _remembered(memory: dict[object, Any], key: object, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - models and recordings
    found = memory.get(key)
    if found is None:
        if len(memory) >= MAX_RECORDINGS:
            memory.clear()
        found = memory[key] = make()
    return found


def _stream_bytes(model: Architecture, workload: TrainWorkload, layout: Layout, timeline: Timeline) -> int:
    """Return what the pools of FSDP2's own streams hold beside the highest moment of the compute stream's pool.

    The caching allocator keeps a pool per stream: sharded gradients come out of the reduce-scatter stream, all-gather outputs
    out of the copy-in stream, where the root's is followed by a block's (torch 2.13 ``_fully_shard/_fsdp_collectives.py``).
    """
    how = gathering(workload.precision, layout)
    if how is None or layout.shards == 1:
        return 0
    counts = model.parameter_counts()
    block = counts.largest_block * how.gather_bytes
    head = model.head_unit_elements if how.separate else 0
    gathered = max(counts.outside_blocks - head, head) * how.gather_bytes + block
    peak = max(moment.allocated_bytes for moment in timeline.moments)
    computing = max(
        moment.allocated_bytes - moment.parts.get("gradients", 0) - (0 if moment.name == "optimizer_step" else block)
        for moment in timeline.moments
    )
    return max(computing + timeline.states.gradients + gathered - peak, 0)
