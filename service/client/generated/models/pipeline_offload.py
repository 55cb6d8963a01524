from typing import Literal

PipelineOffload = Literal["group", "model", "none", "sequential"]

PIPELINE_OFFLOAD_VALUES: set[PipelineOffload] = {
    "group",
    "model",
    "none",
    "sequential",
}


def check_pipeline_offload(value: str) -> PipelineOffload:
    if value in PIPELINE_OFFLOAD_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PIPELINE_OFFLOAD_VALUES!r}")
