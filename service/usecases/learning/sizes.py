"""Other sizes of the full model that a measurement ran.

Runs that only check the requested size count too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from service.calibration.evidence import MeasuredPoint
from service.db.records.measurements import StoredResult
from service.estimator.values.workload import TrainWorkload
from service.jobs.contract import Task, make_task


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSize:
    """Point of a run on its key's curve, with its allocated bytes.

    The bytes are those of each instant.
    """

    point: MeasuredPoint
    measured: Mapping[str, int]


def iter_other_sizes(result: StoredResult, requested: MeasuredPoint) -> Iterator[MeasuredSize]:
    """Yield full-model runs with another batch or length.

    None where only slices of the model were run.
    """
    if result.extrapolated:
        return
    num_layers = max((_to_int(probe["num_layers"]) for probe in result.probes), default=0)
    for probe in result.probes:
        point = _make_point(probe, requested)
        if (
            point != requested
            and _to_int(probe["num_layers"]) == num_layers
            and not probe["out_of_memory"]
        ):
            yield MeasuredSize(point=point, measured=_read_instants(probe))


def make_task_at(task: Task, point: MeasuredPoint) -> Task:
    """Return a task with the batch and the lengths of a point."""
    workload = task.workload
    if isinstance(workload, TrainWorkload):
        return make_task(
            replace(
                workload,
                micro_batch_size=point.micro_batch_size,
                sequence_length=point.sequence_length,
            ),
        )
    return make_task(
        replace(
            workload,
            num_sequences=point.micro_batch_size,
            prompt_tokens=point.sequence_length,
            output_tokens=point.output_tokens,
        ),
    )


def _make_point(probe: Mapping[str, object], requested: MeasuredPoint) -> MeasuredPoint:
    output_tokens = _to_int(probe["output_tokens"])
    return replace(
        requested,
        micro_batch_size=_to_int(probe["micro_batch_size"]),
        sequence_length=_to_int(probe["sequence_length"]) - output_tokens,
        output_tokens=output_tokens,
    )


def _read_instants(probe: Mapping[str, object]) -> dict[str, int]:
    readings = probe["instants"]
    assert isinstance(readings, list | tuple)  # noqa: S101 - as the probe's message has it
    return {str(reading["name"]): _to_int(reading["allocated_bytes"]) for reading in readings}


def _to_int(value: object) -> int:
    return int(str(value))
