"""Passes of a pipeline's stages against those that torch itself makes."""

from types import SimpleNamespace
from typing import Any

import pytest
from torch.distributed.pipelining.schedules import get_schedule_class

from service.estimator.model.pipelines.schedules import list_passes
from service.estimator.values.pipeline import ONE_CHUNK, V_SHAPED, PipelineSchedule

_NAMES = {
    PipelineSchedule.GPIPE: "GPipe",
    PipelineSchedule.ONE_F_ONE_B: "1F1B",
    PipelineSchedule.INTERLEAVED: "Interleaved1F1B",
    PipelineSchedule.LOOPED_BFS: "LoopedBFS",
    PipelineSchedule.INTERLEAVED_ZERO_BUBBLE: "InterleavedZeroBubble",
    PipelineSchedule.ZBV: "ZBVZeroBubble",
    PipelineSchedule.DUAL_PIPE_V: "DualPipeV",
}
_KINDS = {
    "FORWARD": "forward",
    "FULL_BACKWARD": "backward",
    "BACKWARD_INPUT": "input",
    "BACKWARD_WEIGHT": "weight",
}


def list_torchs_passes(
    schedule: PipelineSchedule, stages: int, chunks: int, stage: int, micro_batches: int
) -> list[tuple[str, int]]:
    """Return the kind and the chunk of each pass that torch runs on a stage."""
    made: Any = object.__new__(get_schedule_class(_NAMES[schedule]))
    rounds = max(1, micro_batches // stages)
    made.__dict__ |= {
        "_stages": [SimpleNamespace()] * chunks,
        "_n_microbatches": micro_batches,
        "_num_stages": stages * chunks,
        "num_stages": stages * chunks,
        "pp_group_size": stages,
        "n_local_stages": chunks,
        "number_of_rounds": rounds,
        "microbatches_per_round": micro_batches // rounds,
    }
    actions = (
        made._get_pipeline_order()[stage]  # noqa: SLF001 - torch has no public list of them
        if schedule in ONE_CHUNK
        else made._calculate_single_rank_operations(stage)  # noqa: SLF001
    )
    positions = (stage, 2 * stages - 1 - stage) if schedule in V_SHAPED else None
    done = [part for action in actions if action for part in action.sub_actions or (action,)]
    return [
        (
            _KINDS[part.computation_type.name],
            part.stage_index // stages if positions is None else positions.index(part.stage_index),
        )
        for part in done
        if part.computation_type.name in _KINDS
    ]


@pytest.mark.parametrize("schedule", PipelineSchedule)
@pytest.mark.parametrize("stages", [2, 3, 8])
def test_passes_are_those_of_torch(schedule: PipelineSchedule, stages: int) -> None:
    """On every stage, with few and with many micro-batches (torch 2.13)."""
    several = (1,) if schedule in ONE_CHUNK else (2,) if schedule in V_SHAPED else (2, 4)
    cases = [
        (chunks, stage, micro_batches)
        for chunks in several
        for stage in range(stages)
        for micro_batches in (2 * stages, 2 * stages + 2, 5 * stages)
        if schedule is not PipelineSchedule.INTERLEAVED or not micro_batches % (stages // 2 * 2)
    ]

    for chunks, stage, micro_batches in cases:
        passes = list_passes(schedule, stages, chunks, stage, micro_batches)

        assert [(kind, chunk) for kind, chunk, _ in passes] == list_torchs_passes(
            schedule, stages, chunks, stage, micro_batches
        )
