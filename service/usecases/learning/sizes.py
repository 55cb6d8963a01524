"""Sizes that a measurement ran the whole model at beside the one that was asked: runs that only check are runs too."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from service.calibration.evidence import MeasuredPoint
from service.db.records.measurements import StoredResult
from service.estimator.values.workload import TrainWorkload
from service.jobs.contract import Task, task_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Where on its key's curve a run lies, and the allocated bytes of its instants."""

    point: MeasuredPoint
    measured: Mapping[str, int]


def sizes_beside(result: StoredResult, asked: MeasuredPoint) -> Iterator[Size]:
    """Yield the runs of all layers of the asked model with another batch or length; none where only slices of it were run."""
    if result.extrapolated:
        return
    whole = max((_whole(probe["num_layers"]) for probe in result.probes), default=0)
    for probe in result.probes:
        point = _point(probe, asked)
        if point != asked and _whole(probe["num_layers"]) == whole and not probe["out_of_memory"]:
            yield Size(point=point, measured=_instants(probe))


def task_at(task: Task, point: MeasuredPoint) -> Task:
    """Return a task with the batch and the lengths of a point."""
    workload = task.workload
    if isinstance(workload, TrainWorkload):
        return task_of(replace(workload, micro_batch_size=point.micro_batch_size, sequence_length=point.sequence_length))
    return task_of(
        replace(
            workload,
            num_sequences=point.micro_batch_size,
            prompt_tokens=point.sequence_length,
            output_tokens=point.output_tokens,
        )
    )


def _point(probe: Mapping[str, object], asked: MeasuredPoint) -> MeasuredPoint:
    output_tokens = _whole(probe["output_tokens"])
    return replace(
        asked,
        micro_batch_size=_whole(probe["micro_batch_size"]),
        sequence_length=_whole(probe["sequence_length"]) - output_tokens,
        output_tokens=output_tokens,
    )


def _instants(probe: Mapping[str, object]) -> dict[str, int]:
    readings = probe["instants"]
    assert isinstance(readings, list | tuple)  # noqa: S101 - as the probe's message has it
    return {str(reading["name"]): _whole(reading["allocated_bytes"]) for reading in readings}


def _whole(value: object) -> int:
    return int(str(value))
