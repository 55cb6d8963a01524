"""Stored measurements as answers of the contract."""

from dataclasses import asdict
from typing import Any, Literal, cast
from uuid import UUID

from litestar import Request
from msgspec import structs

from service.api.http.names import read_id
from service.base.errors import MeasurementNotFoundError
from service.contract.schemas.measurements import (
    ArtifactAnswer,
    DryRunAnswer,
    MeasurementAnswer,
    PlannedRunAnswer,
)
from service.contract.to_answer.measurement_questions import build_question
from service.contract.to_answer.timestamps import format_optional_timestamp, format_timestamp
from service.jobs.contract import Planned, ProbeDevice, ProbeFailure
from service.jobs.states import Status
from service.usecases.jobs.dry_runs import DryRun
from service.usecases.jobs.outcomes import make_refusal_problem
from service.usecases.jobs.waiting import get_reason
from service.usecases.stored import StoredMeasurement, StoredResult


def read_measurement_id(request: Request[Any, Any, Any]) -> UUID:
    """Return the measurement id of a path.

    Text that is no id names no measurement.
    """
    identity = read_id(request)
    if identity is None:
        message = f"there is no measurement {request.path_params['id']!r}"
        raise MeasurementNotFoundError(message)
    return identity


def build_measurement_answer(stored: StoredMeasurement) -> MeasurementAnswer:
    """Return the answer of a stored measurement."""
    return MeasurementAnswer(
        id=str(stored.id),
        status=stored.status,
        attempt=stored.attempt,
        device=ProbeDevice(stored.device),
        model=stored.model_name,
        source=cast(
            "Literal['probe', 'import', 'recording']", stored.source
        ),  # the database holds no other
        family=stored.family,
        task=stored.task,
        gpu=stored.gpu,
        progress=stored.progress,
        phase=stored.phase,
        created_by=None if stored.created_by is None else stored.created_by.name,
        created_at=format_timestamp(stored.created_at),
        started_at=format_optional_timestamp(stored.started_at),
        finished_at=format_optional_timestamp(stored.finished_at),
        worker=stored.worker,
        cancel_requested=stored.cancel_requested,
        request=stored.request,
        question=build_question(stored.request),
        problem=stored.error,
        warnings=_list_warnings(stored),
        artifacts=[
            ArtifactAnswer(
                name=artifact.name,
                media_type=artifact.media_type,
                bytes=artifact.bytes,
                sha256=artifact.sha256,
            )
            for artifact in stored.artifacts
        ],
        **({} if stored.result is None else _render_result(stored.result)),
    )


def _list_warnings(stored: StoredMeasurement) -> tuple[str, ...]:
    """Return what a queued job waits for, and what to start."""
    reason = get_reason(stored.phase) if stored.status is Status.QUEUED else None
    return () if reason is None else (reason,)


def build_dry_run_answer(dry_run: DryRun) -> DryRunAnswer:
    """Return the answer of a dry run."""
    basis, outcome = dry_run.reported, dry_run.outcome
    runs = outcome.runs if isinstance(outcome, Planned) else ()
    notes = outcome.notes if isinstance(outcome, Planned) else ()
    return DryRunAnswer(
        dry_run=True,
        runs=[PlannedRunAnswer(**structs.asdict(run)) for run in runs],
        expected_s=outcome.expected_s if isinstance(outcome, Planned) else 0.0,
        notes=[*notes, *(() if basis.note is None else (basis.note,))],
        host=asdict(basis.host),
        worker=basis.worker,
        told_at=format_optional_timestamp(basis.told_at),
        problem=make_refusal_problem(outcome) if isinstance(outcome, ProbeFailure) else None,
    )


def _render_result(result: StoredResult) -> dict[str, Any]:
    return {
        "environment": result.environment,
        "peaks": result.peaks,
        "instants": result.instants,
        "readings": result.readings,
        "steady_bytes": result.steady_bytes,
        "extrapolated": result.extrapolated,
        "transferable": result.transferable,
        "step_time_s": result.step_time_s,
        "probes": result.probes,
        "prediction": result.prediction,
        "calibration": None if result.calibration_id is None else str(result.calibration_id),
        "notes": result.notes,
    }
