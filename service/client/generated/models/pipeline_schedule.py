from typing import Literal

PipelineSchedule = Literal[
    "1f1b", "dual_pipe_v", "gpipe", "interleaved_1f1b", "interleaved_zero_bubble", "looped_bfs", "zbv_zero_bubble"
]

PIPELINE_SCHEDULE_VALUES: set[PipelineSchedule] = {
    "1f1b",
    "dual_pipe_v",
    "gpipe",
    "interleaved_1f1b",
    "interleaved_zero_bubble",
    "looped_bfs",
    "zbv_zero_bubble",
}


def check_pipeline_schedule(value: str) -> PipelineSchedule:
    if value in PIPELINE_SCHEDULE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PIPELINE_SCHEDULE_VALUES!r}")
