"""Extrapolation from few layers, compared with the measured full depth."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.catalog.models import load_architecture, resolve_model
from service.estimator.values.workload import TrainWorkload
from service.probing.plan import Point
from service.probing.refusal import Refusal
from service.probing.stack import get_layer_stack
from tests.gpu.sweep.case import Case, Row
from worker.probes.run.extrapolate import LOAD, PointReading, extrapolate_layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Extrapolation:
    """One full-depth case with its extrapolation from slices, in live bytes."""

    name: str
    layers: str
    extrapolated_bytes: int
    measured_bytes: int


def iter_extrapolations(rows: Sequence[Row]) -> Iterator[Extrapolation]:
    """Yield every full-depth case whose slices were all measured."""
    for full_row in rows:
        if (
            full_row.case.layers is not None
            or full_row.measured is None
            or full_row.measured.out_of_memory_at is not None
        ):
            continue
        slices = [
            row
            for row in rows
            if row.case.layers is not None
            and row.case.name.startswith(f"{full_row.case.name} layers ")
        ]
        answer = _extrapolate(full_row.case, slices)
        if answer is not None:
            yield Extrapolation(
                name=full_row.case.name,
                layers=" and ".join("-".join(map(str, row.case.layers or ())) for row in slices),
                extrapolated_bytes=answer,
                measured_bytes=full_row.measured.live_bytes,
            )


def _extrapolate(case: Case, slices: Sequence[Row]) -> int | None:
    readings = [reading for row in slices if (reading := _build_reading(row)) is not None]
    if not readings or len(readings) < len(slices):
        return None
    stack = get_layer_stack(load_architecture(resolve_model(case.model)))
    try:
        answer = extrapolate_layers(readings, stack.layers, stack.kinds)
    except Refusal:
        # Slices that are still to be run leave a kind of layer unknown.
        return None
    return max(num_bytes for name, num_bytes in answer.instants.items() if name != LOAD)


def _build_reading(row: Row) -> PointReading | None:
    measured, workload = row.measured, row.case.task.workload
    if measured is None or measured.out_of_memory_at is not None:
        return None
    layers = row.case.layers or ()
    if isinstance(workload, TrainWorkload):
        point = Point(
            layers=layers,
            micro_batch_size=workload.micro_batch_size,
            sequence_length=workload.sequence_length,
        )
    else:
        point = Point(
            layers=layers,
            micro_batch_size=workload.num_sequences,
            sequence_length=workload.prompt_tokens,
            output_tokens=workload.output_tokens,
        )
    return PointReading(
        point=point,
        live={name: live for name, (live, _allocated) in measured.stretches.items()},
        allocator={name: allocated for name, (_live, allocated) in measured.stretches.items()},
        steady_bytes=measured.steady_bytes,
        load_bytes=measured.load_bytes,
    )
