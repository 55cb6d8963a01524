"""From a case to what a device measures of it."""

from dataclasses import replace

import msgspec

from service.catalog.models import load_architecture, load_config, resolve_model
from service.probing.plan import Point, Question, asked_point
from tests.gpu.sweep.case import Case, Measured
from worker.probes.cuda.backend import CudaBackend
from worker.probes.cuda.run import Outcome
from worker.probes.measure import subject_of
from worker.probes.run.backend import Backend, Session, Subject

_DEADLINE_S = 3600.0
"""A case is killed from outside; nothing in it plans by the time that it has."""


def measure_case(case: Case, backend: Backend) -> Measured:
    """Run a case on a device; raises Refusal."""
    entry = resolve_model(case.model)
    question = Question(
        architecture=load_architecture(entry),
        workload=case.task.workload,
        layout=case.layout,
        full_depth=True,
        deadline_s=_DEADLINE_S,
    )
    subject, point = subject_of(question, load_config(entry), case.rank), asked_point(question)
    return _measure(subject, point if case.layers is None else replace(point, layers=case.layers), backend)


def _measure(subject: Subject, point: Point, backend: Backend) -> Measured:
    if not isinstance(backend, CudaBackend):
        return _measured(backend.run(subject, point, tell=_silent))
    session, outcome = backend.run_and_tell(subject, point, tell=_silent)
    return _with_outcome(_measured(session), outcome, expected=subject.kernel.value)


def _measured(session: Session) -> Measured:
    reading, reserved = session.reading, session.reserved
    return Measured(
        live_bytes=max(reading.live.values()),
        allocated_bytes=max(reading.allocator.values()),
        reserved_bytes=max(reserved.values()) if reserved else None,
        device_bytes=session.device_bytes,
        device_total_used_bytes=session.device_total_used_bytes,
        context_bytes=session.context_bytes,
        steady_bytes=reading.steady_bytes,
        load_bytes=reading.load_bytes,
        step_time_s=tuple(round(seconds, 6) for seconds in session.step_seconds),
        stretches={name: (num_bytes, reading.allocator.get(name, num_bytes)) for name, num_bytes in reading.live.items()},
        out_of_memory_at=session.out_of_memory_at,
        transferable=session.transferable,
        notes=session.notes,
    )


def _with_outcome(measured: Measured, outcome: Outcome, *, expected: str) -> Measured:
    """Add what only a GPU tells; over all steps the allocator may have held more than in the last."""
    return msgspec.structs.replace(
        measured,
        reserved_bytes=outcome.highest.reserved_peak,
        workspace_bytes=outcome.workspace_bytes,
        prefill_time_s=tuple(round(seconds, 6) for seconds in outcome.prefill_seconds),
        attention=outcome.chosen[0] if outcome.chosen else expected,
    )


def _silent(_step: str) -> None:
    """Tell nothing: a sweep says what it does case by case."""
