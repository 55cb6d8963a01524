"""Times of pipelines whose stages differ."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_device
from service.estimator.speed.throughput import WorkCache
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.pipeline import PipelineSchedule, PipelineSplit
from service.estimator.values.workload import Framework, TrainWorkload
from tests.builders import a_model

STEP = TrainWorkload(
    sequence_length=4096, framework=Framework.MEGATRON, gradient_accumulation_steps=8
)
TITAN = replace(STEP, framework=Framework.TORCHTITAN)


def time_s(works: WorkCache, workload: TrainWorkload, layout: Layout) -> float:
    """Return the seconds of a step of eight wide layers on H100s."""
    model = a_model(num_hidden_layers=8, hidden_size=1024, intermediate_size=4096)
    timer = works.get_timer(model, workload, resolve_device("H100-SXM5-80GB"))
    seconds = timer.estimate_step_s(workload, layout)
    assert seconds is not None
    return seconds


@pytest.mark.parametrize("first", [0, 1])
def test_a_timer_tells_schedules_apart(first: int) -> None:
    """Chunks that come back put the first layers and the loss on one stage."""
    works, split = WorkCache(), PipelineSplit(pipeline_layers=(5, 1, 1, 1))
    layouts = [
        Layout(
            pipeline_parallel=2,
            virtual_pipeline_stages=2,
            pipeline_split=split,
            pipeline_schedule=schedule,
        )
        for schedule in (PipelineSchedule.INTERLEAVED, PipelineSchedule.ZBV)
    ]
    asked = layouts if first == 0 else layouts[::-1]

    shared = [time_s(works, STEP, layout) for layout in asked]

    assert shared == [time_s(WorkCache(), STEP, layout) for layout in asked]


def test_torchtitans_own_split_sets_the_pace() -> None:
    """Eight layers on four stages are 2, 3, 2 and 1 there, and the fullest is waited for."""
    even = Layout(pipeline_parallel=4, data_parallel=2, zero_stage=3, sharding=Sharding.FSDP2)
    said = replace(even, pipeline_split=PipelineSplit(pipeline_layers=(2, 3, 2, 1)))

    assert time_s(WorkCache(), TITAN, even) == time_s(WorkCache(), TITAN, said)
