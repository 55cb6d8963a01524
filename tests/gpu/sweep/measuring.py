"""Measurement of a case on a device."""

from dataclasses import replace

import msgspec

from service.catalog.models import load_architecture, load_config, resolve_model
from service.probing.plan import Point, ProbeQuestion, get_target_point
from tests.gpu.sweep.case import Case, Measurement
from worker.probes.cuda.backend import CudaBackend
from worker.probes.cuda.run import RunOutcome
from worker.probes.measure import make_probe_setup
from worker.probes.run.backend import Backend, PointResult, ProbeSetup

_DEADLINE_S = 3600.0
"""Deadline that never binds: a case is killed from outside, and nothing plans by its time."""


def measure_case(case: Case, backend: Backend) -> Measurement:
    """Run a case on a device; raises Refusal."""
    entry = resolve_model(case.model)
    question = ProbeQuestion(
        architecture=load_architecture(entry),
        workload=case.task.workload,
        layout=case.layout,
        full_depth=True,
        deadline_s=_DEADLINE_S,
    )
    setup, point = (
        make_probe_setup(question, load_config(entry), case.rank),
        get_target_point(question),
    )
    return _measure(
        setup, point if case.layers is None else replace(point, layers=case.layers), backend
    )


def _measure(setup: ProbeSetup, point: Point, backend: Backend) -> Measurement:
    if not isinstance(backend, CudaBackend):
        return _build_measurement(backend.run(setup, point, on_step=_ignore_step))
    result, outcome = backend.run_with_outcome(setup, point, on_step=_ignore_step)
    return _add_outcome(_build_measurement(result), outcome, expected=setup.kernel.value)


def _build_measurement(result: PointResult) -> Measurement:
    reading, reserved = result.reading, result.reserved
    return Measurement(
        live_bytes=max(reading.live.values()),
        allocated_bytes=max(reading.allocator.values()),
        reserved_bytes=max(reserved.values()) if reserved else None,
        device_bytes=result.device_bytes,
        device_total_used_bytes=result.device_total_used_bytes,
        context_bytes=result.context_bytes,
        steady_bytes=reading.steady_bytes,
        load_bytes=reading.load_bytes,
        step_time_s=tuple(round(seconds, 6) for seconds in result.step_seconds),
        stretches={
            name: (num_bytes, reading.allocator.get(name, num_bytes))
            for name, num_bytes in reading.live.items()
        },
        out_of_memory_at=result.out_of_memory_at,
        transferable=result.transferable,
        notes=result.notes,
    )


def _add_outcome(measured: Measurement, outcome: RunOutcome, *, expected: str) -> Measurement:
    """Add the numbers that only a GPU gives.

    Over all steps the allocator may have held more than in the last.
    """
    return msgspec.structs.replace(
        measured,
        reserved_bytes=outcome.highest.reserved_peak,
        workspace_bytes=outcome.workspace_bytes,
        prefill_time_s=tuple(round(seconds, 6) for seconds in outcome.prefill_seconds),
        attention=outcome.chosen[0] if outcome.chosen else expected,
    )


def _ignore_step(_step: str) -> None:
    """Ignore the step: a sweep prints its progress case by case."""
