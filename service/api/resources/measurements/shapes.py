"""A stored measurement in the words of the contract."""

import re
from dataclasses import asdict
from typing import Any, Literal, cast
from uuid import UUID

from litestar import Request
from msgspec import structs

from service.base.errors import MeasurementNotFoundError
from service.contract.schemas.measurements import ArtifactAnswer, DryRunAnswer, MeasurementAnswer, PlannedRunAnswer
from service.contract.to_answer.measurement_questions import question_of
from service.contract.to_answer.timestamps import timestamp, timestamp_or_none
from service.jobs.contract import Planned, ProbeDevice, ProbeFailure
from service.usecases.jobs.dry_runs import DryRun
from service.usecases.jobs.outcomes import refusal_problem
from service.usecases.stored import StoredMeasurement, StoredResult

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def measurement_id(request: Request[Any, Any, Any]) -> UUID:
    """Return which measurement a path names; what is no id names none."""
    text = str(request.path_params["id"])
    if not _UUID.fullmatch(text):
        message = f"there is no measurement {text!r}"
        raise MeasurementNotFoundError(message)
    return UUID(text)


def shape(stored: StoredMeasurement) -> MeasurementAnswer:
    """Return a measurement as it is answered."""
    return MeasurementAnswer(
        id=str(stored.id),
        status=stored.status,
        attempt=stored.attempt,
        device=ProbeDevice(stored.device),
        model=stored.model_name,
        source=cast(Literal["probe", "import"], stored.source),  # the database holds no other
        family=stored.family,
        task=stored.task,
        gpu=stored.gpu,
        progress=stored.progress,
        phase=stored.phase,
        created_at=timestamp(stored.created_at),
        started_at=timestamp_or_none(stored.started_at),
        finished_at=timestamp_or_none(stored.finished_at),
        worker=stored.worker,
        cancel_requested=stored.cancel_requested,
        request=stored.request,
        question=question_of(stored.request),
        problem=stored.error,
        artifacts=[
            ArtifactAnswer(name=kept.name, media_type=kept.media_type, bytes=kept.bytes, sha256=kept.sha256)
            for kept in stored.artifacts
        ],
        **({} if stored.result is None else _found(stored.result)),
    )


def dry_run_shape(found: DryRun) -> DryRunAnswer:
    """Return what a measurement would run as it is answered."""
    known, told = found.known, found.outcome
    runs = told.runs if isinstance(told, Planned) else ()
    notes = told.notes if isinstance(told, Planned) else ()
    return DryRunAnswer(
        dry_run=True,
        runs=[PlannedRunAnswer(**structs.asdict(run)) for run in runs],
        expected_s=told.expected_s if isinstance(told, Planned) else 0.0,
        notes=[*notes, *(() if known.note is None else (known.note,))],
        host=asdict(known.host),
        worker=known.worker,
        told_at=timestamp_or_none(known.told_at),
        problem=refusal_problem(told) if isinstance(told, ProbeFailure) else None,
    )


def _found(result: StoredResult) -> dict[str, Any]:
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
