"""Measurements as a table.

The columns are the same in JSON and CSV. Each measurement is one flat row.
"""

from typing import Annotated

from msgspec import Meta

from service.contract.schemas.fields import Answer

Bytes = int | None
Error = Annotated[float | None, Meta(description="Its answer over what was measured, less 1.")]


class MeasurementRow(Answer, frozen=True, kw_only=True):
    """One line; null, in CSV empty, is what was not measured, not predicted, or not said.

    Errors are those of the analytic answer; `calibrated_` ones of the answer that rests on
    everything else that was learnt. `_low_` to `_high_` is the 0.95 interval of an answer.
    """

    id: str
    created_at: str
    finished_at: str | None
    source: str
    status: str
    problem: str | None
    device: str
    model: str | None
    family: str | None
    task: str | None
    gpu: str | None
    num_gpus: int | None
    framework: Annotated[str | None, Meta(description="Whose model code ran, or which engine.")]
    method: str | None
    precision: Annotated[
        str | None, Meta(description="Policy of a training, dtype of served weights.")
    ]
    batch: Annotated[int | None, Meta(description="Sequences at once on one rank.")]
    sequence_length: Annotated[
        int | None, Meta(description="Tokens of one sequence, output included.")
    ]
    out_of_memory: bool | None
    extrapolated: bool | None
    allocated_bytes: Bytes
    predicted_allocated_bytes: Bytes
    predicted_allocated_low_bytes: Bytes
    predicted_allocated_high_bytes: Bytes
    allocated_error: Error
    calibrated_allocated_bytes: Bytes
    calibrated_allocated_low_bytes: Bytes
    calibrated_allocated_high_bytes: Bytes
    calibrated_allocated_error: Error
    reserved_bytes: Bytes
    predicted_reserved_bytes: Bytes
    predicted_reserved_low_bytes: Bytes
    predicted_reserved_high_bytes: Bytes
    reserved_error: Error
    calibrated_reserved_bytes: Bytes
    calibrated_reserved_low_bytes: Bytes
    calibrated_reserved_high_bytes: Bytes
    calibrated_reserved_error: Error
    device_bytes: Bytes
    predicted_device_bytes: Bytes
    predicted_device_low_bytes: Bytes
    predicted_device_high_bytes: Bytes
    device_error: Error
    calibrated_device_bytes: Bytes
    calibrated_device_low_bytes: Bytes
    calibrated_device_high_bytes: Bytes
    calibrated_device_error: Error
    device_total_used_bytes: Bytes
    weight_bytes: Bytes
    predicted_weight_bytes: Bytes
    weight_error: Error
    kv_pool_bytes: Bytes
    predicted_kv_pool_bytes: Bytes
    kv_pool_error: Error
    kv_pool_tokens: int | None
    predicted_kv_pool_tokens: int | None
    step_time_s: float | None
    predicted_step_time_s: float | None
    predicted_step_time_low_s: float | None
    predicted_step_time_high_s: float | None
    step_time_error: Error
    calibrated_step_time_s: float | None
    calibrated_step_time_low_s: float | None
    calibrated_step_time_high_s: float | None
    calibrated_step_time_error: Error
    calibration: str | None
    kind: Annotated[
        str | None,
        Meta(
            description="The class of runs in /v1/accuracy; null where nothing is learnt from it."
        ),
    ]
    host: str | None
    environment_gpu: Annotated[
        str | None, Meta(description="The GPU that ran, as its driver names it.")
    ]
    driver: str | None
    cuda: str | None
    torch: str | None
    transformers: str | None
    peft: str | None
    engine_version: str | None
    allocator: str | None


class MeasurementTable(Answer, frozen=True, kw_only=True):
    """Rows of a table, in the order of `sort`."""

    columns: Annotated[
        list[str], Meta(description="Names of the columns, in the order of the CSV.")
    ]
    items: list[MeasurementRow]
    next_cursor: str | None
